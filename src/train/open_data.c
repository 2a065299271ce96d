/*
 * The data of a run: the recipe's, how ranks share them, and how many steps that makes.
 * What cannot work is refused here, with numbers that would.
 */
#include "train/trainer.h"

#include "base/log.h"
#include "train/rate.h"

#include <inttypes.h>
#include <unistd.h>

/* A step takes whole batches, but for an epoch's last: otherwise it would learn from fewer
 * samples than it says. */
static gr_status check_batch(const gr_trainer *t, int64_t count)
{
    int64_t a = t->o.accumulate;

    if (t->size[GR_SPLIT_TRAIN] < t->n_ranks)
        return gr_fail(GR_ERR_ARG,
                       "there are %" PRId64 " training samples for %d ranks; use at most %" PRId64
                       " ranks, or more samples",
                       t->size[GR_SPLIT_TRAIN], t->n_ranks, t->size[GR_SPLIT_TRAIN]);
    if (count < a)
        return gr_fail(GR_ERR_ARG,
                       "an epoch has no step: %" PRId64 " samples are %" PRId64
                       " per rank, too few for %" PRId64 " micro-steps",
                       t->size[GR_SPLIT_TRAIN], count, a);
    if (t->o.batch_size > count / a)
        return gr_fail(GR_ERR_ARG,
                       "a step takes batch_size %" PRId64 " x %d rank(s) x %" PRId64
                       " accumulation = %" PRId64 " samples, and an epoch has %" PRId64
                       "; the largest batch_size that works is %" PRId64,
                       t->o.batch_size, t->n_ranks, a, t->o.batch_size * t->n_ranks * a,
                       t->size[GR_SPLIT_TRAIN], count / a);
    return GR_OK;
}

static gr_status count_steps(gr_trainer *t)
{
    int64_t count = gr_sampler_count(t->sampler), batch = t->o.batch_size;
    int64_t n_batches = t->o.drop_last ? count / batch : (count + batch - 1) / batch;

    t->steps_per_epoch = n_batches / t->o.accumulate;
    t->n_micro = t->steps_per_epoch * t->o.accumulate;
    if (__builtin_mul_overflow(t->steps_per_epoch, t->o.epochs, &t->n_steps))
        return gr_fail(GR_ERR_ARG, "%" PRId64 " epochs of %" PRId64 " steps are too many",
                       t->o.epochs, t->steps_per_epoch);
    t->end = t->o.max_steps > 0 && t->o.max_steps < t->n_steps ? t->o.max_steps : t->n_steps;
    return gr_rate_schedule(&t->o, t->n_ranks, t->steps_per_epoch, t->n_steps, &t->schedule);
}

static uint64_t field_bytes(const gr_field *f)
{
    return (uint64_t)gr_shape_count(&f->shape) * gr_dtype_bytes(f->dtype);
}

/* Before anything is drawn or loaded: a host that cannot hold it says so at once. */
static gr_status check_memory(const gr_trainer *t)
{
    uint64_t order = (uint64_t)t->size[GR_SPLIT_TRAIN] * sizeof(int64_t), batches, needed;
    uint64_t per_sample = 0;
    uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    for (int i = 0; i < t->view.n_feeds; i++) /* one batch to train, one to evaluate */
        per_sample += 2 * field_bytes(&t->view.feeds[i]);
    for (int i = 0; i < t->view.n_outputs; i++)
        per_sample += field_bytes(&t->view.outputs[i]);
    if (!__builtin_mul_overflow(per_sample, (uint64_t)t->o.batch_size, &batches) &&
        !__builtin_add_overflow(batches, order, &needed) && needed <= host)
        return GR_OK;
    return gr_fail(GR_ERR_NOMEM,
                   "batches of %" PRId64 " samples need %" PRIu64 " bytes on each rank and the "
                   "order of %" PRId64 " samples %" PRIu64 ", and this host has %" PRIu64
                   "; choose a smaller --batch_size or --n_train",
                   t->o.batch_size, batches, t->size[GR_SPLIT_TRAIN], order, host);
}

/* The order is padded with its own head to a multiple of the ranks, as PyTorch pads it. */
static void warn_of_padding(const gr_trainer *t)
{
    int64_t n = t->size[GR_SPLIT_TRAIN], taken = gr_sampler_count(t->sampler) * t->n_ranks;

    if (gr_trainer_writes(t) && (taken - n) * 10 > n)
        gr_log(TRAIN, WARN,
               "%" PRId64 " samples on %d ranks: %" PRId64
               " are taken twice an epoch to give every "
               "rank as many (%.0f%%); fewer ranks or more samples avoid that",
               n, t->n_ranks, taken - n, 100 * (double)(taken - n) / (double)n);
}

gr_status gr_trainer_open_data(gr_trainer *t)
{
    gr_recipe_config rc = { .seed = (uint64_t)t->o.seed,
                            .n_train = t->o.n_train,
                            .n_valid = t->o.n_eval };
    gr_sampler_config sc = { .rank = t->rank, .n_ranks = t->n_ranks, .seed = (uint64_t)t->o.seed };

    GR_TRY(gr_wrap(t->recipe->create(&t->user, &rc), "recipe '%s'", t->recipe->name));
    GR_TRY(t->recipe->describe(t->user, &t->view));
    for (int split = 0; split < GR_N_SPLITS; split++)
        t->size[split] = t->recipe->size(t->user, (gr_split)split);
    sc.n_samples = t->size[GR_SPLIT_TRAIN];
    if (sc.n_samples < 1 || t->size[GR_SPLIT_VALID] < 1)
        return gr_fail(GR_ERR_ARG, "recipe '%s' has %s samples", t->recipe->name,
                       sc.n_samples < 1 ? "no training" : "no validation");
    GR_TRY(check_batch(t, (sc.n_samples + t->n_ranks - 1) / t->n_ranks));
    GR_TRY(check_memory(t));
    GR_TRY(gr_sampler_create(&t->sampler, &sc));
    warn_of_padding(t);
    GR_TRY(count_steps(t));
    GR_TRY(gr_judge_init(&t->judge, &t->o, &t->view));
    GR_TRY(gr_batch_init(&t->batch, t->recipe, &t->view, t->o.batch_size));
    return gr_trainer_open_eval(t);
}
