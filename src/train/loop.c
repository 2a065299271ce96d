/*
 * The loop: steps, records, evaluations, checkpoints, and the end.
 *
 * After each step all ranks agree whether to stop; everything else that decides about
 * going on (a loss that is no number, the last step) is computed alike on every rank.
 *
 * On a GPU the steps themselves carry this, and the host reads it two steps later: it queues work
 * and waits for none that is recent. It catches up where it must know: for a record, at the end of
 * an epoch and of the run, and before anything is validated or saved.
 *
 * A stop in the middle of a validation leaves no scores: `last` notes that the validation is
 * owed, and a resume begins with it. So the judge sees what it would have seen, and the bits of the
 * run are those of an unbroken one.
 */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/nan.h"
#include "comm/pg.h"
#include "step/vote.h"
#include "train/stop.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS 500000000

static gr_pace_now now_of(const gr_trainer *t)
{
    return (gr_pace_now){ .ns = gr_now_ns(),
                          .data_ns = t->data_ns,
                          .exchange_ns = gr_pg_busy_ns(t->pg),
                          .n_samples = t->n_samples };
}

static void skip_time(gr_trainer *t)
{
    gr_pace_now now = now_of(t);

    gr_pace_mark(&t->pace, &now);
}

static int64_t epoch_of(const gr_trainer *t, int64_t step)
{
    return gr_trainer_place(t, step) / t->steps_per_epoch;
}

double gr_trainer_lr(const gr_trainer *t, int64_t step)
{
    return gr_schedule_lr(&t->schedule, gr_trainer_place(t, step) - t->lr_from) *
           gr_judge_lr_scale(&t->judge);
}

/* ---- what a step is followed by, and whether it is the last ---- */

static bool evaluates_at(const gr_trainer *t, int64_t step)
{
    if (t->size[GR_SPLIT_VALID] < 1)
        return false;
    if (step == t->end)
        return true;
    return t->o.val_interval.n > 0 && epoch_of(t, step - 1) + 1 >= t->o.val_start &&
           gr_trainer_place(t, step) %
                   (t->o.val_interval.n * (t->o.val_interval.epochs ? t->steps_per_epoch : 1)) ==
               0;
}

static bool records_at(const gr_trainer *t, int64_t step)
{
    return step % t->o.log_every == 0 || gr_trainer_saves_at(t, step) || evaluates_at(t, step);
}

/* Whether the host waits for all steps so far: whatever else it does then must know of them. */
static bool catches_up(const gr_trainer *t)
{
    return records_at(t, t->at) || gr_trainer_ends_epoch(t, t->at) || t->at == t->end;
}

/* A file STOP in the run's folder asks for an orderly end (WORKLOADS 4h). Rank 0 alone
 * looks, twice a second: the others need no such folder. */
static bool stop_file_is_there(gr_trainer *t)
{
    int64_t now_ns = gr_now_ns();

    if (!gr_trainer_writes(t) || !t->stop_path || now_ns - t->looked_at_ns < LOOK_NS)
        return false;
    t->looked_at_ns = now_ns;
    return access(t->stop_path, F_OK) == 0;
}

/* What this rank would stop for; 0: nothing. */
static int wanted_stop(gr_trainer *t)
{
    int signal = gr_stop_signal();

    return signal == 0 && stop_file_is_there(t) ? GR_STOP_FILE : signal;
}

/* Lets the next step carry this rank's request to the others. */
static void ask_to_stop(gr_trainer *t)
{
    int wish = wanted_stop(t);

    if (wish != 0 && t->wish == 0)
        gr_log(TRAIN, DEBUG, "step %" PRId64 " carries a request to stop", t->at + 1);
    if (t->wish == 0)
        t->wish = wish; /* a file that was seen once need not be looked for again */
    gr_step_ask_to_stop(t->step, t->wish);
}

/* ---- one step ---- */

