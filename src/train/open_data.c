/*
 * The data of a run: the recipe's, how ranks share them, and how many steps that makes.
 * What cannot work is refused here, with numbers that would.
 */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/log.h"
#include "net/env.h"
#include "step/inspect.h"
#include "train/config/settings.h"
#include "train/rate.h"

#include <inttypes.h>
#include <unistd.h>

/* A step takes whole batches, but for an epoch's last: otherwise it would learn from fewer
 * samples than it says. Real samples: those that pad the order to give every rank as many are the
 * same again. */
static gr_status check_batch(const gr_trainer *t)
{
    int64_t a = t->o.accumulate, n = t->size[GR_SPLIT_TRAIN], most = n / t->n_ranks / a;

    if (t->o.sampler == GR_ORDER_BUCKETED && most > 0)
        return GR_OK; /* its batches are made so that there are enough of them */
    if (n < t->n_ranks)
        return gr_fail(GR_ERR_ARG,
                       "there are %" PRId64 " training samples for %d ranks; use at most %" PRId64
                       " ranks, or more samples",
                       n, t->n_ranks, n);
    if (most < 1)
        return gr_fail(GR_ERR_ARG,
                       "an epoch has no step: %" PRId64 " samples on %d rank%s are %" PRId64
                       " each, too few for %" PRId64 " micro-steps; the most "
                       "grad_accumulation_steps that work are %" PRId64,
                       n, t->n_ranks, gr_plural(t->n_ranks), n / t->n_ranks, a, n / t->n_ranks);
    if (t->o.batch_size > most)
        return gr_fail(GR_ERR_ARG,
                       "a step takes batch_size %" PRId64 " x %d rank%s x %" PRId64
                       " accumulation = %" PRId64 " samples, and an epoch has %" PRId64
                       "; the largest batch_size that works is %" PRId64,
                       t->o.batch_size, t->n_ranks, gr_plural(t->n_ranks), a,
                       t->o.batch_size * t->n_ranks * a, n, most);
    return GR_OK;
}

static gr_status count_batches(gr_trainer *t)
{
    int64_t n = t->size[GR_SPLIT_TRAIN], batch = t->o.batch_size;
    gr_order_source *source;

    t->n_mine = (n + t->n_ranks - 1) / t->n_ranks;
    t->n_batches = t->o.drop_last ? t->n_mine / batch : (t->n_mine + batch - 1) / batch;
    if (t->o.sampler != GR_ORDER_BUCKETED)
        return GR_OK;
    GR_TRY(gr_trainer_open_order(t, GR_SPLIT_TRAIN, &source));
    t->n_batches = source->n_batches;
    gr_order_source_destroy(source);
    return GR_OK;
}

void gr_trainer_set_end(gr_trainer *t)
{
    t->end = t->n_steps + t->shift;
    if (t->o.max_steps > 0 && t->o.max_steps < t->end)
        t->end = t->o.max_steps;
}

static gr_status count_steps(gr_trainer *t)
{
    t->steps_per_epoch = t->n_batches / t->o.accumulate;
    t->n_micro = t->steps_per_epoch * t->o.accumulate;
    if (__builtin_mul_overflow(t->steps_per_epoch, t->o.epochs, &t->n_steps))
        return gr_fail(GR_ERR_ARG, "%" PRId64 " epochs of %" PRId64 " steps are too many",
                       t->o.epochs, t->steps_per_epoch);
    gr_trainer_set_end(t);
    return gr_rate_schedule(&t->o, t->n_ranks, t->steps_per_epoch, t->n_steps, &t->schedule);
}

/* Bytes of the host for batches at one of the sizes; UINT64_MAX is more than that holds. */
static uint64_t bytes_at(const gr_trainer *t, const gr_sizes *sizes, int k)
{
    const int64_t *size = gr_feed_size(sizes, k);
    uint64_t n = (uint64_t)t->o.batch_size, bytes;

    if (t->o.token_budget > 0 && t->o.token_budget / sizes->tokens[k] < t->o.batch_size)
        n = (uint64_t)(t->o.token_budget / sizes->tokens[k]);
    bytes = 2 * gr_feed_sample_bytes(&t->view, size); /* to train, and to evaluate */
    bytes *= t->n_workers > 0 ? 1 + (uint64_t)t->o.prefetch : 1;
    for (int i = 0; i < t->view.n_outputs; i++)
        bytes += gr_field_bytes(&t->view.outputs[i], size);
    return __builtin_mul_overflow(bytes, n, &bytes) ? UINT64_MAX : bytes;
}

