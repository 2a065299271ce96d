/*
 * What happens to gradients, on the GPU. Step scalars and the control value are read on
 * the device, so that a recorded step can be replayed, and a skipped step is a test at
 * the start of each kernel.
 *
 * Products and sums are rounded one by one (no fused multiply-add), in the order of the
 * CPU's reference, so that the two agree in nearly every bit.
 */
#include "op/update/update.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/pack.cuh"
#include "backend/cuda/reduce.cuh"
#include "op/module_cuda.h"

#include <float.h>
#include <math.h>

#define BLOCK      GR_CUDA_BLOCK
#define GROW_EVERY 2000 /* good steps; PyTorch's growth_interval */

static __device__ __forceinline__ float mul(float a, float b)
{
    return __fmul_rn(a, b);
}

static __device__ __forceinline__ float add(float a, float b)
{
    return __fadd_rn(a, b);
}

static __device__ __forceinline__ bool skips(const float *control)
{
    return control && control[GR_CONTROL_SKIP] != 0.0f;
}

static int64_t count(const gr_value *v)
{
    return gr_shape_count(&v->shape);
}

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

/* ---- what sgd and adamw share ---- */

/* A parameter's copy in 16 bits, which its update writes while it has the number at hand. */
typedef struct low_copy {
    uint16_t *mem; /* NULL: there is none */
    bool f16;      /* else bf16 */
} low_copy;

/* The copy is the last output. */
static low_copy copy_of(const gr_launch *l, const gr_update_attr *at)
{
    int o = l->node->n_out - 1;
    low_copy c;

    c.mem = at->has_copy ? (uint16_t *)l->out[o] : NULL;
    c.f16 = at->has_copy && l->node->out[o].dtype == GR_F16;
    return c;
}

template <int N>
static __device__ __forceinline__ void store_copy(const low_copy &c, int64_t i,
                                                  const gr_pack<float, N> &w)
{
    if (c.f16)
        gr_pack_store((__half *)c.mem + i, w);
    else
        gr_pack_store((__nv_bfloat16 *)c.mem + i, w);
}

/* What an update writes, moved to the part of the parameter that is to be updated. */
typedef struct targets {
    float *param, *state[2]; /* NULL: the update has no such state */
    const float *grad;
    low_copy copy;
    int64_t n; /* elements */
} targets;

static void take_part(targets *t, const gr_update_part *part)
{
    t->param += part->of.first;
    t->grad += part->grad_at;
    t->n = part->of.n;
    if (t->copy.mem)
        t->copy.mem += part->of.first;
    for (int i = 0; i < 2 && part->in_whole; i++)
        if (t->state[i])
            t->state[i] += part->of.first;
}

static targets targets_of(const gr_launch *l, const gr_update_attr *at, int n_state)
{
    targets t;

    t.param = (float *)l->out[0];
    for (int i = 0; i < 2; i++)
        t.state[i] = i < n_state ? (float *)l->out[1 + i] : NULL;
    t.grad = (const float *)l->src[1];
    t.copy = copy_of(l, at);
    t.n = count(l->node->src[0]);
    if (at->has_part)
        take_part(&t, &at->part);
    return t;
}

/* Whether four elements can be taken at a time. */
static bool takes_packs(const targets &t)
{
    return gr_pack_is_aligned(t.param, t.state[0], t.state[1], t.grad) &&
           (uintptr_t)t.copy.mem % 8 == 0;
}

/* ---- sgd ---- */

typedef struct sgd_args {
    float *param, *buffer; /* buffer NULL: no momentum */
    const float *grad, *control;
    const gr_scalars *scalars;
    low_copy copy;
    int64_t n;
    float momentum, weight_decay, clip;
    double lr_scale;
    bool nesterov;
} sgd_args;

/* NaN stays NaN: a bad gradient must not look like a large one. */
static __device__ float cut(float g, float clip)
{
    return g > clip ? clip : g < -clip ? -clip : g;
}