static gr_status train(gr_trainer *t, double lr)
{
    const gr_named *feeds = t->feeds[GR_SPLIT_TRAIN].feeds;

    if (!t->check)
        return gr_step_train(t->step, feeds, t->view.n_feeds, lr);
    GR_TRY(gr_step_run_checked(t->step, feeds, t->view.n_feeds, lr, t->check));
    if (t->check->kind == GR_CHECK_CLEAN)
        return GR_OK;
    t->told_all = true;
    return gr_fail(GR_ERR_ARG, "a value of step %" PRId64 " is not finite", t->at + 1);
}

/* Micro-step `micro` of the epoch. */
static gr_status micro_step(gr_trainer *t, int64_t micro, double lr)
{
    const gr_loaded *b;

    GR_TRY(gr_feed_next(&t->feeds[GR_SPLIT_TRAIN], &b));
    GR_BUG_IF(!b || b->epoch != epoch_of(t, t->at) || b->number != micro);
    t->data_ns += b->wait_ns;
    GR_TRY(train(t, lr));
    t->n_samples += b->n_all;
    t->mean.n_untold += b->n;
    t->mean.n_all_untold += b->n_all;
    return GR_OK;
}

/* Where the run goes on. Samples are made ahead from here on. */
gr_status gr_trainer_seek(gr_trainer *t)
{
    int64_t in_epoch = gr_trainer_place(t, t->at) % t->steps_per_epoch;

    GR_TRY(gr_trainer_open_feed(t, GR_SPLIT_TRAIN));
    return gr_loader_seek(t->feeds[GR_SPLIT_TRAIN].loader, epoch_of(t, t->at),
                          in_epoch * t->o.accumulate);
}

/* The mean over the ranks. A state that has lost its numbers is not saved: this comes first. */
static gr_status share_loss(gr_trainer *t, double loss, int64_t n_losses)
{
    int32_t code = t->watch.code;

    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ &loss, 1, GR_F64 }, GR_REDUCE_SUM));
    t->loss = gr_plain_nan(loss / (double)n_losses / t->n_ranks);
    if (isfinite(t->loss) || t->is_watched) /* on every rank alike */
        return GR_OK;
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ &code, 1, GR_I32 }, GR_REDUCE_MAX));
    return gr_trainer_judge_loss(t, code);
}

gr_status gr_trainer_step(gr_trainer *t, bool want_loss)
{
    int64_t in_epoch = gr_trainer_place(t, t->at) % t->steps_per_epoch;
    /* A loss over all micro-steps is known after the last of them. */
    int64_t n_losses = t->o.loss_reduction == GR_LOSS_GLOBAL ? 1 : t->o.accumulate;
    bool looks = want_loss || gr_trainer_sees_losses(t);
    double lr = gr_trainer_lr(t, t->at), loss = 0;

    gr_trainer_begin_mean(t, epoch_of(t, t->at));
    if (t->is_watched)
        ask_to_stop(t);
    for (int64_t m = 0; m < t->o.accumulate; m++) {
        GR_TRY(micro_step(t, in_epoch * t->o.accumulate + m, lr));
        if (m >= t->o.accumulate - n_losses)
            GR_TRY(gr_trainer_take_loss(t, looks ? &loss : NULL));
        if (want_loss)
            GR_TRY(gr_parts_take_step(&t->parts, t->step, t->arena));
    }
    t->at++;
    t->lr = lr;
    if (looks && !t->is_watched)
        gr_trainer_see_loss(t, loss);
    if (t->is_watched)
        GR_TRY(gr_trainer_take_verdicts(t, want_loss || catches_up(t)));
    if (!want_loss)
        return GR_OK;
    GR_TRY(gr_parts_share_step(&t->parts, t->pg, t->o.accumulate));
    return share_loss(t, loss, n_losses);
}

/* ---- records ---- */

