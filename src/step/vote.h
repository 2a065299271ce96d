/*
 * Stop requests and numbers that are not finite, on a device whose results are late: a record of
 * every update (op/vote/vote.h), which all ranks have alike and which the host looks at up to
 * GR_AHEAD updates later, so that it never waits for the one that runs.
 *
 *     gr_step_watch(s);                    before the first plan
 *     for (...) {
 *         gr_step_ask_to_stop(s, what);
 *         gr_step_train(s, ...);
 *         while (gr_step_next_verdict(s, false, &v) is GR_OK and v.is_there)
 *             act on v, on every rank alike
 *     }
 */
#ifndef GR_STEP_VOTE_H
#define GR_STEP_VOTE_H

#include "gradus/step.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_AHEAD 2 /* updates that may be under way behind the one whose record is waited for */

typedef struct gr_verdict {
    bool is_there;
    int behind;   /* how many updates were started after the one that it is of */
    int stop;     /* the greatest request of all ranks; 0: none */
    int32_t loss; /* the greatest gr_loss_code() of all ranks; 0: all were finite */
    bool grad;    /* the gradients were not finite */
    bool halted;  /* this update has changed nothing, and none will until a restore */
} gr_verdict;

/* Makes records from now on; GR_ERR_ARG after the first plan. Every update then waits for a look
 * at all gradients. One whose loss or gradients are not finite, on any rank, changes nothing; nor
 * do the later ones until gr_step_restore(), unless the step skips such updates anyway (clipping,
 * fp16). */
gr_status gr_step_watch(gr_step *s) GR_MUST_CHECK;

/* What the updates from the next one on carry as this rank's request; 0: none. */
void gr_step_ask_to_stop(gr_step *s, int what);

/* The oldest record that was not taken, once GR_AHEAD updates were started after it, or at once
 * with `drain`; waits for that update then. Else out->is_there is false. All records must be
 * taken: gr_step_train() refuses to go further ahead. */
gr_status gr_step_next_verdict(gr_step *s, bool drain, gr_verdict *out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
