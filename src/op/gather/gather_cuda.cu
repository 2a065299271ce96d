/*
 * Rows by index on the GPU, and the sum of rows by index.
 *
 * scatter_add adds without atomics, in the order of positions: a block owns a few rows of
 * the result, walks all indices in tiles, lists those that point to its rows in order,
 * and adds the listed rows one after the other. Each thread owns columns, so nothing
 * else needs an order. An index out of range is reported by the gathering thread or by
 * the first block, and its row counts as zeros.
 */
#include "op/gather/gather.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/fault.cuh"
#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

#define BLOCK      GR_CUDA_BLOCK
#define MAX_ROWS   32 /* of the result per block */
#define MIN_BLOCKS 512

typedef struct indices {
    const void *mem;
    gr_dtype type;
    int64_t n, limit; /* so many; each in [0, limit) */
    uint32_t node_id;
    gr_fault *fault;
} indices;

static indices indices_of(const gr_launch *l, int64_t limit)
{
    const gr_value *v = l->node->src[1];
    indices x;

    x.mem = l->src[1];
    x.type = v->dtype;
    x.n = gr_shape_count(&v->shape);
    x.limit = limit;
    x.node_id = l->node->id;
    x.fault = l->fault;
    return x;
}

/* ---- gather ---- */

/* out [x.n, row], table [limit, row], in units of T; grid-stride. */
template <class T>
static __global__ void gather_rows(T *out, const T *table, const __grid_constant__ indices x,
                                   const __grid_constant__ gr_divider row)
{
    GR_CUDA_EACH(i, x.n * row.n)
    {
        int64_t r = gr_divide(&row, i), c = i - r * row.n;
        int64_t from = gr_load_index(x.mem, r, x.type);

        if (from >= 0 && from < x.limit) {
            out[i] = table[from * row.n + c];
            continue;
        }
        out[i] = T();
        if (c == 0)
            gr_cuda_fault(x.fault, x.node_id, from, x.limit, r);
    }
}

template <class T>
static gr_status launch_gather(const gr_launch *l, const indices &x, size_t row_bytes)
{
    int64_t row = (int64_t)(row_bytes / sizeof(T));

    return gr_cuda_launch("gather launch", gr_cuda_grid_for(x.n * row), gr_cuda_stream(l->stream),
                          gather_rows<T>, (T *)l->out[0], (const T *)l->src[0], x,
                          gr_divider_of(row));
}

/* The largest unit that divides a row. */
static size_t unit_of(size_t row_bytes)
{
    size_t unit = 16;

    while (row_bytes % unit != 0)
        unit /= 2;
    return unit;
}

static gr_status gather_run(const gr_launch *l)
{
    const gr_value *table = l->node->src[0];
    indices x = indices_of(l, table->shape.dim[0]);
    size_t row_bytes = gr_dtype_bytes(table->dtype);

    for (int d = 1; d < table->shape.n_dims; d++)
        row_bytes *= (size_t)table->shape.dim[d];
    if (x.n == 0 || row_bytes == 0)
        return GR_OK;
    GR_CUDA_BYTES(unit_of(row_bytes), T, return launch_gather<T>(l, x, row_bytes))
}

/* ---- scatter_add ---- */

typedef struct scatter_args {
    void *sum; /* the result itself, or f32 workspace for a 16-bit one */
    void *out;
    gr_dtype out_type;
    const void *rows;
    indices x;
    int64_t row;   /* columns */
    int per_block; /* rows of the result */
} scatter_args;

/* Lists in order the positions of a tile of BLOCK indices that point into [lo, hi), and
 * which row each means. Returns how many. */
static __device__ int list_tile(const scatter_args &p, int64_t at, int64_t lo, int64_t hi,
                                int *list)
{
    int64_t i = at + threadIdx.x;
    int64_t index = i < p.x.n ? gr_load_index(p.x.mem, i, p.x.type) : -1;
    bool is_mine = i < p.x.n && index >= lo && index < hi;
    int total, place = gr_block_rank<BLOCK>(is_mine, &total);

    if (blockIdx.x == 0 && blockIdx.y == 0 && i < p.x.n && (index < 0 || index >= p.x.limit))
        gr_cuda_fault(p.x.fault, p.x.node_id, index, p.x.limit, i);
    if (is_mine)
        list[place] = (int)threadIdx.x | (int)(index - lo) << 16;
    __syncthreads();
    return total;
}

