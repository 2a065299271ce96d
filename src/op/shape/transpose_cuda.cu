/*
 * Transposition on the GPU. Dimensions that stay neighbours are joined first. When the
 * innermost dimension stays innermost, elements are copied one by one in the order of
 * the result; else through tiles in shared memory, so that both sides are read and
 * written along their innermost dimension. Types count only by their size.
 */
#include "op/shape/shape.h"

#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

#define TILE  32
#define LINES 8 /* threads along y; each takes TILE / LINES lines of a tile */

/* Dimensions of the result, outermost first, and the source's stride of each. */
typedef struct geometry {
    int n_dims;
    int64_t dim[GR_MAX_DIMS], stride[GR_MAX_DIMS];
    int64_t count;
} geometry;

static geometry geometry_of(const gr_node *n)
{
    const gr_transpose_attr *at = (const gr_transpose_attr *)n->attr;
    const gr_shape *s = &n->src[0]->shape;
    int64_t stride[GR_MAX_DIMS], step = 1;
    geometry o = {};

    for (int d = s->n_dims - 1; d >= 0; d--) {
        stride[d] = step;
        step *= s->dim[d];
    }
    o.count = step;
    for (int d = 0; d < s->n_dims; d++) {
        int64_t size = s->dim[at->order[d]], st = stride[at->order[d]];

        if (size == 1)
            continue;
        if (o.n_dims > 0 && o.stride[o.n_dims - 1] == st * size) {
            o.dim[o.n_dims - 1] *= size;
            o.stride[o.n_dims - 1] = st;
        } else {
            o.dim[o.n_dims] = size;
            o.stride[o.n_dims++] = st;
        }
    }
    if (o.n_dims == 0) {
        o.dim[0] = o.stride[0] = 1;
        o.n_dims = 1;
    }
    return o;
}

/* out: elements in the order of the result; grid-stride. */
template <class T>
static __global__ void copy_elements(T *out, const T *in, const __grid_constant__ gr_index o)
{
    GR_CUDA_EACH(i, o.count)
    out[i] = in[gr_index_at(&o, 0, i)];
}

/* One plane: columns are the result's innermost dimension, lines the source's. */
typedef struct plane {
    int64_t n_cols, col_stride; /* stride in the source */
    int64_t n_lines, line_step; /* step in the result */
    gr_divider tiles_x, tiles_y;
    gr_index rest; /* the other dimensions, in source and result */
} plane;

/* Grid: tiles_x * tiles_y * other dimensions; block (TILE, LINES). */
template <class T>
static __global__ void transpose_tiles(T *out, const T *in, const __grid_constant__ plane p)
{
    __shared__ T tile[TILE][TILE + 1];
    int64_t line = gr_divide(&p.tiles_x, blockIdx.x), rest = gr_divide(&p.tiles_y, line);
    int64_t x0 = (blockIdx.x - line * p.tiles_x.n) * TILE, y0 = (line - rest * p.tiles_y.n) * TILE;

    in += gr_index_at(&p.rest, 0, rest);
    out += gr_index_at(&p.rest, 1, rest);
    /* Lines are neighbours in the source: threadIdx.x walks them. */
    for (int j = threadIdx.y; j < TILE; j += LINES)
        if (x0 + j < p.n_cols && y0 + threadIdx.x < p.n_lines)
            tile[j][threadIdx.x] = in[(x0 + j) * p.col_stride + y0 + threadIdx.x];
    __syncthreads();
    for (int j = threadIdx.y; j < TILE; j += LINES)
        if (y0 + j < p.n_lines && x0 + threadIdx.x < p.n_cols)
            out[(y0 + j) * p.line_step + x0 + threadIdx.x] = tile[threadIdx.x][j];
}

/* Splits the dimensions into the plane and the rest. */
static plane plane_of(const geometry *o)
{
    int64_t out_step[GR_MAX_DIMS], step = 1;
    plane p = {};

    p.n_cols = o->dim[o->n_dims - 1];
    p.col_stride = o->stride[o->n_dims - 1];
    p.rest = gr_index_of(2);
    for (int d = o->n_dims - 1; d >= 0; d--) {
        out_step[d] = step;
        step *= o->dim[d];
    }
    for (int d = 0; d < o->n_dims - 1; d++) {
        int64_t stride[] = { o->stride[d], out_step[d] };

        if (o->stride[d] != 1) {
            gr_index_add(&p.rest, o->dim[d], stride);
            continue;
        }
        p.n_lines = o->dim[d];
        p.line_step = out_step[d];
    }
    p.tiles_x = gr_divider_of(gr_ceil_div(p.n_cols, TILE));
    p.tiles_y = gr_divider_of(gr_ceil_div(p.n_lines, TILE));
    return p;
}

static gr_index index_of(const geometry *o)
{
    gr_index x = gr_index_of(1);

    for (int d = 0; d < o->n_dims; d++)
        gr_index_add(&x, o->dim[d], &o->stride[d]);
    return x;
}

template <class T>
static gr_status launch(void *out, const void *in, const geometry &o, cudaStream_t s)
{
    if (o.stride[o.n_dims - 1] == 1)
        return gr_cuda_launch("transpose launch", gr_cuda_grid_for(o.count), s, copy_elements<T>,
                              (T *)out, (const T *)in, index_of(&o));
    plane p = plane_of(&o);

    return gr_cuda_launch(
        "transpose launch",
        gr_cuda_grid_of(p.rest.count * p.tiles_x.n * p.tiles_y.n, 1, dim3(TILE, LINES)), s,
        transpose_tiles<T>, (T *)out, (const T *)in, p);
}

static gr_status transpose_run(const gr_launch *l)
{
    geometry o = geometry_of(l->node);
    cudaStream_t s = gr_cuda_stream(l->stream);

    if (o.count == 0)
        return GR_OK;
    GR_CUDA_BYTES(gr_dtype_bytes(l->node->src[0]->dtype), T,
                  return launch<T>(l->out[0], l->src[0], o, s))
}

const gr_kernel gr_transpose_cuda[] = {
    {
        .name = "tiles",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = transpose_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
