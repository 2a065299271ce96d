/*
 * Transposition on the GPU. Dimensions that stay neighbours are joined first. When the
 * innermost dimension stays innermost, elements are copied one by one in the order of
 * the result; else through tiles in shared memory, so that both sides are read and
 * written along their innermost dimension. Types count only by their size.
 */
#include "op/shape/shape.h"

#include "backend/cuda/cuda.h"
#include "op/module_cuda.h"

#define BLOCK 256
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

/* out: count elements in the order of the result; one thread each. */
template <class T> static __global__ void copy_elements(T *out, const T *in, geometry o)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x, rest = i, at = 0;

    if (i >= o.count)
        return;
    for (int d = o.n_dims - 1; d >= 0; d--) {
        at += rest % o.dim[d] * o.stride[d];
        rest /= o.dim[d];
    }
    out[i] = in[at];
}

/* One plane: columns are the result's innermost dimension, lines the source's. */
typedef struct plane {
    int64_t n_cols, col_stride; /* stride in the source */
    int64_t n_lines, line_step; /* step in the result */
    int64_t tiles_x, tiles_y;
    geometry rest;                 /* the other dimensions; stride: source */
    int64_t out_step[GR_MAX_DIMS]; /* of the other dimensions in the result */
} plane;

/* Grid: tiles_x * tiles_y * other dimensions; block (TILE, LINES). */
template <class T>
static __global__ void transpose_tiles(T *out, const T *in, const __grid_constant__ plane p)
{
    __shared__ T tile[TILE][TILE + 1];
    int64_t rest = blockIdx.x;
    int64_t x0 = rest % p.tiles_x * TILE, y0 = rest / p.tiles_x % p.tiles_y * TILE;

    rest /= p.tiles_x * p.tiles_y;
    for (int d = p.rest.n_dims - 1; d >= 0; d--) {
        int64_t i = rest % p.rest.dim[d];

        in += i * p.rest.stride[d];
        out += i * p.out_step[d];
        rest /= p.rest.dim[d];
    }
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
    plane p = {};
    int64_t step = 1;

    p.n_cols = o->dim[o->n_dims - 1];
    p.col_stride = o->stride[o->n_dims - 1];
    step = p.n_cols;
    for (int d = o->n_dims - 2; d >= 0; d--) {
        if (o->stride[d] == 1) {
            p.n_lines = o->dim[d];
            p.line_step = step;
        } else {
            int k = p.rest.n_dims++;

            p.rest.dim[k] = o->dim[d];
            p.rest.stride[k] = o->stride[d];
            p.out_step[k] = step;
        }
        step *= o->dim[d];
    }
    p.tiles_x = (p.n_cols + TILE - 1) / TILE;
    p.tiles_y = (p.n_lines + TILE - 1) / TILE;
    return p;
}

template <class T> static void launch(void *out, const void *in, const geometry &o, cudaStream_t s)
{
    if (o.stride[o.n_dims - 1] == 1) {
        copy_elements<T><<<(unsigned)((o.count + BLOCK - 1) / BLOCK), BLOCK, 0, s>>>(
            (T *)out, (const T *)in, o);
        return;
    }
    plane p = plane_of(&o);
    int64_t n_blocks = o.count / (p.n_cols * p.n_lines) * p.tiles_x * p.tiles_y;

    transpose_tiles<T><<<(unsigned)n_blocks, dim3(TILE, LINES), 0, s>>>((T *)out, (const T *)in, p);
}

static gr_status transpose_run(const gr_launch *l)
{
    geometry o = geometry_of(l->node);
    cudaStream_t s = gr_cuda_stream(l->stream);

    if (o.count == 0)
        return GR_OK;
    switch (gr_dtype_bytes(l->node->src[0]->dtype)) {
    case 1: launch<uint8_t>(l->out[0], l->src[0], o, s); break;
    case 2: launch<uint16_t>(l->out[0], l->src[0], o, s); break;
    case 4: launch<uint32_t>(l->out[0], l->src[0], o, s); break;
    default: launch<uint64_t>(l->out[0], l->src[0], o, s); break;
    }
    return gr_cuda_check(cudaGetLastError(), "transpose launch");
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
