/*
 * Concat and split on the GPU: each part is rows of a length of its own within the rows of the
 * whole. All parts are copied in one launch, in units as wide as lengths and addresses allow;
 * sources of concat that have another type are converted in a launch each.
 */
#include "op/part/part.h"

#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

#define MAX_PARTS 32 /* of a launch */

typedef struct part {
    void *mem;
    gr_divider length; /* of its rows */
    int64_t offset;    /* in the rows of the whole */
    int64_t count;
} part;

typedef struct parts {
    void *whole;
    int64_t row; /* length of a row of the whole */
    int n;
    part part[MAX_PARTS];
} parts;

/* Grid (blocks for the largest part, parts). */
template <class T, bool IS_SPLIT> static __global__ void copy_parts(const __grid_constant__ parts p)
{
    const part &x = p.part[blockIdx.y];

    GR_CUDA_EACH(i, x.count)
    {
        int64_t r = gr_divide(&x.length, i);
        int64_t at = r * p.row + x.offset + i - r * x.length.n;

        if (IS_SPLIT)
            ((T *)x.mem)[i] = ((const T *)p.whole)[at];
        else
            ((T *)p.whole)[at] = ((const T *)x.mem)[i];
    }
}

/* What is copied, in bytes; the unit is settled when all are known. */
template <class T, bool IS_SPLIT> static gr_status launch_parts(const gr_launch *l, const parts &b)
{
    const int64_t unit = (int64_t)sizeof(T);
    int64_t most = 0;
    parts p = b;
    gr_cuda_grid grid;

    p.row /= unit;
    for (int i = 0; i < p.n; i++) {
        p.part[i].length = gr_divider_of(p.part[i].length.n / unit);
        p.part[i].offset /= unit;
        p.part[i].count /= unit;
        most = p.part[i].count > most ? p.part[i].count : most;
    }
    grid = gr_cuda_grid_for(most);
    grid.y = p.n;
    return gr_cuda_launch("concat launch", grid, gr_cuda_stream(l->stream), copy_parts<T, IS_SPLIT>,
                          p);
}

template <bool IS_SPLIT> static gr_status flush(const gr_launch *l, parts *p)
{
    uint64_t bits = (uint64_t)p->row | (uintptr_t)p->whole;
    int n = p->n;
    size_t unit = 16;

    if (n == 0)
        return GR_OK;
    for (int i = 0; i < n; i++)
        bits |= (uint64_t)(p->part[i].length.n | p->part[i].offset) | (uintptr_t)p->part[i].mem;
    while (bits % unit != 0)
        unit /= 2;
    GR_CUDA_BYTES(unit, T, GR_TRY((launch_parts<T, IS_SPLIT>(l, *p))))
    p->n = 0;
    return GR_OK;
}

/* Adds a part of `length` bytes a row from `offset` on. */
template <bool IS_SPLIT>
static gr_status add_part(const gr_launch *l, parts *p, void *mem, int64_t length, int64_t offset,
                          int64_t n_rows)
{
    part *x = &p->part[p->n];

    if (length * n_rows == 0)
        return GR_OK;
    x->mem = mem;
    x->length.n = length;
    x->offset = offset;
    x->count = length * n_rows;
    return ++p->n == MAX_PARTS ? flush<IS_SPLIT>(l, p) : GR_OK;
}

/* How many rows the shape has around an axis, and how long one of `dim` is. */
static void rows_of(const gr_shape *s, int axis, int64_t *n_rows, int64_t *inner)
{
    *n_rows = *inner = 1;
    for (int d = 0; d < axis; d++)
        *n_rows *= s->dim[d];
    for (int d = axis + 1; d < s->n_dims; d++)
        *inner *= s->dim[d];
}

/* ---- sources of another type ---- */

template <class O, class S>
static __global__ void convert_rows(O *whole, const S *in, int64_t count, int64_t row,
                                    const __grid_constant__ gr_divider length)
{
    GR_CUDA_EACH(i, count)
    {
        int64_t r = gr_divide(&length, i);

        whole[r * row + i - r * length.n] = gr_as<O>(in[i]);
    }
}

typedef struct conversion {
    int64_t length, row, offset, count; /* elements */
} conversion;

template <class O, class S>
static gr_status launch_convert(const gr_launch *l, int s, const conversion &c)
{
    return gr_cuda_launch("concat launch", gr_cuda_grid_for(c.count), gr_cuda_stream(l->stream),
                          convert_rows<O, S>, (O *)l->out[0] + c.offset, (const S *)l->src[s],
                          c.count, c.row, gr_divider_of(c.length));
}

static gr_status convert(const gr_launch *l, int s, const conversion &c)
{
    if (c.count == 0)
        return GR_OK;
    GR_CUDA_FLOATS(
        l->node->out[0].dtype, O,
        GR_CUDA_FLOATS(l->node->src[s]->dtype, S, return (launch_convert<O, S>(l, s, c))))
    return GR_OK;
}

/* ---- both ---- */

static gr_status concat_run(const gr_launch *l)
{
    const gr_node *n = l->node;
    const gr_value *out = &n->out[0];
    int axis = ((const gr_concat_attr *)n->attr)->axis;
    int64_t bytes = (int64_t)gr_dtype_bytes(out->dtype), n_rows, inner, offset = 0;
    parts p;

    rows_of(&out->shape, axis, &n_rows, &inner);
    p.whole = l->out[0];
    p.row = out->shape.dim[axis] * inner * bytes;
    p.n = 0;
    for (int s = 0; s < n->n_src; s++) {
        int64_t length = n->src[s]->shape.dim[axis] * inner;
        conversion c = { length, out->shape.dim[axis] * inner, offset, length * n_rows };

        if (n->src[s]->dtype != out->dtype)
            GR_TRY(convert(l, s, c));
        else
            GR_TRY(add_part<false>(l, &p, l->src[s], length * bytes, offset * bytes, n_rows));
        offset += length;
    }
    return flush<false>(l, &p);
}

static gr_status split_run(const gr_launch *l)
{
    const gr_node *n = l->node;
    const gr_value *src = n->src[0];
    int axis = ((const gr_split_attr *)n->attr)->axis;
    int64_t bytes = (int64_t)gr_dtype_bytes(src->dtype), n_rows, inner, offset = 0;
    parts p;

    rows_of(&src->shape, axis, &n_rows, &inner);
    p.whole = l->src[0];
    p.row = src->shape.dim[axis] * inner * bytes;
    p.n = 0;
    for (int s = 0; s < n->n_out; s++) {
        int64_t length = n->out[s].shape.dim[axis] * inner * bytes;

        GR_TRY(add_part<true>(l, &p, l->out[s], length, offset, n_rows));
        offset += length;
    }
    return flush<true>(l, &p);
}

const gr_kernel gr_concat_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = concat_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_split_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = split_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
