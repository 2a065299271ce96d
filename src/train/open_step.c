/*
 * The step of a run: its configuration, whether it fits, and a plan for every shape that
 * the run will meet.
 */
#include "train/checkpoint.h"

#include "backend/backend.h"
#include "base/outfile.h"
#include "net/env.h"
#include "step/inspect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NO_CLIP 1e30 /* clipping at this changes nothing, and the norm is computed */

static void dump(void *arg, const char *pass, const char *text)
{
    gr_trainer_say(arg, "graph after %s:\n%s", pass, text);
}

/* "a.yaml:12: train.optimizer.no_decay", in the trainer's arena; NULL: no memory. */
static const char *place_of_no_decay(gr_trainer *t)
{
    gr_text place = GR_TEXT_INIT;
    const char *where;

    gr_train_options_origin(&t->o, "no_decay", &place);
    where = gr_arena_printf(t->arena, "%s: train.optimizer.no_decay", gr_text_str(&place));
    gr_text_fini(&place);
    return where;
}

static gr_status count_shape(void *arg, int64_t n, int k)
{
    (void)n, (void)k;
    ++*(int *)arg;
    return GR_OK;
}

/* Batches of many shapes need as many plans: each split's, and two of a shape when micro-steps
 * differ. Where ranks' batches differ, random numbers keep room for the largest. */
static gr_status count_plans(gr_trainer *t, gr_step_config *c)
{
    int n = 0;

    if (t->view.n_axes == 0)
        return GR_OK;
    for (int split = 0; split < GR_N_SPLITS; split++)
        if (split != GR_SPLIT_TRAIN || t->task == GR_TASK_TRAIN)
            GR_TRY(gr_trainer_shapes(t, (gr_split)split, count_shape, &n));
    c->max_plans += 2 * n;
    if (t->o.sampler == GR_ORDER_BUCKETED)
        c->max_batch = t->o.batch_size;
    return GR_OK;
}

static gr_status make_step(gr_trainer *t)
{
    static const char *const groups[] = { "auto", "nccl", "ipc" }; /* gr_group_kind */
    gr_param_group no_decay = { .match = t->o.no_decay, .lr_scale = 1, .weight_decay = 0 };
    static const gr_dtype wire[] = { GR_F32, GR_BF16, GR_F16 }; /* gr_wire_dtype */
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.traces = t->recipe->model->traces;
    c.n_traces = t->recipe->model->n_traces;
    c.user = t->user;
    c.device = t->o.device;
    c.group = groups[t->o.group];
    c.pg = t->pg;
    c.optim = gr_train_options_optim(&t->o);
    if (t->o.no_decay) {
        no_decay.where = place_of_no_decay(t);
        if (!no_decay.where)
            return GR_ERR_NOMEM;
        c.optim.groups = &no_decay;
        c.optim.n_groups = 1;
    }
    c.amp = (gr_amp)t->o.amp;
    c.accumulate = (int)t->o.accumulate;
    c.clip_norm = t->o.clip_norm > 0 || !t->o.log_grad_norm ? t->o.clip_norm : NO_CLIP;
    c.clip_value = t->o.clip_value;
    c.init_scale = t->o.init_scale;
    c.freeze = t->o.freeze;
    c.check_every = (int)t->o.check_every;
    c.zero = (int)t->o.zero;
    c.sync_bn = t->o.sync_bn;
    c.loss_reduction = (gr_loss_reduction)t->o.loss_reduction;
    c.grad_dtype = wire[t->o.grad_dtype];
    c.ema_decay = t->o.ema_decay;
    c.tune = t->o.tune;
    c.recompute = (gr_recompute)t->o.recompute;
    c.memory_limit = (size_t)t->o.memory_limit;
    c.bucket_bytes = (size_t)t->o.bucket_bytes;
    c.first_bucket_bytes = (size_t)t->o.first_bucket_bytes;
    GR_TRY(gr_trainer_seed(t, &c.seed));
    c.n_threads = (int)t->o.threads;
    c.config_text = gr_arena_printf(
        t->arena, "training samples = %" PRId64 "\nevaluation samples = %" PRId64 "\n",
        t->size[GR_SPLIT_TRAIN], t->size[GR_SPLIT_VALID]);
    c.choices = t->resumed ? gr_snapshot_get(t->resumed, GR_KEY_KERNELS) : NULL;
    c.dump_after = t->o.dump_after;
    c.dump = dump;
    c.dump_arg = t;
    GR_TRY(count_plans(t, &c));
    return c.config_text ? gr_step_create(&t->step, &c) : GR_ERR_NOMEM;
}

