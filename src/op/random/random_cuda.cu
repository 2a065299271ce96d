/*
 * Random numbers and dropout on the GPU: the CPU's numbers, bit for bit.
 *
 * A thread draws one counter and serves all elements that share it: four numbers, 16 apart
 * in their group, or four pairs of halves for dropout. Neighbouring threads have neighbouring
 * counters, so each of the four is written along memory.
 */
#include "op/random/random.h"

#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/pack.cuh"
#include "op/module_cuda.h"
#include "op/random/draw.h"
#include "op/random/span.h"

#define COUNTERS 16 /* of a group */

typedef struct draw_args {
    const gr_scalars *scalars;
    int64_t n_samples, n_elem; /* so many, of so many elements each */
    gr_divider counters;       /* of a sample */
    const int64_t *key;        /* of each sample, or NULL */
    uint32_t stream;
    bool is_shared; /* the value belongs to the whole batch: sample 0 on every rank */
} draw_args;

typedef struct draw_spot {
    gr_draw draw;
    uint32_t sample;
    int64_t first; /* element of the value where the sample begins */
    int64_t group;
    int lane; /* 0 .. 15: the counter in its group */
} draw_spot;

/* The draw of sample s, and the counter's word for it. */
static __device__ __forceinline__ gr_draw draw_of(const draw_args &p, int64_t s, uint32_t *sample)
{
    gr_draw d = gr_draw_of(p.scalars, p.stream);

    if (p.key)
        return gr_draw_keyed(d, p.key[s], sample);
    *sample = (uint32_t)((p.is_shared ? 0 : p.scalars->sample) + (uint64_t)s);
    return d;
}

/* Counter number i of the value. */
static __device__ __forceinline__ draw_spot spot_of(const draw_args &p, int64_t i)
{
    int64_t s = gr_divide(&p.counters, i), c = i - s * p.counters.n;
    draw_spot x;

    x.draw = draw_of(p, s, &x.sample);
    x.first = s * p.n_elem;
    x.group = c / COUNTERS;
    x.lane = (int)(c % COUNTERS);
    return x;
}

static draw_args args_of(const gr_launch *l, const gr_shape *shape, int64_t n_samples,
                         uint32_t stream)
{
    draw_args p;

    p.scalars = l->scalars;
    p.key = NULL;
    p.is_shared = n_samples == 0;
    p.n_samples = p.is_shared ? 1 : n_samples;
    p.n_elem = gr_shape_count(shape) / p.n_samples;
    p.counters = gr_divider_of(1);
    p.stream = stream;
    return p;
}

/* ---- random ---- */

typedef struct random_args {
    draw_args d;
    gr_random_kind kind;
    double unit, a, b; /* uniform: from a by units, at most b; normal: mean and deviation */
    int shift;         /* of a uniform number, to its bits */
    int64_t from;
    uint64_t range;
} random_args;

/* As the vector kernels of the CPU do, rounding after the product. */
static __device__ __forceinline__ float uniform_of(const random_args &p, uint32_t x, float)
{
    float y = __fadd_rn(__fmul_rn((float)(x >> p.shift), (float)p.unit), (float)p.a);

    return y < (float)p.b ? y : (float)p.b;
}

static __device__ __forceinline__ double uniform_of(const random_args &p, uint32_t x, double)
{
    double y = __dadd_rn(__dmul_rn((double)(x >> p.shift), p.unit), p.a);

    return y < p.b ? y : p.b;
}

static __device__ __forceinline__ void normal_pair(float *y, const random_args &p, uint32_t first,
                                                   uint32_t second)
{
    float r = (float)p.b * sqrtf(-2.0f * logf((float)((first >> 8) + 1) * 0x1p-24f));
    float sine, cosine;

    sincospif((float)(second >> 8) * 0x1p-23f, &sine, &cosine);
    y[0] = fmaf(r, cosine, (float)p.a);
    y[1] = fmaf(r, sine, (float)p.a);
}

static __device__ __forceinline__ void normal_pair(double *y, const random_args &p, uint32_t first,
                                                   uint32_t second)
{
    double r = p.b * sqrt(-2.0 * log((double)((first >> 8) + 1) * 0x1p-24));
    double sine, cosine;

    sincospi((double)(second >> 8) * 0x1p-23, &sine, &cosine);
    y[0] = fma(r, cosine, p.a);
    y[1] = fma(r, sine, p.a);
}

