/*
 * The learning rate of a run that is resumed with another length (lr_schedule_on_resume). A
 * schedule counts from step `lr_from` of the run, over schedule.n_steps steps:
 *
 *     stretch    as if the run had had its new length from the start: the rate may jump
 *     continue   as it was planned; behind its end the rate stays where it ended
 *     restart    from here on anew, warm-up included, down to the run's new end
 *
 * It is planned anew only when the length changes, which is counted in epochs: max_steps cuts a run
 * short and leaves its schedule alone, and other ranks or batches give an epoch other steps. A
 * checkpoint holds what came of it, so that a launcher may start the same command again and again.
 */
#include "train/reschedule.h"
#include "train/checkpoint.h"
#include "train/config/settings.h"
#include "train/numbers.h"
#include "train/rate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = { "stretch", "continue", "restart" }; /* gr_lr_on_resume */

#define MOST    (INT64_MAX / 4) /* steps */
#define N_MODES ((int)(sizeof(names) / sizeof(names[0])))

/* ---- memory ---- */

#define FORM "%" PRId64 " %" PRId64 " %" PRId64 " %a"

void gr_schedule_print(const gr_schedule_span *s, gr_text *out)
{
    gr_text_addf(out, FORM, s->from, s->length, s->run, s->lr);
}

gr_status gr_schedule_parse(gr_schedule_span *s, const char *text)
{
    gr_schedule_span got = { 0 };
    const char *at = text;

    if (!gr_take_i64(&at, &got.from) || !gr_take_i64(&at, &got.length) ||
        !gr_take_i64(&at, &got.run) || !gr_take_f64(&at, &got.lr) || *at != '\0' || got.from < 0 ||
        got.length < 1 || got.run < 1 || !(got.lr >= 0) || got.from > MOST || got.length > MOST ||
        got.run > MOST)
        return gr_fail(GR_ERR_FORMAT, "'%.100s' is no record of a learning rate's schedule", text);
    *s = got;
    return GR_OK;
}

/* ---- the plan ---- */

/* A checkpoint may say anything: what is too much is as good as no end. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t product;

    return __builtin_mul_overflow(a, b, &product) || product > MOST ? MOST : product;
}

static int64_t in_steps(int64_t n, int64_t before, int64_t now)
{
    return times(n / before, now) + llround((double)(n % before) * (double)now / (double)before);
}

gr_schedule_span gr_schedule_rescale(const gr_schedule_span *s, int64_t before, int64_t now)
{
    gr_schedule_span scaled = *s;

    scaled.from = in_steps(s->from, before, now);
    scaled.length = in_steps(s->length, before, now);
    scaled.run = in_steps(s->run, before, now);
    return scaled;
}

gr_schedule_span gr_schedule_resume(const gr_schedule_span *then, gr_lr_on_resume how,
                                    int64_t place, int64_t run)
{
    gr_schedule_span now = *then;

    now.run = run;
    if (then->run == run || how == GR_LR_CONTINUE)
        return now;
    if (how == GR_LR_RESTART)
        now.from = place;
    now.length = run > now.from ? run - now.from : 1;
    return now;
}

/* ---- the trainer's ---- */

gr_schedule_span gr_trainer_schedule_span(const gr_trainer *t)
{
    return (gr_schedule_span){
        .from = t->lr_from, .length = t->schedule.n_steps, .run = t->n_steps, .lr = t->lr
    };
}

static gr_status plan(const gr_trainer *t, const gr_schedule_span *s, gr_schedule *out)
{
    return gr_rate_schedule(&t->o, t->n_ranks, t->steps_per_epoch, s->length, out);
}

/* The rate of the next step, if the schedule is resumed so. */
static gr_status next_rate(const gr_trainer *t, const gr_schedule_span *then, int how, double *out)
{
    int64_t place = gr_trainer_place(t, t->at);
    gr_schedule_span s = gr_schedule_resume(then, (gr_lr_on_resume)how, place, t->n_steps);
    bool is_new = how == GR_LR_RESTART && then->run != t->n_steps;
    gr_schedule schedule;

    GR_TRY(plan(t, &s, &schedule));
    *out = gr_schedule_lr(&schedule, place - s.from) * (is_new ? 1 : gr_judge_lr_scale(&t->judge));
    return GR_OK;
}