static void show_progress(gr_trainer *t, bool is_record)
{
    const gr_pace *p = &t->pace;
    int64_t epoch = epoch_of(t, t->at - 1);
    double per_step = (double)(gr_now_ns() - p->began_ns) * 1e-9 / (double)(t->at - p->began_at);
    gr_progress_view v = { .epoch = epoch + 1,
                           .n_epochs = t->o.epochs,
                           .step = gr_trainer_place(t, t->at) - epoch * t->steps_per_epoch,
                           .n_steps = t->steps_per_epoch,
                           .loss = t->loss,
                           .lr = t->lr,
                           .samples_per_s = p->samples_per_s,
                           .data = p->data,
                           .exchange = p->exchange,
                           .n_skipped = t->stats.n_skipped,
                           .scale = t->amp == GR_AMP_F16 ? t->stats.loss_scale : 0,
                           .left_s = per_step * (double)(t->end - t->at) };

    if (!t->is_quiet)
        gr_progress_show(&t->progress, &v);
    if (is_record) {
        gr_text line = GR_TEXT_INIT;

        gr_progress_format(&v, &line);
        gr_log_keep(gr_text_str(&line));
        gr_text_fini(&line);
    }
}

static void write_record(gr_trainer *t)
{
    const gr_pace *p = &t->pace;
    gr_track_record r;

    gr_track_begin(&r, t->at);
    gr_track_i64(&r, "epoch", epoch_of(t, t->at - 1) + 1);
    gr_track_f64(&r, "loss", t->loss);
    gr_trainer_add_mean(t, &r);
    for (int i = 0; i < t->parts.n; i++)
        gr_track_f64(&r, t->parts.list[i].name, t->parts.list[i].value);
    gr_track_f64(&r, "lr", t->lr);
    gr_track_f64(&r, "samples_per_s", p->samples_per_s);
    gr_track_f64(&r, "data_share", p->data);
    gr_track_f64(&r, "compute_share", gr_pace_compute(p));
    gr_track_f64(&r, "exchange_share", p->exchange);
    if (!isnan(t->stats.grad_norm))
        gr_track_f64(&r, "grad_norm", t->stats.grad_norm);
    /* The norm of a step that was skipped may be NaN: this is where the count matters most. */
    if (!isnan(t->stats.grad_norm) || t->stats.n_skipped > 0) {
        gr_track_f64(&r, "loss_scale", t->stats.loss_scale);
        gr_track_i64(&r, "skipped", t->stats.n_skipped);
    }
    gr_track_submit(t->track, &r);
}

static gr_status record(gr_trainer *t)
{
    gr_pace_now now = now_of(t);

    gr_pace_measure(&t->pace, &now);
    if (!gr_trainer_writes(t))
        return GR_OK;
    GR_TRY(gr_step_get_stats(t->step, &t->stats));
    write_record(t);
    show_progress(t, true);
    return GR_OK;
}

static void write_scores(gr_trainer *t, int64_t epoch)
{
    char name[GR_TRACK_NAME_BYTES];
    gr_track_record r;

    gr_track_begin(&r, t->at);
    gr_track_i64(&r, "epoch", epoch);
    if (!t->scores.has_no_loss)
        gr_track_f64(&r, "val_loss", t->scores.loss);
    for (int i = 0; i < t->scores.n_parts; i++) {
        snprintf(name, sizeof(name), "val_%s", t->scores.parts[i].name);
        gr_track_f64(&r, name, t->scores.parts[i].value);
    }
    for (int i = 0; i < t->view.n_metrics; i++)
        gr_track_f64(&r, t->view.metrics[i].name, t->scores.values[i]);
    gr_track_submit(t->track, &r);
    gr_trainer_show_inputs(t);
    if (epoch % t->o.plot_every == 0 || t->at == t->end)
        gr_track_plot(t->track);
}

/* Every rank holds the same scores, and so they decide alike. */
static void judge(gr_trainer *t)
{
    const gr_judge *j = &t->judge;
    double value = j->metric >= 0 ? t->scores.values[j->metric] : t->scores.loss;
    double scale = gr_judge_lr_scale(j);

    t->is_best = gr_judge_observe(&t->judge, value, t->at);
    if (gr_judge_lr_scale(j) < scale)
        gr_trainer_say(t, "%s has not improved: the learning rate is now %g", j->name,
                       gr_trainer_lr(t, t->at));
    if (!gr_judge_gives_up(j) || t->at >= t->end)
        return;
    t->end = t->at;
    t->gives_up = true;
}

