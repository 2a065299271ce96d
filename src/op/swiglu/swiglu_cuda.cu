/*
 * SwiGLU on the GPU: a pass over memory, several elements a thread. Rows of x are 2 n elements; an
 * access of several elements never leaves its half.
 */
#include "op/swiglu/swiglu.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/pack.cuh"
#include "op/module_cuda.h"

typedef struct swiglu_args {
    const void *x, *dy; /* dy NULL: forward */
    void *out;
    int64_t count; /* of y */
    gr_divider n;  /* a row of y, in accesses */
} swiglu_args;

static __device__ __forceinline__ float exp_of(float x)
{
    return expf(x);
}
static __device__ __forceinline__ double exp_of(double x)
{
    return exp(x);
}

/* The place in x of access `i` of y: that of a; b lies half a row further on. */
template <int N> static __device__ __forceinline__ int64_t gate_at(const gr_divider &n, int64_t i)
{
    return (i + gr_divide(&n, i) * n.n) * N;
}

/* N divides the row. */
template <class T, int N> static __global__ void swiglu(const __grid_constant__ swiglu_args p)
{
    typedef typename gr_compute<T>::type C;
    const T *x = (const T *)p.x;

    GR_CUDA_EACH(i, p.count / N)
    {
        int64_t at = gate_at<N>(p.n, i);
        gr_pack<C, N> a = gr_pack_load<C, N>(x + at);
        gr_pack<C, N> b = gr_pack_load<C, N>(x + at + p.n.n * N);

#pragma unroll
        for (int j = 0; j < N; j++)
            a.v[j] = a.v[j] / (1 + exp_of(-a.v[j])) * b.v[j];
        gr_pack_store((T *)p.out + i * N, a);
    }
}

template <class T, int N> static __global__ void swiglu_grad(const __grid_constant__ swiglu_args p)
{
    typedef typename gr_compute<T>::type C;
    const T *x = (const T *)p.x;
    T *dx = (T *)p.out;

    GR_CUDA_EACH(i, p.count / N)
    {
        int64_t at = gate_at<N>(p.n, i);
        gr_pack<C, N> a = gr_pack_load<C, N>(x + at);
        gr_pack<C, N> b = gr_pack_load<C, N>(x + at + p.n.n * N);
        gr_pack<C, N> d = gr_pack_load<C, N>((const T *)p.dy + i * N);

#pragma unroll
        for (int j = 0; j < N; j++) {
            C s = 1 / (1 + exp_of(-a.v[j])), rest = 1 / (1 + exp_of(a.v[j]));
            C da = d.v[j] * b.v[j] * s * (1 + a.v[j] * rest);

            b.v[j] = d.v[j] * a.v[j] * s;
            a.v[j] = da;
        }
        gr_pack_store(dx + at, a);
        gr_pack_store(dx + at + p.n.n * N, b);
    }
}

template <class T, int N> static gr_status launch(swiglu_args p, int64_t row, cudaStream_t s)
{
    p.n = gr_divider_of(row / N);
    return gr_cuda_launch("swiglu launch", gr_cuda_grid_for(p.count / N), s,
                          p.dy ? swiglu_grad<T, N> : swiglu<T, N>, p);
}

static gr_status run(const gr_launch *l)
{
    const gr_node *n = l->node;
    const gr_value *y = n->n_src > 1 ? n->src[1] : &n->out[0];
    int64_t row = y->shape.dim[y->shape.n_dims - 1];
    cudaStream_t s = gr_cuda_stream(l->stream);
    swiglu_args p;

    p.x = l->src[0];
    p.dy = n->n_src > 1 ? l->src[1] : NULL;
    p.out = l->out[0];
    p.count = gr_shape_count(&y->shape);
    if (p.count == 0)
        return GR_OK;
    GR_CUDA_FLOATS(y->dtype, T, {
        const int lanes = gr_pack_lanes<T>();

        if (row % lanes == 0 &&
            gr_pack_is_aligned((const char *)p.x, (const char *)p.dy, (const char *)p.out))
            return launch<T, lanes>(p, row, s);
        return launch<T, 1>(p, row, s);
    })
}

const gr_kernel gr_swiglu_cuda[] = { { .name = "packs", .run = run }, { .name = NULL } };
const gr_kernel gr_swiglu_grad_cuda[] = { { .name = "packs", .run = run }, { .name = NULL } };
