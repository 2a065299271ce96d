/*
 * What every rank must know of an update before its host can look: whether a rank asks to stop,
 * and whether the numbers are finite. For devices whose results the host sees late: there an
 * update decides by itself, and the host reads what was decided when it gets there.
 *
 *   vote     code, loss -> code, vote
 *            code: i32 [], the worst that this rank's losses were in the update so far, 0 while
 *            all were finite; begins anew at micro-step 0. vote: i32 [GR_VOTE_COUNT], the scalars'
 *            `stop` and the new code. Ranks combine votes by their maximum.
 *   verdict  record, control, vote -> record, control
 *            record: i32 [GR_RECORD_COUNT], for the host. Control is that of grad_control
 *            (op/update/update.h); its result also says skip once the record says halted.
 *
 * With `halts` the first loss or gradient that is not finite sets `halted` for good: that update
 * and all later ones change nothing, until the host writes the record anew. Without, an update
 * is skipped by its gradients alone, and the next one counts again (fp16, clipping).
 */
#ifndef GR_OP_VOTE_VOTE_H
#define GR_OP_VOTE_VOTE_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GR_VOTE_STOP, GR_VOTE_LOSS, GR_VOTE_COUNT };

enum {
    GR_RECORD_STOP,   /* the greatest request of all ranks; 0: none */
    GR_RECORD_LOSS,   /* the greatest loss code of all ranks */
    GR_RECORD_GRAD,   /* 1: the gradients' norm is not finite */
    GR_RECORD_HALTED, /* sticks */
    GR_RECORD_COUNT
};

typedef struct gr_vote_attr {
    int rank, n_ranks;
} gr_vote_attr;

typedef struct gr_verdict_attr {
    bool halts;
} gr_verdict_attr;

/* A loss that is not finite, as a number: greater the lower the rank, so that of several the
 * first is named. 0: finite. */
static inline int32_t gr_loss_code(int rank, int n_ranks, bool is_nan)
{
    return 2 * (n_ranks - rank) + (is_nan ? 1 : 0);
}

static inline int gr_loss_code_rank(int32_t code, int n_ranks)
{
    return code / 2 > 0 ? n_ranks - code / 2 : 0;
}

static inline const char *gr_loss_code_word(int32_t code)
{
    return code % 2 ? "nan" : "inf";
}

extern const gr_op gr_op_vote, gr_op_verdict;
extern const gr_kernel gr_vote_cpu[], gr_verdict_cpu[];

#ifdef __cplusplus
}
#endif

#endif
