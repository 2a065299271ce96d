/* Steps per epoch, and the messages about batches that do not suit the data. */
#include "data/batch_plan.h"

#include <inttypes.h>

static int64_t samples_per_rank(const gr_batch_plan *p)
{
    return p->drop_last ? p->n_samples / p->n_ranks : (p->n_samples + p->n_ranks - 1) / p->n_ranks;
}

static int64_t steps_with(const gr_batch_plan *p, int64_t batch_size)
{
    int64_t n = samples_per_rank(p);

    if (batch_size > p->n_samples / p->n_ranks)
        return 0;
    n = p->drop_last ? n / batch_size : (n + batch_size - 1) / batch_size;
    return n / p->accumulate;
}

/* 0: none. Larger batches never make more steps, so halving finds it. */
static int64_t largest_batch(const gr_batch_plan *p)
{
    int64_t good = 0, bad = p->n_samples / p->n_ranks + 1;

    while (bad - good > 1) {
        int64_t mid = good + (bad - good) / 2;

        if (steps_with(p, mid) > 0)
            good = mid;
        else
            bad = mid;
    }
    return good;
}

static void add_what_to_do(const gr_batch_plan *p, gr_text *out)
{
    int64_t best = largest_batch(p);

    if (best > 0)
        gr_text_addf(out, "the largest batch size that works is %" PRId64, best);
    else if (p->n_samples < p->n_ranks)
        gr_text_addf(out, "use at most %" PRId64 " ranks", p->n_samples);
    else
        gr_text_addf(out, "use at most %" PRId64 " accumulation steps", samples_per_rank(p));
}

static gr_status refuse(const gr_batch_plan *p)
{
    gr_text todo = GR_TEXT_INIT;
    gr_status st;

    add_what_to_do(p, &todo);
    if (p->batch_size > p->n_samples / p->n_ranks)
        st = gr_fail(GR_ERR_ARG,
                     "%" PRId64 " samples are fewer than batch %" PRId64 " x %d ranks = %" PRId64
                     ": %s",
                     p->n_samples, p->batch_size, p->n_ranks, p->batch_size * p->n_ranks,
                     gr_text_str(&todo));
    else
        st = gr_fail(GR_ERR_ARG,
                     "%" PRId64 " samples make no step per epoch with batch %" PRId64
                     " x %d ranks x %" PRId64 " accumulation = %" PRId64 ": %s",
                     p->n_samples, p->batch_size, p->n_ranks, p->accumulate,
                     p->batch_size * p->n_ranks * p->accumulate, gr_text_str(&todo));
    gr_text_fini(&todo);
    return st;
}

gr_status gr_batch_plan_steps(const gr_batch_plan *p, int64_t *out)
{
    if (p->n_samples < 1)
        return gr_fail(GR_ERR_ARG, "the data set is empty");
    if (p->batch_size < 1 || p->n_ranks < 1 || p->accumulate < 1)
        return gr_fail(GR_ERR_ARG, "batch %" PRId64 " x %d ranks x %" PRId64 " accumulation",
                       p->batch_size, p->n_ranks, p->accumulate);
    *out = steps_with(p, p->batch_size);
    return *out > 0 ? GR_OK : refuse(p);
}

void gr_batch_plan_warn(const gr_batch_plan *p, gr_text *out)
{
    int64_t twice = samples_per_rank(p) * p->n_ranks - p->n_samples;

    if (twice * 10 <= p->n_samples)
        return;
    gr_text_addf(out,
                 "%" PRId64 " of %" PRId64 " samples (%.0f%%) come twice in every epoch, so that "
                 "each of %d ranks has %" PRId64 "; --drop_last leaves %" PRId64 " out instead",
                 twice, p->n_samples, 100.0 * (double)twice / (double)p->n_samples, p->n_ranks,
                 samples_per_rank(p), p->n_samples % p->n_ranks);
}
