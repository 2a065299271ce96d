/*
 * CPU kernels of the update: the same code around three sets of loops. Work is cut at
 * fixed places, so the result does not depend on the number of threads.
 */
#include <float.h>
#include <math.h>

#include "base/size.h"
#include "op/collective/wire_kernels.h"
#include "op/isa.h"
#include "op/update/cpu/update_cpu.h"
#include "op/update/update.h"

static size_t count(const gr_value *v)
{
    return (size_t)gr_shape_count(&v->shape);
}

/* With a copy a block at a time. */
void gr_update_run(const gr_update_job *j, size_t first, size_t n)
{
    size_t end = first + n;

    if (!j->copy)
        j->range(j, first, n);
    for (size_t at = first; j->copy && at < end; at += GR_UPDATE_BLOCK) {
        size_t len = end - at < GR_UPDATE_BLOCK ? end - at : GR_UPDATE_BLOCK;

        j->range(j, at, len);
        j->narrow(j->copy + at, j->dst + at, len);
    }
}

void gr_update_run_from(const gr_update_job *j, size_t first, size_t n, const float *grad)
{
    gr_update_job here = *j;

    here.dst += first;
    here.copy = here.copy ? here.copy + first : NULL;
    for (int i = 0; i < 2; i++)
        here.state[i] = here.state[i] ? here.state[i] + first : NULL;
    here.grad = grad;
    here.n = n;
    gr_update_run(&here, 0, n);
}

static void job_slice(void *arg, int slice, int n_slices)
{
    const gr_update_job *j = arg;
    int64_t lo, hi;

    gr_pool_cut((int64_t)j->n, (int64_t)GR_UPDATE_GRAIN, slice, n_slices, &lo, &hi);
    gr_update_run(j, (size_t)lo, (size_t)(hi - lo));
}

static void run_job(const gr_launch *l, gr_update_job *j)
{
    int slices = gr_pool_size(l->pool);

    gr_pool_run(l->pool, job_slice, j, j->n < 4 * GR_UPDATE_GRAIN ? 1 : slices);
}

/* ---- accumulate ---- */

static void accumulate_range(const gr_update_job *j, size_t first, size_t n)
{
    j->loops->accumulate(j->dst + first, j->grad + first, n);
}

static void copy_range(const gr_update_job *j, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++)
        j->dst[i] = j->grad[i];
}

static gr_status run_accumulate(const gr_launch *l, const gr_update_loops *loops)
{
    gr_update_job j = {
        .loops = loops, .dst = l->out[0], .grad = l->src[0], .n = count(l->node->src[0])
    };

    j.range = l->scalars->micro == 0 ? copy_range : accumulate_range;
    run_job(l, &j);
    return GR_OK;
}

typedef struct scaled_job {
    float *sum;
    const float *grad;
    float factor;
    bool is_first;
    int64_t n;
} scaled_job;

static void scaled_slice(void *arg, int slice, int n_slices)
{
    const scaled_job *j = arg;
    int64_t lo, hi;

    gr_pool_cut(j->n, (int64_t)GR_UPDATE_GRAIN, slice, n_slices, &lo, &hi);
    for (int64_t i = lo; i < hi && j->is_first; i++)
        j->sum[i] = j->grad[i] * j->factor;
    for (int64_t i = lo; i < hi && !j->is_first; i++)
        j->sum[i] += j->grad[i] * j->factor;
}

static gr_status run_accumulate_scaled(const gr_launch *l)
{
    scaled_job j = { .sum = l->out[0],
                     .grad = l->src[0],
                     .factor = *(const float *)l->src[1],
                     .is_first = l->scalars->micro == 0,
                     .n = (int64_t)count(l->node->src[0]) };
    bool is_small = j.n < 4 * (int64_t)GR_UPDATE_GRAIN;

    gr_pool_run(l->pool, scaled_slice, &j, is_small ? 1 : gr_pool_size(l->pool));
    return GR_OK;
}

const gr_kernel gr_accumulate_scaled_cpu[] = {
    { .name = "reference", .run = run_accumulate_scaled },
    { .name = NULL },
};

/* ---- grad_control ---- */

static size_t count_blocks(const gr_node *n, int first)
{
    size_t blocks = 0;

    for (int s = first; s < n->n_src; s++)
        blocks += (count(n->src[s]) + GR_NORM_BLOCK - 1) / GR_NORM_BLOCK;
    return blocks;
}

static size_t control_workspace(const gr_node *n, const void *data)
{
    const gr_control_attr *a = n->attr;

    (void)data;
    return count_blocks(n, a->has_scale) * sizeof(double);
}

typedef struct norm_job {
    const gr_launch *l;
    const gr_update_loops *loops;
    double *block_sum;
    int first; /* source */
} norm_job;