/* Before anything is drawn or loaded: a host that cannot hold it says so at once. */
static gr_status check_memory(gr_trainer *t)
{
    uint64_t order = (uint64_t)t->size[GR_SPLIT_TRAIN] * sizeof(int64_t), batches = 0, needed;
    uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const gr_sizes *sizes;

    GR_TRY(gr_trainer_sizes(t, GR_SPLIT_TRAIN, &sizes));
    for (int k = 0; k < (sizes ? sizes->n_sizes : 1); k++) {
        uint64_t bytes = bytes_at(t, sizes, k);

        batches = bytes > batches ? bytes : batches;
    }
    if (!__builtin_add_overflow(batches, order, &needed) && needed <= host)
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
    int64_t n = t->size[GR_SPLIT_TRAIN], taken = t->n_mine * t->n_ranks;

    if (gr_trainer_writes(t) && t->o.sampler != GR_ORDER_BUCKETED && (taken - n) * 10 > n)
        gr_log(TRAIN, WARN,
               "%" PRId64 " samples on %d ranks: %" PRId64
               " are taken twice an epoch to give every "
               "rank as many (%.0f%%); fewer ranks or more samples avoid that",
               n, t->n_ranks, taken - n, 100 * (double)(taken - n) / (double)n);
}

static gr_status check_sampler(const gr_trainer *t)
{
    if (t->o.sampler == GR_ORDER_WEIGHTED && !t->recipe->data->weights)
        return gr_fail(GR_ERR_ARG,
                       "recipe '%s' gives its samples no weights, which --sampler "
                       "weighted needs",
                       t->recipe->name);
    if (t->o.sampler == GR_ORDER_BUCKETED && t->view.n_axes == 0)
        return gr_fail(GR_ERR_ARG,
                       "samples of recipe '%s' are all of one size; --sampler bucketed "
                       "is for those that differ in length",
                       t->recipe->name);
    return GR_OK;
}

static gr_status open_training(gr_trainer *t)
{
    int64_t n = t->size[GR_SPLIT_TRAIN];

    if (n < 1)
        return gr_fail(GR_ERR_ARG, "recipe '%s' has no training samples", t->recipe->name);
    if (t->size[GR_SPLIT_VALID] < 1 && (t->o.patience > 0 || t->o.schedule == GR_SCHEDULE_PLATEAU))
        return gr_fail(GR_ERR_ARG, "there are no validation samples, which early stopping and "
                                   "lr_schedule plateau go by");
    GR_TRY(check_sampler(t));
    GR_TRY(check_batch(t));
    GR_TRY(count_batches(t));
    GR_TRY(check_memory(t));
    warn_of_padding(t);
    GR_TRY(count_steps(t));
    return gr_judge_init(&t->judge, &t->o, &t->view);
}

gr_eval_work gr_trainer_work(const gr_trainer *t, gr_split split)
{
    gr_eval_work w = { .has_batches = true };

    if (t->recipe->evaluation->work)
        t->recipe->evaluation->work(t->user, t->task, split, &w);
    if (w.n_units < 0)
        w.n_units = 0;
    return w;
}

static gr_status check_task(const gr_trainer *t)
{
    const gr_recipe_evaluation *e = t->recipe->evaluation;
    bool tests = t->task == GR_TASK_TEST;
    gr_split split = tests ? GR_SPLIT_TEST : GR_SPLIT_PREDICT;
    gr_eval_work w = gr_trainer_work(t, split);

    if (!tests && !(w.has_batches && e->predict) && !(w.n_units > 0 && e->predict_unit))
        return gr_fail(GR_ERR_ARG, "recipe '%s' predicts nothing", t->recipe->name);
    if ((w.has_batches ? t->size[split] : 0) + w.n_units < 1)
        return gr_fail(GR_ERR_ARG, "recipe '%s' has no samples to %s", t->recipe->name,
                       tests ? "test with" : "predict on; name them by --input");
    return GR_OK;
}

