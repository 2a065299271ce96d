/*
 * Reductions on the GPU.
 *
 * Dimensions are collapsed into groups that are kept or reduced. What is usual is
 *
 *   [kept, reduced]         rows: a row of neighbours becomes one result
 *   [kept, reduced, kept]   columns: neighbours end in different results
 *
 * and anything else goes through a slower kernel that computes each address. Long rows
 * and columns are cut into parts of a fixed length whose partial results, in the
 * workspace, are reduced a second time. All orders depend on the shape alone, so the
 * bits do not depend on the device. Floating types are summed in double, integers in i64.
 */
#include "op/reduce/reduce.h"

#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

#include <limits.h>
#include <math.h>

#define ROW_PART  16384 /* elements of a row that one block takes */
#define ROW_BLOCK 256
#define COL_PART  1024 /* elements of a column that one block takes */
#define COL_BLOCK 32   /* columns per block, and threads per column */

typedef struct group {
    int64_t size, stride; /* in elements of the source */
    bool reduced;
} group;

typedef enum form { ROWS, COLUMNS, GENERAL } form;

typedef struct geometry {
    form form;
    int n_groups;
    group g[GR_MAX_DIMS];
    int64_t outer, length, inner; /* ROWS: [outer, length]; COLUMNS: [outer, length, inner] */
    int64_t n_parts;              /* stretches of `length`; 1: one stage */
    int64_t n_out, n_reduced;
} geometry;

/* ---- geometry ---- */

static void find_groups(geometry *o, const gr_node *n)
{
    const gr_reduce_attr *at = (const gr_reduce_attr *)n->attr;
    const gr_shape *s = &n->src[0]->shape;
    int64_t stride = 1;

    o->n_out = o->n_reduced = 1;
    for (int d = s->n_dims - 1; d >= 0; d--) {
        bool reduced = at->axes >> d & 1u;
        group *last = o->n_groups ? &o->g[o->n_groups - 1] : NULL;

        *(reduced ? &o->n_reduced : &o->n_out) *= s->dim[d];
        if (s->dim[d] == 1)
            continue;
        if (last && last->reduced == reduced) {
            last->size *= s->dim[d];
        } else {
            o->g[o->n_groups].size = s->dim[d];
            o->g[o->n_groups].stride = stride;
            o->g[o->n_groups].reduced = reduced;
            o->n_groups++;
        }
        stride *= s->dim[d];
    }
}

/* Groups stand innermost first. */
static geometry geometry_of(const gr_node *n)
{
    geometry o = {};
    bool is_inner_reduced;

    find_groups(&o, n);
    is_inner_reduced = o.n_groups > 0 && o.g[0].reduced;
    o.outer = o.length = o.inner = o.n_parts = 1;
    if (is_inner_reduced && o.n_groups <= 2) {
        o.form = ROWS;
        o.length = o.g[0].size;
        o.outer = o.n_groups == 2 ? o.g[1].size : 1;
        if (o.length > 2 * ROW_PART)
            o.n_parts = (o.length + ROW_PART - 1) / ROW_PART;
    } else if (!is_inner_reduced && o.n_groups <= 3) {
        o.form = COLUMNS;
        o.inner = o.n_groups > 0 ? o.g[0].size : 1;
        o.length = o.n_groups > 1 ? o.g[1].size : 1;
        o.outer = o.n_groups > 2 ? o.g[2].size : 1;
        if (o.length > 2 * COL_PART)
            o.n_parts = (o.length + COL_PART - 1) / COL_PART;
    } else {
        o.form = GENERAL;
    }
    return o;
}

/* ---- arithmetic ---- */

static __device__ __forceinline__ double least(double)
{
    return -INFINITY;
}
static __device__ __forceinline__ int64_t least(int64_t)
{
    return LLONG_MIN;
}

template <class A> static __device__ __forceinline__ A identity(gr_reduce_fn fn)
{
    return fn == GR_MAX ? least(A()) : A(0);
}

/* gr_reduce_fn at run time; NaN wins a maximum. */
struct joiner {
    gr_reduce_fn fn;

    template <class A> __device__ __forceinline__ A operator()(A a, A b) const
    {
        return fn == GR_MAX ? gr_greater()(a, b) : a + b;
    }
};

/* Where results go: final ones in the node's type, partial ones in the wide type. */
typedef struct sink {
    void *mem;
    gr_dtype type;
    gr_reduce_fn fn;
    bool is_partial;
    int64_t n_reduced; /* what a mean divides by */
} sink;

