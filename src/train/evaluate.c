/*
 * Evaluation: every sample once, on all ranks together. Rank r takes samples r, r + W,
 * r + 2W, ...; nothing is padded. Counts are integers, so their sum is exact; the loss is
 * summed in double, in rank order.
 */
#include "train/trainer.h"

int64_t gr_eval_count(int64_t n, int rank, int n_ranks)
{
    return n <= rank ? 0 : (n - rank - 1) / n_ranks + 1;
}

typedef struct sums {
    int64_t right;
    double loss;
} sums;

static gr_status evaluate_batch(gr_trainer *t, int64_t first, int64_t n, sums *s)
{
    gr_vec output = { t->output, (size_t)(n * gr_shape_count(&t->recipe->output.shape)), GR_F32 };
    float loss;

    gr_batch_resize(&t->eval_batch, n);
    for (int64_t i = 0; i < n; i++)
        GR_TRY(gr_batch_load(&t->eval_batch, t->user, GR_SPLIT_EVAL,
                             t->rank + (first + i) * t->n_ranks, i));
    GR_TRY(gr_step_eval(t->step, t->eval_batch.feeds, t->recipe->n_feeds));
    GR_TRY(gr_step_read(t->step, t->recipe->output.name, output));
    GR_TRY(gr_step_read(t->step, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    s->right += t->recipe->score(t->user, t->output, t->eval_batch.mem, n);
    s->loss += (double)loss * (double)n;
    return GR_OK;
}

gr_status gr_trainer_evaluate(gr_trainer *t)
{
    int64_t n_mine = gr_eval_count(t->n_eval, t->rank, t->n_ranks);
    sums s = { 0 };

    for (int64_t first = 0; first < n_mine; first += t->eval_batch.cap) {
        int64_t left = n_mine - first;

        GR_TRY(gr_wrap(
            evaluate_batch(t, first, left < t->eval_batch.cap ? left : t->eval_batch.cap, &s),
            "evaluation"));
    }
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ &s.right, 1, GR_I64 }, GR_REDUCE_SUM));
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ &s.loss, 1, GR_F64 }, GR_REDUCE_SUM));
    t->scores = (gr_scores){ .metric = (double)s.right / (double)t->n_eval,
                             .loss = s.loss / (double)t->n_eval };
    t->has_scores = true;
    return GR_OK;
}
