/*
 * top_k on the GPU: a team of threads per row finds the best, then the best of those that come
 * after it, and so on. Elements are compared by numbers that are in the same order.
 */
#include "op/topk/topk.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

#define LONG_ROW 512 /* elements that are worth a block */

/* The first in order, the first place among equals; at < 0: none. */
struct first_of {
    __device__ __forceinline__ gr_found<uint64_t> operator()(gr_found<uint64_t> a,
                                                             gr_found<uint64_t> b) const
    {
        if (a.at < 0 || b.at < 0)
            return a.at < 0 ? b : a;
        return b.value < a.value || (b.value == a.value && b.at < a.at) ? b : a;
    }
};

/* Greater numbers for greater x; both zeros are equal, and NaN is greatest. */
static __device__ __forceinline__ uint64_t order_of(double x)
{
    uint64_t bits = (uint64_t)__double_as_longlong(x == 0 ? 0.0 : x);

    if (x != x)
        return ~(uint64_t)0;
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

template <class T, int THREADS>
static __global__ void best_of_rows(T *out, int32_t *place, const T *in, int64_t n_rows, int64_t n,
                                    int64_t k, bool is_smallest)
{
    uint64_t turn = is_smallest ? 0 : ~(uint64_t)0;
    int64_t r = gr_cuda_row();
    gr_found<uint64_t> last = { 0, -1 };

    for (int64_t j = 0; j < k; j++) {
        gr_found<uint64_t> best = { 0, -1 };

        for (int64_t i = threadIdx.x; r < n_rows && i < n; i += THREADS) {
            gr_found<uint64_t> x = { order_of((double)gr_plain(in[r * n + i])) ^ turn, i };

            if (last.at < 0 || x.value > last.value || (x.value == last.value && i > last.at))
                best = first_of()(best, x);
        }
        last = gr_team_join<THREADS>(best, first_of());
        if (r < n_rows && threadIdx.x == 0) {
            out[r * k + j] = in[r * n + last.at];
            place[r * k + j] = (int32_t)last.at;
        }
    }
}

template <class T> static gr_status launch(const gr_launch *l)
{
    const gr_top_k_attr *at = (const gr_top_k_attr *)l->node->attr;
    const gr_shape *x = &l->node->src[0]->shape;
    int64_t n = x->dim[x->n_dims - 1];
    int64_t n_rows = gr_shape_count(&l->node->out[0].shape) / at->k;
    cudaStream_t s = gr_cuda_stream(l->stream);
    int32_t *place = (int32_t *)l->out[1];
    const T *in = (const T *)l->src[0];
    T *out = (T *)l->out[0];

    if (n <= LONG_ROW)
        return gr_cuda_launch("top_k launch", gr_cuda_grid_rows<32>(n_rows), s, best_of_rows<T, 32>,
                              out, place, in, n_rows, n, at->k, at->is_smallest);
    return gr_cuda_launch("top_k launch", gr_cuda_grid_rows<GR_CUDA_BLOCK>(n_rows), s,
                          best_of_rows<T, GR_CUDA_BLOCK>, out, place, in, n_rows, n, at->k,
                          at->is_smallest);
}

static gr_status top_k_run(const gr_launch *l)
{
    GR_CUDA_FLOATS(l->node->src[0]->dtype, T, return launch<T>(l))
}

const gr_kernel gr_top_k_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = top_k_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