/* Packs of N floats; grid-stride. */
template <int N> static __global__ void sgd(sgd_args p)
{
    float lr = (float)((double)p.scalars->lr * p.lr_scale);
    float factor = p.control ? p.control[GR_CONTROL_FACTOR] : 1.0f;

    if (skips(p.control))
        return;
    gr_pack_each<N>(p.n, [&](auto lanes, int64_t i) {
        const int L = decltype(lanes)::n;
        gr_pack<float, L> w = gr_pack_load<float, L>(p.param + i), b;
        gr_pack<float, L> g = gr_pack_load<float, L>(p.grad + i);

        if (p.buffer)
            b = gr_pack_load<float, L>(p.buffer + i);
        for (int j = 0; j < L; j++) {
            float d = add(cut(mul(g.v[j], factor), p.clip), mul(p.weight_decay, w.v[j])), v = d;

            if (p.buffer)
                b.v[j] = v = add(mul(p.momentum, b.v[j]), v);
            if (p.nesterov)
                v = add(d, mul(p.momentum, v));
            w.v[j] = add(w.v[j], -mul(lr, v));
        }
        if (p.buffer)
            gr_pack_store(p.buffer + i, b);
        gr_pack_store(p.param + i, w);
        if (p.copy.mem)
            store_copy(p.copy, i, w);
    });
}

static gr_status sgd_run(const gr_launch *l)
{
    const gr_sgd_attr *at = (const gr_sgd_attr *)l->node->attr;
    targets t = targets_of(l, &at->of, at->momentum != 0.0);
    sgd_args p;

    p.param = t.param;
    p.buffer = t.state[0];
    p.grad = t.grad;
    p.copy = t.copy;
    p.control = at->of.has_control ? (const float *)l->src[2] : NULL;
    p.scalars = l->scalars;
    p.momentum = (float)at->momentum;
    p.weight_decay = (float)at->of.weight_decay;
    p.clip = at->of.clip_value > 0.0 ? (float)at->of.clip_value : INFINITY;
    p.lr_scale = at->of.lr_scale;
    p.nesterov = at->nesterov;
    p.n = t.n;
    return gr_cuda_launch("sgd launch", gr_cuda_grid_for(p.n, 4), gr_cuda_stream(l->stream),
                          takes_packs(t) ? sgd<4> : sgd<1>, p);
}

/* ---- adamw ---- */

typedef struct adamw_args {
    float *param, *m, *v;
    const float *grad, *control;
    const int64_t *step; /* number of this update, from 1 */
    const gr_scalars *scalars;
    low_copy copy;
    int64_t n;
    double beta1, beta2, eps, weight_decay, lr_scale;
    float clip;
    bool l2;
} adamw_args;

typedef struct adamw_terms {
    float decay;       /* 1 - lr * weight_decay */
    float step_size;   /* lr / (1 - beta1^t) */
    float root_factor; /* 1 / sqrt(1 - beta2^t) */
} adamw_terms;

/* x^n by squaring: a tenth of the time of pow(), and that time is most of a small update. */
static __device__ double power(double x, int64_t n)
{
    double y = 1.0;

    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            y *= x;
    return y;
}

/* Packs of N floats; grid-stride. One thread of each block computes the powers. */
template <int N> static __global__ void adamw(adamw_args p)
{
    __shared__ adamw_terms k;
    float factor = p.control ? p.control[GR_CONTROL_FACTOR] : 1.0f, eps = (float)p.eps;
    float beta2 = (float)p.beta2, rest1 = (float)(1.0 - p.beta1), rest2 = (float)(1.0 - p.beta2);
    float l2 = p.l2 ? (float)p.weight_decay : 0.0f;

    if (skips(p.control))
        return;
    if (threadIdx.x == 0) {
        int64_t t = *p.step;
        double lr = p.scalars->lr * p.lr_scale;

        k.decay = p.l2 ? 1.0f : (float)(1.0 - lr * p.weight_decay);
        k.step_size = (float)(lr / (1.0 - power(p.beta1, t)));
        k.root_factor = (float)(1.0 / sqrt(1.0 - power(p.beta2, t)));
    }
    __syncthreads();
    gr_pack_each<N>(p.n, [&](auto lanes, int64_t i) {
        const int L = decltype(lanes)::n;
        gr_pack<float, L> w = gr_pack_load<float, L>(p.param + i);
        gr_pack<float, L> grad = gr_pack_load<float, L>(p.grad + i);
        gr_pack<float, L> m = gr_pack_load<float, L>(p.m + i), v = gr_pack_load<float, L>(p.v + i);

        for (int j = 0; j < L; j++) {
            float g = add(cut(mul(grad.v[j], factor), p.clip), mul(l2, w.v[j]));

            m.v[j] = add(m.v[j], mul(add(g, -m.v[j]), rest1));
            v.v[j] = add(mul(v.v[j], beta2), mul(mul(rest2, g), g));
            w.v[j] = add(mul(w.v[j], k.decay),
                         -__fdiv_rn(mul(k.step_size, m.v[j]),
                                    add(mul(__fsqrt_rn(v.v[j]), k.root_factor), eps)));
        }
        gr_pack_store(p.m + i, m);
        gr_pack_store(p.v + i, v);
        gr_pack_store(p.param + i, w);
        if (p.copy.mem)
            store_copy(p.copy, i, w);
    });
}