static __device__ __forceinline__ void put(const sink &k, int64_t i, double x)
{
    if (k.is_partial) {
        ((double *)k.mem)[i] = x;
        return;
    }
    gr_store_f64(k.mem, i, k.type, k.fn == GR_MEAN ? x / (double)k.n_reduced : x);
}

/* Integers have no mean. */
static __device__ __forceinline__ void put(const sink &k, int64_t i, int64_t x)
{
    if (k.is_partial || k.type == GR_I64)
        ((int64_t *)k.mem)[i] = x;
    else if (k.type == GR_I32)
        ((int32_t *)k.mem)[i] = (int32_t)x;
    else
        ((uint8_t *)k.mem)[i] = k.type == GR_BOOL ? x != 0 : (uint8_t)x;
}

/* ---- kernels ---- */

/* x [outer, length] -> out [outer, parts]; grid (outer, parts), block ROW_BLOCK. */
template <class T>
static __global__ void reduce_rows(sink k, const T *x, int64_t length, int64_t part)
{
    typedef typename gr_widest<T>::type A;
    int64_t lo = (int64_t)blockIdx.y * part, hi = lo + part < length ? lo + part : length;
    const T *row = x + (int64_t)blockIdx.x * length;
    joiner join = { k.fn };
    A a = identity<A>(k.fn);

    for (int64_t i = lo + threadIdx.x; i < hi; i += ROW_BLOCK)
        a = join(a, gr_as<A>(row[i]));
    a = gr_team_join<ROW_BLOCK>(a, join);
    if (threadIdx.x == 0)
        put(k, (int64_t)blockIdx.x * gridDim.y + blockIdx.y, a);
}

/* The same for short rows: x [outer, length]; a warp per row. */
template <class T>
static __global__ void reduce_short_rows(sink k, const T *x, int64_t outer, int64_t length)
{
    typedef typename gr_widest<T>::type A;
    int64_t i = gr_cuda_row();
    joiner join = { k.fn };
    A a = identity<A>(k.fn);

    if (i >= outer)
        return;
    for (int64_t j = threadIdx.x; j < length; j += 32)
        a = join(a, gr_as<A>(x[i * length + j]));
    a = gr_team_join<32>(a, join);
    if (threadIdx.x == 0)
        put(k, i, a);
}

typedef struct column_args {
    int64_t length, inner, part, n_parts;
    gr_divider n_blocks; /* of columns */
} column_args;

/* x [outer, length, inner] -> out [outer, parts, inner]; grid (outer * blocks of columns,
 * parts), block (COL_BLOCK, COL_BLOCK): y walks the column. */
template <class T> static __global__ void reduce_columns(sink k, const T *x, column_args p)
{
    typedef typename gr_widest<T>::type A;
    int64_t outer = gr_divide(&p.n_blocks, blockIdx.x);
    int64_t col = (blockIdx.x - outer * p.n_blocks.n) * COL_BLOCK + threadIdx.x;
    int64_t lo = (int64_t)blockIdx.y * p.part;
    int64_t hi = lo + p.part < p.length ? lo + p.part : p.length;
    joiner join = { k.fn };
    A a = identity<A>(k.fn);

    if (col < p.inner)
        for (int64_t i = lo + threadIdx.y; i < hi; i += COL_BLOCK)
            a = join(a, gr_as<A>(x[(outer * p.length + i) * p.inner + col]));
    a = gr_columns_join<COL_BLOCK, COL_BLOCK>(a, join);
    if (threadIdx.y == 0 && col < p.inner)
        put(k, (outer * p.n_parts + blockIdx.y) * p.inner + col, a);
}

/* Any pattern: one block per result, each address computed from the groups. */
template <class T>
static __global__ void reduce_general(sink k, const T *x, const __grid_constant__ gr_index kept,
                                      const __grid_constant__ gr_index reduced)
{
    typedef typename gr_widest<T>::type A;
    const T *first = x + gr_index_at(&kept, 0, blockIdx.x);
    joiner join = { k.fn };
    A a = identity<A>(k.fn);

    for (int64_t i = threadIdx.x; i < reduced.count; i += ROW_BLOCK)
        a = join(a, gr_as<A>(first[gr_index_at(&reduced, 0, i)]));
    a = gr_team_join<ROW_BLOCK>(a, join);
    if (threadIdx.x == 0)
        put(k, blockIdx.x, a);
}