/* A 16-bit result is rounded once, from its sums. */
static bool needs_sums(gr_dtype t)
{
    return t == GR_BF16 || t == GR_F16;
}

/* sum and out [limit, row], rows [x.n, row]; grid (rows of out / per_block, columns /
 * BLOCK). */
template <class T, class O>
static __global__ void scatter_rows(const __grid_constant__ scatter_args p)
{
    __shared__ int list[BLOCK];
    int64_t lo = (int64_t)blockIdx.x * p.per_block;
    int64_t hi = lo + p.per_block < p.x.limit ? lo + p.per_block : p.x.limit;
    int64_t col = (int64_t)blockIdx.y * BLOCK + threadIdx.x;
    O *sum = (O *)p.sum;

    if (col < p.row)
        for (int64_t r = lo; r < hi; r++)
            sum[r * p.row + col] = O(0);
    for (int64_t at = 0; at < p.x.n; at += BLOCK) {
        int n = list_tile(p, at, lo, hi, list);

        if (col < p.row)
            for (int j = 0; j < n; j++) {
                int64_t from = at + (list[j] & 0xffff), to = lo + (list[j] >> 16);

                sum[to * p.row + col] += gr_as<O>(((const T *)p.rows)[from * p.row + col]);
            }
        /* The next tile overwrites the list. */
        __syncthreads();
    }
    if (p.sum != p.out && col < p.row)
        for (int64_t r = lo; r < hi; r++)
            gr_store_f64(p.out, r * p.row + col, p.out_type, (double)sum[r * p.row + col]);
}

template <class T>
static gr_status launch_scatter(const scatter_args &p, gr_dtype out, cudaStream_t s)
{
    gr_cuda_grid grid =
        gr_cuda_grid_of(gr_ceil_div(p.x.limit, p.per_block), gr_ceil_div(p.row, BLOCK), BLOCK);

    if (out == GR_F64)
        return gr_cuda_launch("scatter_add launch", grid, s, scatter_rows<T, double>, p);
    return gr_cuda_launch("scatter_add launch", grid, s, scatter_rows<T, float>, p);
}

static size_t scatter_workspace(const gr_node *n, const void *data)
{
    const gr_value *out = &n->out[0];

    (void)data;
    return needs_sums(out->dtype) ? (size_t)gr_shape_count(&out->shape) * sizeof(float) : 0;
}

static gr_status scatter_run(const gr_launch *l)
{
    const gr_value *rows = l->node->src[0], *out = &l->node->out[0];
    scatter_args p;
    int64_t per_block;

    p.out = l->out[0];
    p.out_type = out->dtype;
    p.sum = needs_sums(out->dtype) ? l->work : p.out;
    p.rows = l->src[0];
    p.x = indices_of(l, out->shape.dim[0]);
    p.row = 1;
    for (int d = 1; d < out->shape.n_dims; d++)
        p.row *= out->shape.dim[d];
    if (p.x.limit == 0 || p.row == 0)
        return GR_OK;
    per_block = p.x.limit * gr_ceil_div(p.row, BLOCK) / MIN_BLOCKS;
    p.per_block = (int)(per_block < 1 ? 1 : per_block > MAX_ROWS ? MAX_ROWS : per_block);
    GR_CUDA_FLOATS(rows->dtype, T,
                   return launch_scatter<T>(p, out->dtype, gr_cuda_stream(l->stream)))
}

const gr_kernel gr_gather_cuda[] = {
    {
        .name = "rows",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = gather_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_scatter_add_cuda[] = {
    {
        .name = "ordered",
        .reject = NULL,
        .prepare = NULL,
        .workspace = scatter_workspace,
        .run = scatter_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