/* Who asks for more threads than cores gets them, as from PyTorch, and hears what fits. */
static void choose_workers(gr_trainer *t)
{
    gr_job job;
    int n_local =
        gr_job_ranks_from_env(&job) == GR_OK && job.n_local > 0 ? job.n_local : t->n_ranks;

    t->n_cores = gr_loader_cores(n_local);
    t->n_workers =
        t->o.num_workers >= 0 ? (int)t->o.num_workers : gr_loader_default_workers(n_local);
    if (t->o.num_workers > t->n_cores && gr_trainer_writes(t))
        gr_log(TRAIN, WARN,
               "num_workers %" PRId64
               ": the suggested most is %d, the core%s of a rank; more loader "
               "threads may be slower",
               t->o.num_workers, t->n_cores, gr_plural(t->n_cores));
}

/* Before the settings are recorded. What a checkpoint or the user has said stays. */
static gr_status keep_found(gr_trainer *t)
{
    for (int i = 0; i < t->view.n_found; i++) {
        const gr_found *f = &t->view.found[i];

        if (gr_settings_slot(t->o.settings, f->key)->origin.kind <= GR_FROM_DEFAULT) {
            GR_TRY(gr_settings_put_key(t->o.settings, f->key, f->value, GR_FROM_RECIPE));
            gr_settings_slot(t->o.settings, f->key)->is_found = true;
        }
    }
    return GR_OK;
}

gr_status gr_trainer_describe(gr_trainer *t)
{
    GR_TRY(t->recipe->data->describe(t->user, &t->view));
    GR_TRY(gr_wrap(gr_fields_add_axes(&t->view, t->arena), "recipe '%s'", t->recipe->name));
    if (t->view.n_axes > 0 && !t->recipe->data->lengths)
        return gr_fail(GR_ERR_ARG, "recipe '%s' has axes, and no lengths()", t->recipe->name);
    t->shapes = gr_arena_array(t->arena, (size_t)t->view.n_feeds + 1, sizeof(*t->shapes));
    return t->shapes ? GR_OK : GR_ERR_NOMEM;
}

static gr_status open_user(gr_trainer *t, gr_recipe_config *config)
{
    gr_snapshot *state = NULL;
    gr_status st;

    GR_TRY(gr_trainer_find_state(t, &state));
    config->state = state;
    st = gr_trainer_prepare(t, config);
    if (st == GR_OK)
        st = t->recipe->data->open(&t->user, config);
    gr_snapshot_destroy(state);
    return st == GR_OK ? gr_trainer_keep_state(t) : st;
}

gr_status gr_trainer_open_data(gr_trainer *t)
{
    gr_recipe_config rc = { .task = t->task,
                            .seed = (uint64_t)t->o.seed,
                            .n_train = t->o.n_train,
                            .n_valid = t->o.n_eval,
                            .input = t->o.input,
                            .settings = t->o.settings };

    choose_workers(t);
    GR_TRY(gr_wrap(open_user(t, &rc), "recipe '%s'", t->recipe->name));
    GR_TRY(gr_trainer_describe(t));
    if (t->task == GR_TASK_TRAIN)
        GR_TRY(gr_wrap(keep_found(t), "recipe '%s'", t->recipe->name));
    for (int split = 0; split < GR_N_SPLITS; split++)
        t->size[split] = t->recipe->data->size(t->user, (gr_split)split);
    GR_TRY(t->task == GR_TASK_TRAIN ? open_training(t) : check_task(t));
    return gr_trainer_open_eval(t);
}

/* ---- batches ---- */

gr_status gr_trainer_open_feed(gr_trainer *t, gr_split split)
{
    bool trains = split == GR_SPLIT_TRAIN;
    gr_device *d = gr_step_device(t->step);
    gr_feed_config c = { .from = { .recipe = t->recipe,
                                   .user = t->user,
                                   .view = &t->view,
                                   .split = split,
                                   .seed = (uint64_t)t->o.seed },
                         .n_samples = t->size[split],
                         .device = t->o.pin_memory && d->ops->needs_copies ? d : NULL,
                         .n_workers = t->n_workers,
                         .prefetch = (int)t->o.prefetch,
                         .batches_per_epoch = trains ? t->n_micro : 0,
                         .end_epoch = trains ? t->o.epochs : 1,
                         .skips = t->o.on_bad_sample == GR_BAD_SKIP };

    if (t->feeds[split].loader)
        return GR_OK;
    GR_TRY(gr_trainer_sizes(t, split, &c.from.sizes));
    GR_TRY(gr_trainer_open_order(t, split, &c.order));
    return gr_feed_open(&t->feeds[split], &c);
}
