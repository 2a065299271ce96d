/*
 * A loss that is not finite, noticed in the step that has it (P4): on a CPU every step looks at
 * its own loss, and the ranks tell each other in the exchange that ends a step anyway; on a GPU
 * that would make each step wait, so it is looked at where a record reads the loss.
 *
 * Where every update waits for a look at all gradients (clipping, fp16) such a step has changed no
 * parameter: it is told, and the run goes on, unless many come one after the other. Otherwise
 * the parameters are lost, and the run ends before the next step.
 */
#include "train/trainer.h"

#include "backend/backend.h"
#include "base/log.h"
#include "step/inspect.h"

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
    w->code = isfinite(loss) ? 0 : 2 * (t->n_ranks - t->rank) + (isnan(loss) ? 1 : 0);
}

/* Whether an update from gradients that are not finite has no effect. */
static bool skips(const gr_trainer *t)
{
    return t->o.clip_norm > 0 || t->o.log_grad_norm || t->amp == GR_AMP_F16 ||
           (t->o.grad_dtype == GR_WIRE_F16 && t->n_ranks > 1);
}

static gr_status end_run(gr_trainer *t, const char *what, int rank)
{
    char where[96] = "";

    t->told_all = true;
    if (t->saved_at >= 0)
        snprintf(where, sizeof(where), "--resume from the checkpoint of step %" PRId64 " with ",
                 t->saved_at);
    return gr_fail(GR_ERR_ARG,
                   "the loss is %s at step %" PRId64
                   " on rank %d; look for NaN in the data: 'gradus debug --nan' with the same "
                   "options shows the first value that is not finite; then try %sa smaller --lr "
                   "(now %g) or --clip_norm",
                   what, t->at, rank, where, t->o.lr);
}

gr_status gr_trainer_judge_loss(gr_trainer *t, int32_t code)
{
    gr_loss_watch *w = &t->watch;
    const char *what = code % 2 ? "nan" : "inf";
    int rank = code / 2 > 0 ? t->n_ranks - code / 2 : 0;

    w->code = 0;
    if (!skips(t))
        return end_run(t, what, rank);
    w->n_in_row = w->n_bad > 0 && w->bad_at == w->seen_before ? w->n_in_row + 1 : 1;
    w->bad_at = w->seen_at;
    w->n_bad++;
    if (w->n_in_row >= N_MOST)
        return end_run(t, what, rank);
    if (gr_trainer_writes(t) && w->n_bad <= N_TOLD)
        gr_log(TRAIN, WARN,
               "the loss is %s at step %" PRId64 " on rank %d: the step changed nothing, and the "
               "run goes on; 'gradus debug --nan' shows where it comes from%s",
               what, t->at, rank, w->n_bad == N_TOLD ? "; others will only be counted" : "");
    return GR_OK;
}