/* Behind the line of the evaluation, which may be the best one: by less than min_delta. */
static void say_gives_up(gr_trainer *t)
{
    const gr_judge *j = &t->judge;
    char by[48] = "";

    if (!t->gives_up)
        return;
    if (j->min_delta > 0)
        snprintf(by, sizeof(by), " by min_delta %g", j->min_delta);
    gr_trainer_say(t,
                   "%s has not improved%s in %" PRId64 " evaluations: the run ends here. The best, "
                   "%g, was at step %" PRId64 ".",
                   j->name, by, j->n_bad, j->best, j->best_step);
}

static gr_status evaluate(gr_trainer *t)
{
    int64_t epoch = epoch_of(t, t->at - 1) + 1;
    gr_text text = GR_TEXT_INIT;

    GR_TRY(gr_trainer_evaluate(t, GR_SPLIT_VALID, &t->scores));
    t->owes_eval = t->stopped_by != 0;
    if (t->owes_eval)
        return GR_OK;
    t->has_scores = true;
    if (t->at < t->end)
        GR_TRY(gr_trainer_count_skips(t, GR_SPLIT_VALID));
    judge(t);
    skip_time(t); /* this time was not training */
    if (!gr_trainer_writes(t))
        return GR_OK;
    write_scores(t, epoch);
    if (!isnan(t->mean.value))
        gr_text_addf(&text, "train loss %.4f, ", t->mean.value);
    gr_scores_text(t, &t->scores, &text);
    gr_trainer_say(t, "epoch %" PRId64 "/%" PRId64 ": %s%s", epoch, t->o.epochs, gr_text_str(&text),
                   t->is_best ? " (best)" : "");
    gr_text_fini(&text);
    say_gives_up(t);
    return GR_OK;
}

#define FEW_STEPS 5 /* no share of the time can be told from fewer */

/* P29: after the first epoch that has some steps, what to change if it waited a lot. */
static gr_status advise(gr_trainer *t)
{
    gr_pace_now now = now_of(t);
    gr_text text = GR_TEXT_INIT;
    double sum[2], most[2]; /* data, exchange; the least of it as a negative */
    gr_pace_shares s;
    gr_status st;

    if (t->advised || gr_trainer_place(t, t->at) % t->steps_per_epoch != 0 ||
        t->at - t->pace.began_at < FEW_STEPS)
        return GR_OK;
    t->advised = true;
    gr_pace_measure(&t->pace, &now);
    sum[0] = most[0] = gr_pace_data(&t->pace);
    sum[1] = gr_pace_exchange(&t->pace);
    most[1] = -sum[1];
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ sum, 2, GR_F64 }, GR_REDUCE_SUM));
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ most, 2, GR_F64 }, GR_REDUCE_MAX));
    s = (gr_pace_shares){ .data = sum[0] / t->n_ranks,
                          .worst_data = most[0],
                          .exchange = sum[1] / t->n_ranks,
                          .least_exchange = -most[1],
                          .n_workers = t->n_workers,
                          .n_cores = t->n_cores,
                          .faster_loading = t->view.faster_loading };
    gr_pace_advice(&s, &text);
    st = gr_text_status(&text);
    if (text.len > 0)
        gr_trainer_say(t, "%s", gr_text_str(&text));
    gr_text_fini(&text);
    skip_time(t);
    return st;
}

/* ---- the loop ---- */

gr_status gr_trainer_agree_on_signal(gr_trainer *t, int *signal, int64_t *most)
{
    int64_t agreed[2] = { wanted_stop(t), *most };

    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ agreed, 2, GR_I64 }, GR_REDUCE_MAX));
    *signal = (int)agreed[0];
    *most = agreed[1];
    return GR_OK;
}