/* How many ranks divide what is free: a GPU is one rank's own. */
static gr_status free_memory(const gr_trainer *t, size_t *n_free, int *n_sharing)
{
    gr_device *d = gr_step_device(t->step);
    size_t n_all = 0;
    gr_job job;

    GR_TRY(gr_job_ranks_from_env(&job));
    *n_sharing = d->ops->shares_memory && job.n_local > 0 ? job.n_local : 1;
    return d->ops->memory(d, n_free, &n_all);
}

gr_status gr_trainer_fit_batch(gr_trainer *t, const gr_named *feeds, const gr_fit_config *fit,
                               int64_t *batch, size_t *n_bytes)
{
    gr_fit_config pairs = *fit;
    gr_status st = gr_step_fit_batch(t->step, feeds, t->view.n_feeds, fit, batch, n_bytes);

    if (st == GR_OK || st == GR_ERR_NOMEM || fit->min_batch > 1 || fit->max_batch < 2)
        return st;
    pairs.min_batch = 2;
    return gr_step_fit_batch(t->step, feeds, t->view.n_feeds, &pairs, batch, n_bytes);
}

/* A batch that differs from others in its size is named by it, and two settings make it smaller. */
static gr_status refuse_padded(gr_trainer *t, const char *need, const char *why, const char *than)
{
    gr_text size = GR_TEXT_INIT;
    gr_status st;

    gr_trainer_largest_text(t, &size);
    st = gr_fail(GR_ERR_NOMEM,
                 "a step with a batch of %" PRId64 " sample%s%s needs %s on each rank, and %s %s; "
                 "choose a smaller --batch_size or (with --sampler bucketed) --token_budget, or "
                 "leave the longest samples out",
                 t->largest_n, gr_plural(t->largest_n), gr_text_str(&size), need, why, than);
    gr_text_fini(&size);
    return st;
}

static gr_status refuse_memory(gr_trainer *t, const gr_named *feeds, size_t n_free, size_t needed)
{
    char need[GR_BYTES_TEXT], have[GR_BYTES_TEXT];
    gr_fit_config fit = GR_FIT_CONFIG_INIT;
    gr_status st;
    int64_t batch;
    size_t n_bytes;

    gr_bytes_text(needed, need);
    gr_bytes_text(n_free, have);
    if (t->view.n_axes > 0)
        return refuse_padded(t, need, "free are", have);
    fit.limit_bytes = n_free;
    fit.max_batch = t->o.batch_size;
    st = gr_trainer_fit_batch(t, feeds, &fit, &batch, &n_bytes);
    if (st == GR_OK)
        return gr_fail(GR_ERR_NOMEM,
                       "a step with batch_size %" PRId64 " needs %s on each rank, and %s are free; "
                       "the largest batch_size that fits is %" PRId64
                       " (grad_accumulation_steps keeps the effective batch)",
                       t->o.batch_size, need, have, batch);
    return gr_fail(GR_ERR_NOMEM,
                   "a step with batch_size %" PRId64 " needs %s on each rank, and %s are free; "
                   "not even the smallest batch fits",
                   t->o.batch_size, need, have);
}

static gr_status check_limit(gr_trainer *t, const gr_memory_report *r)
{
    char need[GR_BYTES_TEXT], limit[GR_BYTES_TEXT];
    bool tried = t->o.recompute == GR_RECOMPUTE_LIMIT;

    if (t->o.memory_limit == 0 || r->total <= (size_t)t->o.memory_limit)
        return GR_OK;
    if (t->view.n_axes > 0)
        return refuse_padded(t, gr_bytes_text(r->total, need), "memory_limit is",
                             gr_bytes_text((size_t)t->o.memory_limit, limit));
    return gr_fail(GR_ERR_NOMEM,
                   "a step with batch_size %" PRId64 " needs %s on each rank%s, and memory_limit "
                   "is %s; %schoose a smaller --batch_size",
                   t->o.batch_size, gr_bytes_text(r->total, need),
                   tried && r->n_blocks > 0 ? " though all blocks are computed again" : "",
                   gr_bytes_text((size_t)t->o.memory_limit, limit),
                   tried ? "" : "--recompute limit computes blocks again to stay below it, or ");
}

