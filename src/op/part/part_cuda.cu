/*
 * Slice, pad and flip on the GPU: copies along strides, in units as wide as all strides and
 * addresses allow. Dimensions that stay neighbours are joined first. Types count only by size.
 */
#include "op/part/part.h"

#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "op/element.h"
#include "op/module_cuda.h"

/* The widest unit of at most 16 bytes that divides everything in `bits`, put together by or. */
static size_t unit_of(uint64_t bits)
{
    size_t unit = 16;

    while (bits % unit != 0)
        unit /= 2;
    return unit;
}

/* ---- slice and flip: the result in order, the source by strides ---- */

typedef struct walk {
    int n_dims; /* outermost first; bytes everywhere */
    int64_t dim[GR_MAX_DIMS], stride[GR_MAX_DIMS], base;
    int64_t count; /* elements */
} walk;

/* Adds a dimension inside; one that continues the last is joined to it. */
static void add_dim(walk *w, int64_t size, int64_t stride)
{
    int last = w->n_dims - 1;

    w->count *= size;
    if (size == 1)
        return;
    if (last >= 0 && w->stride[last] == stride * size) {
        w->dim[last] *= size;
        w->stride[last] = stride;
        return;
    }
    w->dim[w->n_dims] = size;
    w->stride[w->n_dims++] = stride;
}

template <class T>
static __global__ void copy_walk(T *out, const T *in, const __grid_constant__ gr_index x)
{
    GR_CUDA_EACH(i, x.count)
    out[i] = in[gr_index_at(&x, 0, i)];
}

template <class T>
static __global__ void copy_walk32(T *out, const T *in, const __grid_constant__ gr_index x)
{
    GR_CUDA_EACH(i, x.count)
    out[i] = in[gr_index_at32(&x, 0, (uint32_t)i)];
}

/* In units of T: the innermost dimension is one run of bytes, or T is one element. */
template <class T> static gr_status launch_walk(const gr_launch *l, const walk &w, int64_t run)
{
    const T *in = (const T *)((const char *)l->src[0] + w.base);
    gr_index x = gr_index_of(1);

    for (int d = 0; d < w.n_dims; d++) {
        bool is_run = run > 0 && d == w.n_dims - 1;
        int64_t stride = is_run ? 1 : w.stride[d] / (int64_t)sizeof(T);

        gr_index_add(&x, is_run ? run / (int64_t)sizeof(T) : w.dim[d], &stride);
    }
    return gr_cuda_launch("part launch", gr_cuda_grid_for(x.count), gr_cuda_stream(l->stream),
                          gr_index_is_small(&x) ? copy_walk32<T> : copy_walk<T>, (T *)l->out[0], in,
                          x);
}

static gr_status run_walk(const gr_launch *l, const walk &w)
{
    int64_t bytes = (int64_t)gr_dtype_bytes(l->node->src[0]->dtype), run = 0;
    size_t unit = (size_t)bytes;

    if (w.count == 0)
        return GR_OK;
    if (w.n_dims > 0 && w.stride[w.n_dims - 1] == bytes) {
        uint64_t bits = (uint64_t)w.base | (uintptr_t)l->src[0] | (uintptr_t)l->out[0];

        run = w.dim[w.n_dims - 1] * bytes;
        bits |= (uint64_t)run;
        for (int d = 0; d < w.n_dims - 1; d++)
            bits |= (uint64_t)w.stride[d];
        unit = unit_of(bits);
    }
    GR_CUDA_BYTES(unit, T, return launch_walk<T>(l, w, run))
}

/* Strides of the source in bytes. */
static void strides_of(const gr_value *v, int64_t *stride)
{
    int64_t step = (int64_t)gr_dtype_bytes(v->dtype);

    for (int d = v->shape.n_dims - 1; d >= 0; d--) {
        stride[d] = step;
        step *= v->shape.dim[d];
    }
}

static gr_status slice_run(const gr_launch *l)
{
    const gr_slice_attr *at = (const gr_slice_attr *)l->node->attr;
    const gr_value *src = l->node->src[0];
    int64_t stride[GR_MAX_DIMS];
    walk w = {};

    w.count = 1;
    if (gr_shape_count(&l->node->out[0].shape) == 0)
        return GR_OK;
    strides_of(src, stride);
    for (int d = 0; d < src->shape.n_dims; d++) {
        w.base += at->start[d] * stride[d];
        /* Of one element the step may be anything. */
        add_dim(&w, at->count[d], at->count[d] > 1 ? at->step[d] * stride[d] : stride[d]);
    }
    return run_walk(l, w);
}