static void add_others(const double *rates, int how, gr_text *out)
{
    const char *mark = "; ";

    for (int i = 0; i < N_MODES; i++) {
        if (i == how)
            continue;
        gr_text_addf(out, "%s%s: ", mark, names[i]);
        gr_rate_number(rates[i], 3, out);
        mark = ", ";
    }
}

static void note_change(gr_trainer *t, const gr_schedule_span *then, const double *rates)
{
    int64_t before = then->run / t->steps_per_epoch;
    int how = t->o.lr_on_resume;
    gr_text text = GR_TEXT_INIT;

    gr_text_addf(&text,
                 "  The run had %" PRId64 " epoch%s and now has %" PRId64
                 ": lr_schedule_on_resume %s, the learning rate goes from ",
                 before, gr_plural(before), t->o.epochs, names[how]);
    gr_rate_number(then->lr, 3, &text);
    gr_text_addf(&text, " at step %" PRId64 " to ", t->at);
    gr_rate_number(rates[how], 3, &text);
    gr_text_addf(&text, " at step %" PRId64, t->at + 1);
    add_others(rates, how, &text);
    if (gr_text_status(&text) == GR_OK)
        gr_trainer_note(t, "%s", gr_text_str(&text));
    if (!(gr_trainer_lr(t, t->end - 1) > 0) && how == GR_LR_CONTINUE)
        gr_trainer_note(t, "  The rate ends at 0 before the run does, and nothing is learned from "
                           "there on; lr_min, stretch or restart avoid that");
    gr_text_fini(&text);
}

/* What the checkpoint says; one of an older version ran as its settings had it. */
static gr_status read_span(const gr_trainer *t, gr_schedule_span *out)
{
    const char *text = gr_snapshot_get(t->resumed, GR_KEY_SCHEDULE);
    const char *steps = gr_snapshot_get(t->resumed, GR_KEY_STEPS);
    int64_t before = steps ? strtoll(steps, NULL, 10) : 0;

    if (text) {
        GR_TRY(gr_schedule_parse(out, text));
        if (before > 0 && before != t->steps_per_epoch)
            *out = gr_schedule_rescale(out, before, t->steps_per_epoch);
        return GR_OK;
    }
    *out = (gr_schedule_span){ .run = times(t->o.epochs_before, t->steps_per_epoch) };
    if (out->run < 1)
        out->run = t->n_steps;
    out->length = out->run;
    return GR_OK;
}

static double rate_before(const gr_trainer *t, const gr_schedule_span *then)
{
    int64_t place = gr_trainer_place(t, t->at);
    gr_schedule schedule;

    if (then->lr > 0 || place < 1 || plan(t, then, &schedule) != GR_OK)
        return then->lr;
    return gr_schedule_lr(&schedule, place - 1 - then->from) * gr_judge_lr_scale(&t->judge);
}

static bool is_given(const gr_trainer *t)
{
    return gr_settings_slot(t->o.settings, "train.lr_scheduler.on_resume")->origin.kind >
           GR_FROM_SAVED;
}

gr_status gr_trainer_resume_schedule(gr_trainer *t)
{
    int64_t place = gr_trainer_place(t, t->at);
    gr_schedule_span then = { 0 }, now;
    double rates[N_MODES];
    bool differs;

    GR_TRY(read_span(t, &then));
    then.lr = rate_before(t, &then);
    for (int i = 0; i < N_MODES; i++)
        GR_TRY(next_rate(t, &then, i, &rates[i]));
    now = gr_schedule_resume(&then, (gr_lr_on_resume)t->o.lr_on_resume, place, t->n_steps);
    GR_TRY(plan(t, &now, &t->schedule));
    t->lr_from = now.from;
    t->lr = then.lr;
    differs = rates[0] != rates[1] || rates[0] != rates[2];
    if (then.run != t->n_steps && t->o.lr_on_resume == GR_LR_RESTART)
        t->judge.plateau = gr_rate_plateau(&t->o, t->judge.maximize);
    if (then.run != t->n_steps && differs && place < t->n_steps)
        note_change(t, &then, rates);
    else if (then.run == t->n_steps && t->o.lr_on_resume != (int)GR_LR_STRETCH && is_given(t))
        gr_trainer_note(t,
                        "  Not used: lr_schedule_on_resume %s: the run is as long as before, and "
                        "its schedule goes on",
                        names[t->o.lr_on_resume]);
    return GR_OK;
}