/* ---- the largest batch ---- */

static gr_status feeds_at(gr_trainer *t, gr_split split, int64_t n, int k)
{
    const gr_sizes *sizes;

    GR_TRY(gr_trainer_sizes(t, split, &sizes));
    return gr_feed_shapes(&t->view, gr_feed_size(sizes, k), n, t->shapes);
}

typedef struct search {
    gr_trainer *t;
    size_t most;
} search;

static gr_status keep_largest(void *arg, int64_t n, int k)
{
    search *s = arg;
    gr_memory_report r;

    GR_TRY(feeds_at(s->t, GR_SPLIT_TRAIN, n, k));
    GR_TRY(gr_step_memory_report(s->t->step, true, s->t->shapes, s->t->view.n_feeds, &r));
    if (r.total <= s->most)
        return GR_OK;
    s->most = r.total;
    s->t->largest_n = n;
    s->t->largest_k = k;
    return GR_OK;
}

gr_status gr_trainer_largest(gr_trainer *t, gr_memory_report *r)
{
    search s = { .t = t };

    if (t->view.n_axes == 0) /* whatever an epoch has of it */
        t->largest_n = t->o.batch_size;
    if (t->largest_n == 0)
        GR_TRY(gr_trainer_shapes(t, GR_SPLIT_TRAIN, keep_largest, &s));
    GR_TRY(feeds_at(t, GR_SPLIT_TRAIN, t->largest_n, t->largest_k));
    return gr_step_memory_report(t->step, true, t->shapes, t->view.n_feeds, r);
}

void gr_trainer_largest_text(const gr_trainer *t, gr_text *out)
{
    if (t->view.n_axes == 0)
        return;
    gr_text_add(out, " padded to ");
    gr_fields_size_text(&t->view, gr_feed_size(t->sizes[GR_SPLIT_TRAIN], t->largest_k), out);
}

/* What the recipe's procedures will run, beside `state` bytes. */
static gr_status check_runs(gr_trainer *t, size_t state)
{
    char need[GR_BYTES_TEXT], have[GR_BYTES_TEXT];
    const char *trace = NULL;
    size_t n_bytes = 0;

    if (!t->runner)
        return GR_OK;
    GR_TRY(gr_runner_measure(t->runner, &n_bytes, &trace));
    if (!trace)
        return GR_OK;
    if (state + n_bytes > t->memory_total)
        t->memory_total = state + n_bytes;
    if (t->memory_free == 0 || state + n_bytes <= t->memory_free)
        return GR_OK;
    return gr_fail(GR_ERR_NOMEM,
                   "the largest run of '%s' that recipe '%s' announces needs %s on each rank, and "
                   "%s are free",
                   trace, t->recipe->name, gr_bytes_text(state + n_bytes, need),
                   gr_bytes_text(t->memory_free, have));
}

gr_status gr_trainer_open_runner(gr_trainer *t)
{
    const gr_recipe_evaluation *e = t->recipe->evaluation;

    GR_TRY(gr_runner_begin(&t->runner, t));
    return e->prepare
               ? gr_wrap(e->prepare(t->user, t->task, t->runner), "recipe '%s'", t->recipe->name)
               : GR_OK;
}

gr_status gr_trainer_plan_runs(gr_trainer *t)
{
    size_t n_free = 0;
    int n_sharing = 1;

    if (t->task != GR_TASK_TRAIN) { /* the state is there already */
        GR_TRY(free_memory(t, &n_free, &n_sharing));
        t->memory_free = n_free / (size_t)n_sharing;
        GR_TRY(check_runs(t, 0));
    }
    return gr_runner_plan(t->runner);
}

