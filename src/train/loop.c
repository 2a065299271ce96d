/*
 * The loop: steps, records, evaluations, checkpoints, and the end.
 *
 * After each step all ranks agree whether to stop; everything else that decides about
 * going on (a loss that is no number, the last step) is computed alike on every rank.
 */
#include "train/trainer.h"

#include "base/clock.h"
#include "train/stop.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Time, for rates: a window between two records, and the whole run for the ETA. */
typedef struct pace {
    int64_t began_ns, began_at;
    int64_t mark_ns, mark_samples;
    double samples_per_s;
} pace;

static double seconds_since(int64_t ns)
{
    return (double)(gr_now_ns() - ns) * 1e-9;
}

static void pace_mark(pace *p, const gr_trainer *t)
{
    p->mark_ns = gr_now_ns();
    p->mark_samples = t->n_samples;
}

static void pace_measure(pace *p, const gr_trainer *t)
{
    if (t->n_samples > p->mark_samples)
        p->samples_per_s = (double)(t->n_samples - p->mark_samples) / seconds_since(p->mark_ns);
    pace_mark(p, t);
}

/* ---- one step ---- */

static int64_t epoch_of(const gr_trainer *t, int64_t step)
{
    return step / t->steps_per_epoch;
}

static gr_status train(gr_trainer *t, double lr)
{
    if (!t->check)
        return gr_step_train(t->step, t->batch.feeds, t->view.n_feeds, lr);
    GR_TRY(gr_step_run_checked(t->step, t->batch.feeds, t->view.n_feeds, lr, t->check));
    if (t->check->kind == GR_CHECK_CLEAN)
        return GR_OK;
    t->told_all = true;
    return gr_fail(GR_ERR_ARG, "a value of step %" PRId64 " is not finite", t->at + 1);
}

/* Micro-step `micro` of the epoch; adds its loss to *loss if that is wanted. */
static gr_status micro_step(gr_trainer *t, int64_t micro, double lr, double *loss)
{
    int64_t count = gr_sampler_count(t->sampler), first = micro * t->o.batch_size;
    int64_t n = count - first < t->o.batch_size ? count - first : t->o.batch_size;
    float value;

    gr_batch_resize(&t->batch, n);
    for (int64_t i = 0; i < n; i++) {
        gr_sample s = { .split = GR_SPLIT_TRAIN,
                        .index = gr_sampler_at(t->sampler, first + i),
                        .epoch = epoch_of(t, t->at),
                        .seed = (uint64_t)t->o.seed };

        GR_TRY(gr_batch_load(&t->batch, t->user, &s, i));
    }
    GR_TRY(train(t, lr));
    t->n_samples += n * t->n_ranks; /* every rank has as many */
    if (!loss)
        return GR_OK;
    GR_TRY(gr_step_read(t->step, "loss", (gr_vec){ &value, 1, GR_F32 }));
    *loss += (double)value;
    return GR_OK;
}

/* A state that has lost its numbers is not saved, and training it further is a waste. */
static gr_status check_loss(gr_trainer *t)
{
    if (isfinite(t->loss))
        return GR_OK;
    t->told_all = true;
    if (t->saved_at < 0)
        return gr_fail(GR_ERR_ARG,
                       "the loss is %g at step %" PRId64 "; try a smaller --lr (now %g) or "
                       "--clip_norm",
                       t->loss, t->at, t->o.lr);
    return gr_fail(GR_ERR_ARG,
                   "the loss is %g at step %" PRId64 "; try --resume from the checkpoint of step "
                   "%" PRId64 " with a smaller --lr (now %g) or --clip_norm",
                   t->loss, t->at, t->saved_at, t->o.lr);
}

gr_status gr_trainer_step(gr_trainer *t, bool want_loss)
{
    int64_t in_epoch = t->at % t->steps_per_epoch;
    double lr = gr_schedule_lr(&t->schedule, t->at), loss = 0;

    gr_sampler_set_epoch(t->sampler, epoch_of(t, t->at));
    for (int64_t m = 0; m < t->o.accumulate; m++)
        GR_TRY(micro_step(t, in_epoch * t->o.accumulate + m, lr, want_loss ? &loss : NULL));
    t->at++;
    if (!want_loss)
        return GR_OK;
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ &loss, 1, GR_F64 }, GR_REDUCE_SUM));
    t->loss = loss / (double)t->o.accumulate / t->n_ranks;
    return check_loss(t);
}

