/*
 * From a checkpoint back to a run. Rank 0 alone reads files: the others get the texts, which
 * hold settings and place, and then the state itself, through the group. So no file system
 * need be shared.
 *
 * With the same ranks and settings the run goes on to the same bits. With other ranks the
 * samples already used carry over: ranks take an epoch's order in turn (0, 1, 2, 0, ...), so
 * what k steps have used is a beginning of that order, whatever the number of ranks. The
 * steps of the run count on, but its place is counted anew: t->shift is their difference.
 *
 * Batches of samples of like length (sampler bucketed) are cut for the number of ranks, so with
 * other ranks the samples already used are no beginning of the epoch's order: it goes on at the
 * same share of its steps, and says so.
 */
#include "train/checkpoint.h"

#include "base/alloc.h"
#include "base/log.h"
#include "ckpt/safetensors.h"
#include "gradus/ckpt.h"
#include "train/rate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1e15 /* steps and samples that a file may tell of: sums of them stay in range */

/* ---- reading, on rank 0 ---- */

static bool is_wrapped(const gr_snapshot *snap)
{
    for (int i = 0; i < gr_snapshot_count(snap); i++)
        if (strncmp(gr_snapshot_at(snap, i)->name, "module.", 7) == 0)
            return true;
    return false;
}

/* What a wrapper put before each name goes (P40). */
static gr_status unwrap(gr_snapshot **snap)
{
    gr_snapshot *plain;

    if (!is_wrapped(*snap))
        return GR_OK;
    GR_TRY(gr_ckpt_strip(*snap, "", &plain));
    gr_snapshot_destroy(*snap);
    *snap = plain;
    return GR_OK;
}

static gr_status read_source(gr_trainer *t, gr_snapshot **out)
{
    char *path = NULL, *note = NULL;
    gr_status st;

    if (!t->source.folder) {
        t->resumed_from = t->source.file;
        return gr_ckpt_read(t->source.file, out);
    }
    st = gr_ckpt_find(t->source.folder, t->source.pick, out, &path, &note);
    if (note)
        gr_log(TRAIN, WARN, "%s", note);
    if (st == GR_OK) {
        t->resumed_from = gr_arena_strdup(t->arena, path);
        st = t->resumed_from ? GR_OK : GR_ERR_NOMEM;
    }
    free(note);
    free(path);
    return st;
}

/* Whether it lies in a run of this user's. */
static gr_status is_own(const gr_trainer *t, bool *out)
{
    const char *run = NULL, *file = t->source.file;

    if (t->source.folder)
        file = gr_arena_printf(t->arena, "%s/x", t->source.folder);
    if (!file)
        return GR_ERR_NOMEM;
    GR_TRY(gr_run_of_file(t->arena, file, &run));
    *out = run && gr_run_is_own(run);
    return GR_OK;
}

static gr_status read_checkpoint(gr_trainer *t)
{
    bool own = false;

    if (!t->source.folder && !t->source.file)
        return GR_OK; /* the run begins anew */
    GR_TRY(read_source(t, &t->resumed));
    GR_TRY(unwrap(&t->resumed));
    GR_TRY(is_own(t, &own));
    /* Whatever the file says of that. */
    return gr_snapshot_set(t->resumed, GR_KEY_IS_OWN, own ? "yes" : "no");
}

/* ---- sharing ---- */

static void append(void *text, const void *src, size_t n_bytes)
{
    gr_text_addn(text, src, n_bytes);
}

static gr_status texts_to_bytes(const gr_snapshot *snap, gr_text *bytes)
{
    gr_snapshot *texts;
    gr_status st;

    GR_TRY(gr_snapshot_create(&texts));
    for (int i = 0; i < gr_snapshot_n_texts(snap); i++) {
        const char *key, *text;

        gr_snapshot_text_at(snap, i, &key, &text);
        if (gr_st_key_is_reserved(key))
            continue; /* a file of another program may use it */
        GR_TRY_GOTO(st, gr_snapshot_set(texts, key, text), done);
    }
    GR_TRY_GOTO(st, gr_trainer_copy_state_tensors(snap, texts), done);
    GR_TRY_GOTO(st, gr_safetensors_format(texts, append, bytes), done);
    st = gr_text_status(bytes);

done:
    gr_snapshot_destroy(texts);
    return st;
}

