/* What the kernels of layer_norm and rms_norm have in common, forward and backward. */
#ifndef GR_OP_NORM_ROWS_CUH
#define GR_OP_NORM_ROWS_CUH

#include "op/norm/norm.h"
#include "op/norm/norm_columns.cuh"

typedef struct gr_norm_rows_args {
    int64_t n, c;
    bool centred, clamped;
    double eps;
    double most; /* clamped: the greatest rstd, as it is stored */
} gr_norm_rows_args;

/* Only layer_norm has a mean to give, or a gradient of a bias: a third result. */
static inline gr_norm_rows_args gr_norm_rows_of(const gr_node *n)
{
    const gr_row_norm_attr *a = (const gr_row_norm_attr *)n->attr;
    const gr_shape *s = &n->src[0]->shape;
    gr_norm_rows_args p = { 1, s->dim[s->n_dims - 1], n->n_out == 3, a->clamped, a->eps, 0 };

    for (int d = 0; d < s->n_dims - 1; d++)
        p.n *= s->dim[d];
    p.most = n->src[0]->dtype == GR_F64 ? 1 / a->eps : (double)(float)(1 / a->eps);
    return p;
}

/* NULL, or why the kernels of known types do not take the node. Vectors stand at `vector`. */
static inline const char *gr_norm_rows_reject(const gr_node *n, int vector)
{
    gr_dtype t = n->src[0]->dtype;

    if (t == GR_F64)
        return "f64 is left to the plain kernel";
    if (n->out[0].dtype != t || (vector > 1 && n->src[1]->dtype != t))
        return "what goes along rows must have one type";
    for (int s = vector; s < n->n_src; s++)
        if (n->src[s]->dtype != GR_F32)
            return "weight and bias must be f32";
    return NULL;
}

/* ---- results ---- */

template <class T> struct gr_norm_typed_out {
    T *mem;

    template <class C, int N> __device__ __forceinline__ void put(int64_t i, const gr_pack<C, N> &v)
    {
        gr_pack_store(mem + i, v);
    }
};

struct gr_norm_any_out {
    void *mem;
    gr_dtype type;

    template <class C, int N> __device__ __forceinline__ void put(int64_t i, const gr_pack<C, N> &v)
    {
#pragma unroll
        for (int j = 0; j < N; j++)
            gr_store_f64(mem, i + j, type, (double)v.v[j]);
    }
};

/* ---- vectors ---- */

/* Elements i .. i + N - 1 of a weight or bias; `none` where there is none. */
template <class C, int N, class W>
static __device__ __forceinline__ gr_pack<C, N> gr_norm_vector_at(const W &w, int64_t i, C none)
{
    gr_pack<C, N> v;

    if (w.mem)
        return w.template get<C, N>(i);
#pragma unroll
    for (int j = 0; j < N; j++)
        v.v[j] = none;
    return v;
}

/* f(k, i) for the packs of N elements of a row of c that this thread has: number k begins at i.
 * With K > 0 there are at most that many, and k is known to the compiler. */
template <int THREADS, int N, int K, class F>
static __device__ __forceinline__ void gr_norm_each(int64_t c, F f)
{
    if constexpr (K > 0) {
#pragma unroll
        for (int k = 0; k < K; k++) {
            int64_t i = ((int64_t)k * THREADS + threadIdx.x) * N;

            if (i < c)
                f(k, i);
        }
    } else {
        for (int64_t i = (int64_t)threadIdx.x * N; i < c; i += (int64_t)THREADS * N)
            f(0, i);
    }
}

#endif