static gr_status adamw_run(const gr_launch *l)
{
    const gr_adamw_attr *at = (const gr_adamw_attr *)l->node->attr;
    targets t = targets_of(l, &at->of, 2);
    adamw_args p;

    p.param = t.param;
    p.m = t.state[0];
    p.v = t.state[1];
    p.grad = t.grad;
    p.copy = t.copy;
    p.step = (const int64_t *)l->src[2];
    p.control = at->of.has_control ? (const float *)l->src[3] : NULL;
    p.scalars = l->scalars;
    p.beta1 = at->beta1;
    p.beta2 = at->beta2;
    p.eps = at->eps;
    p.weight_decay = at->of.weight_decay;
    p.lr_scale = at->of.lr_scale;
    p.clip = at->of.clip_value > 0.0 ? (float)at->of.clip_value : INFINITY;
    p.l2 = at->l2;
    p.n = t.n;
    return gr_cuda_launch("adamw launch", gr_cuda_grid_for(p.n, 4), gr_cuda_stream(l->stream),
                          takes_packs(t) ? adamw<4> : adamw<1>, p);
}

/* ---- ema ---- */

typedef struct ema_args {
    float *average;
    const float *param, *control;
    const int64_t *step;
    int64_t n;
    float rest;
} ema_args;

/* Packs of N floats; grid-stride. */
template <int N> static __global__ void ema(ema_args p)
{
    bool is_first = *p.step <= 1;

    if (skips(p.control))
        return;
    gr_pack_each<N>(p.n, [&](auto lanes, int64_t i) {
        const int L = decltype(lanes)::n;
        gr_pack<float, L> a = gr_pack_load<float, L>(p.average + i);
        gr_pack<float, L> w = gr_pack_load<float, L>(p.param + i);

        for (int j = 0; j < L; j++)
            a.v[j] = is_first ? w.v[j] : add(a.v[j], mul(add(w.v[j], -a.v[j]), p.rest));
        gr_pack_store(p.average + i, a);
    });
}

static gr_status ema_run(const gr_launch *l)
{
    const gr_ema_attr *at = (const gr_ema_attr *)l->node->attr;
    ema_args p;

    p.average = (float *)l->out[0];
    p.param = (const float *)l->src[1];
    if (at->has_part) {
        p.average += at->part.in_whole ? at->part.of.first : 0;
        p.param += at->part.of.first;
    }
    p.step = (const int64_t *)l->src[2];
    p.control = at->has_control ? (const float *)l->src[3] : NULL;
    p.rest = (float)(1.0 - at->decay);
    p.n = at->has_part ? at->part.of.n : count(l->node->src[0]);
    return gr_cuda_launch("ema launch", gr_cuda_grid_for(p.n, 4), gr_cuda_stream(l->stream),
                          gr_pack_is_aligned(p.average, p.param) ? ema<4> : ema<1>, p);
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
KERNELS(gr_grad_control_cuda, control_workspace, control_run);
KERNELS(gr_count_step_cuda, NULL, count_run);
KERNELS(gr_scale_update_cuda, NULL, scale_run);
KERNELS(gr_sgd_cuda, NULL, sgd_run);
KERNELS(gr_adamw_cuda, NULL, adamw_run);
KERNELS(gr_ema_cuda, NULL, ema_run);