/* Nothing to reduce: every result is the identity. */
static __global__ void reduce_nothing(sink k, int64_t n_out)
{
    bool is_float = k.type == GR_F32 || k.type == GR_F64 || k.type == GR_BF16 || k.type == GR_F16;

    GR_CUDA_EACH(i, n_out)
    {
        if (is_float)
            gr_store_f64(k.mem, i, k.type,
                         k.fn == GR_SUM    ? 0.0
                         : k.fn == GR_MEAN ? NAN
                                           : -INFINITY);
        else if (k.type == GR_I32)
            ((int32_t *)k.mem)[i] = k.fn == GR_MAX ? INT_MIN : 0;
        else if (k.type == GR_I64)
            ((int64_t *)k.mem)[i] = k.fn == GR_MAX ? LLONG_MIN : 0;
        else
            ((uint8_t *)k.mem)[i] = 0;
    }
}

/* ---- launch ---- */

static const char launch_text[] = "reduce launch";

template <class T>
static gr_status launch_rows(const sink &k, const void *x, const geometry &o, cudaStream_t s)
{
    const T *src = (const T *)x;
    int64_t part = o.n_parts > 1 ? ROW_PART : o.length;

    if (o.length <= 512 && o.n_parts == 1)
        return gr_cuda_launch(launch_text, gr_cuda_grid_rows<32>(o.outer), s, reduce_short_rows<T>,
                              k, src, o.outer, o.length);
    return gr_cuda_launch(launch_text, gr_cuda_grid_of(o.outer, o.n_parts, ROW_BLOCK), s,
                          reduce_rows<T>, k, src, o.length, part);
}

template <class T>
static gr_status launch_columns(const sink &k, const void *x, const geometry &o, cudaStream_t s)
{
    int64_t n_blocks = gr_ceil_div(o.inner, COL_BLOCK);
    column_args p = { o.length, o.inner, o.n_parts > 1 ? COL_PART : o.length, o.n_parts,
                      gr_divider_of(n_blocks) };

    return gr_cuda_launch(
        launch_text, gr_cuda_grid_of(n_blocks * o.outer, o.n_parts, dim3(COL_BLOCK, COL_BLOCK)), s,
        reduce_columns<T>, k, (const T *)x, p);
}

/* The kept or the reduced dimensions, whose groups stand innermost first. */
static gr_index index_of(const geometry *o, bool reduced)
{
    gr_index x = gr_index_of(1);

    for (int g = o->n_groups - 1; g >= 0; g--)
        if (o->g[g].reduced == reduced)
            gr_index_add(&x, o->g[g].size, &o->g[g].stride);
    return x;
}

template <class T>
static gr_status launch(const sink &k, const void *x, const geometry &o, cudaStream_t s)
{
    if (o.form == ROWS)
        return launch_rows<T>(k, x, o, s);
    if (o.form == COLUMNS)
        return launch_columns<T>(k, x, o, s);
    return gr_cuda_launch(launch_text, gr_cuda_grid_of(o.n_out, 1, ROW_BLOCK), s, reduce_general<T>,
                          k, (const T *)x, index_of(&o, false), index_of(&o, true));
}

/* Partial results [outer, parts (, inner)] in `work` become the result. */
static gr_status launch_second(const sink &k, const void *work, geometry o, gr_dtype t,
                               cudaStream_t s)
{
    o.length = o.n_parts;
    o.n_parts = 1;
    if (gr_dtype_is_float(t))
        return launch<double>(k, work, o, s);
    return launch<int64_t>(k, work, o, s);
}

static size_t reduce_workspace(const gr_node *n, const void *data)
{
    geometry o = geometry_of(n);

    (void)data;
    return o.n_parts > 1 ? (size_t)(o.n_parts * o.n_out) * sizeof(double) : 0;
}

static gr_status reduce_run(const gr_launch *l)
{
    const gr_node *n = l->node;
    const gr_reduce_attr *at = (const gr_reduce_attr *)n->attr;
    cudaStream_t s = gr_cuda_stream(l->stream);
    gr_dtype t = n->src[0]->dtype;
    geometry o = geometry_of(n);
    sink last = { l->out[0], n->out[0].dtype, at->fn, false, o.n_reduced };
    sink first = last;

    if (o.n_out == 0)
        return GR_OK;
    if (o.n_reduced == 0)
        return gr_cuda_launch(launch_text, gr_cuda_grid_for(o.n_out), s, reduce_nothing, last,
                              o.n_out);
    if (o.n_parts > 1) {
        first.mem = l->work;
        first.is_partial = true;
    }
    GR_CUDA_TYPES(t, T, GR_TRY(launch<T>(first, l->src[0], o, s)))
    return o.n_parts > 1 ? launch_second(last, l->work, o, t, s) : GR_OK;
}

const gr_kernel gr_reduce_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = reduce_workspace,
        .run = reduce_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
