/* The operators of vote.h on the GPU: one thread each, in stream order, and nothing waits. */
#include "op/vote/vote.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"
#include "op/update/update.h"

template <typename T>
static __global__ void vote(int32_t *worst, int32_t *out, const T *loss, const gr_scalars *scalars,
                            int32_t if_inf, int32_t if_nan)
{
    double x = (double)*loss;
    int32_t code = isnan(x) ? if_nan : isinf(x) ? if_inf : 0;

    if (scalars->micro == 0 || code > *worst)
        *worst = code;
    out[GR_VOTE_STOP] = scalars->stop;
    out[GR_VOTE_LOSS] = *worst;
}

template <typename T> static gr_status launch_vote(const gr_launch *l)
{
    const gr_vote_attr *at = (const gr_vote_attr *)l->node->attr;

    return gr_cuda_launch("vote launch", gr_cuda_grid_of(1, 1, 1), gr_cuda_stream(l->stream),
                          vote<T>, (int32_t *)l->out[0], (int32_t *)l->out[1], (const T *)l->src[1],
                          l->scalars, gr_loss_code(at->rank, at->n_ranks, false),
                          gr_loss_code(at->rank, at->n_ranks, true));
}

static gr_status vote_run(const gr_launch *l)
{
    GR_CUDA_FLOATS(l->node->src[1]->dtype, T, return launch_vote<T>(l))
}

static __global__ void verdict(int32_t *record, float *out, const float *control,
                               const int32_t *votes, bool halts)
{
    bool is_bad = control[GR_CONTROL_SKIP] != 0.0f;

    record[GR_RECORD_STOP] = votes[GR_VOTE_STOP];
    record[GR_RECORD_LOSS] = votes[GR_VOTE_LOSS];
    record[GR_RECORD_GRAD] = is_bad ? 1 : 0;
    if (halts && (is_bad || votes[GR_VOTE_LOSS] != 0))
        record[GR_RECORD_HALTED] = 1;
    for (int i = 0; i < GR_CONTROL_COUNT; i++)
        out[i] = control[i];
    if (record[GR_RECORD_HALTED] != 0)
        out[GR_CONTROL_SKIP] = 1.0f;
}

static gr_status verdict_run(const gr_launch *l)
{
    const gr_verdict_attr *at = (const gr_verdict_attr *)l->node->attr;

    return gr_cuda_launch("verdict launch", gr_cuda_grid_of(1, 1, 1), gr_cuda_stream(l->stream),
                          verdict, (int32_t *)l->out[0], (float *)l->out[1],
                          (const float *)l->src[1], (const int32_t *)l->src[2], at->halts);
}

/* clang-format off */
#define KERNELS(table, fn) \
    const gr_kernel table[] = { \
        { .name = "cuda", .reject = NULL, .prepare = NULL, .workspace = NULL, .run = fn, \
          .release = NULL, .no_capture = false, .in_place = false }, \
        {}, \
    }
/* clang-format on */

KERNELS(gr_vote_cuda, vote_run);
KERNELS(gr_verdict_cuda, verdict_run);
