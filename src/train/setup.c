/*
 * From the words of a command to a trainer that is ready for its first step. The order
 * matters: ranks are compared before anything that they do together depends on settings,
 * and everything that can be refused is refused before step 1.
 */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/option.h"
#include "base/outfile.h"
#include "base/streams.h"
#include "comm/pg.h"
#include "net/env.h"
#include "step/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- recipe and settings ---- */

#define MAX_RECIPES 64

static gr_status unknown_recipe(const gr_command *c, const char *word)
{
    const char *names[MAX_RECIPES + 1] = { NULL };
    const char *near;

    for (int i = 0; i < MAX_RECIPES && c->recipes[i]; i++)
        names[i] = c->recipes[i]->name;
    near = gr_nearest(word, names);
    if (near)
        return gr_fail(GR_ERR_ARG, "there is no recipe '%s'; did you mean '%s'?", word, near);
    return gr_fail(GR_ERR_ARG, "there is no recipe '%s'; 'gradus help train' lists them", word);
}

/* The recipe is the first word that is neither option nor value; t->argv are the others. */
static gr_status pick_word(gr_trainer *t, const char **word)
{
    const gr_command *c = t->command;
    int at;

    GR_TRY(gr_train_options_skip(t->arena, c->argc, c->argv, &at));
    if (at == c->argc)
        return gr_fail(GR_ERR_ARG, "say what to train: 'gradus train RECIPE'; 'gradus help train' "
                                   "lists the recipes");
    *word = c->argv[at];
    t->argc = c->argc - 1;
    t->argv = gr_arena_array(t->arena, (size_t)c->argc, sizeof(*t->argv));
    if (!t->argv)
        return GR_ERR_NOMEM;
    memcpy(t->argv, c->argv, (size_t)at * sizeof(*t->argv));
    memcpy(t->argv + at, c->argv + at + 1, (size_t)(t->argc - at) * sizeof(*t->argv));
    return GR_OK;
}

static gr_status pick_recipe(gr_trainer *t)
{
    const gr_command *c = t->command;
    const char *word = "";

    GR_TRY(pick_word(t, &word));
    for (int i = 0; c->recipes[i]; i++)
        if (strcmp(c->recipes[i]->name, word) == 0)
            t->recipe = c->recipes[i];
    if (!t->recipe)
        return unknown_recipe(c, word);
    if (t->recipe->abi != GR_RECIPE_ABI)
        return gr_fail(GR_ERR_ARG, "recipe '%s' was built for interface %u, this program has %u",
                       word, (unsigned)t->recipe->abi, (unsigned)GR_RECIPE_ABI);
    return GR_OK;
}

static gr_status join_group(gr_trainer *t)
{
    gr_pg_config config = GR_PG_CONFIG_INIT;
    gr_job job;

    GR_TRY(gr_job_ranks_from_env(&job));
    GR_TRY(gr_log_setup(job.rank));
    config.timeout_ms =
        (int)(t->o.timeout_s * 1000 > 2000000000 ? 2000000000 : t->o.timeout_s * 1000);
    GR_TRY(gr_pg_create(&t->pg, &config));
    t->rank = gr_pg_rank(t->pg);
    t->n_ranks = gr_pg_size(t->pg);
    return GR_OK;
}

/* The first thing done together, so that a difference is named before it can do harm. */
static gr_status compare_settings(gr_trainer *t)
{
    gr_text text = GR_TEXT_INIT;
    gr_status st;

    gr_text_addf(&text, "recipe = %s\n", t->recipe->name);
    gr_train_options_record(&t->o, GR_RECORD_COMPARE, &text);
    st = gr_text_status(&text);
    if (st == GR_OK && t->n_ranks > 1) {
        st = gr_pg_compare(t->pg, gr_text_str(&text));
        t->told_all = st == GR_ERR_ARG;
    }
    gr_text_fini(&text);
    return st;
}

/* ---- data ---- */

/* A step takes whole batches, but for an epoch's last: otherwise it would learn from fewer
 * samples than it says. */
static gr_status check_batch(const gr_trainer *t, int64_t count)
{
    int64_t a = t->o.accumulate;

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
    t->schedule = (gr_schedule){ .kind = (gr_schedule_kind)t->o.schedule,
                                 .lr = t->o.lr,
                                 .n_warmup = t->o.warmup_steps,
                                 .n_steps = t->n_steps };
    return GR_OK;
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

static gr_status open_data(gr_trainer *t)
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
    GR_TRY(count_steps(t));
    GR_TRY(gr_batch_init(&t->batch, t->recipe, &t->view, t->o.batch_size));
    return gr_trainer_open_eval(t);
}

/* ---- the step ---- */

static void dump(void *arg, const char *pass, const char *text)
{
    gr_trainer_say(arg, "graph after %s:\n%s", pass, text);
}