template <class T> static __global__ void draw_floats(T *out, const __grid_constant__ random_args p)
{
    typedef typename gr_compute<T>::type C;

    GR_CUDA_EACH(i, p.d.n_samples * p.d.counters.n)
    {
        draw_spot x = spot_of(p.d, i);
        int64_t e = x.group * GR_DRAW_GROUP + x.lane;
        uint32_t number[4];
        C y[4];

        gr_draw_four(number, &x.draw, x.sample, e);
        if (p.kind == GR_RANDOM_NORMAL) {
            normal_pair(y, p, number[0], number[1]);
            normal_pair(y + 2, p, number[2], number[3]);
        } else {
#pragma unroll
            for (int k = 0; k < 4; k++)
                y[k] = uniform_of(p, number[k], C());
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (e + COUNTERS * k < p.d.n_elem)
                out[x.first + e + COUNTERS * k] = gr_as<T>(y[k]);
    }
}

template <class T> static __global__ void draw_whole(T *out, const __grid_constant__ random_args p)
{
    GR_CUDA_EACH(i, p.d.n_samples * p.d.counters.n)
    {
        draw_spot x = spot_of(p.d, i);
        int64_t e = x.group * GR_DRAW_GROUP + x.lane;
        uint32_t number[4];

        gr_draw_four(number, &x.draw, x.sample, e);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int64_t y = p.kind == GR_RANDOM_INT
                            ? (int64_t)((uint64_t)p.from + (number[k] * p.range >> 32))
                            : number[k] < p.range;

            if (e + COUNTERS * k < p.d.n_elem)
                out[x.first + e + COUNTERS * k] = gr_as<T>(y);
        }
    }
}

/* Fisher and Yates, a thread per row of n: each step needs the one before. */
template <class T>
static __global__ void draw_perm(T *out, const __grid_constant__ draw_args p, int64_t n,
                                 int64_t n_rows)
{
    GR_CUDA_EACH(r, n_rows)
    {
        int64_t s = r * n / p.n_elem, e = r * n % p.n_elem;
        uint32_t sample;
        gr_draw d = draw_of(p, s, &sample);
        T *row = out + r * n;

        for (int64_t i = 0; i < n; i++)
            row[i] = (T)i;
        for (int64_t i = 0; i + 1 < n; i++) {
            uint64_t x = gr_draw_at(&d, sample, e + i);
            int64_t j = i + (int64_t)(x * (uint64_t)(n - i) >> 32);
            T kept = row[i];

            row[i] = row[j];
            row[j] = kept;
        }
    }
}

static random_args random_args_of(const gr_launch *l)
{
    const gr_random_attr *at = (const gr_random_attr *)l->node->attr;
    bool is_uniform = at->kind == GR_RANDOM_UNIFORM;
    int bits = gr_random_bits(at->dtype);
    random_args p;

    p.d = args_of(l, &at->shape, at->n_samples, at->stream);
    p.d.counters =
        gr_divider_of(gr_ceil_div(p.d.n_elem > 0 ? p.d.n_elem : 1, GR_DRAW_GROUP) * COUNTERS);
    if (l->node->n_src == 1)
        p.d.key = (const int64_t *)l->src[0];
    p.kind = at->kind;
    p.unit = is_uniform ? (at->b - at->a) / (double)((uint32_t)1 << bits) : 0;
    p.a = at->a;
    p.b = is_uniform ? gr_random_most(at) : at->b;
    p.shift = 32 - bits;
    p.from = at->from;
    p.range = at->range;
    return p;
}

