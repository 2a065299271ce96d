/*
 * Nearest neighbours on the GPU: a block per point. It finds the nearest, then the nearest of
 * those that come after it, and so on; distances are kept in shared memory where it has room for
 * a sample's, else computed again. They have the reference's bits: no fused multiply-add.
 */
#include "op/knn/knn.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

#include <math.h>

#define THREADS    128
#define MAX_SHARED ((int64_t)40 << 10)

/* f64 is kept for f64 points. */
template <class T> struct distance_type {
    typedef float type;
};
template <> struct distance_type<double> {
    typedef double type;
};

/* The nearest, NaN last, the first place among equals; at < 0: none. */
struct nearer {
    template <class D> static __device__ __forceinline__ bool precedes(gr_found<D> a, gr_found<D> b)
    {
        bool nan_a = gr_is_nan(a.value), nan_b = gr_is_nan(b.value);

        if (nan_a || nan_b)
            return nan_a && nan_b ? a.at < b.at : nan_b;
        return a.value < b.value || (a.value == b.value && a.at < b.at);
    }

    template <class D>
    __device__ __forceinline__ gr_found<D> operator()(gr_found<D> a, gr_found<D> b) const
    {
        if (a.at < 0 || b.at < 0)
            return a.at < 0 ? b : a;
        return precedes(b, a) ? b : a;
    }
};

typedef struct knn_args {
    const void *points; /* [b, l, d] */
    const uint8_t *mask;
    int64_t n_points, l, d, k; /* n_points = b * l */
    int32_t *place;
    void *distance;
    bool in_batch, in_shared;
} knn_args;

static __device__ __forceinline__ float add_square(float sum, float p, float q)
{
    float x = __fadd_rn(q, -p);

    return __fadd_rn(sum, __fmul_rn(x, x));
}

static __device__ __forceinline__ double add_square(double sum, double p, double q)
{
    double x = __dadd_rn(q, -p);

    return __dadd_rn(sum, __dmul_rn(x, x));
}

/* Of points i and j; negative: j is none, or i itself. */
template <class T, class D> static __device__ D distance_of(const knn_args &p, int64_t i, int64_t j)
{
    const T *x = (const T *)p.points;
    D sum = 0;

    if (i == j || (p.mask && (p.mask[i] == 0 || p.mask[j] == 0)))
        return D(-1);
    for (int64_t c = 0; c < p.d; c++)
        sum = add_square(sum, (D)gr_plain(x[i * p.d + c]), (D)gr_plain(x[j * p.d + c]));
    return sum;
}

/* Grid: a block per point, in rounds. */
template <class T> static __global__ void neighbours(const __grid_constant__ knn_args p)
{
    typedef typename distance_type<T>::type D;
    extern __shared__ __align__(8) char mem[];
    D *kept = (D *)mem;

    for (int64_t i = blockIdx.x; i < p.n_points; i += gridDim.x) {
        int64_t first = i / p.l * p.l;
        gr_found<D> last = { D(0), -1 };
        bool is_left = true;

        for (int64_t j = threadIdx.x; p.in_shared && j < p.l; j += THREADS)
            kept[j] = distance_of<T, D>(p, i, first + j);
        /* Each thread reads only what it wrote itself. */
        for (int64_t k = 0; k < p.k; k++) {
            gr_found<D> best = { D(0), -1 };

            for (int64_t j = threadIdx.x; is_left && j < p.l; j += THREADS) {
                gr_found<D> x = { p.in_shared ? kept[j] : distance_of<T, D>(p, i, first + j), j };

                if (!(x.value < 0) && (last.at < 0 || nearer::precedes(last, x)))
                    best = nearer()(best, x);
            }
            last = gr_team_join<THREADS>(best, nearer());
            is_left = last.at >= 0;
            if (threadIdx.x == 0) {
                int64_t to = is_left ? first + last.at : i;

                p.place[i * p.k + k] = (int32_t)(to - (p.in_batch ? 0 : first));
                ((D *)p.distance)[i * p.k + k] = is_left ? last.value : (D)INFINITY;
            }
        }
    }
}

template <class T> static gr_status launch(const gr_launch *l, knn_args p)
{
    int64_t n_bytes = p.l * (int64_t)sizeof(typename distance_type<T>::type);
    gr_cuda_grid grid =
        gr_cuda_grid_of(p.n_points < INT32_MAX ? p.n_points : INT32_MAX, 1, THREADS);

    p.in_shared = n_bytes <= MAX_SHARED;
    grid.shared_bytes = p.in_shared ? (size_t)n_bytes : 0;
    return gr_cuda_launch("knn launch", grid, gr_cuda_stream(l->stream), neighbours<T>, p);
}

static gr_status knn_run(const gr_launch *l)
{
    const gr_knn_config *at = (const gr_knn_config *)l->node->attr;
    const gr_value *x = l->node->src[0];
    knn_args p;

    p.points = l->src[0];
    p.mask = l->node->n_src > 1 ? (const uint8_t *)l->src[1] : NULL;
    p.l = x->shape.dim[1];
    p.d = x->shape.dim[2];
    p.k = at->k;
    p.n_points = x->shape.dim[0] * p.l;
    p.place = (int32_t *)l->out[0];
    p.distance = l->out[1];
    p.in_batch = at->in_batch;
    p.in_shared = false;
    GR_CUDA_FLOATS(x->dtype, T, return launch<T>(l, p))
}

const gr_kernel gr_knn_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = knn_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
