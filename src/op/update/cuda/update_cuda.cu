/*
 * What happens to gradients, on the GPU. Step scalars and the control value are read on
 * the device, so that a recorded step can be replayed, and a skipped step is a test at
 * the start of each kernel.
 */
#include "op/update/update.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/pack.cuh"
#include "backend/cuda/reduce.cuh"
#include "op/module_cuda.h"
#include "op/update/update_cuda.cuh"

#include <float.h>

#define BLOCK      GR_CUDA_BLOCK
#define GROW_EVERY 2000 /* good steps; PyTorch's growth_interval */

/* ---- accumulate ---- */

/* Packs of N floats; grid-stride. */
template <int N>
static __global__ void accumulate(float *sum, const float *grad, int64_t n,
                                  const gr_scalars *scalars)
{
    bool is_first = scalars->micro == 0;

    gr_pack_each<N>(n, [&](auto lanes, int64_t i) {
        const int L = decltype(lanes)::n;
        gr_pack<float, L> g = gr_pack_load<float, L>(grad + i);

        if (!is_first) {
            gr_pack<float, L> s = gr_pack_load<float, L>(sum + i);

            for (int j = 0; j < L; j++)
                g.v[j] = add(s.v[j], g.v[j]);
        }
        gr_pack_store(sum + i, g);
    });
}

/* The product is rounded before it is added, as on the CPU. */
template <int N>
static __global__ void accumulate_scaled(float *sum, const float *grad, const float *factor,
                                         int64_t n, const gr_scalars *scalars)
{
    bool is_first = scalars->micro == 0;
    float by = *factor;

    gr_pack_each<N>(n, [&](auto lanes, int64_t i) {
        const int L = decltype(lanes)::n;
        gr_pack<float, L> g = gr_pack_load<float, L>(grad + i), s;

        if (!is_first)
            s = gr_pack_load<float, L>(sum + i);
        for (int j = 0; j < L; j++)
            g.v[j] = is_first ? mul(g.v[j], by) : add(s.v[j], mul(g.v[j], by));
        gr_pack_store(sum + i, g);
    });
}

static gr_status scaled_run(const gr_launch *l)
{
    int64_t n = count(l->node->src[0]);
    float *sum = (float *)l->out[0];
    const float *grad = (const float *)l->src[0];

    return gr_cuda_launch(
        "accumulate_scaled launch", gr_cuda_grid_for(n, 4), gr_cuda_stream(l->stream),
        gr_pack_is_aligned(sum, grad) ? accumulate_scaled<4> : accumulate_scaled<1>, sum, grad,
        (const float *)l->src[1], n, l->scalars);
}

static gr_status accumulate_run(const gr_launch *l)
{
    int64_t n = count(l->node->src[0]);
    float *sum = (float *)l->out[0];
    const float *grad = (const float *)l->src[0];

    return gr_cuda_launch("accumulate launch", gr_cuda_grid_for(n, 4), gr_cuda_stream(l->stream),
                          gr_pack_is_aligned(sum, grad) ? accumulate<4> : accumulate<1>, sum, grad,
                          n, l->scalars);
}

/* ---- grad_control ---- */

/* So many gradients one launch takes by value. */
#define PER_LAUNCH 64

typedef struct grad_table {
    const float *grad[PER_LAUNCH];
    int64_t n[PER_LAUNCH];
    int64_t first[PER_LAUNCH + 1]; /* number of its first block; [n_grads]: the end */
    int n_grads;
} grad_table;

/* sums[first + i]: sum of squares of block i of the launch; grid one block of threads for
 * each block of GR_NORM_BLOCK elements. */
static __global__ void norm_blocks(const __grid_constant__ grad_table t, double *sums)
{
    int64_t block = t.first[0] + blockIdx.x, lo, hi;
    double sum = 0.0;
    int g = 0;

    while (block >= t.first[g + 1])
        g++;
    lo = (block - t.first[g]) * GR_NORM_BLOCK;
    hi = lo + GR_NORM_BLOCK < t.n[g] ? lo + GR_NORM_BLOCK : t.n[g];
    for (int64_t i = lo + threadIdx.x; i < hi; i += BLOCK) {
        double x = t.grad[g][i];

        sum += x * x;
    }
    sum = gr_team_join<BLOCK>(sum, gr_plus());
    if (threadIdx.x == 0)
        sums[block] = sum;
}