gr_status gr_trainer_agree_to_stop(gr_trainer *t, int *signal)
{
    int32_t agreed[2] = { 0, t->watch.code };

    *signal = t->asked;
    if (t->is_watched)
        return GR_OK;
    agreed[0] = wanted_stop(t);
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ agreed, 2, GR_I32 }, GR_REDUCE_MAX));
    *signal = agreed[0];
    return agreed[1] == 0 ? GR_OK : gr_trainer_judge_loss(t, agreed[1]);
}

/* The evaluation of step t->at, if there is one, and what is saved of the step. */
static gr_status evaluate_and_save(gr_trainer *t, bool evaluates)
{
    if (evaluates)
        GR_TRY(evaluate(t));
    if (!gr_trainer_saves_at(t, t->at) && !(t->is_best && t->o.save_best))
        return GR_OK;
    GR_TRY(gr_trainer_save(t));
    skip_time(t);
    return GR_OK;
}

static bool acts(const gr_trainer *t)
{
    return t->recipe->n_actions > 0 && t->stopped_by == 0;
}

/* Its time is no step's. */
static gr_status act(gr_trainer *t)
{
    GR_TRY(gr_trainer_act(t));
    skip_time(t);
    return GR_OK;
}

static gr_status step_and_after(gr_trainer *t)
{
    int64_t next = t->at + 1;
    bool is_first = t->at == t->pace.began_at; /* its loss is on the live line until a record is */

    GR_TRY(gr_trainer_step(t, is_first || records_at(t, next)));
    if (evaluates_at(t, next) || gr_trainer_ends_epoch(t, next) || next == t->end)
        GR_TRY(gr_trainer_share_mean(t));
    if (records_at(t, next))
        GR_TRY(record(t));
    else if (gr_trainer_writes(t) && gr_progress_due(&t->progress))
        show_progress(t, false);
    if (gr_trainer_ends_epoch(t, next) && !evaluates_at(t, next))
        gr_trainer_tell_epoch(t, records_at(t, next));
    GR_TRY(advise(t));
    /* The end of the run has a count of its own. */
    if (gr_trainer_place(t, next) % t->steps_per_epoch == 0 && next < t->end)
        GR_TRY(gr_trainer_count_skips(t, GR_SPLIT_TRAIN));
    GR_TRY(evaluate_and_save(t, evaluates_at(t, next)));
    return acts(t) ? act(t) : GR_OK;
}

/* What an earlier start left: as if it had not stopped, so that its checkpoint is saved anew. */
static gr_status make_up(gr_trainer *t)
{
    if (t->size[GR_SPLIT_VALID] < 1)
        t->owes_eval = false;
    if (!t->owes_eval)
        return GR_OK;
    GR_TRY(evaluate(t));
    if (!t->owes_eval)
        t->saved_at = -1;
    return t->owes_eval ? GR_OK : evaluate_and_save(t, false);
}

static gr_status stop(gr_trainer *t, int signal)
{
    gr_text command = GR_TEXT_INIT;

    GR_TRY(gr_trainer_take_verdicts(t, true));
    GR_TRY(gr_trainer_save(t));
    GR_TRY(gr_trainer_finish_saves(t));
    GR_TRY(gr_trainer_sum_up_skips(t));
    gr_trainer_resume_command(t, 0, &command);
    gr_trainer_say(t, "Stopped by %s%s after step %" PRId64 " of %" PRId64 "; the state is saved.",
                   signal == GR_STOP_FILE ? "the file " : "SIG",
                   signal == GR_STOP_FILE ? t->stop_path : sigabbrev_np(signal), t->at, t->end);
    if (t->owes_eval)
        gr_trainer_say(t, "The validation was left; it comes first when the run goes on.");
    gr_trainer_say(t, "Go on with: %s", gr_text_str(&command));
    gr_text_fini(&command);
    if (signal == GR_STOP_FILE) {
        if (gr_trainer_writes(t))
            unlink(t->stop_path); /* or else the next start would end at once */
        return gr_pg_barrier(t->pg);
    }
    return gr_fail(GR_ERR_STOPPED, "signal %d after step %" PRId64, signal, t->at);
}