static gr_status random_run(const gr_launch *l)
{
    const gr_random_attr *at = (const gr_random_attr *)l->node->attr;
    int64_t count = gr_shape_count(&at->shape);
    cudaStream_t s = gr_cuda_stream(l->stream);
    random_args p = random_args_of(l);
    gr_cuda_grid grid = gr_cuda_grid_for(p.d.n_samples * p.d.counters.n);

    if (count == 0)
        return GR_OK;
    if (at->kind == GR_RANDOM_PERM) {
        int64_t n = at->shape.dim[at->shape.n_dims - 1];

        grid = gr_cuda_grid_for(count / n);
        if (at->dtype == GR_I32)
            return gr_cuda_launch("random launch", grid, s, draw_perm<int32_t>,
                                  (int32_t *)l->out[0], p.d, n, count / n);
        return gr_cuda_launch("random launch", grid, s, draw_perm<int64_t>, (int64_t *)l->out[0],
                              p.d, n, count / n);
    }
    if (at->kind == GR_RANDOM_UNIFORM || at->kind == GR_RANDOM_NORMAL)
        GR_CUDA_FLOATS(
            at->dtype, T,
            return gr_cuda_launch("random launch", grid, s, draw_floats<T>, (T *)l->out[0], p))
    GR_CUDA_TYPES(at->dtype, T,
                  return gr_cuda_launch("random launch", grid, s, draw_whole<T>, (T *)l->out[0], p))
}

/* ---- dropout ---- */

typedef struct drop_args {
    draw_args d;
    double scale;
    uint32_t below;
    bool by_sample;
} drop_args;

/* A NaN stays as it is: conversions and products on a GPU would lose its bits. */
template <class T>
static __device__ __forceinline__ T dropped(T x, uint32_t number, const drop_args &p)
{
    typedef typename gr_compute<T>::type C;
    C c = gr_as<C>(x);
    T y = c == c ? gr_as<T>(c * (C)p.scale) : x;

    return number < p.below ? gr_as<T>(C(0)) : y;
}

/* Samples start at multiples of PAIR, which is 1 or 2; out may be in. */
template <class T, int PAIR>
static __global__ void drop(T *out, const T *in, const __grid_constant__ drop_args p)
{
    typedef typename gr_compute<T>::type C;

    GR_CUDA_EACH(i, p.d.n_samples * p.d.counters.n)
    {
        draw_spot x = spot_of(p.d, i);
        uint32_t number[4];

        gr_draw_four(number, &x.draw, x.sample, p.by_sample ? 0 : x.group * GR_DRAW_GROUP + x.lane);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int64_t e = x.group * (2 * GR_DRAW_GROUP) + 2 * (x.lane + COUNTERS * k);
            uint32_t word = p.by_sample ? (number[0] & 0xffff) * 0x10001u : number[k];

#pragma unroll
            for (int j = 0; j < 2; j += PAIR) {
                if (e + j >= p.d.n_elem)
                    continue;
                gr_pack<T, PAIR> y = gr_pack_get<gr_pack<T, PAIR>>(in + x.first + e + j);

                for (int h = 0; h < PAIR; h++)
                    y.v[h] = dropped(y.v[h], word >> (j + h) * 16 & 0xffff, p);
                gr_pack_put(out + x.first + e + j, y);
            }
        }
    }
}

template <class T> static gr_status launch_drop(const gr_launch *l, const drop_args &p)
{
    bool in_pairs = p.d.n_elem % 2 == 0 && gr_pack_is_aligned((T *)l->out[0], (T *)l->src[0]);
    gr_cuda_grid grid = gr_cuda_grid_for(p.d.n_samples * p.d.counters.n);
    cudaStream_t s = gr_cuda_stream(l->stream);

    if (in_pairs)
        return gr_cuda_launch("dropout launch", grid, s, drop<T, 2>, (T *)l->out[0],
                              (const T *)l->src[0], p);
    return gr_cuda_launch("dropout launch", grid, s, drop<T, 1>, (T *)l->out[0],
                          (const T *)l->src[0], p);
}

static gr_status dropout_run(const gr_launch *l)
{
    const gr_dropout_attr *at = (const gr_dropout_attr *)l->node->attr;
    const gr_value *x = l->node->src[0];
    drop_args p;

    if (gr_shape_count(&x->shape) == 0)
        return GR_OK;
    p.d = args_of(l, &x->shape, at->n_samples, at->stream);
    p.d.counters = gr_divider_of(gr_ceil_div(p.d.n_elem, 2 * GR_DRAW_GROUP) * COUNTERS);
    p.scale = 1 / (1 - at->p);
    p.below = at->drop_below;
    p.by_sample = at->by_sample;
    GR_CUDA_FLOATS(x->dtype, T, return launch_drop<T>(l, p))
}

const gr_kernel gr_random_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = random_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_dropout_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = dropout_run,
        .release = NULL,
        .no_capture = false,
        .in_place = true,
    },
    {},
};
