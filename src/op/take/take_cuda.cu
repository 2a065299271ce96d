/*
 * take and take_grad on the GPU. The gradient is added without atomics: a thread owns a column
 * (outer, inner) of the result and walks the indices in order, so that columns, which are
 * neighbours in memory, are the only thing done at once.
 */
#include "op/take/take.h"

#include "backend/cuda/fault.cuh"
#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

typedef struct taken {
    const void *index;
    gr_dtype index_type;
    bool is_each; /* an index for each element, else one for each of m */
    int64_t outer, n;
    gr_divider m, inner;
    uint32_t node_id;
    gr_fault *fault;
} taken;

/* `whole` is the shape with n along the axis; m and inner of 0 become 1: nothing is walked. */
static taken taken_of(const gr_launch *l, const gr_shape *whole, int64_t m)
{
    const gr_take_attr *at = (const gr_take_attr *)l->node->attr;
    int64_t inner = 1;
    taken t;

    t.index = l->src[1];
    t.index_type = l->node->src[1]->dtype;
    t.is_each = at->is_each;
    t.outer = 1;
    t.n = whole->dim[at->axis];
    for (int d = 0; d < at->axis; d++)
        t.outer *= whole->dim[d];
    for (int d = at->axis + 1; d < whole->n_dims; d++)
        inner *= whole->dim[d];
    t.m = gr_divider_of(m > 0 ? m : 1);
    t.inner = gr_divider_of(inner > 0 ? inner : 1);
    t.node_id = l->node->id;
    t.fault = l->fault;
    return t;
}

/* The place along the axis of taken element e, which is number i there; -1, and a fault, when
 * there is no such place. */
static __device__ __forceinline__ int64_t place_of(const taken &t, int64_t e, int64_t i)
{
    int64_t at = t.is_each ? e : i, j = gr_load_index(t.index, at, t.index_type);

    if (j >= 0 && j < t.n)
        return j;
    gr_cuda_fault(t.fault, t.node_id, j, t.n, at);
    return -1;
}

/* ---- take ---- */

/* In units of T, as inner is. */
template <class T>
static __global__ void take(T *out, const T *in, int64_t count, const __grid_constant__ taken t)
{
    GR_CUDA_EACH(e, count)
    {
        int64_t line = gr_divide(&t.inner, e), o = gr_divide(&t.m, line);
        int64_t from = place_of(t, e, line - o * t.m.n);

        out[e] = from < 0 ? T() : in[(o * t.n + from) * t.inner.n + e - line * t.inner.n];
    }
}

/* Bytes that are moved at once: an element, or more of those that share an index. */
static int64_t unit_of(const gr_launch *l, const taken &t, int64_t bytes)
{
    uint64_t bits = (uint64_t)(t.inner.n * bytes) | (uintptr_t)l->src[0] | (uintptr_t)l->out[0];
    int64_t unit = 16;

    while (bits % (uint64_t)unit != 0)
        unit /= 2;
    return t.is_each || unit < bytes ? bytes : unit;
}

static gr_status take_run(const gr_launch *l)
{
    const gr_take_attr *at = (const gr_take_attr *)l->node->attr;
    const gr_value *x = l->node->src[0], *out = &l->node->out[0];
    int64_t bytes = (int64_t)gr_dtype_bytes(x->dtype), count = gr_shape_count(&out->shape), unit;
    taken t = taken_of(l, &x->shape, out->shape.dim[at->axis]);

    if (count == 0)
        return GR_OK;
    unit = unit_of(l, t, bytes);
    t.inner = gr_divider_of(t.inner.n * bytes / unit);
    count = count * bytes / unit;
    GR_CUDA_BYTES(unit, T,
                  return gr_cuda_launch("take launch", gr_cuda_grid_for(count),
                                        gr_cuda_stream(l->stream), take<T>, (T *)l->out[0],
                                        (const T *)l->src[0], count, t))
}

/* ---- take_grad ---- */

/* sum [outer, n, inner] of zeros, d [outer, m, inner]. */
template <class O, class T>
static __global__ void add_columns(O *sum, const T *d, int64_t m, const __grid_constant__ taken t)
{
    GR_CUDA_EACH(column, t.outer * t.inner.n)
    {
        int64_t o = gr_divide(&t.inner, column), c = column - o * t.inner.n;
        O *own = sum + o * t.n * t.inner.n + c;

        for (int64_t i = 0; i < m; i++) {
            int64_t e = (o * m + i) * t.inner.n + c, to = place_of(t, e, i);

            if (to >= 0)
                own[to * t.inner.n] += gr_as<O>(d[e]);
        }
    }
}

template <class T> static __global__ void round_sums(T *out, const float *sum, int64_t n)
{
    GR_CUDA_EACH(i, n)
    out[i] = gr_as<T>(sum[i]);
}

/* A 16-bit result is rounded once, from its sums. */
static bool needs_sums(gr_dtype t)
{
    return t == GR_BF16 || t == GR_F16;
}

static size_t back_workspace(const gr_node *n, const void *data)
{
    (void)data;
    return needs_sums(n->out[0].dtype) ? (size_t)gr_shape_count(&n->out[0].shape) * sizeof(float)
                                       : 0;
}

template <class O> static gr_status add_up(const gr_launch *l, void *sum, int64_t m, const taken &t)
{
    cudaStream_t s = gr_cuda_stream(l->stream);

    GR_TRY(gr_cuda_check(
        cudaMemsetAsync(sum, 0, (size_t)gr_shape_count(&l->node->out[0].shape) * sizeof(O), s),
        "take_grad"));
    if (m == 0)
        return GR_OK;
    GR_CUDA_FLOATS(l->node->src[0]->dtype, T,
                   return gr_cuda_launch("take_grad launch", gr_cuda_grid_for(t.outer * t.inner.n),
                                         s, add_columns<O, T>, (O *)sum, (const T *)l->src[0], m,
                                         t))
}

static gr_status back_run(const gr_launch *l)
{
    const gr_take_attr *at = (const gr_take_attr *)l->node->attr;
    const gr_value *d = l->node->src[0], *out = &l->node->out[0];
    int64_t count = gr_shape_count(&out->shape), m = d->shape.dim[at->axis];
    taken t = taken_of(l, &out->shape, m);
    cudaStream_t s = gr_cuda_stream(l->stream);

    if (count == 0 && gr_shape_count(&d->shape) == 0)
        return GR_OK;
    if (out->dtype == GR_F64)
        return add_up<double>(l, l->out[0], m, t);
    if (!needs_sums(out->dtype))
        return add_up<float>(l, l->out[0], m, t);
    GR_TRY(add_up<float>(l, l->work, m, t));
    GR_CUDA_FLOATS(out->dtype, T,
                   return gr_cuda_launch("take_grad launch", gr_cuda_grid_for(count), s,
                                         round_sums<T>, (T *)l->out[0], (const float *)l->work,
                                         count))
}

const gr_kernel gr_take_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = take_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_take_grad_cuda[] = {
    {
        .name = "ordered",
        .reject = NULL,
        .prepare = NULL,
        .workspace = back_workspace,
        .run = back_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
