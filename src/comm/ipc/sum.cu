/*
 * The reduction kernel of ipc. A thread takes 16 bytes: reads them from every rank's
 * buffer in order, combines, and writes the result to all. 16-bit floats are combined in
 * f32 and rounded once. NaN wins a maximum or minimum; integer sums wrap.
 */
#include "comm/ipc/sum.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/pack.cuh"
#include "backend/cuda/reduce.cuh"

static __device__ __forceinline__ float times(float x, double s)
{
    return __fmul_rn(x, (float)s);
}
static __device__ __forceinline__ double times(double x, double s)
{
    return __dmul_rn(x, s);
}
template <class C> static __device__ __forceinline__ C times(C x, double)
{
    return x;
}

static __device__ __forceinline__ float plus(float a, float b)
{
    return __fadd_rn(a, b);
}
static __device__ __forceinline__ double plus(double a, double b)
{
    return __dadd_rn(a, b);
}
template <class C> static __device__ __forceinline__ C plus(C a, C b)
{
    return (C)((unsigned long long)a + (unsigned long long)b);
}

template <class C> static __device__ __forceinline__ C join(gr_reduce op, C a, C b)
{
    if (op == GR_REDUCE_MAX)
        return gr_greater()(a, b);
    if (op == GR_REDUCE_PROD)
        return a * b;
    if (op == GR_REDUCE_MIN)
        return gr_lesser()(a, b);
    return plus(a, b);
}

/* Elements [first, first + n_elem) of every part; grid-stride over packs of 16 bytes. */
template <class T>
static __global__ void reduce_parts(const __grid_constant__ gr_ipc_sum s, double scale)
{
    typedef typename gr_compute<T>::type C;

    gr_pack_each<gr_pack_lanes<T>()>((int64_t)s.n_elem, [&](auto lanes, int64_t at) {
        const int L = decltype(lanes)::n;
        int64_t i = (int64_t)s.first + at;
        gr_pack<C, L> acc = gr_pack_load<C, L>((const T *)s.part[0] + i);

        for (int j = 0; j < L; j++)
            acc.v[j] = times(acc.v[j], scale);
        for (int r = 1; r < s.n_parts; r++) {
            gr_pack<C, L> x = gr_pack_load<C, L>((const T *)s.part[r] + i);

            for (int j = 0; j < L; j++)
                acc.v[j] = join(s.op, acc.v[j], times(x.v[j], scale));
        }
        for (int r = 0; r < s.n_parts; r++)
            gr_pack_store((T *)s.part[r] + i, acc);
    });
}

gr_status gr_ipc_sum_run(const gr_ipc_sum *s, cudaStream_t stream)
{
    double scale = s->op == GR_REDUCE_AVG ? 1.0 / s->n_parts : 1.0;

    if (s->dtype == GR_BOOL || s->op == GR_REDUCE_OR ||
        (s->op == GR_REDUCE_AVG && !gr_dtype_is_float(s->dtype)))
        return gr_fail(GR_ERR_ARG, "this reduction of %s elements is not defined",
                       gr_dtype_name(s->dtype));
    GR_CUDA_TYPES(s->dtype, T,
                  return gr_cuda_launch("all-reduce launch",
                                        gr_cuda_grid_for((int64_t)s->n_elem, gr_pack_lanes<T>()),
                                        stream, reduce_parts<T>, *s, scale))
}