/* Slices take whole blocks; a block's sum does not depend on who computes it. */
static void norm_slice(void *arg, int slice, int n_slices)
{
    norm_job *j = arg;
    size_t block = 0;

    for (int s = j->first; s < j->l->node->n_src; s++) {
        const float *grad = j->l->src[s];
        size_t n = count(j->l->node->src[s]);

        for (size_t at = 0; at < n; at += GR_NORM_BLOCK, block++) {
            size_t len = n - at < GR_NORM_BLOCK ? n - at : GR_NORM_BLOCK;

            if ((int)(block % (size_t)n_slices) == slice)
                j->block_sum[block] = j->loops->sum_squares(grad + at, len);
        }
    }
}

void gr_control_fill(const gr_control_attr *a, double sum, double scale, float *out)
{
    double norm = sqrt(sum) / scale, clip = 1;

    if (a->max_norm > 0 && a->max_norm < norm + 1e-6)
        clip = a->max_norm / (norm + 1e-6);
    out[GR_CONTROL_FACTOR] = (float)(clip / scale);
    out[GR_CONTROL_SKIP] = isfinite(norm) ? 0.0f : 1.0f;
    out[GR_CONTROL_NORM] = (float)norm;
    out[GR_CONTROL_SCALE] = (float)scale;
}

static gr_status run_control(const gr_launch *l, const gr_update_loops *loops)
{
    const gr_control_attr *a = l->node->attr;
    double scale = a->has_scale ? (double)*(const float *)l->src[0] : 1.0;
    norm_job j = { l, loops, l->work, a->has_scale };
    size_t n_blocks = count_blocks(l->node, a->has_scale);
    double sum = 0;

    gr_pool_run(l->pool, norm_slice, &j, gr_pool_size(l->pool));
    for (size_t i = 0; i < n_blocks; i++)
        sum += j.block_sum[i];
    gr_control_fill(a, sum, scale, l->out[0]);
    return GR_OK;
}

/* ---- counters ---- */

static bool skips(const float *control)
{
    return control && control[GR_CONTROL_SKIP] != 0;
}

static gr_status run_count(const gr_launch *l)
{
    const gr_count_attr *a = l->node->attr;
    int64_t *counter = l->out[skips(a->has_control ? l->src[2] : NULL) ? 1 : 0];

    ++*counter;
    return GR_OK;
}

#define GROW_EVERY 2000 /* good steps; PyTorch's growth_interval */

static gr_status run_scale(const gr_launch *l)
{
    float *scale = l->out[0];
    int64_t *good = l->out[1];

    if (skips(l->src[2])) {
        *scale = *scale * 0.5f < FLT_MIN ? FLT_MIN : *scale * 0.5f;
        *good = 0;
    } else if (++*good == GROW_EVERY) {
        *scale = *scale > FLT_MAX / 2 ? *scale : *scale * 2.0f;
        *good = 0;
    }
    return GR_OK;
}

/* ---- sgd, adamw, ema ---- */

static float clip_of(const gr_update_attr *a)
{
    return a->clip_value > 0 ? (float)a->clip_value : INFINITY;
}

static void sgd_range(const gr_update_job *j, size_t first, size_t n)
{
    float *buffer = j->state[0] ? j->state[0] + first : NULL;

    j->loops->sgd(j->dst + first, j->grad + first, buffer, n, &j->sgd);
}

/* The copy is the last output. */
static void take_copy(const gr_launch *l, const gr_update_attr *a, gr_update_job *j)
{
    const gr_wire_loops *loops =
        j->loops == &gr_update_ref ? &gr_wire_loops_ref : &gr_wire_loops_avx2;
    int o = l->node->n_out - 1;

    if (!a->has_copy)
        return;
    j->copy = l->out[o];
    j->narrow = loops->pack[l->node->out[o].dtype == GR_F16];
}

/* Moves the job from the whole parameter to its part. */
static void take_part(gr_update_job *j, const gr_update_attr *a)
{
    if (!a->has_part)
        return;
    j->copy = j->copy ? j->copy + a->part.of.first : NULL;
    j->dst += a->part.of.first;
    j->grad += a->part.grad_at;
    j->n = (size_t)a->part.of.n;
    for (int i = 0; i < 2 && a->part.in_whole; i++)
        j->state[i] = j->state[i] ? j->state[i] + a->part.of.first : NULL;
}