/* A command that does train on: more epochs than the run has had. */
static void say_how_to_go_on(gr_trainer *t)
{
    gr_text command = GR_TEXT_INIT;
    int64_t n_done = (gr_trainer_place(t, t->at) + t->steps_per_epoch - 1) / t->steps_per_epoch;
    int64_t epochs = n_done > t->o.epochs ? n_done : t->o.epochs;

    if (t->saved_at < 0)
        return; /* nothing is there to go on from */
    gr_trainer_resume_command(t, t->at >= t->n_steps + t->shift ? epochs + 2 : 0, &command);
    gr_trainer_say(t, "To train on from here: %s", gr_text_str(&command));
    gr_text_fini(&command);
}

static void say_done(gr_trainer *t)
{
    gr_text took = GR_TEXT_INIT, scores = GR_TEXT_INIT;

    gr_progress_time((double)(gr_now_ns() - t->pace.began_ns) * 1e-9, &took);
    if (t->size[GR_SPLIT_VALID] > 0) {
        gr_text_addf(&scores, ", on %" PRId64 " held-out sample%s: ", t->scores.n_samples,
                     gr_plural(t->scores.n_samples));
        gr_scores_text(t, &t->scores, &scores);
    }
    if (t->at == t->pace.began_at)
        gr_trainer_say(t, "Nothing was left to train.");
    gr_trainer_say(t, "Done after %" PRId64 " step%s (%s)%s.", t->at, gr_plural(t->at),
                   gr_text_str(&took), gr_text_str(&scores));
    if (t->stats.n_skipped > 0)
        gr_trainer_say(t,
                       "%" PRId64 " of %" PRId64 " steps skipped: their gradients were not finite.",
                       t->stats.n_skipped, t->at);
    gr_text_fini(&scores);
    gr_text_fini(&took);
}

static gr_status finish(gr_trainer *t)
{
    if (!t->has_scores && t->size[GR_SPLIT_VALID] > 0) /* nothing was left to train */
        GR_TRY(gr_trainer_evaluate(t, GR_SPLIT_VALID, &t->scores));
    if (t->stopped_by != 0)
        return stop(t, t->stopped_by);
    GR_TRY(gr_trainer_finish_saves(t));
    say_done(t);
    gr_trainer_say_best_and_last(t);
    GR_TRY(gr_trainer_sum_up_skips(t));
    gr_trainer_say(t, "Results: %s (config.yaml, metrics.jsonl, plots/, checkpoints/)", t->folder);
    say_how_to_go_on(t);
    return gr_pg_barrier(t->pg); /* no rank leaves while rank 0 may still fail to save */
}

gr_status gr_trainer_run(gr_trainer *t, int *signal)
{
    gr_pace_now now = now_of(t);
    gr_status st;

    GR_TRY(gr_trainer_seek(t));
    gr_pace_begin(&t->pace, &now, t->at);
    *signal = 0;
    t->heeds_stops = true;
    GR_TRY(make_up(t));
    while (t->at < t->end && *signal == 0 && t->stopped_by == 0) {
        GR_TRY(step_and_after(t));
        if (t->stopped_by == 0)
            GR_TRY(gr_trainer_agree_to_stop(t, signal));
    }
    if (t->stopped_by == 0 && t->at < t->end)
        t->stopped_by = *signal;
    st = t->stopped_by != 0 ? stop(t, t->stopped_by) : finish(t);
    *signal = st == GR_ERR_STOPPED ? t->stopped_by : 0;
    return st;
}

gr_status gr_train(const gr_command *c, int *signal)
{
    gr_trainer t;
    gr_status st;

    *signal = 0;
    st = gr_trainer_open(&t, c);
    if (st == GR_OK)
        st = gr_trainer_run(&t, signal);
    else if (st == GR_ERR_STOPPED)
        *signal = t.stopped_by;
    st = gr_trainer_end(&t, st);
    /* After a stop the process ends with its code: an echo on the way does not kill it. */
    if (st != GR_ERR_STOPPED)
        gr_stop_unwatch();
    return st;
}
