/*
 * A run's state and settings, to a checkpoint and back. Rank 0 reads and writes files; the
 * other ranks get its bytes through the group.
 */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/log.h"
#include "ckpt/safetensors.h"
#include "gradus/ckpt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KEY_RECIPE  "train.recipe"
#define KEY_RANKS   "train.n_ranks"
#define KEY_SAMPLES "train.n_samples"
#define KEY_CONFIG  "train.config"
#define KEY_JUDGE   "train.judge"

/* ---- saving ---- */

static gr_status set_number(gr_snapshot *snap, const char *key, int64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, value);
    return gr_snapshot_set(snap, key, text);
}

static gr_status describe(const gr_trainer *t, gr_snapshot *snap)
{
    gr_text config = GR_TEXT_INIT, judge = GR_TEXT_INIT;
    gr_status st;

    GR_TRY(gr_snapshot_set(snap, KEY_RECIPE, t->recipe->name));
    GR_TRY(set_number(snap, KEY_RANKS, t->n_ranks));
    GR_TRY(set_number(snap, KEY_SAMPLES, t->size[GR_SPLIT_TRAIN]));
    gr_train_options_record(&t->o, GR_RECORD_SAVE, &config);
    st = gr_text_status(&config);
    if (st == GR_OK)
        st = gr_snapshot_set(snap, KEY_CONFIG, gr_text_str(&config));
    gr_judge_print(&t->judge, &judge);
    if (st == GR_OK)
        st = gr_text_status(&judge);
    if (st == GR_OK)
        st = gr_snapshot_set(snap, KEY_JUDGE, gr_text_str(&judge));
    gr_text_fini(&judge);
    gr_text_fini(&config);
    return st;
}

gr_status gr_trainer_save(gr_trainer *t)
{
    int64_t before = t->saved_at;
    const char *folder;
    gr_snapshot *snap;
    gr_status st;

    if (t->saved_at == t->at)
        return GR_OK;
    t->saved_at = t->at;
    if (!gr_trainer_writes(t))
        return GR_OK;
    folder = gr_arena_printf(t->arena, "%s/checkpoints", t->folder);
    if (!folder)
        return GR_ERR_NOMEM;
    GR_TRY(gr_wrap(gr_trainer_check_save(t, before), "saving step %" PRId64, t->at));
    GR_TRY(gr_step_save(t->step, &snap));
    st = describe(t, snap);
    if (st == GR_OK)
        st = gr_ckpt_save(folder, t->at, snap, (int)t->o.keep);
    gr_snapshot_destroy(snap);
    return gr_wrap(st, "saving step %" PRId64, t->at);
}

/* ---- resuming ---- */

static void append(void *text, const void *src, size_t n_bytes)
{
    gr_text_addn(text, src, n_bytes);
}

/* Rank 0: the newest whole checkpoint as one piece of memory. */
static gr_status read_newest(gr_trainer *t, gr_text *bytes)
{
    const char *folder = gr_arena_printf(t->arena, "%s/checkpoints", t->folder);
    gr_snapshot *snap;
    char *note;
    int64_t step;
    gr_status st;

    if (!folder)
        return GR_ERR_NOMEM;
    GR_TRY(gr_ckpt_load(folder, &snap, &step, &note));
    if (note)
        gr_log(TRAIN, WARN, "%s", note);
    free(note);
    st = gr_safetensors_format(snap, append, bytes);
    gr_snapshot_destroy(snap);
    GR_TRY(st);
    return gr_text_status(bytes);
}

/* Rank 0's bytes, on all ranks. */
static gr_status share_bytes(gr_trainer *t, gr_text *bytes)
{
    int64_t n = (int64_t)bytes->len;
    gr_status st;

    GR_TRY(gr_pg_broadcast(t->pg, (gr_vec){ &n, 1, GR_I64 }, 0));
    if (!gr_trainer_writes(t)) {
        bytes->str = gr_malloc((size_t)n + 1);
        if (!bytes->str)
            return GR_ERR_NOMEM;
        bytes->cap = (size_t)n + 1;
        bytes->len = (size_t)n;
        bytes->str[n] = '\0';
    }
    st = gr_pg_broadcast(t->pg, (gr_vec){ bytes->str, (size_t)n, GR_U8 }, 0);
    return gr_wrap(st, "the checkpoint from rank 0");
}

static gr_status check_number(const gr_snapshot *snap, const char *key, int64_t now,
                              const char *what)
{
    const char *text = gr_snapshot_get(snap, key);

    if (!text)
        return gr_fail(GR_ERR_FORMAT, "the checkpoint has no entry '%s'", key);
    if (strtoll(text, NULL, 10) != now)
        return gr_fail(GR_ERR_ARG,
                       "the run began with %s %s and goes on with %" PRId64
                       "; steps would take other samples",
                       text, what, now);
    return GR_OK;
}

/* Settings come from the checkpoint where the command line does not say otherwise. */
static gr_status take_settings(gr_trainer *t)
{
    const char *recipe = gr_snapshot_get(t->resumed, KEY_RECIPE);
    const char *config = gr_snapshot_get(t->resumed, KEY_CONFIG);

    if (!recipe || !config)
        return gr_fail(GR_ERR_FORMAT, "the checkpoint was not written by this program: it has no "
                                      "entry '" KEY_CONFIG "'");
    if (strcmp(recipe, t->recipe->name) != 0)
        return gr_fail(GR_ERR_ARG, "the run is of recipe '%s', not '%s'", recipe, t->recipe->name);
    GR_TRY(check_number(t->resumed, KEY_RANKS, t->n_ranks, "rank(s)"));
    return gr_train_options_resume(&t->o, t->recipe, config, t->argc, t->argv);
}

gr_status gr_trainer_load(gr_trainer *t)
{
    gr_text bytes = GR_TEXT_INIT;
    gr_status st = GR_OK;

    if (gr_trainer_writes(t))
        GR_TRY_GOTO(st, read_newest(t, &bytes), done);
    GR_TRY_GOTO(st, share_bytes(t, &bytes), done);
    GR_TRY_GOTO(st, gr_safetensors_parse(bytes.str, bytes.len, &t->resumed), done);
    st = take_settings(t);
    t->told_all = st != GR_OK; /* every rank reads the same bytes */

done:
    gr_text_fini(&bytes);
    return gr_wrap(st, "resume");
}

gr_status gr_trainer_restore(gr_trainer *t)
{
    gr_step_stats stats;
    const char *judge;

    if (!t->resumed)
        return GR_OK;
    GR_TRY(
        gr_wrap(check_number(t->resumed, KEY_SAMPLES, t->size[GR_SPLIT_TRAIN], "training samples"),
                "resume"));
    GR_TRY(gr_step_restore(t->step, t->resumed));
    judge = gr_snapshot_get(t->resumed, KEY_JUDGE);
    if (judge)
        GR_TRY(gr_wrap(gr_judge_parse(&t->judge, judge), "resume"));
    gr_snapshot_destroy(t->resumed);
    t->resumed = NULL;
    GR_TRY(gr_step_get_stats(t->step, &stats));
    t->at = stats.n_steps;
    t->saved_at = t->at;
    return GR_OK;
}