static gr_status flip_run(const gr_launch *l)
{
    const gr_flip_attr *at = (const gr_flip_attr *)l->node->attr;
    const gr_value *src = l->node->src[0];
    int64_t stride[GR_MAX_DIMS];
    walk w = {};

    w.count = 1;
    if (gr_shape_count(&src->shape) == 0)
        return GR_OK;
    strides_of(src, stride);
    for (int d = 0; d < src->shape.n_dims; d++) {
        bool turned = at->axes >> d & 1;

        w.base += turned ? (src->shape.dim[d] - 1) * stride[d] : 0;
        add_dim(&w, src->shape.dim[d], turned ? -stride[d] : stride[d]);
    }
    return run_walk(l, w);
}

/* ---- pad ---- */

/* Outermost first, in units of the type. Element i of a dimension is number (i - lo) / step of
 * the source, where that is whole and below n. */
typedef struct padding {
    int n_dims;
    gr_divider dim[GR_MAX_DIMS + 1], step[GR_MAX_DIMS + 1]; /* one may be of size 1 */
    int64_t lo[GR_MAX_DIMS + 1], n[GR_MAX_DIMS + 1];
    int64_t count;
    __align__(16) char fill[16]; /* the value, again and again */
} padding;

/* The source's place of element i of the result; -1: it is filling. */
static __host__ __device__ __forceinline__ int64_t padded_from(const padding *p, int64_t i)
{
    int64_t at = 0, stride = 1;

    for (int d = p->n_dims - 1; d >= 0; d--) {
        int64_t q = d > 0 ? gr_divide(&p->dim[d], i) : 0;
        int64_t x = i - q * p->dim[d].n - p->lo[d];
        int64_t k = x >= 0 ? gr_divide(&p->step[d], x) : -1;

        if (k < 0 || k >= p->n[d] || k * p->step[d].n != x)
            return -1;
        at += k * stride;
        stride *= p->n[d];
        i = q;
    }
    return at;
}

template <class T>
static __global__ void pad_all(T *out, const T *in, const __grid_constant__ padding p)
{
    T fill = *(const T *)p.fill;

    GR_CUDA_EACH(i, p.count)
    {
        int64_t from = padded_from(&p, i);

        out[i] = from < 0 ? fill : in[from];
    }
}

/* A dimension that nothing is put around continues the one outside it. */
static void add_padded(padding *p, int64_t size, int64_t lo, int64_t n, int64_t step)
{
    int last = p->n_dims - 1;

    if (last >= 0 && size == n && step == 1 && p->step[last].n == 1) {
        p->dim[last] = gr_divider_of(p->dim[last].n * size);
        p->lo[last] *= size;
        p->n[last] *= size;
        return;
    }
    p->dim[p->n_dims] = gr_divider_of(size);
    p->step[p->n_dims] = gr_divider_of(step);
    p->lo[p->n_dims] = lo;
    p->n[p->n_dims++] = n;
}

/* Several elements of the innermost dimension become one of `unit` bytes where all goes up. */
static size_t widen(padding *p, size_t bytes, uint64_t bits)
{
    int last = p->n_dims - 1;
    size_t unit;

    if (p->step[last].n != 1)
        return bytes;
    bits |= (uint64_t)(p->dim[last].n | p->lo[last] | p->n[last]) * bytes;
    unit = unit_of(bits);
    if (unit <= bytes)
        return bytes;
    p->dim[last] = gr_divider_of(p->dim[last].n * (int64_t)bytes / (int64_t)unit);
    p->lo[last] = p->lo[last] * (int64_t)bytes / (int64_t)unit;
    p->n[last] = p->n[last] * (int64_t)bytes / (int64_t)unit;
    p->count = p->count * (int64_t)bytes / (int64_t)unit;
    return unit;
}

static gr_status pad_run(const gr_launch *l)
{
    const gr_pad_attr *at = (const gr_pad_attr *)l->node->attr;
    const gr_value *src = l->node->src[0], *out = &l->node->out[0];
    size_t bytes = gr_dtype_bytes(src->dtype), unit;
    padding p = {};

    p.count = gr_shape_count(&out->shape);
    if (p.count == 0)
        return GR_OK;
    p.dim[0] = p.step[0] = gr_divider_of(1);
    p.n[0] = 1;
    p.n_dims = 1;
    for (int d = 0; d < src->shape.n_dims; d++)
        add_padded(&p, out->shape.dim[d], at->lo[d], src->shape.dim[d], at->step[d]);
    for (size_t i = 0; i < 16 / bytes; i++)
        gr_element_put_f64(p.fill, out->dtype, (int64_t)i, at->value);
    unit = widen(&p, bytes, (uintptr_t)l->src[0] | (uintptr_t)l->out[0]);
    GR_CUDA_BYTES(unit, T,
                  return gr_cuda_launch("pad launch", gr_cuda_grid_for(p.count),
                                        gr_cuda_stream(l->stream), pad_all<T>, (T *)l->out[0],
                                        (const T *)l->src[0], p))
}

const gr_kernel gr_slice_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = slice_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_flip_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = flip_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_pad_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = pad_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
