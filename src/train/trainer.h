/*
 * A trainer from the inside: one per rank, one thread.
 *
 * (1) `at` counts finished steps and is the whole position of a run: epoch, place in the
 *     epoch's order and learning rate follow from gr_trainer_place() of it, so that resuming
 *     needs nothing else.
 * (2) Every rank takes the same steps and the same decisions. What only rank 0 does
 *     (folders, files, text) comes between collectives, never around one.
 */
#ifndef GR_TRAIN_TRAINER_H
#define GR_TRAIN_TRAINER_H

#include "base/arena.h"
#include "gradus/ckpt.h"
#include "gradus/comm.h"
#include "gradus/inspect.h"
#include "gradus/schedule.h"
#include "gradus/step.h"
#include "track/progress.h"
#include "track/track.h"
#include "train/feed.h"
#include "train/judge.h"
#include "train/mean.h"
#include "train/options.h"
#include "train/pace.h"
#include "train/parts.h"
#include "train/reschedule.h"
#include "train/results.h"
#include "train/runner.h"
#include "train/scores.h"
#include "train/train.h"

/* Memory of evaluations: what the model made of a batch, and sums. */
typedef struct gr_eval_memory {
    void **outputs;
    const void **feeds; /* of the batch that is scored */
    gr_parts parts;
    double *counts; /* view.n_counts; behind them losses and samples */
} gr_eval_memory;

/* Where a run begins: from the checkpoint of a folder or file, or anew (both NULL). */
typedef struct gr_source {
    const char *folder; /* of checkpoints */
    gr_ckpt_pick pick;  /* which of them */
    const char *file;
} gr_source;

/* Losses that are not finite (finite.c). */
typedef struct gr_loss_watch {
    int32_t code; /* of this rank's latest step: 0 finite, else greater the lower the rank */
    int64_t seen_at, seen_before; /* steps that were looked at: the latest, the one before */
    int64_t bad_at, n_bad, n_in_row;
} gr_loss_watch;

typedef struct gr_trainer {
    const gr_command *command;
    gr_task task;
    gr_arena *arena; /* texts */
    int argc;        /* the words of the command without the recipe's name */
    char **argv;
    gr_train_options o;
    gr_pg *pg;
    int rank, n_ranks;
    bool told_all; /* a failure that every rank has alike: no need to break the group */

    const gr_recipe *recipe;
    void *user;          /* the recipe's */
    gr_snapshot *kept;   /* what checkpoints keep of it; NULL: nothing */
    gr_recipe_view view; /* of the recipe */
    gr_named *shapes;    /* of its feeds, for who plans; n_feeds, without memory */
    int64_t size[GR_N_SPLITS];
    gr_sizes *sizes[GR_N_SPLITS]; /* made when they are needed; NULL: samples of one size */
    gr_feed feeds[GR_N_SPLITS];   /* opened when they are needed */
    int n_workers, n_cores;       /* loader threads of this rank; its share of the cores */
    int64_t n_mine, n_batches;    /* of an epoch: samples and batches of this rank */
    gr_eval_memory eval;

    gr_runner *runner; /* of the recipe's own procedures; over the step */
    gr_step *step;
    gr_amp amp; /* of the step: never GR_AMP_AUTO */
    gr_schedule schedule;
    int64_t lr_from;                  /* the place in the run that the schedule counts from */
    int64_t n_micro;                  /* micro-steps of an epoch that are used */
    int64_t steps_per_epoch, n_steps; /* of the run */
    int64_t end; /* the step to stop at: the run's last, or max_steps if that is less */
    int64_t at;
    int64_t shift;     /* at, less the place in the run: not 0 after a resume with other ranks */
    int64_t n_samples; /* trained on since the start, of all ranks */

    const char *folder; /* of the run */
    int lock;           /* rank 0: descriptor of the folder's lock; -1: none */
    bool is_trial;      /* the folder's name is invented, and nothing of a run is there yet */
    size_t checkpoint_bytes;
    bool goes_on;             /* the folder's own run is resumed, not a new one begun */
    gr_source source;         /* rank 0 */
    const char *resumed_from; /* rank 0: the file */
    gr_snapshot *resumed;     /* until it is restored; its texts only on ranks other than 0 */
    const char *device_name;
    bool is_quiet;          /* log_level error: nothing for people but errors */
    gr_text notes;          /* rank 0: lines for the banner */
    gr_ckpt_writer *writer; /* rank 0 */
    int64_t saved_at;       /* step of the newest checkpoint; -1: none */
    gr_track *track;        /* rank 0 */
    const char *wandb_id;   /* of the run; NULL or "": none */
    gr_progress progress;   /* rank 0 */
    gr_pace pace;
    bool advised;     /* what the first epoch taught was said */
    int64_t data_ns;  /* spent waiting for training samples */
    gr_scores scores; /* of the latest evaluation; owns its values */
    bool has_scores;
    bool told_pictures;    /* that they cannot be written */
    gr_judge judge;        /* of the evaluations */
    bool gives_up;         /* early stopping: the run ends with the latest evaluation */
    bool is_best;          /* the latest evaluation is the best so far */
    gr_step_stats stats;   /* rank 0: as of the latest record */
    double lr;             /* of the latest step */
    const char *stop_path; /* rank 0: a file here asks to stop; NULL: none */
    int64_t looked_at_ns;  /* rank 0: when it last looked for the file STOP */
    bool heeds_stops;      /* a request to stop ends a validation, too */
    int stopped_by;        /* what ended one before its end, on all ranks alike; 0: nothing */
    bool owes_eval;        /* the evaluation of step `at` was left, and comes first in a resume */
    int64_t largest_n;     /* the training batch that needs most memory: its samples, */
    int largest_k;         /* and which of the sizes it is padded to */
    size_t memory_total;   /* bytes that a training step needs on this rank */
    size_t memory_free;    /* of the device, for this rank */
    gr_check_report
        *check; /* debugging: steps are checked, and this says what was found; or NULL */
    gr_loss_watch watch;
    bool watches;    /* a run that is saved: its steps keep records where the host is late */
    bool is_watched; /* they do: see finite.c */
    int wish;        /* what this rank's steps ask for since it was noticed; 0: nothing */
    int asked;       /* the first request to stop in a record, on all ranks alike; 0: none */
    gr_epoch_mean mean;
    double loss;    /* mean over the ranks, as of the first step or the latest record; NaN before */
    gr_parts parts; /* what it was made of in that step */
} gr_trainer;