/* One block: adds up n block sums in order and derives the control value. */
static __global__ void norm_finish(float *control, const double *sums, int64_t n,
                                   const float *scale_mem, double max_norm)
{
    __shared__ double tile[1024];
    double sum = 0.0, scale = scale_mem ? (double)*scale_mem : 1.0, clip = 1.0, norm;

    for (int64_t at = 0; at < n; at += 1024) {
        int n_tile = n - at < 1024 ? (int)(n - at) : 1024;

        for (int i = threadIdx.x; i < n_tile; i += BLOCK)
            tile[i] = sums[at + i];
        __syncthreads();
        if (threadIdx.x == 0)
            for (int i = 0; i < n_tile; i++)
                sum += tile[i];
        __syncthreads();
    }
    if (threadIdx.x != 0)
        return;
    norm = sqrt(sum) / scale;
    if (max_norm > 0.0 && max_norm < norm + 1e-6)
        clip = max_norm / (norm + 1e-6);
    control[GR_CONTROL_FACTOR] = (float)(clip / scale);
    control[GR_CONTROL_SKIP] = isfinite(norm) ? 0.0f : 1.0f;
    control[GR_CONTROL_NORM] = (float)norm;
    control[GR_CONTROL_SCALE] = (float)scale;
}

static int64_t n_blocks_of(const gr_value *v)
{
    return gr_ceil_div(count(v), GR_NORM_BLOCK);
}

static size_t control_workspace(const gr_node *n, const void *data)
{
    const gr_control_attr *at = (const gr_control_attr *)n->attr;
    int64_t n_blocks = 0;

    (void)data;
    for (int i = at->has_scale; i < n->n_src; i++)
        n_blocks += n_blocks_of(n->src[i]);
    return (size_t)n_blocks * sizeof(double);
}

/* Takes sources from *next on, as many as fit, into t; their blocks count from `block`. */
static void fill_table(grad_table *t, const gr_launch *l, int *next, int64_t block)
{
    t->n_grads = 0;
    for (; *next < l->node->n_src && t->n_grads < PER_LAUNCH; ++*next) {
        int i = t->n_grads;

        if (count(l->node->src[*next]) == 0)
            continue;
        t->grad[i] = (const float *)l->src[*next];
        t->n[i] = count(l->node->src[*next]);
        t->first[i] = block;
        block += n_blocks_of(l->node->src[*next]);
        t->first[++t->n_grads] = block;
    }
}

static gr_status control_run(const gr_launch *l)
{
    const gr_control_attr *at = (const gr_control_attr *)l->node->attr;
    cudaStream_t s = gr_cuda_stream(l->stream);
    double *sums = (double *)l->work;
    grad_table t;
    int64_t n_blocks = 0;
    int next = at->has_scale;

    while (next < l->node->n_src) {
        fill_table(&t, l, &next, n_blocks);
        if (t.n_grads == 0)
            break;
        n_blocks = t.first[t.n_grads];
        GR_TRY(gr_cuda_launch("grad_control launch",
                              gr_cuda_grid_of(n_blocks - t.first[0], 1, BLOCK), s, norm_blocks, t,
                              sums));
    }
    return gr_cuda_launch("grad_control launch", gr_cuda_grid_of(1, 1, BLOCK), s, norm_finish,
                          (float *)l->out[0], sums, n_blocks,
                          at->has_scale ? (const float *)l->src[0] : NULL, at->max_norm);
}

/* ---- counters: one thread ---- */

static __global__ void count_step(int64_t *step, int64_t *skipped, const float *control)
{
    int64_t *counter = skips(control) ? skipped : step;

    ++*counter;
}

