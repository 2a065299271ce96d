/*
 * Synchronised batch norm on the GPU: a few numbers per channel before and after an exchange.
 * sync_stats joins the ranks' statistics as the CPU does, in double and in rank order, so that
 * every rank gets the same bits.
 */
#include "op/norm/sync.h"

#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

/* An open node: the pass sync_bn has put no exchange before it. */
static const char *reject_open(const gr_node *n)
{
    return n->n_src > 1 ? "its numbers have not been exchanged" : NULL;
}

/* ---- statistics ---- */

/* out [ranks, 2c + 1]: zeros but for row `rank`. */
template <class T>
static __global__ void share_stats(T *out, const T *mean, const T *m2, const T *count,
                                   const __grid_constant__ gr_divider row, int64_t rank, int64_t n)
{
    int64_t c = row.n / 2;

    GR_CUDA_EACH(i, n)
    {
        int64_t r = gr_divide(&row, i), k = i - r * row.n;

        if (r != rank)
            out[i] = gr_as<T>(0.0f);
        else
            out[i] = k < c ? mean[k] : k < 2 * c ? m2[k - c] : count[0];
    }
}

static gr_status share_stats_run(const gr_launch *l)
{
    const gr_sync_attr *a = (const gr_sync_attr *)l->node->attr;
    const gr_value *out = &l->node->out[0];
    int64_t c = l->node->src[0]->shape.dim[0], n = gr_shape_count(&out->shape);

    GR_CUDA_FLOATS(out->dtype, T,
                   return gr_cuda_launch(
                       "share_stats launch", gr_cuda_grid_for(n), gr_cuda_stream(l->stream),
                       share_stats<T>, (T *)l->out[0], (const T *)l->src[0], (const T *)l->src[1],
                       (const T *)l->src[2], gr_divider_of(2 * c + 1), (int64_t)a->rank, n))
}

typedef struct parts {
    const void *mem;
    gr_dtype type;
    int64_t n, c; /* ranks, channels */
} parts;

/* Number k of rank r: means, then squared distances, then the count. */
static __device__ __forceinline__ double part_at(const parts &p, int64_t r, int64_t k)
{
    return gr_load_f64(p.mem, r * (2 * p.c + 1) + k, p.type);
}

/* One thread more than there are channels: the last writes the count. */
static __global__ void sync_stats(void *mean, void *m2, void *count, const parts p)
{
    GR_CUDA_EACH(k, p.c + 1)
    {
        double n = 0, sum = 0, squares = 0;

        for (int64_t r = 0; r < p.n; r++)
            n += part_at(p, r, 2 * p.c);
        if (k == p.c) {
            gr_store_f64(count, 0, p.type, n);
            continue;
        }
        for (int64_t r = 0; r < p.n; r++)
            sum += part_at(p, r, 2 * p.c) * part_at(p, r, k);
        sum = n > 0 ? sum / n : 0;
        for (int64_t r = 0; r < p.n; r++) {
            double part = part_at(p, r, 2 * p.c), apart = part_at(p, r, k) - sum;

            if (part > 0)
                squares += part_at(p, r, p.c + k) + part * apart * apart;
        }
        gr_store_f64(mean, k, p.type, sum);
        gr_store_f64(m2, k, p.type, squares);
    }
}

static gr_status sync_stats_run(const gr_launch *l)
{
    const gr_value *src = l->node->src[0];
    parts p = { l->src[0], src->dtype, src->shape.dim[0], (src->shape.dim[1] - 1) / 2 };

    return gr_cuda_launch("sync_stats launch", gr_cuda_grid_for(p.c + 1), gr_cuda_stream(l->stream),
                          sync_stats, l->out[0], l->out[1], l->out[2], p);
}

/* ---- sums ---- */

/* out [2, c] */
template <class T>
static __global__ void share_sums(T *out, const T *first, const T *second, int64_t c)
{
    GR_CUDA_EACH(i, 2 * c)
    out[i] = i < c ? first[i] : second[i - c];
}

template <class T> static __global__ void sync_sums(T *first, T *second, const T *in, int64_t c)
{
    GR_CUDA_EACH(i, 2 * c)
    *(i < c ? first + i : second + i - c) = in[i];
}

static gr_status share_sums_run(const gr_launch *l)
{
    int64_t c = l->node->src[0]->shape.dim[0];

    GR_CUDA_FLOATS(l->node->src[0]->dtype, T,
                   return gr_cuda_launch("share_sums launch", gr_cuda_grid_for(2 * c),
                                         gr_cuda_stream(l->stream), share_sums<T>, (T *)l->out[0],
                                         (const T *)l->src[0], (const T *)l->src[1], c))
}

static gr_status sync_sums_run(const gr_launch *l)
{
    int64_t c = l->node->out[0].shape.dim[0];

    GR_CUDA_FLOATS(l->node->src[0]->dtype, T,
                   return gr_cuda_launch("sync_sums launch", gr_cuda_grid_for(2 * c),
                                         gr_cuda_stream(l->stream), sync_sums<T>, (T *)l->out[0],
                                         (T *)l->out[1], (const T *)l->src[0], c))
}

#define KERNEL(table, reject_fn, run_fn) \
    const gr_kernel table[] = {          \
        {                                \
            .name = "channels",          \
            .reject = reject_fn,         \
            .prepare = NULL,             \
            .workspace = NULL,           \
            .run = run_fn,               \
            .release = NULL,             \
            .no_capture = false,         \
            .in_place = false,           \
        },                               \
        {},                              \
    }

KERNEL(gr_share_stats_cuda, NULL, share_stats_run);
KERNEL(gr_sync_stats_cuda, reject_open, sync_stats_run);
KERNEL(gr_share_sums_cuda, NULL, share_sums_run);
KERNEL(gr_sync_sums_cuda, reject_open, sync_sums_run);
