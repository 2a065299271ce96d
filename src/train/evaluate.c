/*
 * Evaluation: every sample of a split once, on all ranks together. Rank r takes samples r,
 * r + W, r + 2W, ...; nothing is padded. Counts and the loss are summed in double, in rank
 * order, and a metric is made of the sums: never a mean of batch means.
 */
#include "train/trainer.h"

#include "base/alloc.h"

#include <string.h>

int64_t gr_eval_count(int64_t n, int rank, int n_ranks)
{
    return n <= rank ? 0 : (n - rank - 1) / n_ranks + 1;
}

gr_status gr_trainer_open_eval(gr_trainer *t)
{
    gr_eval_memory *m = &t->eval;

    GR_TRY(gr_batch_init(&m->batch, t->recipe, &t->view, t->o.batch_size));
    for (int i = 0; i < t->view.n_outputs; i++) {
        const gr_field *f = &t->view.outputs[i];

        m->outputs[i] = gr_calloc((size_t)m->batch.cap * (size_t)gr_shape_count(&f->shape),
                                  gr_dtype_bytes(f->dtype));
        if (!m->outputs[i])
            return GR_ERR_NOMEM;
    }
    m->index = gr_calloc((size_t)m->batch.cap, sizeof(*m->index));
    m->counts = gr_calloc((size_t)t->view.n_counts + 1, sizeof(*m->counts));
    return m->index && m->counts ? GR_OK : GR_ERR_NOMEM;
}

void gr_trainer_close_eval(gr_trainer *t)
{
    gr_batch_fini(&t->eval.batch);
    for (int i = 0; i < GR_RECIPE_MAX_OUTPUTS; i++)
        gr_free(t->eval.outputs[i]);
    gr_free(t->eval.index);
    gr_free(t->eval.counts);
    t->eval = (gr_eval_memory){ 0 };
}

/* Loads and runs the n samples that follow this rank's first `first`. */
static gr_status run_batch(gr_trainer *t, gr_eval *e, int64_t first)
{
    gr_eval_memory *m = &t->eval;

    gr_batch_resize(&m->batch, e->n);
    for (int64_t i = 0; i < e->n; i++) {
        gr_sample s = { .split = e->split,
                        .index = t->rank + (first + i) * t->n_ranks,
                        .seed = (uint64_t)t->o.seed };

        m->index[i] = s.index;
        GR_TRY(gr_batch_load(&m->batch, t->user, &s, i));
    }
    GR_TRY(gr_step_eval(t->step, m->batch.feeds, t->view.n_feeds));
    for (int i = 0; i < t->view.n_outputs; i++) {
        const gr_field *f = &t->view.outputs[i];
        gr_vec rows = { m->outputs[i], (size_t)(e->n * gr_shape_count(&f->shape)), f->dtype };

        GR_TRY(gr_step_read(t->step, f->name, rows));
        e->outputs[i] = m->outputs[i];
    }
    for (int i = 0; i < t->view.n_feeds; i++)
        e->feeds[i] = m->batch.mem[i];
    e->index = m->index;
    return GR_OK;
}

static gr_status run_split(gr_trainer *t, gr_split split, gr_prediction *out)
{
    int64_t n_mine = gr_eval_count(t->size[split], t->rank, t->n_ranks);
    gr_eval_memory *m = &t->eval;
    float loss;

    for (int64_t first = 0; first < n_mine; first += m->batch.cap) {
        gr_eval e = { .split = split,
                      .n = n_mine - first < m->batch.cap ? n_mine - first : m->batch.cap };

        GR_TRY(run_batch(t, &e, first));
        if (out) {
            GR_TRY(t->recipe->predict(t->user, &e, out));
            continue;
        }
        t->recipe->score(t->user, &e, m->counts);
        GR_TRY(gr_step_read(t->step, "loss", (gr_vec){ &loss, 1, GR_F32 }));
        m->counts[t->view.n_counts] += (double)loss * (double)e.n;
    }
    return GR_OK;
}

gr_status gr_trainer_predict_split(gr_trainer *t, gr_split split, gr_prediction *out)
{
    return gr_wrap(run_split(t, split, out), "prediction");
}

gr_status gr_trainer_evaluate(gr_trainer *t, gr_split split, gr_scores *out)
{
    size_t n_sums = (size_t)t->view.n_counts + 1; /* and the loss */
    double *sums = t->eval.counts;

    memset(sums, 0, n_sums * sizeof(*sums));
    GR_TRY(gr_wrap(run_split(t, split, NULL), "evaluation"));
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ sums, n_sums, GR_F64 }, GR_REDUCE_SUM));
    t->recipe->measure(t->user, sums, out->values);
    out->loss = sums[n_sums - 1] / (double)t->size[split];
    return GR_OK;
}

#define SHOWN 4 /* metrics in a line for people; the files have all */

void gr_scores_text(const gr_trainer *t, const gr_scores *s, gr_text *out)
{
    for (int i = 0; i < t->view.n_metrics && i < SHOWN; i++) {
        const gr_metric_info *m = &t->view.metrics[i];

        if (m->is_share)
            gr_text_addf(out, "%s %.2f%%, ", m->name, 100 * s->values[i]);
        else
            gr_text_addf(out, "%s %.4g, ", m->name, s->values[i]);
    }
    gr_text_addf(out, "validation loss %.4f", s->loss);
}