/* The texts of rank 0's checkpoint, and the recipe's state, become t->resumed on the others. */
static gr_status share_texts(gr_trainer *t)
{
    gr_text bytes = GR_TEXT_INIT;
    size_t *n_bytes = gr_calloc((size_t)t->n_ranks, sizeof(*n_bytes));
    char **all = NULL;
    gr_status st = n_bytes ? GR_OK : GR_ERR_NOMEM;

    if (st == GR_OK && t->resumed)
        st = texts_to_bytes(t->resumed, &bytes);
    if (st != GR_OK)
        goto done;
    GR_TRY_GOTO(st, gr_pg_gather_bytes(t->pg, gr_text_str(&bytes), bytes.len, &all, n_bytes), done);
    if (!gr_trainer_writes(t) && n_bytes[0] > 0)
        st = gr_safetensors_parse(all[0], n_bytes[0], &t->resumed);

done:
    free(all);
    gr_free(n_bytes);
    gr_text_fini(&bytes);
    return st;
}

/* ---- settings ---- */

static gr_status get_number(const gr_snapshot *snap, const char *key, int64_t *out)
{
    const char *text = gr_snapshot_get(snap, key);
    char *end;

    if (!text)
        return gr_fail(GR_ERR_FORMAT, "the checkpoint has no entry '%s'", key);
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *out < 0 || (double)*out > MOST)
        return gr_fail(GR_ERR_FORMAT, "entry '%s' of the checkpoint is '%.40s'", key, text);
    return GR_OK;
}

bool gr_trainer_has_weights_only(const gr_trainer *t)
{
    return t->resumed && !gr_snapshot_get(t->resumed, GR_KEY_PART);
}

/* A checkpoint may lack frozen weights: they must be drawn as the run drew them, whatever
 * seed the data of a test has. */
gr_status gr_trainer_seed(const gr_trainer *t, uint64_t *out)
{
    int64_t seed = t->o.seed;

    if (t->resumed && gr_snapshot_get(t->resumed, GR_KEY_SEED))
        GR_TRY(get_number(t->resumed, GR_KEY_SEED, &seed));
    *out = (uint64_t)seed;
    return GR_OK;
}

/* Settings come from the checkpoint where the command does not say otherwise. */
gr_status gr_trainer_take_settings(gr_trainer *t)
{
    const char *recipe = gr_snapshot_get(t->resumed, GR_KEY_RECIPE);
    const char *config = gr_snapshot_get(t->resumed, GR_KEY_CONFIG);
    const char *own = gr_snapshot_get(t->resumed, GR_KEY_IS_OWN);
    const char *found = gr_snapshot_get(t->resumed, GR_KEY_FOUND);
    bool trains = t->task == GR_TASK_TRAIN;
    gr_saved saved;

    if (trains && gr_trainer_has_weights_only(t))
        return gr_fail(GR_ERR_FORMAT,
                       "these are weights only, without the state of a run of this program (no "
                       "entry '%s'); use --pretrained to begin a run with them",
                       GR_KEY_PART);
    if (!trains && gr_trainer_has_weights_only(t) && !config)
        return GR_OK; /* from elsewhere: the command alone says what the model is */
    if (!recipe || !config)
        return gr_fail(GR_ERR_FORMAT,
                       "the checkpoint is no run of this program: it has no entry '%s'; to begin "
                       "with its weights, give it as --pretrained",
                       GR_KEY_CONFIG);
    if (strcmp(recipe, t->recipe->name) != 0)
        return gr_fail(GR_ERR_ARG, "the run is of recipe '%s', not '%s'", recipe, t->recipe->name);
    saved =
        (gr_saved){ .lines = config, .is_own = own && strcmp(own, "yes") == 0, .trains = trains };
    GR_TRY(gr_train_options_resume(&t->o, t->recipe, &saved, t->argc, t->argv));
    if (gr_trainer_writes(t))
        gr_train_options_say_ignored(&t->o, false);
    if (found)
        gr_train_options_mark_found(&t->o, found);
    return GR_OK;
}