/* ---- records ---- */

static void show_progress(gr_trainer *t, const pace *p)
{
    int64_t epoch = epoch_of(t, t->at - 1);
    double per_step = seconds_since(p->began_ns) / (double)(t->at - p->began_at);
    gr_progress_view v = { .epoch = epoch + 1,
                           .n_epochs = t->o.epochs,
                           .step = t->at - epoch * t->steps_per_epoch,
                           .n_steps = t->steps_per_epoch,
                           .loss = t->loss,
                           .lr = gr_schedule_lr(&t->schedule, t->at - 1),
                           .samples_per_s = p->samples_per_s,
                           .left_s = per_step * (double)(t->end - t->at) };

    gr_progress_show(&t->progress, &v);
}

static gr_status write_record(gr_trainer *t, const pace *p)
{
    gr_step_stats s;

    gr_metrics_begin(t->metrics, t->at);
    gr_metrics_i64(t->metrics, "epoch", epoch_of(t, t->at - 1) + 1);
    gr_metrics_f64(t->metrics, "loss", t->loss);
    gr_metrics_f64(t->metrics, "lr", gr_schedule_lr(&t->schedule, t->at - 1));
    gr_metrics_f64(t->metrics, "samples_per_s", p->samples_per_s);
    if (t->o.clip_norm > 0 || t->o.amp == GR_AMP_F16) {
        GR_TRY(gr_step_get_stats(t->step, &s));
        gr_metrics_f64(t->metrics, "grad_norm", s.grad_norm);
        gr_metrics_f64(t->metrics, "loss_scale", s.loss_scale);
        gr_metrics_i64(t->metrics, "skipped", s.n_skipped);
    }
    return gr_metrics_end(t->metrics);
}

static gr_status record(gr_trainer *t, pace *p)
{
    if (!gr_trainer_writes(t))
        return GR_OK;
    pace_measure(p, t);
    GR_TRY(write_record(t, p));
    show_progress(t, p);
    return GR_OK;
}

static gr_status evaluate(gr_trainer *t, pace *p)
{
    int64_t epoch = epoch_of(t, t->at - 1) + 1;
    gr_text text = GR_TEXT_INIT;

    GR_TRY(gr_trainer_evaluate(t, GR_SPLIT_VALID, &t->scores));
    t->has_scores = true;
    if (!gr_trainer_writes(t))
        return GR_OK;
    gr_metrics_begin(t->metrics, t->at);
    gr_metrics_i64(t->metrics, "epoch", epoch);
    gr_metrics_f64(t->metrics, "val_loss", t->scores.loss);
    for (int i = 0; i < t->view.n_metrics; i++)
        gr_metrics_f64(t->metrics, t->view.metrics[i].name, t->scores.values[i]);
    GR_TRY(gr_metrics_end(t->metrics));
    gr_scores_text(t, &t->scores, &text);
    gr_trainer_say(t, "epoch %" PRId64 "/%" PRId64 ": loss %.4f, %s", epoch, t->o.epochs, t->loss,
                   gr_text_str(&text));
    gr_text_fini(&text);
    pace_mark(p, t); /* this time was not training */
    return GR_OK;
}

/* ---- the loop ---- */

static bool saves_at(const gr_trainer *t, int64_t step)
{
    return step == t->end || (t->o.save_every > 0 && step % t->o.save_every == 0);
}

static bool evaluates_at(const gr_trainer *t, int64_t step)
{
    if (step == t->end)
        return true;
    return t->o.eval_every > 0 && step % (t->steps_per_epoch * t->o.eval_every) == 0;
}

static bool records_at(const gr_trainer *t, int64_t step)
{
    return step % t->o.log_every == 0 || saves_at(t, step) || evaluates_at(t, step);
}

