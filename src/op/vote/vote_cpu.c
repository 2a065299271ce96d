/* CPU kernels of the operators in vote.h: a handful of numbers each. */
#include "op/vote/vote.h"

#include "base/half.h"
#include "op/update/update.h"

#include <math.h>
#include <string.h>

static double loss_of(gr_dtype t, const void *mem)
{
    if (t == GR_F64)
        return *(const double *)mem;
    if (t == GR_F32)
        return (double)*(const float *)mem;
    return (double)(t == GR_BF16 ? gr_bf16_to_f32 : gr_f16_to_f32)(*(const uint16_t *)mem);
}

static gr_status run_vote(const gr_launch *l)
{
    const gr_vote_attr *a = (const gr_vote_attr *)l->node->attr;
    double loss = loss_of(l->node->src[1]->dtype, l->src[1]);
    int32_t code = isfinite(loss) ? 0 : gr_loss_code(a->rank, a->n_ranks, isnan(loss));
    int32_t *worst = (int32_t *)l->out[0], *vote = (int32_t *)l->out[1];

    if (l->scalars->micro == 0 || code > *worst)
        *worst = code;
    vote[GR_VOTE_STOP] = l->scalars->stop;
    vote[GR_VOTE_LOSS] = *worst;
    return GR_OK;
}

static gr_status run_verdict(const gr_launch *l)
{
    const gr_verdict_attr *a = (const gr_verdict_attr *)l->node->attr;
    const float *control = (const float *)l->src[1];
    const int32_t *vote = (const int32_t *)l->src[2];
    int32_t *record = (int32_t *)l->out[0];
    float *out = (float *)l->out[1];
    bool is_bad = control[GR_CONTROL_SKIP] != 0;

    record[GR_RECORD_STOP] = vote[GR_VOTE_STOP];
    record[GR_RECORD_LOSS] = vote[GR_VOTE_LOSS];
    record[GR_RECORD_GRAD] = is_bad ? 1 : 0;
    if (a->halts && (is_bad || vote[GR_VOTE_LOSS] != 0))
        record[GR_RECORD_HALTED] = 1;
    memcpy(out, control, sizeof(float[GR_CONTROL_COUNT]));
    if (record[GR_RECORD_HALTED] != 0)
        out[GR_CONTROL_SKIP] = 1;
    return GR_OK;
}

const gr_kernel gr_vote_cpu[] = {
    { .name = "reference", .run = run_vote },
    { .name = NULL },
};

const gr_kernel gr_verdict_cpu[] = {
    { .name = "reference", .run = run_verdict },
    { .name = NULL },
};
