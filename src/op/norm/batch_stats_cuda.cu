/*
 * batch_stats on the GPU, in the two stages of norm_columns.cuh.
 *
 * Statistics of parts are joined from their means and squared distances (Chan), never from sums
 * of squares, which cancel. A thread takes a few rows at once: so their loads are under way
 * together, and one division serves them all.
 */
#include "op/module_cuda.h"
#include "op/norm/norm.h"
#include "op/norm/norm_columns.cuh"

#define AT_ONCE 4

struct joined {
    template <class C, int N>
    __device__ __forceinline__ gr_norm_pair<C, N> operator()(gr_norm_pair<C, N> a,
                                                             const gr_norm_pair<C, N> &b) const
    {
        C n = a.n + b.n, share = b.n / n, weight = a.n * share;

        if (a.n == 0)
            return b;
        if (b.n == 0)
            return a;
#pragma unroll
        for (int j = 0; j < N; j++) {
            C apart = b.first[j] - a.first[j];

            a.first[j] += apart * share;
            a.second[j] += b.second[j] + apart * weight * apart;
        }
        a.n = n;
        return a;
    }
};

/* Joins rows to *a; rows 0 .. U - 1 of v. */
template <int U, class C, int N>
static __device__ __forceinline__ void join_rows(gr_norm_pair<C, N> *a, const gr_pack<C, N> *v)
{
    C n = a->n + U, share = U / n, weight = a->n * share;

#pragma unroll
    for (int j = 0; j < N; j++) {
        C mean = v[0].v[j], m2 = 0, apart;

#pragma unroll
        for (int u = 1; u < U; u++)
            mean += v[u].v[j];
        mean *= (C)1 / U;
#pragma unroll
        for (int u = 0; u < U; u++)
            m2 += (v[u].v[j] - mean) * (v[u].v[j] - mean);
        apart = mean - a->first[j];
        a->first[j] += apart * share;
        a->second[j] += m2 + apart * weight * apart;
    }
    a->n = n;
}

template <int N, class C, class X>
static __global__ void __launch_bounds__(GR_NORM_BLOCK)
    stats_parts(C *work, X x, const __grid_constant__ gr_norm_cut k)
{
    gr_norm_place p = gr_norm_place_of<N>(k);
    gr_norm_pair<C, N> a = {};
    int64_t row = p.lo + threadIdx.y, step = blockDim.y;

    if (p.is_in) {
        for (; row + (AT_ONCE - 1) * step < p.hi; row += AT_ONCE * step) {
            gr_pack<C, N> v[AT_ONCE];

#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
                v[u] = x.template get<C, N>(p.base + (row + u * step) * k.n_channels);
            join_rows<AT_ONCE>(&a, v);
        }
        for (; row < p.hi; row += step) {
            gr_pack<C, N> v = x.template get<C, N>(p.base + row * k.n_channels);

            join_rows<1>(&a, &v);
        }
    }
    gr_norm_keep(work, k, p, a, joined());
}

template <class C>
static __global__ void stats_finish(void *mean, void *m2, void *count, gr_dtype type, const C *work,
                                    const __grid_constant__ gr_norm_cut k)
{
    int64_t vector = gr_norm_vector();
    gr_norm_pair<double, 1> a = gr_norm_parts(work, k, joined());

    if (vector == 0 && threadIdx.y == 0)
        gr_store_f64(count, 0, type, (double)k.n_rows);
    if (threadIdx.y != 0 || vector >= k.n_samples * k.n_channels)
        return;
    gr_store_f64(mean, vector, type, a.first[0]);
    gr_store_f64(m2, vector, type, a.second[0]);
}

/* ---- launch ---- */

static const char launch_text[] = "batch_stats launch";

template <int N, class C, class X>
static gr_status launch(const gr_launch *l, const gr_norm_cut &k, X x)
{
    cudaStream_t s = gr_cuda_stream(l->stream);

    GR_TRY(gr_cuda_launch(launch_text, gr_norm_first_grid(&k, N), s, stats_parts<N, C, X>,
                          (C *)l->work, x, k));
    return gr_cuda_launch(launch_text, gr_norm_second_grid(&k), s, stats_finish<C>, l->out[0],
                          l->out[1], l->out[2], l->node->out[0].dtype, (const C *)l->work, k);
}

static gr_norm_cut cut_of(const gr_node *n, int lanes)
{
    return gr_norm_cut_node(n, ((const gr_channel_attr *)n->attr)->per_sample, lanes);
}

template <class T> static gr_status launch_fast(const gr_launch *l)
{
    typedef typename gr_compute<T>::type C;
    const int N = gr_pack_lanes<T>();
    gr_norm_cut k = cut_of(l->node, N);
    gr_norm_typed<T> x = { (const T *)l->src[0] };

    if (k.n_channels % N == 0 && gr_pack_is_aligned(x.mem))
        return launch<N, C>(l, k, x);
    return launch<1, C>(l, k, x);
}

static gr_status fast_run(const gr_launch *l)
{
    GR_CUDA_FLOATS(l->node->src[0]->dtype, T, return launch_fast<T>(l))
}

static size_t fast_workspace(const gr_node *n, const void *data)
{
    gr_dtype t = n->src[0]->dtype;
    gr_norm_cut k = cut_of(n, 16 / (int)gr_dtype_bytes(t));

    (void)data;
    return gr_norm_cut_bytes(&k, gr_dtype_bytes(gr_norm_wide(t)));
}

const gr_kernel gr_batch_stats_cuda[] = {
    {
        .name = "columns",
        .reject = NULL,
        .prepare = NULL,
        .workspace = fast_workspace,
        .run = fast_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
