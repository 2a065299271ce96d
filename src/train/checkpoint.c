/*
 * A run's state, to a checkpoint. Rank 0 copies the state between two steps into memory that
 * it keeps for this; a thread writes it while training goes on (src/ckpt/writer.c).
 *
 * What a checkpoint holds beside the step's own state (parameters, optimiser, averages, loss
 * scale, counter and seed of everything random) is text: the recipe and all settings; the
 * place in the run; what the judge of evaluations remembers; where it was made.
 */
#include "train/checkpoint.h"

#include "base/clock.h"
#include "base/log.h"
#include "gradus/ckpt.h"
#include "train/rate.h"

#include <inttypes.h>
#include <stdlib.h>

#define POLL_MS      200
#define RECORDS_MS   30000      /* much less than the writer waits for the disk */
#define LONG_WAIT_NS 1000000000 /* a wait that is worth a line */

/* ---- waiting, together ---- */

/*
 * Until the disk has what was saved before. The ranks hear from rank 0 meanwhile, several
 * times a second: a slow disk is no silent rank (P6).
 */
static gr_status wait_together(gr_trainer *t)
{
    enum { BUSY, IDLE, FAILED };
    int64_t began = gr_now_ns();
    int32_t state = BUSY;
    gr_error error = { 0 };

    while (state == BUSY) {
        if (gr_trainer_writes(t)) {
            bool idle = false;
            gr_status st = gr_ckpt_writer_poll(t->writer, POLL_MS, &idle);

            gr_error_take(&error, st);
            state = st != GR_OK ? FAILED : idle ? IDLE : BUSY;
        }
        GR_TRY(gr_pg_broadcast(t->pg, (gr_vec){ &state, 1, GR_I32 }, 0));
    }
    if (gr_now_ns() - began > LONG_WAIT_NS)
        gr_log(TRAIN, INFO,
               "waited %.1f s for a checkpoint to be written; if that is often, save less often",
               (double)(gr_now_ns() - began) * 1e-9);
    if (state != FAILED || !gr_trainer_writes(t))
        return GR_OK; /* the other ranks learn of it when rank 0 leaves */
    return gr_wrap(gr_error_raise(&error), "saving a checkpoint");
}

gr_status gr_trainer_finish_saves(gr_trainer *t)
{
    return wait_together(t);
}

/* ---- what is saved ---- */

static gr_status set_number(gr_snapshot *snap, const char *key, int64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, value);
    return gr_snapshot_set(snap, key, text);
}

static gr_status set_text(gr_snapshot *snap, const char *key, gr_text *text)
{
    gr_status st = gr_text_status(text);

    if (st == GR_OK)
        st = gr_snapshot_set(snap, key, gr_text_str(text));
    gr_text_fini(text);
    return st;
}

/* The place in the run: in steps, and in samples for a run that goes on with other ranks. */
static gr_status describe_place(const gr_trainer *t, gr_snapshot *snap)
{
    int64_t place = gr_trainer_place(t, t->at), epoch = place / t->steps_per_epoch;
    int64_t samples = place % t->steps_per_epoch * gr_rate_effective(&t->o, t->n_ranks);

    if (t->o.sampler == GR_ORDER_BUCKETED) /* batches differ in size: about */
        samples = gr_trainer_share(place % t->steps_per_epoch, t->size[GR_SPLIT_TRAIN],
                                   t->steps_per_epoch);

    GR_TRY(set_number(snap, GR_KEY_AT, t->at));
    GR_TRY(set_number(snap, GR_KEY_PLACE, place));
    GR_TRY(set_number(snap, GR_KEY_EPOCH, epoch));
    GR_TRY(set_number(snap, GR_KEY_IN_EPOCH, samples));
    GR_TRY(set_number(snap, GR_KEY_STEPS, t->steps_per_epoch));
    GR_TRY(set_number(snap, GR_KEY_BATCH, gr_rate_effective(&t->o, t->n_ranks)));
    return set_number(snap, GR_KEY_SAMPLES, t->size[GR_SPLIT_TRAIN]);
}

static gr_status describe_kernels(const gr_trainer *t, gr_snapshot *snap)
{
    char *choices;
    gr_status st;

    GR_TRY(gr_step_choices(t->step, &choices));
    st = gr_snapshot_set(snap, GR_KEY_KERNELS, choices);
    free(choices);
    return st;
}

static gr_status describe(const gr_trainer *t, gr_snapshot *snap)
{
    gr_text config = GR_TEXT_INIT, found = GR_TEXT_INIT, judge = GR_TEXT_INIT;
    gr_text mean = GR_TEXT_INIT, schedule = GR_TEXT_INIT;
    gr_schedule_span span = gr_trainer_schedule_span(t);

    GR_TRY(gr_snapshot_set(snap, GR_KEY_RECIPE, t->recipe->name));
    GR_TRY(set_number(snap, GR_KEY_RANKS, t->n_ranks));
    GR_TRY(gr_snapshot_set(snap, GR_KEY_DEVICE, t->device_name));
    GR_TRY(describe_place(t, snap));
    GR_TRY(gr_snapshot_set(snap, GR_KEY_WANDB, t->wandb_id ? t->wandb_id : ""));
    GR_TRY(describe_kernels(t, snap));
    GR_TRY(gr_snapshot_set(snap, GR_KEY_OWES, t->owes_eval ? GR_OWES_EVAL : ""));
    gr_train_options_record(&t->o, GR_RECORD_SAVE, &config);
    GR_TRY(set_text(snap, GR_KEY_CONFIG, &config));
    gr_train_options_found(&t->o, &found);
    GR_TRY(set_text(snap, GR_KEY_FOUND, &found));
    gr_judge_print(&t->judge, &judge);
    GR_TRY(set_text(snap, GR_KEY_JUDGE, &judge));
    gr_mean_print(&t->mean, &mean);
    GR_TRY(set_text(snap, GR_KEY_MEAN, &mean));
    gr_schedule_print(&span, &schedule);
    return set_text(snap, GR_KEY_SCHEDULE, &schedule);
}

