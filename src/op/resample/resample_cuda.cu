/*
 * Averages and resizing on the GPU, and their gradients, which are the same with inverted tables.
 * A thread takes N neighbouring channels of one pixel of the result and gathers what it looks at,
 * row by row. The tables of taps are made once per plan, as for the CPU, and lie on the device.
 */
#include "op/resample/resample.h"

#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/pack.cuh"
#include "backend/cuda/types.cuh"
#include "base/alloc.h"
#include "op/module_cuda.h"

/* gr_taps on the device. */
typedef struct axis {
    const int64_t *first;
    const gr_tap *tap;
} axis;

/* What prepare() leaves; both tables are parts of mem. */
typedef struct tables {
    axis row, col;
    void *mem;
} tables;

typedef struct resample_args {
    axis row, col;
    int64_t in_height, in_width;
    gr_divider packs, width, height; /* of the result */
    int64_t n_channels, count;       /* of packs */
} resample_args;

static __device__ __forceinline__ float weight_of(const gr_tap &t, float)
{
    return t.w;
}
static __device__ __forceinline__ double weight_of(const gr_tap &t, double)
{
    return t.wide;
}

template <class C, int N> static __device__ __forceinline__ void add(C *sum, C w, const C *x)
{
#pragma unroll
    for (int j = 0; j < N; j++)
        sum[j] += w * x[j];
}

template <class T, int N>
static __global__ void resample(T *y, const T *x, const __grid_constant__ resample_args p)
{
    typedef typename gr_compute<T>::type C;

    GR_CUDA_EACH(i, p.count)
    {
        int64_t pixel = gr_divide(&p.packs, i), line = gr_divide(&p.width, pixel);
        int64_t image = gr_divide(&p.height, line), row = line - image * p.height.n;
        int64_t col = pixel - line * p.width.n, channel = (i - pixel * p.packs.n) * N;
        int64_t first = p.col.first[col], end = p.col.first[col + 1];
        gr_pack<C, N> sum = {};

        for (int64_t r = p.row.first[row]; r < p.row.first[row + 1]; r++) {
            int64_t from = (image * p.in_height + p.row.tap[r].at) * p.in_width;
            gr_pack<C, N> part = {};

            for (int64_t c = first; c < end; c++) {
                const gr_tap &t = p.col.tap[c];
                gr_pack<C, N> v = gr_pack_load<C, N>(x + (from + t.at) * p.n_channels + channel);

                add<C, N>(part.v, weight_of(t, C()), v.v);
            }
            add<C, N>(sum.v, weight_of(p.row.tap[r], C()), part.v);
        }
        gr_pack_store(y + i * N, sum);
    }
}

/* ---- plans ---- */

static void release(void *data)
{
    tables *t = (tables *)data;

    if (!t)
        return;
    cudaFree(t->mem);
    gr_free(t);
}

static size_t first_bytes(const gr_taps *t)
{
    return (size_t)(t->n + 1) * sizeof(t->first[0]);
}

static size_t tap_bytes(const gr_taps *t)
{
    return (size_t)t->first[t->n] * sizeof(t->tap[0]);
}

static gr_status put(char **at, const void *src, size_t n_bytes)
{
    GR_TRY(gr_cuda_check(cudaMemcpy(*at, src, n_bytes, cudaMemcpyHostToDevice), "resample tables"));
    *at += n_bytes;
    return GR_OK;
}

static gr_status upload_axis(axis *out, const gr_taps *t, char **at)
{
    out->first = (const int64_t *)*at;
    GR_TRY(put(at, t->first, first_bytes(t)));
    out->tap = (const gr_tap *)*at;
    return put(at, t->tap, tap_bytes(t));
}

static gr_status upload(tables *t, const gr_taps *rows, const gr_taps *cols)
{
    size_t n_bytes = first_bytes(rows) + tap_bytes(rows) + first_bytes(cols) + tap_bytes(cols);
    char *at;

    GR_TRY(gr_cuda_check(cudaMalloc(&t->mem, n_bytes), "resample tables"));
    at = (char *)t->mem;
    GR_TRY(upload_axis(&t->row, rows, &at));
    GR_TRY(upload_axis(&t->col, cols, &at));
    /* A copy from pageable memory may still be under way when its call returns. */
    return gr_cuda_check(cudaStreamSynchronize(cudaStreamLegacy), "resample tables");
}

static gr_status fill(tables *t, const gr_resample_attr *at)
{
    gr_taps *rows = NULL, *cols = NULL;
    gr_status st = gr_resample_taps(&rows, at, 0);

    if (st == GR_OK)
        st = gr_resample_taps(&cols, at, 1);
    if (st == GR_OK)
        st = upload(t, rows, cols);
    gr_free(rows);
    gr_free(cols);
    return st;
}

static gr_status prepare(gr_prepare *p)
{
    tables *t = (tables *)gr_calloc(1, sizeof(*t));
    gr_status st;

    if (!t)
        return GR_ERR_NOMEM;
    st = fill(t, (const gr_resample_attr *)p->node->attr);
    if (st != GR_OK) {
        release(t);
        return st;
    }
    p->data = t;
    return GR_OK;
}

/* ---- launch ---- */

template <class T, int N> static gr_status launch(const gr_launch *l)
{
    const tables *t = (const tables *)l->data;
    const int64_t *in = l->node->src[0]->shape.dim, *out = l->node->out[0].shape.dim;
    int64_t packs = out[3] / N;
    resample_args p = { t->row,
                        t->col,
                        in[1],
                        in[2],
                        gr_divider_of(packs > 0 ? packs : 1),
                        gr_divider_of(out[2]),
                        gr_divider_of(out[1]),
                        out[3],
                        out[0] * out[1] * out[2] * packs };

    return gr_cuda_launch("resample launch", gr_cuda_grid_for(p.count), gr_cuda_stream(l->stream),
                          resample<T, N>, (T *)l->out[0], (const T *)l->src[0], p);
}

template <class T> static gr_status run_typed(const gr_launch *l)
{
    const int N = gr_pack_lanes<T>();

    if (l->node->out[0].shape.dim[3] % N == 0 && gr_pack_is_aligned(l->src[0], l->out[0]))
        return launch<T, N>(l);
    return launch<T, 1>(l);
}

static gr_status run(const gr_launch *l)
{
    GR_CUDA_FLOATS(l->node->src[0]->dtype, T, return run_typed<T>(l))
}

const gr_kernel gr_resample_cuda[] = {
    {
        .name = "taps",
        .reject = NULL,
        .prepare = prepare,
        .workspace = NULL,
        .run = run,
        .release = release,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