static gr_status open_step(gr_trainer *t)
{
    static const char *const groups[] = { "auto", "nccl", "ipc" }; /* gr_group_kind */
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = t->recipe->trace;
    c.user = t->user;
    c.device = t->o.device;
    c.group = groups[t->o.group];
    c.pg = t->pg;
    c.optim = gr_train_options_optim(&t->o);
    c.amp = (gr_amp)t->o.amp;
    c.accumulate = (int)t->o.accumulate;
    c.clip_norm = t->o.clip_norm;
    c.seed = (uint64_t)t->o.seed;
    c.n_threads = (int)t->o.threads;
    c.config_text = gr_arena_printf(
        t->arena, "training samples = %" PRId64 "\nevaluation samples = %" PRId64 "\n",
        t->size[GR_SPLIT_TRAIN], t->size[GR_SPLIT_VALID]);
    c.dump_after = t->o.dump_after;
    c.dump = dump;
    c.dump_arg = t;
    return c.config_text ? gr_step_create(&t->step, &c) : GR_ERR_NOMEM;
}

static gr_status plan_shape(gr_trainer *t, bool training, int64_t n)
{
    gr_batch *b = training ? &t->batch : &t->eval.batch;

    if (n < 1)
        return GR_OK;
    gr_batch_resize(b, n);
    return gr_step_plan(t->step, training, b->feeds, t->view.n_feeds);
}

/* All shapes the run will meet: whole batches and the short last ones. */
static gr_status plan_all(gr_trainer *t)
{
    int64_t count = gr_sampler_count(t->sampler), batch = t->o.batch_size;
    int64_t n_eval = gr_eval_count(t->size[GR_SPLIT_VALID], t->rank, t->n_ranks);

    GR_TRY(plan_shape(t, true, count < batch ? count : batch));
    if (t->n_micro * batch > count && count > batch)
        GR_TRY(plan_shape(t, true, count % batch));
    GR_TRY(plan_shape(t, false, n_eval < batch ? n_eval : batch));
    return plan_shape(t, false, n_eval > batch ? n_eval % batch : 0);
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

/* ---- the run's files ---- */

static gr_status write_config(const gr_trainer *t, const char *path)
{
    gr_text text = GR_TEXT_INIT;
    gr_outfile *f;
    gr_status st;

    gr_text_addf(&text, "# gradus %s\nrecipe: %s\nn_ranks: %d\n", GR_VERSION, t->recipe->name,
                 t->n_ranks);
    gr_train_options_record(&t->o, GR_RECORD_YAML, &text);
    st = gr_text_status(&text);
    if (st == GR_OK)
        st = gr_outfile_open(&f, path);
    if (st == GR_OK) {
        gr_outfile_write(f, text.str, text.len);
        st = gr_outfile_commit(f);
    }
    gr_text_fini(&text);
    return st;
}

static gr_status open_files(gr_trainer *t)
{
    const char *config = gr_arena_printf(t->arena, "%s/config.yaml", t->folder);
    const char *metrics = gr_arena_printf(t->arena, "%s/metrics.jsonl", t->folder);

    if (!gr_trainer_writes(t))
        return GR_OK;
    if (!config || !metrics)
        return GR_ERR_NOMEM;
    GR_TRY(gr_trainer_check_room(t));
    GR_TRY(write_config(t, config));
    return gr_metrics_open(&t->metrics, metrics, t->at);
}

static void open_progress(gr_trainer *t)
{
    FILE *out = t->command->out;
    bool live = t->o.progress == GR_PROGRESS_LIVE ||
                (t->o.progress == GR_PROGRESS_AUTO && gr_terminal_redraws(fileno(out)));

    gr_progress_init(&t->progress, out, live);
}

gr_status gr_trainer_open(gr_trainer *t, const gr_command *c)
{
    *t = (gr_trainer){ .command = c, .saved_at = -1, .lock = -1, .loss = (double)NAN };
    GR_TRY(gr_arena_create(&t->arena));
    GR_TRY(pick_recipe(t));
    gr_train_options_init(&t->o, t->recipe);
    GR_TRY(gr_train_options_parse(&t->o, t->arena, t->argc, t->argv));
    GR_TRY(join_group(t));
    open_progress(t);
    GR_TRY(compare_settings(t));
    GR_TRY(gr_trainer_claim_folder(t));
    if (t->o.resume)
        GR_TRY(gr_trainer_load(t));
    GR_TRY(open_data(t));
    GR_TRY(open_step(t));
    GR_TRY(plan_all(t));
    GR_TRY(gr_trainer_restore(t));
    GR_TRY(write_dot(t));
    GR_TRY(open_files(t));
    return gr_trainer_banner(t);
}

void gr_trainer_close(gr_trainer *t)
{
    gr_metrics_close(t->metrics);
    gr_trainer_release_folder(t);
    gr_snapshot_destroy(t->resumed);
    gr_step_destroy(t->step);
    gr_trainer_close_eval(t);
    gr_batch_fini(&t->batch);
    gr_sampler_destroy(t->sampler);
    if (t->user)
        t->recipe->destroy(t->user);
    gr_pg_destroy(t->pg);
    gr_arena_destroy(t->arena);
}