/* ---- saving ---- */

bool gr_trainer_saves_at(const gr_trainer *t, int64_t step)
{
    int64_t place = gr_trainer_place(t, step), every = t->o.save_epochs * t->steps_per_epoch;

    return step == t->end || (t->o.save_every > 0 && step % t->o.save_every == 0) ||
           (every > 0 && place % every == 0);
}

static gr_ckpt_as names_of(const gr_trainer *t)
{
    int64_t place = gr_trainer_place(t, t->at), every = t->o.save_epochs * t->steps_per_epoch;
    bool is_epoch = every > 0 && place % every == 0;
    bool is_step = t->o.save_every > 0 && t->at % t->o.save_every == 0;

    return (gr_ckpt_as){ .epoch = is_epoch ? place / t->steps_per_epoch : -1,
                         .step = is_step ? t->at : -1,
                         .best = t->is_best && t->o.save_best };
}

/* At the end of a run there may be no reason but that it ends. */
static bool is_wanted(const gr_trainer *t, const gr_ckpt_as *as)
{
    return t->o.save_last || as->epoch >= 0 || as->step >= 0 || as->best;
}

static gr_status fill(gr_trainer *t, bool shows)
{
    gr_save_part part = t->o.trainable_only ? GR_SAVE_TRAINABLE : GR_SAVE_ALL;
    gr_snapshot *snap;

    GR_TRY(gr_ckpt_writer_begin(t->writer, &snap));
    GR_TRY(gr_step_save_into(t->step, snap, part));
    GR_TRY(gr_trainer_add_state(t, snap));
    if (shows)
        gr_trainer_show_params(t, snap);
    return describe(t, snap);
}

/* State that is cut up between ranks is put together by all of them, for rank 0. */
static gr_status give_part(gr_trainer *t)
{
    gr_snapshot *snap;
    gr_status st;

    if (t->o.zero == 0)
        return GR_OK;
    GR_TRY(gr_snapshot_create(&snap));
    st = gr_step_save_into(t->step, snap, t->o.trainable_only ? GR_SAVE_TRAINABLE : GR_SAVE_ALL);
    gr_snapshot_destroy(snap);
    return st;
}

gr_status gr_trainer_save(gr_trainer *t)
{
    int64_t before = t->saved_at;
    gr_ckpt_as as = names_of(t);
    gr_status st;

    if ((t->saved_at == t->at && !t->is_best) || !is_wanted(t, &as))
        return GR_OK;
    GR_TRY(wait_together(t));
    GR_TRY(gr_trainer_share_mean(t));
    t->saved_at = t->at;
    t->is_best = false;
    if (!gr_trainer_writes(t))
        return give_part(t);
    st = gr_trainer_check_save(t, before);
    if (st == GR_OK) /* one that owes its evaluation is saved again after it, and shown then */
        st = fill(t, !t->owes_eval &&
                         (gr_trainer_place(t, t->at) % t->steps_per_epoch == 0 || t->at == t->end));
    if (st != GR_OK)
        return gr_wrap(st, "saving step %" PRId64, t->at);
    gr_track_end_step(t->track);
    gr_ckpt_writer_submit(t->writer, &as);
    return GR_OK;
}

/* On the writer's thread: the records of what a checkpoint holds are on the disk before it is. A
 * disk that does not take them is told, and costs no checkpoint. */
static void sync_records(void *track)
{
    if (!gr_track_sync(track, RECORDS_MS))
        gr_log(
            TRAIN, WARN,
            "the disk has not taken the records of a checkpoint for %d s; after a crash, some may "
            "be missing",
            RECORDS_MS / 1000);
}

/*
 * Before step 1. The first copy is made here and thrown away, so that the memory for
 * it is there, and no step of the run pays for new pages.
 */
gr_status gr_trainer_open_writer(gr_trainer *t)
{
    gr_ckpt_writer_config c = { .formats = gr_trainer_formats(t),
                                .keep = (int)t->o.keep,
                                .before = sync_records,
                                .arg = t->track };

    if (!gr_trainer_writes(t))
        return give_part(t);
    c.folder = gr_arena_printf(t->arena, "%s/" GR_CKPT_FOLDER, t->folder);
    if (!c.folder)
        return GR_ERR_NOMEM;
    GR_TRY(gr_ckpt_writer_open(&t->writer, &c));
    return gr_wrap(fill(t, false), "the memory for checkpoints");
}

void gr_trainer_close_writer(gr_trainer *t)
{
    /* A run that has ended well has waited before; another one has its own failure to tell. */
    if (gr_ckpt_writer_close(t->writer) != GR_OK)
        gr_log(TRAIN, WARN, "%s", gr_error_message());
    t->writer = NULL;
}