static inline bool gr_trainer_writes(const gr_trainer *t)
{
    return t->rank == 0;
}

/* Steps since the run's first sample, as the ranks of now count them. */
static inline int64_t gr_trainer_place(const gr_trainer *t, int64_t step)
{
    return step - t->shift;
}

/* x * n / of, rounded down: what `x of ...` is in a unit of which there are n. */
static inline int64_t gr_trainer_share(int64_t x, int64_t n, int64_t of)
{
    return (int64_t)((double)x * (double)n / (double)of);
}

/* A line of text for people, on rank 0, for the end of the banner. */
void gr_trainer_note(gr_trainer *t, const char *fmt, ...) GR_PRINTF(2, 3);
/* A line of text for people, on rank 0. */
void gr_trainer_say(gr_trainer *t, const char *fmt, ...) GR_PRINTF(2, 3);

/* setup.c: recipe, settings, group: what every task begins with. Collective, and ended with
 * gr_trainer_close() or gr_trainer_end(), after a failure too. */
gr_status gr_trainer_begin(gr_trainer *t, const gr_command *c, gr_task task) GR_MUST_CHECK;
/* setup.c: everything up to the first step. */
gr_status gr_trainer_open(gr_trainer *t, const gr_command *c) GR_MUST_CHECK;
/* The same for steps that nobody keeps: there is no folder, and a run that is resumed is read
 * only. */
gr_status gr_trainer_open_unsaved(gr_trainer *t, const gr_command *c) GR_MUST_CHECK;
void gr_trainer_close(gr_trainer *t);
/* setup.c: the end of a task that came to `st`: tells the others, closes, hands `st` on. */
gr_status gr_trainer_end(gr_trainer *t, gr_status st) GR_MUST_CHECK;