static bool begin_sgd(const gr_launch *l, const gr_update_loops *loops, gr_update_job *j)
{
    const gr_sgd_attr *a = l->node->attr;
    const float *control = a->of.has_control ? l->src[2] : NULL;

    if (skips(control))
        return false;
    *j = (gr_update_job){ .range = sgd_range,
                          .loops = loops,
                          .dst = l->out[0],
                          .state = { a->momentum != 0 ? l->out[1] : NULL },
                          .grad = l->src[1],
                          .n = count(l->node->src[0]) };
    take_copy(l, &a->of, j);
    take_part(j, &a->of);
    j->sgd = (gr_sgd_terms){ .lr = (float)((double)l->scalars->lr * a->of.lr_scale),
                             .momentum = (float)a->momentum,
                             .weight_decay = (float)a->of.weight_decay,
                             .clip = clip_of(&a->of),
                             .nesterov = a->nesterov,
                             .factor = control ? control[GR_CONTROL_FACTOR] : 1 };
    return true;
}

static void adamw_range(const gr_update_job *j, size_t first, size_t n)
{
    j->loops->adamw(j->dst + first, j->grad + first, j->state[0] + first, j->state[1] + first, n,
                    &j->adamw);
}

static bool begin_adamw(const gr_launch *l, const gr_update_loops *loops, gr_update_job *j)
{
    const gr_adamw_attr *a = l->node->attr;
    const float *control = a->of.has_control ? l->src[3] : NULL;
    double t = (double)*(const int64_t *)l->src[2];
    double lr = (double)l->scalars->lr * a->of.lr_scale;

    if (skips(control))
        return false;
    *j = (gr_update_job){ .range = adamw_range,
                          .loops = loops,
                          .dst = l->out[0],
                          .state = { l->out[1], l->out[2] },
                          .grad = l->src[1],
                          .n = count(l->node->src[0]) };
    take_copy(l, &a->of, j);
    take_part(j, &a->of);
    j->adamw = (gr_adamw_terms){ .beta2 = (float)a->beta2,
                                 .rest1 = (float)(1 - a->beta1),
                                 .rest2 = (float)(1 - a->beta2),
                                 .decay = a->l2 ? 1 : (float)(1 - lr * a->of.weight_decay),
                                 .l2 = a->l2 ? (float)a->of.weight_decay : 0,
                                 .step_size = (float)(lr / (1 - pow(a->beta1, t))),
                                 .root_factor = (float)(1 / sqrt(1 - pow(a->beta2, t))),
                                 .eps = (float)a->eps,
                                 .clip = clip_of(&a->of),
                                 .factor = control ? control[GR_CONTROL_FACTOR] : 1 };
    return true;
}

static void ema_range(const gr_update_job *j, size_t first, size_t n)
{
    j->loops->ema(j->dst + first, j->grad + first, n, j->ema_rest);
}

static bool begin_ema(const gr_launch *l, const gr_update_loops *loops, gr_update_job *j)
{
    const gr_ema_attr *a = l->node->attr;
    bool is_first = *(const int64_t *)l->src[2] <= 1;

    if (skips(a->has_control ? l->src[3] : NULL))
        return false;
    *j = (gr_update_job){ .range = is_first ? copy_range : ema_range,
                          .loops = loops,
                          .dst = l->out[0],
                          .grad = l->src[1],
                          .n = count(l->node->src[0]),
                          .ema_rest = (float)(1 - a->decay) };
    if (a->has_part) {
        j->dst += a->part.in_whole ? a->part.of.first : 0;
        j->grad += a->part.of.first;
        j->n = (size_t)a->part.of.n;
    }
    return true;
}

gr_update_begin *gr_update_begin_of(const gr_op *op)
{
    if (op == &gr_op_sgd)
        return begin_sgd;
    return op == &gr_op_adamw ? begin_adamw : begin_ema;
}

static gr_status run_sgd(const gr_launch *l, const gr_update_loops *loops)
{
    gr_update_job j;

    if (begin_sgd(l, loops, &j))
        run_job(l, &j);
    return GR_OK;
}

static gr_status run_adamw(const gr_launch *l, const gr_update_loops *loops)
{
    gr_update_job j;

    if (begin_adamw(l, loops, &j))
        run_job(l, &j);
    return GR_OK;
}

static gr_status run_ema(const gr_launch *l, const gr_update_loops *loops)
{
    gr_update_job j;

    if (begin_ema(l, loops, &j))
        run_job(l, &j);
    return GR_OK;
}

/* ---- tables: avx512, avx2, reference ---- */

GR_UPDATE_KERNELS(accumulate, gr_accumulate_cpu, NULL);
GR_UPDATE_KERNELS(control, gr_grad_control_cpu, control_workspace);
GR_UPDATE_KERNELS(sgd, gr_sgd_cpu, NULL);
GR_UPDATE_KERNELS(adamw, gr_adamw_cpu, NULL);
GR_UPDATE_KERNELS(ema, gr_ema_cpu, NULL);

const gr_kernel gr_count_step_cpu[] = {
    { .name = "reference", .run = run_count },
    { .name = NULL },
};

const gr_kernel gr_scale_update_cpu[] = {
    { .name = "reference", .run = run_scale },
    { .name = NULL },
};
