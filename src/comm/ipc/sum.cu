/*
 * The reduction kernel of ipc. A thread takes 16 bytes: reads them from every rank's
 * buffer in order, combines, and writes the result to all. 16-bit floats are combined in
 * f32 and rounded once. NaN wins a maximum or minimum; integer sums wrap.
 */
#include "comm/ipc/sum.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/types.cuh"

#define BLOCK      256
#define MAX_BLOCKS 2048

/* The type in which T is combined. */
template <class T> struct wide {
    typedef T type;
};
template <> struct wide<__half> {
    typedef float type;
};
template <> struct wide<__nv_bfloat16> {
    typedef float type;
};

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
        return b > a || b != b ? b : a;
    if (op == GR_REDUCE_PROD)
        return a * b;
    if (op == GR_REDUCE_MIN)
        return b < a || b != b ? b : a;
    return plus(a, b);
}

template <class T> struct __align__(16) pack
{
    T v[16 / sizeof(T)];
};

template <class T> static __device__ void reduce_one(const gr_ipc_sum &s, double scale, size_t i)
{
    typedef typename wide<T>::type C;
    C acc = times((C)((const T *)s.part[0])[i], scale);

    for (int r = 1; r < s.n_parts; r++)
        acc = join(s.op, acc, times((C)((const T *)s.part[r])[i], scale));
    for (int r = 0; r < s.n_parts; r++)
        ((T *)s.part[r])[i] = (T)acc;
}

/* Elements [first, first + n_elem) of every part; grid-stride over packs of 16 bytes, and
 * thread 0 takes what is left at the end. */
template <class T>
static __global__ void reduce_parts(const __grid_constant__ gr_ipc_sum s, double scale)
{
    typedef typename wide<T>::type C;
    const int per = 16 / sizeof(T);
    size_t n_packs = s.n_elem / per, at = s.first / per;
    size_t first = (size_t)blockIdx.x * BLOCK + threadIdx.x;

    for (size_t i = first; i < n_packs; i += (size_t)gridDim.x * BLOCK) {
        pack<T> x = ((const pack<T> *)s.part[0])[at + i];
        C acc[per];

        for (int j = 0; j < per; j++)
            acc[j] = times((C)x.v[j], scale);
        for (int r = 1; r < s.n_parts; r++) {
            x = ((const pack<T> *)s.part[r])[at + i];
            for (int j = 0; j < per; j++)
                acc[j] = join(s.op, acc[j], times((C)x.v[j], scale));
        }
        for (int j = 0; j < per; j++)
            x.v[j] = (T)acc[j];
        for (int r = 0; r < s.n_parts; r++)
            ((pack<T> *)s.part[r])[at + i] = x;
    }
    if (first == 0)
        for (size_t i = s.first + n_packs * per; i < s.first + s.n_elem; i++)
            reduce_one<T>(s, scale, i);
}

template <class T> static void launch(const gr_ipc_sum &s, double scale, cudaStream_t stream)
{
    size_t n_blocks = (s.n_elem * sizeof(T) / 16 + BLOCK) / BLOCK;

    reduce_parts<T>
        <<<(unsigned)(n_blocks < MAX_BLOCKS ? n_blocks : MAX_BLOCKS), BLOCK, 0, stream>>>(s, scale);
}

gr_status gr_ipc_sum_run(const gr_ipc_sum *s, cudaStream_t stream)
{
    double scale = s->op == GR_REDUCE_AVG ? 1.0 / s->n_parts : 1.0;

    if (s->dtype == GR_BOOL || s->op == GR_REDUCE_OR ||
        (s->op == GR_REDUCE_AVG && !gr_dtype_is_float(s->dtype)))
        return gr_fail(GR_ERR_ARG, "this reduction of %s elements is not defined",
                       gr_dtype_name(s->dtype));
    if (s->n_elem == 0)
        return GR_OK;
    GR_CUDA_TYPES(s->dtype, T, launch<T>(*s, scale, stream))
    return gr_cuda_check(cudaGetLastError(), "all-reduce launch");
}
