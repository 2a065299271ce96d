/*
 * A loss that is not finite, noticed in the step that has it (P4): on a CPU every step looks at
 * its own loss, and the ranks tell each other in the exchange that ends a step anyway. On a GPU
 * that would make each step wait: there the step looks at itself and changes nothing, and the
 * ranks read of it, and of requests to stop, in its record (step/vote.h), two steps later or
 * where they wait for the device anyway.
 *
 * Where every update waits for a look at all gradients (clipping, fp16) such a step has changed no
 * parameter: it is told, and the run goes on, unless many come one after the other. Otherwise the
 * run ends: on a CPU before the next step, for the parameters are lost; on a GPU the next ones
 * change nothing.
 */
#include "train/trainer.h"

#include "backend/backend.h"
#include "base/log.h"
#include "op/vote/vote.h"
#include "step/inspect.h"
#include "step/vote.h"

#include <inttypes.h>
#include <math.h>

#define N_TOLD 5  /* skipped steps that are told */
#define N_MOST 10 /* such steps one after the other that end a run */

bool gr_trainer_sees_losses(const gr_trainer *t)
{
    return gr_step_device(t->step)->ops->runs_at_once;
}

void gr_trainer_see_loss(gr_trainer *t, double loss)
{
    gr_loss_watch *w = &t->watch;

    w->seen_before = w->seen_at;
    w->seen_at = t->at;
    w->code = isfinite(loss) ? 0 : gr_loss_code(t->rank, t->n_ranks, isnan(loss));
}

/* Whether an update from gradients that are not finite has no effect. */
static bool skips(const gr_trainer *t)
{
    return t->o.clip_norm > 0 || t->o.log_grad_norm || t->amp == GR_AMP_F16 ||
           (t->o.grad_dtype == GR_WIRE_F16 && t->n_ranks > 1);
}

static void say_loss(const gr_trainer *t, int32_t code, char *text, size_t n_bytes)
{
    snprintf(text, n_bytes, "the loss is %s at step %" PRId64 " on rank %d",
             gr_loss_code_word(code), t->watch.seen_at, gr_loss_code_rank(code, t->n_ranks));
}

static gr_status end_run(gr_trainer *t, const char *what)
{
    char where[96] = "";

    t->told_all = true;
    if (t->saved_at >= 0)
        snprintf(where, sizeof(where), "--resume from the checkpoint of step %" PRId64 " with ",
                 t->saved_at);
    return gr_fail(GR_ERR_ARG,
                   "%s; look for NaN in the data: 'gradus debug --nan' with the same "
                   "options shows the first value that is not finite; then try %sa smaller --lr "
                   "(now %g) or --clip_norm",
                   what, where, t->o.lr);
}

/* Step w->seen_at, which the run may outlive. */
static gr_status count_bad(gr_trainer *t, const char *what)
{
    gr_loss_watch *w = &t->watch;

    w->n_in_row = w->n_bad > 0 && w->bad_at == w->seen_before ? w->n_in_row + 1 : 1;
    w->bad_at = w->seen_at;
    w->n_bad++;
    if (w->n_in_row >= N_MOST)
        return end_run(t, what);
    if (gr_trainer_writes(t) && w->n_bad <= N_TOLD)
        gr_log(TRAIN, WARN,
               "%s: the step changed nothing, and the run goes on; 'gradus debug --nan' shows "
               "where it comes from%s",
               what, w->n_bad == N_TOLD ? "; others will only be counted" : "");
    return GR_OK;
}

gr_status gr_trainer_judge_loss(gr_trainer *t, int32_t code)
{
    char what[96];

    t->watch.code = 0;
    say_loss(t, code, what, sizeof(what));
    return skips(t) ? count_bad(t, what) : end_run(t, what);
}

/* ---- on a device whose results are late ---- */

gr_status gr_trainer_watch(gr_trainer *t)
{
    t->is_watched = t->watches && !gr_trainer_sees_losses(t);
    return t->is_watched ? gr_step_watch(t->step) : GR_OK;
}

/* On every rank alike: records are the same. */
static gr_status judge(gr_trainer *t, const gr_verdict *v)
{
    gr_loss_watch *w = &t->watch;
    char what[96];

    w->seen_before = w->seen_at;
    w->seen_at = t->at - v->behind;
    if (t->asked == 0)
        t->asked = v->stop;
    if (v->loss == 0 && !v->halted)
        return GR_OK;
    if (v->loss != 0)
        say_loss(t, v->loss, what, sizeof(what));
    else
        snprintf(what, sizeof(what), "a gradient is not finite at step %" PRId64, w->seen_at);
    return v->halted ? end_run(t, what) : count_bad(t, what);
}

gr_status gr_trainer_take_verdicts(gr_trainer *t, bool drain)
{
    gr_verdict v;

    if (!t->is_watched)
        return GR_OK;
    do {
        GR_TRY(gr_step_next_verdict(t->step, drain, &v));
        if (v.is_there)
            GR_TRY(judge(t, &v));
    } while (v.is_there);
    return GR_OK;
}
