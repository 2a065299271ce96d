/* Rates and shares of time. */
#include "train/pace.h"

#include <inttypes.h>

#define TOO_MUCH 0.2

void gr_pace_begin(gr_pace *p, const gr_pace_now *now, int64_t step)
{
    *p = (gr_pace){ .began_ns = now->ns, .began_at = step, .mark = *now };
}

void gr_pace_mark(gr_pace *p, const gr_pace_now *now)
{
    p->mark = *now;
}

static double share(int64_t part, int64_t whole)
{
    double s = whole > 0 ? (double)part / (double)whole : 0;

    return s > 1 ? 1 : s;
}

void gr_pace_measure(gr_pace *p, const gr_pace_now *now)
{
    int64_t ns = now->ns - p->mark.ns, n = now->n_samples - p->mark.n_samples;
    int64_t data_ns = now->data_ns - p->mark.data_ns;
    int64_t exchange_ns = now->exchange_ns - p->mark.exchange_ns;

    if (n > 0 && ns > 0) {
        p->samples_per_s = (double)n * 1e9 / (double)ns;
        p->data = share(data_ns, ns);
        p->exchange = share(exchange_ns, ns);
        p->sum.ns += ns;
        p->sum.data_ns += data_ns;
        p->sum.exchange_ns += exchange_ns;
        p->sum.n_samples += n;
    }
    p->mark = *now;
}

double gr_pace_compute(const gr_pace *p)
{
    double rest = 1 - p->data - p->exchange;

    return rest > 0 ? rest : 0;
}

double gr_pace_data(const gr_pace *p)
{
    return share(p->sum.data_ns, p->sum.ns);
}

double gr_pace_exchange(const gr_pace *p)
{
    return share(p->sum.exchange_ns, p->sum.ns);
}

/* Ranks that wait for a slow loader wait inside the exchange: data come first. */
void gr_pace_advice(const gr_pace_shares *s, gr_text *out)
{
    if (s->worst_data > TOO_MUCH) {
        gr_text_addf(out, "Loading data took %.0f%% of the first epoch", 100 * s->worst_data);
        if (s->n_workers < s->n_cores)
            gr_text_addf(out, ": try more --num_workers (now %" PRId64 ", of %" PRId64 " cores).",
                         s->n_workers, s->n_cores);
        else
            gr_text_addf(out, " with a loader thread on every core: %s%sgive a rank more cores.",
                         s->faster_loading ? s->faster_loading : "",
                         s->faster_loading ? ", or " : "");
    } else if (s->exchange > TOO_MUCH && s->least_exchange < s->exchange / 2) {
        gr_text_addf(out,
                     "Waiting for other ranks took %.0f%% of the first epoch, and on one rank "
                     "%.0f%%: that one is slower; see what else runs there.",
                     100 * s->exchange, 100 * s->least_exchange);
    } else if (s->exchange > TOO_MUCH) {
        gr_text_addf(out,
                     "Exchanging gradients took %.0f%% of the first epoch: try a larger "
                     "--batch_size, --grad_accumulation_steps or --grad_dtype bf16.",
                     100 * s->exchange);
    }
}