gr_status gr_trainer_read(gr_trainer *t)
{
    if (gr_trainer_writes(t))
        GR_TRY(read_checkpoint(t));
    return share_texts(t);
}

gr_status gr_trainer_load(gr_trainer *t)
{
    gr_status st = gr_trainer_read(t);

    if (st == GR_OK && t->resumed) {
        st = gr_trainer_take_settings(t);
        t->told_all = st != GR_OK; /* every rank reads the same texts */
        if (t->task != GR_TASK_TRAIN)
            st = gr_wrap(st, "checkpoint");
    }
    /* Nothing is resumed by a test, and a file that cannot be read is named as it is. */
    return t->task == GR_TASK_TRAIN ? gr_wrap(st, "resume") : st;
}

/* ---- the place ---- */

typedef struct place {
    int64_t at, place, epoch, in_epoch;     /* as saved */
    int64_t steps, batch, n_ranks, samples; /* of the run that saved it */
} place;

static gr_status read_place(const gr_snapshot *s, place *p)
{
    GR_TRY(get_number(s, GR_KEY_AT, &p->at));
    GR_TRY(get_number(s, GR_KEY_PLACE, &p->place));
    GR_TRY(get_number(s, GR_KEY_EPOCH, &p->epoch));
    GR_TRY(get_number(s, GR_KEY_IN_EPOCH, &p->in_epoch));
    GR_TRY(get_number(s, GR_KEY_STEPS, &p->steps));
    GR_TRY(get_number(s, GR_KEY_BATCH, &p->batch));
    GR_TRY(get_number(s, GR_KEY_RANKS, &p->n_ranks));
    return get_number(s, GR_KEY_SAMPLES, &p->samples);
}

/* Whole steps of this run in the samples that the other had used; the rest comes again. */
static int64_t steps_in(const gr_trainer *t, const place *p)
{
    int64_t steps = p->in_epoch / gr_rate_effective(&t->o, t->n_ranks);

    if (t->o.sampler == GR_ORDER_BUCKETED)
        steps = gr_trainer_share(p->place % p->steps, t->steps_per_epoch, p->steps);
    return steps < t->steps_per_epoch ? steps : t->steps_per_epoch;
}

static void note_changes(gr_trainer *t, const place *p)
{
    int64_t batch = gr_rate_effective(&t->o, t->n_ranks), n = steps_in(t, p);
    int64_t n_again = p->in_epoch - n * batch;

    if (p->n_ranks != t->n_ranks)
        gr_trainer_note(t, "  Resumed with %d rank%s; the run had %" PRId64 " before", t->n_ranks,
                        gr_plural(t->n_ranks), p->n_ranks);
    if (p->batch != batch)
        gr_trainer_note(t, "  A step takes %" PRId64 " sample%s; it was %" PRId64 " before", batch,
                        gr_plural(batch), p->batch);
    if (p->steps != t->steps_per_epoch)
        gr_trainer_note(t, "  An epoch has %" PRId64 " step%s; it had %" PRId64 " before",
                        t->steps_per_epoch, gr_plural(t->steps_per_epoch), p->steps);
    if (p->in_epoch > 0 && t->o.sampler == GR_ORDER_BUCKETED)
        gr_trainer_note(t,
                        "  Epoch %" PRId64 " goes on after its step %" PRId64 " of %" PRId64
                        ", in batches that are cut for these ranks: some samples come again, and "
                        "as many are left out of this epoch",
                        p->epoch + 1, n, t->steps_per_epoch);
    else if (p->in_epoch > 0)
        gr_trainer_note(t,
                        "  %" PRId64 " %s of epoch %" PRId64 " %s used before: it goes on "
                        "after its step %" PRId64 ", and %" PRId64 " %s again",
                        p->in_epoch, p->in_epoch == 1 ? "sample" : "samples", p->epoch + 1,
                        p->in_epoch == 1 ? "was" : "were", n, n_again,
                        n_again == 1 ? "sample comes" : "samples come");
}

