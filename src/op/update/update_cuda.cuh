/*
 * What the updates on a GPU are made of, for kernels of one update and of many: their arguments,
 * taken from a launch, and the arithmetic of neighbouring elements.
 *
 * Products and sums are rounded one by one (no fused multiply-add), in the order of the
 * CPU's reference, so that the two agree in nearly every bit.
 */
#ifndef GR_OP_UPDATE_UPDATE_CUH
#define GR_OP_UPDATE_UPDATE_CUH

#include "op/update/update.h"

#include "backend/cuda/pack.cuh"

#include <math.h>

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

static inline int64_t count(const gr_value *v)
{
    return gr_shape_count(&v->shape);
}

/* A parameter's copy in 16 bits, which its update writes while it has the number at hand. */
typedef struct low_copy {
    uint16_t *mem; /* NULL: there is none */
    bool f16;      /* else bf16 */
} low_copy;

/* The copy is the last output. */
static inline low_copy copy_of(const gr_launch *l, const gr_update_attr *at)
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

static inline void take_part(targets *t, const gr_update_part *part)
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

static inline targets targets_of(const gr_launch *l, const gr_update_attr *at, int n_state)
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
static inline bool takes_packs(const targets &t)
{
    return gr_pack_is_aligned(t.param, t.state[0], t.state[1], t.grad) &&
           (uintptr_t)t.copy.mem % 8 == 0;
}

/* NaN stays NaN: a bad gradient must not look like a large one. */
static __device__ __forceinline__ float cut(float g, float clip)
{
    return g > clip ? clip : g < -clip ? -clip : g;
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
    bool nesterov, in_packs;
} sgd_args;

static inline sgd_args sgd_args_of(const gr_launch *l)
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
    p.in_packs = takes_packs(t);
    return p;
}

/* What is the same for all elements. */
typedef struct sgd_terms {
    float lr, factor;
} sgd_terms;

static __device__ __forceinline__ sgd_terms sgd_terms_of(const sgd_args &p)
{
    sgd_terms k;

    k.lr = (float)((double)p.scalars->lr * p.lr_scale);
    k.factor = p.control ? p.control[GR_CONTROL_FACTOR] : 1.0f;
    return k;
}

/* Elements [i, i + L). */
template <int L>
static __device__ __forceinline__ void sgd_at(const sgd_args &p, const sgd_terms &k, int64_t i)
{
    gr_pack<float, L> w = gr_pack_load<float, L>(p.param + i), b;
    gr_pack<float, L> g = gr_pack_load<float, L>(p.grad + i);

    if (p.buffer)
        b = gr_pack_load<float, L>(p.buffer + i);
    for (int j = 0; j < L; j++) {
        float d = add(cut(mul(g.v[j], k.factor), p.clip), mul(p.weight_decay, w.v[j])), v = d;

        if (p.buffer)
            b.v[j] = v = add(mul(p.momentum, b.v[j]), v);
        if (p.nesterov)
            v = add(d, mul(p.momentum, v));
        w.v[j] = add(w.v[j], -mul(k.lr, v));
    }
    if (p.buffer)
        gr_pack_store(p.buffer + i, b);
    gr_pack_store(p.param + i, w);
    if (p.copy.mem)
        store_copy(p.copy, i, w);
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
    bool l2, in_packs;
} adamw_args;

static inline adamw_args adamw_args_of(const gr_launch *l)
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
    p.in_packs = takes_packs(t);
    return p;
}

typedef struct adamw_terms {
    float decay;       /* 1 - lr * weight_decay */
    float step_size;   /* lr / (1 - beta1^t) */
    float root_factor; /* 1 / sqrt(1 - beta2^t) */
    float factor;
} adamw_terms;

/* x^n by squaring: a tenth of the time of pow(), and that time is most of a small update. */
static __device__ __forceinline__ double power(double x, int64_t n)
{
    double y = 1.0;

    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            y *= x;
    return y;
}

/* For one thread of a block: it takes a while. */
static __device__ __forceinline__ adamw_terms adamw_terms_of(const adamw_args &p)
{
    int64_t t = *p.step;
    double lr = p.scalars->lr * p.lr_scale;
    adamw_terms k;

    k.decay = p.l2 ? 1.0f : (float)(1.0 - lr * p.weight_decay);
    k.step_size = (float)(lr / (1.0 - power(p.beta1, t)));
    k.root_factor = (float)(1.0 / sqrt(1.0 - power(p.beta2, t)));
    k.factor = p.control ? p.control[GR_CONTROL_FACTOR] : 1.0f;
    return k;
}

/* Elements [i, i + L). */
template <int L>
static __device__ __forceinline__ void adamw_at(const adamw_args &p, const adamw_terms &k,
                                                int64_t i)
{
    float beta2 = (float)p.beta2, rest1 = (float)(1.0 - p.beta1), rest2 = (float)(1.0 - p.beta2);
    float l2 = p.l2 ? (float)p.weight_decay : 0.0f, eps = (float)p.eps;
    gr_pack<float, L> w = gr_pack_load<float, L>(p.param + i);
    gr_pack<float, L> grad = gr_pack_load<float, L>(p.grad + i);
    gr_pack<float, L> m = gr_pack_load<float, L>(p.m + i), v = gr_pack_load<float, L>(p.v + i);

    for (int j = 0; j < L; j++) {
        float g = add(cut(mul(grad.v[j], k.factor), p.clip), mul(l2, w.v[j]));

        m.v[j] = add(m.v[j], mul(add(g, -m.v[j]), rest1));
        v.v[j] = add(mul(v.v[j], beta2), mul(mul(rest2, g), g));
        w.v[j] =
            add(mul(w.v[j], k.decay), -__fdiv_rn(mul(k.step_size, m.v[j]),
                                                 add(mul(__fsqrt_rn(v.v[j]), k.root_factor), eps)));
    }
    gr_pack_store(p.m + i, m);
    gr_pack_store(p.v + i, v);
    gr_pack_store(p.param + i, w);
    if (p.copy.mem)
        store_copy(p.copy, i, w);
}

/* ---- ema ---- */

typedef struct ema_args {
    float *average;
    const float *param, *control;
    const int64_t *step;
    int64_t n;
    float rest;
    bool in_packs;
} ema_args;

static inline ema_args ema_args_of(const gr_launch *l)
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
    p.in_packs = gr_pack_is_aligned(p.average, p.param);
    return p;
}

/* Elements [i, i + L). */
template <int L>
static __device__ __forceinline__ void ema_at(const ema_args &p, bool is_first, int64_t i)
{
    gr_pack<float, L> a = gr_pack_load<float, L>(p.average + i);
    gr_pack<float, L> w = gr_pack_load<float, L>(p.param + i);

    for (int j = 0; j < L; j++)
        a.v[j] = is_first ? w.v[j] : add(a.v[j], mul(add(w.v[j], -a.v[j]), p.rest));
    gr_pack_store(p.average + i, a);
}

#endif