/* P20: what does not fit is refused before anything of that size is allocated. */
gr_status gr_trainer_check_free(gr_trainer *t)
{
    gr_memory_report r;
    size_t n_free = 0;
    int n_sharing = 1;

    GR_TRY(gr_trainer_largest(t, &r));
    GR_TRY(free_memory(t, &n_free, &n_sharing));
    t->memory_total = r.total;
    t->memory_free = n_free / (size_t)n_sharing;
    GR_TRY(check_limit(t, &r));
    GR_TRY(check_runs(t, r.total - r.arena - r.inputs));
    if (n_free == 0 || r.total <= t->memory_free)
        return GR_OK;
    return refuse_memory(t, t->shapes, t->memory_free, r.total);
}

/* ---- plans ---- */

typedef struct planner {
    gr_trainer *t;
    gr_split split;
} planner;

static gr_status plan_shape(void *arg, int64_t n, int k)
{
    const planner *p = arg;
    gr_trainer *t = p->t;

    GR_TRY(feeds_at(t, p->split, n, k));
    return gr_step_plan(t->step, p->split == GR_SPLIT_TRAIN, t->shapes, t->view.n_feeds);
}

/* All shapes of a split: of whole batches and the short last ones, at each of the sizes. */
gr_status gr_trainer_plan_split(gr_trainer *t, gr_split split)
{
    planner p = { t, split };

    return gr_trainer_shapes(t, split, plan_shape, &p);
}

gr_status gr_trainer_plan_small(gr_trainer *t)
{
    int64_t size[GR_MAX_AXES];

    for (int a = 0; a < t->view.n_axes; a++)
        size[a] = gr_axis_padded(&t->view.axes[a], 1);
    GR_TRY(gr_feed_shapes(&t->view, size, 2, t->shapes)); /* batch norm has no statistics of one */
    return gr_step_plan(t->step, true, t->shapes, t->view.n_feeds);
}

gr_status gr_trainer_plan(gr_trainer *t)
{
    if (t->view.n_axes > 0) { /* the largest first: the arena grows once */
        planner p = { t, GR_SPLIT_TRAIN };

        GR_TRY(plan_shape(&p, t->largest_n, t->largest_k));
    }
    GR_TRY(gr_trainer_plan_split(t, GR_SPLIT_TRAIN));
    if (t->o.ema_decay > 0)
        GR_TRY(gr_step_use_ema(t->step, true));
    return gr_trainer_plan_split(t, GR_SPLIT_VALID);
}

static gr_status write_dot(gr_trainer *t)
{
    gr_outfile *f;
    char *text;

    if (!t->o.dump_dot || !gr_trainer_writes(t))
        return GR_OK;
    GR_TRY(gr_graph_dot(gr_step_first_graph(t->step), &text));
    if (gr_outfile_open(&f, t->o.dump_dot) != GR_OK) {
        free(text);
        return gr_wrap(GR_ERR_IO, "--dump_dot");
    }
    gr_outfile_write(f, text, strlen(text));
    free(text);
    return gr_outfile_commit(f);
}

/* "device: X" is the first line of a step's description. */
static gr_status name_device(gr_trainer *t)
{
    char *text, *name;

    GR_TRY(gr_step_describe(t->step, &text));
    name = strchr(text, ' ');
    t->device_name = gr_arena_printf(t->arena, "%.*s", name ? (int)strcspn(name + 1, "\n") : 0,
                                     name ? name + 1 : "");
    free(text);
    return t->device_name ? GR_OK : GR_ERR_NOMEM;
}

gr_status gr_trainer_create_step(gr_trainer *t)
{
    GR_TRY(make_step(t));
    t->amp = gr_step_amp(t->step);
    GR_TRY(gr_trainer_watch(t));
    return name_device(t);
}

gr_status gr_trainer_open_step(gr_trainer *t)
{
    GR_TRY(gr_trainer_create_step(t));
    GR_TRY(gr_trainer_open_runner(t));
    GR_TRY(gr_trainer_check_free(t));
    GR_TRY(gr_trainer_plan(t));
    GR_TRY(gr_trainer_plan_runs(t));
    return write_dot(t);
}
