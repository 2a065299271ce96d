/*
 * arg_reduce and arg_scatter on the GPU. Along the innermost dimension a team of threads takes a
 * row; along another one each thread takes a line, next to its neighbours' lines.
 */
#include "op/argmax/argmax.h"

#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

#define LONG_ROW 1024 /* elements that are worth a block */

/* A tensor around one dimension: element (o, i, k) lies at (o * n + i) * inner + k. */
typedef struct around {
    int64_t outer, n, inner;
} around;

static around around_axis(const gr_shape *s, int axis)
{
    around x = { 1, s->dim[axis], 1 };

    for (int d = 0; d < axis; d++)
        x.outer *= s->dim[d];
    for (int d = axis + 1; d < s->n_dims; d++)
        x.inner *= s->dim[d];
    return x;
}

/* ---- arg_reduce ---- */

template <class T, int THREADS, bool IS_MIN>
static __global__ void place_in_rows(T *out, int64_t *place, const T *in, int64_t n_rows, int64_t n)
{
    typedef typename gr_compute<T>::type C;
    int64_t r = gr_cuda_row();
    gr_found<C> best = { C(0), -1 };

    if (r < n_rows)
        for (int64_t i = threadIdx.x; i < n; i += THREADS)
            best = gr_better<IS_MIN>()(best, gr_found<C>{ gr_as<C>(in[r * n + i]), i });
    best = gr_team_join<THREADS>(best, gr_better<IS_MIN>());
    if (r < n_rows && threadIdx.x == 0) {
        place[r] = best.at;
        out[r] = in[r * n + best.at];
    }
}

template <class T, bool IS_MIN>
static __global__ void place_in_lines(T *out, int64_t *place, const T *in, int64_t n_lines,
                                      int64_t n, const __grid_constant__ gr_divider inner)
{
    typedef typename gr_compute<T>::type C;

    GR_CUDA_EACH(i, n_lines)
    {
        int64_t o = gr_divide(&inner, i);
        const T *line = in + o * n * inner.n + i - o * inner.n;
        gr_found<C> best = { gr_as<C>(line[0]), 0 };

        for (int64_t k = 1; k < n; k++)
            best = gr_better<IS_MIN>()(best, gr_found<C>{ gr_as<C>(line[k * inner.n]), k });
        place[i] = best.at;
        out[i] = line[best.at * inner.n];
    }
}

template <class T, bool IS_MIN> static gr_status launch_reduce(const gr_launch *l, const around &k)
{
    cudaStream_t s = gr_cuda_stream(l->stream);
    int64_t *place = (int64_t *)l->out[1], n = k.outer * k.inner;
    const T *in = (const T *)l->src[0];
    T *out = (T *)l->out[0];

    if (k.inner > 1)
        return gr_cuda_launch("arg_reduce launch", gr_cuda_grid_for(n), s,
                              place_in_lines<T, IS_MIN>, out, place, in, n, k.n,
                              gr_divider_of(k.inner));
    if (k.n <= LONG_ROW)
        return gr_cuda_launch("arg_reduce launch", gr_cuda_grid_rows<32>(n), s,
                              place_in_rows<T, 32, IS_MIN>, out, place, in, n, k.n);
    return gr_cuda_launch("arg_reduce launch", gr_cuda_grid_rows<GR_CUDA_BLOCK>(n), s,
                          place_in_rows<T, GR_CUDA_BLOCK, IS_MIN>, out, place, in, n, k.n);
}

static gr_status arg_reduce_run(const gr_launch *l)
{
    const gr_arg_reduce_attr *at = (const gr_arg_reduce_attr *)l->node->attr;
    const gr_value *x = l->node->src[0];
    around k = around_axis(&x->shape, at->axis);

    if (k.outer * k.inner == 0)
        return GR_OK;
    GR_CUDA_TYPES(x->dtype, T,
                  return at->is_min ? launch_reduce<T, true>(l, k) : launch_reduce<T, false>(l, k))
}

/* ---- arg_scatter ---- */

/* Places that are none would come from a broken graph only; their lines are zeros. */
template <class T>
static __global__ void scatter(T *out, const int64_t *place, const T *d, int64_t count,
                               const __grid_constant__ gr_divider inner,
                               const __grid_constant__ gr_divider n)
{
    GR_CUDA_EACH(i, count)
    {
        int64_t line = gr_divide(&inner, i), o = gr_divide(&n, line);
        int64_t from = o * inner.n + i - line * inner.n;

        out[i] = place[from] == line - o * n.n ? d[from] : T();
    }
}

static gr_status arg_scatter_run(const gr_launch *l)
{
    const gr_value *dx = &l->node->out[0];
    around k = around_axis(&dx->shape, ((const gr_arg_scatter_attr *)l->node->attr)->axis);
    int64_t count = k.outer * k.n * k.inner;

    if (count == 0)
        return GR_OK;
    GR_CUDA_BYTES(gr_dtype_bytes(dx->dtype), T,
                  return gr_cuda_launch("arg_scatter launch", gr_cuda_grid_for(count),
                                        gr_cuda_stream(l->stream), scatter<T>, (T *)l->out[0],
                                        (const int64_t *)l->src[0], (const T *)l->src[1], count,
                                        gr_divider_of(k.inner), gr_divider_of(k.n)))
}

const gr_kernel gr_arg_reduce_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = arg_reduce_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_arg_scatter_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = arg_scatter_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