static gr_status take_place(gr_trainer *t)
{
    int64_t batch = gr_rate_effective(&t->o, t->n_ranks), place_now;
    place p = { 0 };
    bool is_same;

    GR_TRY(read_place(t->resumed, &p));
    if (p.samples != t->size[GR_SPLIT_TRAIN])
        return gr_fail(GR_ERR_ARG,
                       "the run began with %" PRId64 " training samples and goes on with %" PRId64
                       "; steps would take other samples",
                       p.samples, t->size[GR_SPLIT_TRAIN]);
    is_same = p.steps == t->steps_per_epoch && p.batch == batch &&
              (t->o.sampler != GR_ORDER_BUCKETED || p.n_ranks == t->n_ranks);
    if (p.steps < 1)
        return gr_fail(GR_ERR_FORMAT, "the checkpoint is of an epoch of %" PRId64 " steps",
                       p.steps);
    if (p.epoch > (int64_t)MOST / t->steps_per_epoch)
        return gr_fail(GR_ERR_FORMAT, "the checkpoint is of epoch %" PRId64, p.epoch);
    place_now = is_same ? p.place : p.epoch * t->steps_per_epoch + steps_in(t, &p);
    if (!is_same || p.n_ranks != t->n_ranks)
        note_changes(t, &p);
    t->at = p.at;
    t->shift = p.at - place_now;
    return GR_OK;
}

static void note_device(gr_trainer *t)
{
    const char *was = gr_snapshot_get(t->resumed, GR_KEY_DEVICE);

    if (was && strcmp(was, t->device_name) != 0)
        gr_trainer_note(t, "  Resumed on %s; the run was on %s before", t->device_name, was);
}

static gr_status take_texts(gr_trainer *t)
{
    const char *judge = gr_snapshot_get(t->resumed, GR_KEY_JUDGE);
    const char *wandb = gr_snapshot_get(t->resumed, GR_KEY_WANDB);
    const char *owes = gr_snapshot_get(t->resumed, GR_KEY_OWES); /* older ones have none */

    GR_TRY(take_place(t));
    t->owes_eval = owes && strcmp(owes, GR_OWES_EVAL) == 0;
    if (wandb && gr_trainer_writes(t) && t->goes_on) {
        t->wandb_id = gr_arena_strdup(t->arena, wandb);
        if (!t->wandb_id)
            return GR_ERR_NOMEM;
    }
    note_device(t);
    GR_TRY(gr_trainer_restore_mean(t));
    if (judge)
        GR_TRY(gr_judge_parse(&t->judge, judge));
    return gr_trainer_resume_schedule(t);
}

gr_status gr_trainer_restore_state(gr_trainer *t)
{
    gr_status st = GR_OK;

    if (gr_trainer_writes(t) || t->o.zero > 0)
        st = gr_step_restore(t->step, t->resumed); /* of state cut up, each rank takes its part */
    if (st == GR_OK)
        st = gr_step_broadcast(t->step, 0);
    gr_snapshot_destroy(t->resumed);
    t->resumed = NULL;
    return st;
}

gr_status gr_trainer_restore(gr_trainer *t)
{
    gr_status st;

    if (!t->resumed)
        return GR_OK;
    st = take_texts(t);
    t->told_all = st != GR_OK;
    if (st == GR_OK)
        st = gr_trainer_restore_state(t);
    GR_TRY(gr_wrap(st, "resume"));
    gr_trainer_set_end(t);
    t->saved_at = t->goes_on ? t->at : -1;
    return GR_OK;
}