/* open_data.c */
gr_status gr_trainer_open_data(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_describe(gr_trainer *t) GR_MUST_CHECK; /* t->view, of t->user */
gr_eval_work gr_trainer_work(const gr_trainer *t, gr_split split);
/* Batches of a split, from the start of an epoch's batch on: opened when it is not. */
gr_status gr_trainer_open_feed(gr_trainer *t, gr_split split) GR_MUST_CHECK;
/* lengths.c: what batches of a split are padded to; NULL without axes. The order of its batches,
 * which the caller owns. All shapes of these. */
gr_status gr_trainer_sizes(gr_trainer *t, gr_split split, const gr_sizes **out) GR_MUST_CHECK;
void gr_trainer_close_sizes(gr_trainer *t);
gr_status gr_trainer_open_order(gr_trainer *t, gr_split split, gr_order_source **out) GR_MUST_CHECK;
gr_status gr_trainer_shapes(gr_trainer *t, gr_split split, gr_order_shape_fn *fn,
                            void *arg) GR_MUST_CHECK;
int64_t gr_trainer_batch_size(const gr_trainer *t, gr_split split);
void gr_trainer_set_end(gr_trainer *t); /* from n_steps, max_steps and shift */
/* open_step.c: collective. All of it, or part by part: the step; whether its memory is free;
 * plans for the shapes of a training run. */
gr_status gr_trainer_open_step(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_create_step(gr_trainer *t) GR_MUST_CHECK;
/* The recipe's prepare(): before memory is looked at. And for a task that does not train, once
 * there are plans: memory for what it has announced, and plans of that. */
gr_status gr_trainer_open_runner(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_plan_runs(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_check_free(gr_trainer *t) GR_MUST_CHECK; /* not collective */
/* gr_step_fit_batch(), from 2 on where a batch of one is refused: by a batch norm over one pixel.
 */
gr_status gr_trainer_fit_batch(gr_trainer *t, const gr_named *feeds, const gr_fit_config *fit,
                               int64_t *batch, size_t *n_bytes) GR_MUST_CHECK;
gr_status gr_trainer_plan(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_plan_split(gr_trainer *t, gr_split split) GR_MUST_CHECK;
/* A training plan of a small batch, for who only wants the state laid out. */
gr_status gr_trainer_plan_small(gr_trainer *t) GR_MUST_CHECK;
/* Feeds of the largest training batch in t->shapes, and what it needs; finds it when called first.
 * Its size in words, " padded to residues 128", or "". */
gr_status gr_trainer_largest(gr_trainer *t, gr_memory_report *r) GR_MUST_CHECK;
void gr_trainer_largest_text(const gr_trainer *t, gr_text *out);

/* folder.c: the run's folder, its lock, and room for checkpoints. */
gr_status gr_trainer_claim_folder(gr_trainer *t) GR_MUST_CHECK;
/* Only where a run that is resumed lies: t->source and t->goes_on. t->folder stays NULL. */
gr_status gr_trainer_find_run(gr_trainer *t) GR_MUST_CHECK;
void gr_trainer_release_folder(gr_trainer *t);
/* Of a start that was refused, while t->is_trial. */
void gr_trainer_remove_trial(gr_trainer *t);
void gr_trainer_open_log(gr_trainer *t);
/* Rank 0: files that a start left half when it was killed while it replaced them. */
void gr_trainer_remove_asides(gr_trainer *t);
gr_status gr_trainer_check_room(gr_trainer *t) GR_MUST_CHECK; /* for all that is kept */
/* For one more, when step saved_at (-1: none) is the newest on the disk. */
gr_status gr_trainer_check_save(gr_trainer *t, int64_t saved_at) GR_MUST_CHECK;

/* checkpoint.c: all collective, but for open and close. A save is under way when the call
 * returns; finish_saves waits for it, and one of the calls after it tells its failure. */
gr_status gr_trainer_open_writer(gr_trainer *t) GR_MUST_CHECK;
void gr_trainer_close_writer(gr_trainer *t);
bool gr_trainer_saves_at(const gr_trainer *t, int64_t step);
gr_status gr_trainer_save(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_finish_saves(gr_trainer *t) GR_MUST_CHECK;

/* resume.c: collective. Load reads t->source, if there is one, into t->resumed, and takes its
 * settings; restore puts it into the step, and the run to its place; restore_state only the
 * first. */
gr_status gr_trainer_restore_state(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_load(gr_trainer *t) GR_MUST_CHECK;
/* The two halves of it: t->resumed from t->source, and t->o from that. */
gr_status gr_trainer_read(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_take_settings(gr_trainer *t) GR_MUST_CHECK;
/* task.c: t->source is what a path names: a file, a run, a folder of checkpoints. And what was
 * read of it, whole or in part, into the step. */
gr_status gr_trainer_choose_model(gr_trainer *t, const char *path) GR_MUST_CHECK;
gr_status gr_trainer_restore_model(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_restore(gr_trainer *t) GR_MUST_CHECK;
/* resume.c: of weights that are drawn: that of t->resumed, where there is one. */
gr_status gr_trainer_seed(const gr_trainer *t, uint64_t *out) GR_MUST_CHECK;
/* resume.c: t->resumed is a model alone, without the state of training. */
bool gr_trainer_has_weights_only(const gr_trainer *t);
/* back.c, rank 0: a run that goes on from below its newest step keeps the best model of a higher
 * one under another name, and says so. */
gr_status gr_trainer_go_back(gr_trainer *t) GR_MUST_CHECK;
/* pretrained.c: collective. The second takes t->resumed, a model alone, which must be whole. */
gr_status gr_trainer_take_pretrained(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_take_weights(gr_trainer *t) GR_MUST_CHECK;

/* tracking.c: rank 0. Nothing here fails a run but want of memory at the open. */
gr_status gr_trainer_open_track(gr_trainer *t) GR_MUST_CHECK;
void gr_trainer_close_track(gr_trainer *t, int exit_code);
/* show.c: rank 0, between steps. Settings and model; parameters as `snap` has them; pictures of
 * the last batch that was trained on. */
void gr_trainer_show_texts(gr_trainer *t);
void gr_trainer_show_params(gr_trainer *t, const gr_snapshot *snap);
void gr_trainer_show_inputs(gr_trainer *t);
/* summary.c: rank 0; model_summary.txt in the run's folder. */
gr_status gr_trainer_write_summary(gr_trainer *t) GR_MUST_CHECK;

/* ignored.c: a note for each setting that was given and acts on nothing. After the step is open. */
void gr_trainer_note_ignored(gr_trainer *t);

/* banner.c: "1.5 GiB" */
#define GR_BYTES_TEXT 32
const char *gr_bytes_text(size_t n_bytes, char text[GR_BYTES_TEXT]);
gr_status gr_trainer_banner(gr_trainer *t) GR_MUST_CHECK;
void gr_trainer_resume_command(const gr_trainer *t, int64_t epochs, gr_text *out); /* 0: as now */

/* evaluate.c */
gr_status gr_trainer_open_eval(gr_trainer *t) GR_MUST_CHECK;
void gr_trainer_close_eval(gr_trainer *t);
/* Collective. With t->stopped_by it was left, and *out is as before. */
gr_status gr_trainer_evaluate(gr_trainer *t, gr_split split, gr_scores *out) GR_MUST_CHECK;
/* This rank's share of a split, to the recipe's predict(). Collective: *n_samples of all ranks. */
gr_status gr_trainer_predict_split(gr_trainer *t, gr_split split, gr_results *out,
                                   int64_t *n_samples) GR_MUST_CHECK;
/* "accuracy 98.20%, validation loss 0.05": at most the first few metrics. */
void gr_scores_text(const gr_trainer *t, const gr_scores *s, gr_text *out);
/* Samples of a split of n that this rank evaluates: rank, rank + n_ranks, ... */
int64_t gr_eval_count(int64_t n, int rank, int n_ranks);

/* skips.c: with on_bad_sample: skip, how many samples of a split did not load, on all ranks, told
 * when there are more than at the last call; the totals of all splits, at the end of a task. Both
 * collective. */
gr_status gr_trainer_count_skips(gr_trainer *t, gr_split split) GR_MUST_CHECK;
gr_status gr_trainer_sum_up_skips(gr_trainer *t) GR_MUST_CHECK;

/* prepare.c: what the recipe builds before its data are opened. Collective. GR_ERR_STOPPED: a
 * signal came, and t->stopped_by is its number. */
gr_status gr_trainer_prepare(gr_trainer *t, const gr_recipe_config *config) GR_MUST_CHECK;
/* state.c: what t->resumed has of the recipe's state; NULL: nothing. Caller owns *out. */
gr_status gr_trainer_find_state(const gr_trainer *t, gr_snapshot **out) GR_MUST_CHECK;
/* state.c: t->kept from the recipe, equal on all ranks; collective. And to a checkpoint. */
gr_status gr_trainer_keep_state(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_add_state(const gr_trainer *t, gr_snapshot *into) GR_MUST_CHECK;
/* state.c: the tensors among them, for the other ranks; texts are shared with all others. */
gr_status gr_trainer_copy_state_tensors(const gr_snapshot *from, gr_snapshot *to) GR_MUST_CHECK;

/* survey.c: all samples of all splits looked at, broken ones named; collective. GR_ERR_FORMAT on
 * every rank alike when there are some that the run would not skip. */
gr_status gr_trainer_survey(gr_trainer *t) GR_MUST_CHECK;

/* finite.c: whether every step looks at its loss, which costs nothing on a CPU; the loss of step
 * t->at on this rank; the greatest watch.code of all ranks, which is not 0: on every rank alike
 * GR_ERR_ARG, or GR_OK where the step had no effect and the run may go on. */
bool gr_trainer_sees_losses(const gr_trainer *t);
void gr_trainer_see_loss(gr_trainer *t, double loss);
gr_status gr_trainer_judge_loss(gr_trainer *t, int32_t code) GR_MUST_CHECK;
/* finite.c: lets steps keep records, if they are to and the device is late; before the first plan.
 * Takes records of two steps ago and before, or with `drain` of all steps so far: t->asked, and
 * on every rank alike GR_ERR_ARG where a step ends the run. */
gr_status gr_trainer_watch(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_take_verdicts(gr_trainer *t, bool drain) GR_MUST_CHECK;

/* mean.c, around a step: its epoch; after a micro-step that has a loss: it is read and added to
 * *loss, or (NULL) only counted, without waiting. */
void gr_trainer_begin_mean(gr_trainer *t, int64_t epoch);
gr_status gr_trainer_take_loss(gr_trainer *t, double *loss) GR_MUST_CHECK;
void gr_trainer_close_mean(gr_trainer *t);
/* mean.c: the epoch's mean up to step t->at, in t->mean.value; collective. Nothing is done for a
 * step that has it. */
gr_status gr_trainer_share_mean(gr_trainer *t) GR_MUST_CHECK;
gr_status gr_trainer_restore_mean(gr_trainer *t) GR_MUST_CHECK; /* from t->resumed; t->at is set */
bool gr_trainer_ends_epoch(const gr_trainer *t, int64_t step);
/* mean.c, rank 0: to a record of this step, if it is known; the line of an epoch without an
 * evaluation, and a record of its own if there is none; the last words. */
void gr_trainer_add_mean(const gr_trainer *t, gr_track_record *r);
void gr_trainer_tell_epoch(gr_trainer *t, bool is_recorded);
void gr_trainer_say_best_and_last(gr_trainer *t);

/* reschedule.c: the schedule that a resumed run goes on with, from t->resumed; t->at is set. And
 * what a checkpoint keeps of it. */
gr_status gr_trainer_resume_schedule(gr_trainer *t) GR_MUST_CHECK;
gr_schedule_span gr_trainer_schedule_span(const gr_trainer *t);

/* loop.c: the learning rate of a step, with what a plateau made of it. */
double gr_trainer_lr(const gr_trainer *t, int64_t step);
/* loop.c: samples from step t->at on; before the first gr_trainer_step(). */
gr_status gr_trainer_seek(gr_trainer *t) GR_MUST_CHECK;
/* loop.c: one step, collective; t->loss is new when want_loss. A checked one that finds
 * something is a failure, on every rank. */
gr_status gr_trainer_step(gr_trainer *t, bool want_loss) GR_MUST_CHECK;
/* loop.c: whether a signal came on any rank, or the file STOP; collective. Fails when a rank's
 * latest loss was not finite and the run must end. */
#define GR_STOP_FILE 1000 /* instead of a signal's number */
gr_status gr_trainer_agree_to_stop(gr_trainer *t, int *signal) GR_MUST_CHECK;
/* loop.c: the same without a look at losses; *most becomes the greatest of the ranks'. */
gr_status gr_trainer_agree_on_signal(gr_trainer *t, int *signal, int64_t *most) GR_MUST_CHECK;
/* actions.c: what the recipe does after step t->at. Collective. */
gr_status gr_trainer_act(gr_trainer *t) GR_MUST_CHECK;
/* loop.c: collective. *signal as gr_train() says. */
gr_status gr_trainer_run(gr_trainer *t, int *signal) GR_MUST_CHECK;

#endif