gr_status gr_trainer_agree_to_stop(gr_trainer *t, int *signal)
{
    int32_t number = gr_stop_signal();

    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ &number, 1, GR_I32 }, GR_REDUCE_MAX));
    *signal = number;
    return GR_OK;
}

static gr_status step_and_after(gr_trainer *t, pace *p)
{
    int64_t next = t->at + 1;

    GR_TRY(gr_trainer_step(t, records_at(t, next)));
    if (records_at(t, next))
        GR_TRY(record(t, p));
    else if (gr_trainer_writes(t) && gr_progress_due(&t->progress))
        show_progress(t, p);
    if (evaluates_at(t, next))
        GR_TRY(evaluate(t, p));
    if (saves_at(t, next)) {
        GR_TRY(gr_trainer_save(t));
        pace_mark(p, t);
    }
    return GR_OK;
}

static gr_status stop(gr_trainer *t, int signal)
{
    gr_text command = GR_TEXT_INIT;

    GR_TRY(gr_trainer_save(t));
    gr_trainer_resume_command(t, 0, &command);
    gr_trainer_say(t, "Stopped by SIG%s after step %" PRId64 " of %" PRId64 "; the state is saved.",
                   sigabbrev_np(signal), t->at, t->end);
    gr_trainer_say(t, "Go on with: %s", gr_text_str(&command));
    gr_text_fini(&command);
    return gr_fail(GR_ERR_STOPPED, "signal %d after step %" PRId64, signal, t->at);
}

static gr_status finish(gr_trainer *t, const pace *p)
{
    gr_text command = GR_TEXT_INIT, took = GR_TEXT_INIT, scores = GR_TEXT_INIT;

    if (!t->has_scores) /* nothing was left to train */
        GR_TRY(gr_trainer_evaluate(t, GR_SPLIT_VALID, &t->scores));
    gr_trainer_resume_command(t, t->end == t->n_steps ? t->o.epochs + 2 : 0, &command);
    gr_progress_time(seconds_since(p->began_ns), &took);
    gr_scores_text(t, &t->scores, &scores);
    gr_trainer_say(t, "Done after %" PRId64 " steps (%s), on %" PRId64 " held-out samples: %s.",
                   t->at, gr_text_str(&took), t->size[GR_SPLIT_VALID], gr_text_str(&scores));
    gr_trainer_say(t, "Results: %s (config.yaml, metrics.jsonl, checkpoints/)", t->folder);
    gr_trainer_say(t, "To train on from here: %s", gr_text_str(&command));
    gr_text_fini(&scores);
    gr_text_fini(&took);
    gr_text_fini(&command);
    return gr_pg_barrier(t->pg); /* no rank leaves while rank 0 may still fail to save */
}

gr_status gr_trainer_run(gr_trainer *t, int *signal)
{
    pace p = { .began_ns = gr_now_ns(), .began_at = t->at };

    pace_mark(&p, t);
    *signal = 0;
    while (t->at < t->end && *signal == 0) {
        GR_TRY(step_and_after(t, &p));
        GR_TRY(gr_trainer_agree_to_stop(t, signal));
    }
    if (*signal != 0 && t->at < t->end)
        return stop(t, *signal);
    *signal = 0;
    return finish(t, &p);
}

gr_status gr_train(const gr_command *c, int *signal)
{
    gr_trainer t;
    gr_error error;
    gr_status st;

    *signal = 0;
    gr_stop_watch();
    st = gr_trainer_open(&t, c);
    if (st == GR_OK)
        st = gr_trainer_run(&t, signal);
    if (t.pg)
        gr_progress_clear(&t.progress);
    /* The others learn why this rank goes, instead of only that it went. */
    if (st != GR_OK && st != GR_ERR_PEER && st != GR_ERR_STOPPED && !t.told_all)
        gr_pg_abort(t.pg, gr_error_message());
    gr_error_take(&error, st); /* closing may fail in its turn and leave another text */
    gr_trainer_close(&t);
    gr_stop_unwatch();
    return st == GR_OK ? GR_OK : gr_error_raise(&error);
}