static gr_status count_run(const gr_launch *l)
{
    const gr_count_attr *at = (const gr_count_attr *)l->node->attr;

    return gr_cuda_launch("count_step launch", gr_cuda_grid_of(1, 1, 1), gr_cuda_stream(l->stream),
                          count_step, (int64_t *)l->out[0], (int64_t *)l->out[1],
                          at->has_control ? (const float *)l->src[2] : NULL);
}

static __global__ void scale_update(float *scale, int64_t *good, const float *control)
{
    if (skips(control)) {
        *scale = *scale * 0.5f < FLT_MIN ? FLT_MIN : *scale * 0.5f;
        *good = 0;
    } else if (++*good == GROW_EVERY) {
        *scale = *scale > FLT_MAX / 2 ? *scale : *scale * 2.0f;
        *good = 0;
    }
}

static gr_status scale_run(const gr_launch *l)
{
    return gr_cuda_launch("scale_update launch", gr_cuda_grid_of(1, 1, 1),
                          gr_cuda_stream(l->stream), scale_update, (float *)l->out[0],
                          (int64_t *)l->out[1], (const float *)l->src[2]);
}

/* ---- updates ---- */

/* Packs of N floats; grid-stride. */
template <int N> static __global__ void sgd(const __grid_constant__ sgd_args p)
{
    sgd_terms k = sgd_terms_of(p);

    if (skips(p.control))
        return;
    gr_pack_each<N>(p.n, [&](auto lanes, int64_t i) { sgd_at<decltype(lanes)::n>(p, k, i); });
}

static gr_status sgd_run(const gr_launch *l)
{
    sgd_args p = sgd_args_of(l);

    return gr_cuda_launch("sgd launch", gr_cuda_grid_for(p.n, 4), gr_cuda_stream(l->stream),
                          p.in_packs ? sgd<4> : sgd<1>, p);
}

/* Packs of N floats; grid-stride. One thread of each block computes the powers. */
template <int N> static __global__ void adamw(const __grid_constant__ adamw_args p)
{
    __shared__ adamw_terms k;

    if (skips(p.control))
        return;
    if (threadIdx.x == 0)
        k = adamw_terms_of(p);
    __syncthreads();
    gr_pack_each<N>(p.n, [&](auto lanes, int64_t i) { adamw_at<decltype(lanes)::n>(p, k, i); });
}

static gr_status adamw_run(const gr_launch *l)
{
    adamw_args p = adamw_args_of(l);

    return gr_cuda_launch("adamw launch", gr_cuda_grid_for(p.n, 4), gr_cuda_stream(l->stream),
                          p.in_packs ? adamw<4> : adamw<1>, p);
}

/* Packs of N floats; grid-stride. */
template <int N> static __global__ void ema(const __grid_constant__ ema_args p)
{
    bool is_first = *p.step <= 1;

    if (skips(p.control))
        return;
    gr_pack_each<N>(p.n,
                    [&](auto lanes, int64_t i) { ema_at<decltype(lanes)::n>(p, is_first, i); });
}

static gr_status ema_run(const gr_launch *l)
{
    ema_args p = ema_args_of(l);

    return gr_cuda_launch("ema launch", gr_cuda_grid_for(p.n, 4), gr_cuda_stream(l->stream),
                          p.in_packs ? ema<4> : ema<1>, p);
}

/* ---- tables ---- */

/* clang-format off */
#define KERNELS(table, work, fn) \
    const gr_kernel table[] = { \
        { .name = "cuda", .reject = NULL, .prepare = NULL, .workspace = work, .run = fn, \
          .release = NULL, .no_capture = false, .in_place = false }, \
        {}, \
    }
/* clang-format on */

KERNELS(gr_accumulate_cuda, NULL, accumulate_run);
KERNELS(gr_accumulate_scaled_cuda, NULL, scaled_run);
KERNELS(gr_grad_control_cuda, control_workspace, control_run);
KERNELS(gr_count_step_cuda, NULL, count_run);
KERNELS(gr_scale_update_cuda, NULL, scale_run);
KERNELS(gr_sgd_cuda, NULL, sgd_run);
KERNELS(gr_adamw_cuda, NULL, adamw_run);
KERNELS(gr_ema_cuda, NULL, ema_run);
