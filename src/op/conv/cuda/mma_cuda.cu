/*
 * conv and conv_data in 16 bits by tensor cores: the tiles of mma.cuh, whose left factor is
 * gathered from the image while it is read, and whose right one is the arranged weight.
 */
#include "op/conv/cuda/mma.cuh"

typedef struct mma_args {
    gr_conv_plan p;
    const uint16_t *arranged;
    int64_t n_terms; /* of a sum */
    gr_divider tiles_m, tiles_n;
    bool packs_a, packs_b, packs_out;
} mma_args;

/* Terms at .. at + 7 of a row's sum; at moves on behind them. */
template <bool IS_DATA>
static __device__ __forceinline__ gr_mma_pack load_image(const mma_args &a,
                                                         const gr_conv_pixel &pixel, int64_t group,
                                                         gr_conv_place *at)
{
    const gr_conv_plan &p = a.p;
    const uint16_t *mem = (const uint16_t *)p.from + group * p.n_from;
    gr_mma_pack x = gr_mma_zeros();

    if (a.packs_a) {
        int64_t from = at->ky < p.k[0] ? gr_conv_other<IS_DATA>(&p, &pixel, at->ky, at->kx) : -1;

        if (from >= 0)
            x = gr_pack_get<gr_mma_pack>(mem + from * p.c_from + at->c);
        gr_conv_step(&p, at, GR_MMA_PACK);
        return x;
    }
#pragma unroll
    for (int j = 0; j < GR_MMA_PACK; j++) {
        int64_t from = at->ky < p.k[0] ? gr_conv_other<IS_DATA>(&p, &pixel, at->ky, at->kx) : -1;

        if (from >= 0)
            x.v[j] = mem[from * p.c_from + at->c];
        gr_conv_step(&p, at, 1);
    }
    return x;
}

/* Eight neighbours of the result, of which n count. */
template <class T>
static __device__ __forceinline__ void store(const mma_args &a, int64_t at, int64_t n,
                                             const float *sum)
{
    if (a.packs_out && n >= GR_MMA_PACK) {
        gr_pack<float, GR_MMA_PACK> x;

#pragma unroll
        for (int j = 0; j < GR_MMA_PACK; j++)
            x.v[j] = sum[j];
        gr_pack_store((T *)a.p.out + at, x);
        return;
    }
    for (int j = 0; j < GR_MMA_PACK && j < n; j++)
        gr_store_f64(a.p.out, at + j, a.p.out_type, (double)sum[j]);
}

/* Grid: tiles of columns, tiles of rows, groups; the columns innermost. */
template <class T, bool IS_DATA, int N>
static __global__ void __launch_bounds__(GR_MMA_THREADS, 2)
    conv_mma(const __grid_constant__ mma_args a)
{
#if GR_MMA_CODE
    const int STEP_A = GR_MMA_K + 8, STEP_B = N + 8, PACKS_B = N / 64;
    __shared__ __align__(32) uint16_t as[2][GR_MMA_M][STEP_A];
    __shared__ __align__(32) uint16_t bs[2][GR_MMA_K][STEP_B];
    __shared__ __align__(32) float stage[GR_MMA_THREADS / 32][GR_MMA_EDGE][GR_MMA_EDGE + 4];
    const gr_conv_plan &p = a.p;
    const int t = threadIdx.x, warp = t / 32, wm = warp / 2 * 32, wn = warp % 2 * (N / 2);
    const int64_t rest = gr_divide(&a.tiles_n, blockIdx.x), group = gr_divide(&a.tiles_m, rest);
    const int64_t n0 = (blockIdx.x - rest * a.tiles_n.n) * N;
    const int64_t m0 = (rest - group * a.tiles_m.n) * GR_MMA_M;
    /* What this thread brings: terms ka .. ka + 15 of row ma, columns nb .. of term kb. */
    const int ma = t / 2, ka = t % 2 * 2 * GR_MMA_PACK;
    const int kb = t / 8, nb = t % 8 * PACKS_B * GR_MMA_PACK;
    const uint16_t *weight = a.arranged + group * a.n_terms * p.n_to;
    const bool is_row = m0 + ma < p.n_pixels;
    const gr_conv_pixel pixel = gr_conv_pixel_of<IS_DATA>(&p, is_row ? m0 + ma : 0);
    gr_conv_place place = { 0, 0, 0 };
    gr_mma_pack next_a[2], next_b[PACKS_B];
    gr_mma_warp<T, N, false> sums;

    auto load = [&](int64_t k0) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            next_a[i] = is_row ? load_image<IS_DATA>(a, pixel, group, &place) : gr_mma_zeros();
        if (is_row)
            gr_conv_step(&p, &place, GR_MMA_K - 2 * GR_MMA_PACK);
#pragma unroll
        for (int i = 0; i < PACKS_B; i++)
            next_b[i] = k0 + kb < a.n_terms
                            ? gr_mma_load(weight, (k0 + kb) * p.n_to + n0 + nb + i * GR_MMA_PACK,
                                          p.n_to - n0 - nb - i * GR_MMA_PACK, a.packs_b)
                            : gr_mma_zeros();
    };
    auto put = [&](int to) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            *(gr_mma_pack *)&as[to][ma][ka + i * GR_MMA_PACK] = next_a[i];
#pragma unroll
        for (int i = 0; i < PACKS_B; i++)
            *(gr_mma_pack *)&bs[to][kb][nb + i * GR_MMA_PACK] = next_b[i];
    };

    gr_conv_step(&p, &place, ka);
    load(0);
    put(0);
    __syncthreads();
    for (int64_t k0 = 0, at = 0; k0 < a.n_terms; k0 += GR_MMA_K, at ^= 1) {
        const bool more = k0 + GR_MMA_K < a.n_terms;

        if (more)
            load(k0 + GR_MMA_K);
        sums.multiply(&as[at][wm][0], STEP_A, &bs[at][0][wn], STEP_B);
        if (more)
            put((int)at ^ 1);
        __syncthreads();
    }
    sums.each(stage[warp], [&](int row, int col, const float *sum) {
        int64_t m = m0 + wm + row, n = n0 + wn + col;

        if (m < p.n_pixels && n < p.n_to)
            store<T>(a, m * p.c_to + group * p.n_to + n, p.n_to - n, sum);
    });
#endif
}

/* ---- launch ---- */

template <class T, bool IS_DATA, int N> static gr_status launch_tiles(mma_args &a, cudaStream_t s)
{
    a.tiles_m = gr_divider_of(gr_ceil_div(a.p.n_pixels, GR_MMA_M));
    a.tiles_n = gr_divider_of(gr_ceil_div(a.p.n_to, N));
    return gr_cuda_launch(
        "conv tensor core launch",
        gr_cuda_grid_of(a.tiles_m.n * a.tiles_n.n * a.p.groups, 1, GR_MMA_THREADS), s,
        conv_mma<T, IS_DATA, N>, a);
}

template <class T, bool IS_DATA> static gr_status launch(const gr_launch *l)
{
    mma_args a;

    a.p = gr_conv_plan_of(l, IS_DATA);
    a.arranged = (const uint16_t *)l->work;
    a.n_terms = a.p.k[0] * a.p.k[1] * a.p.n_from;
    a.packs_a = a.p.n_from % GR_MMA_PACK == 0 && gr_pack_is_aligned(a.p.from);
    a.packs_b = a.p.n_to % GR_MMA_PACK == 0;
    a.packs_out = a.packs_b && a.p.out_type == a.p.from_type && gr_pack_is_aligned(a.p.out);
    GR_TRY(gr_conv_arrange(l, &a.p, IS_DATA));
    if (a.p.n_to <= 64)
        return launch_tiles<T, IS_DATA, 64>(a, gr_cuda_stream(l->stream));
    return launch_tiles<T, IS_DATA, 128>(a, gr_cuda_stream(l->stream));
}

gr_status gr_conv_mma_run(const gr_launch *l)
{
    return l->node->src[0]->dtype == GR_BF16 ? launch<__nv_bfloat16, false>(l)
                                             : launch<__half, false>(l);
}

gr_status gr_conv_data_mma_run(const gr_launch *l)
{
    return l->node->src[0]->dtype == GR_BF16 ? launch<__nv_bfloat16, true>(l)
                                             : launch<__half, true>(l);
}

/* ---- who may ---- */

const char *gr_conv_mma_reject(const gr_node *n)
{
    gr_dtype t = n->src[0]->dtype;
    gr_conv_dims d;

    gr_conv_get_dims(n, &d);
    if ((t != GR_BF16 && t != GR_F16) || n->src[1]->dtype != t || n->out[0].dtype == GR_F64)
        return "takes bf16 or f16 in both sources";
    if (d.groups > 1 && (d.ci / d.groups < 16 || d.co / d.groups < 16))
        return "leaves groups of few channels to the next";
    if (d.n * d.in[0] * d.in[1] * d.ci == 0 || d.n * d.out[0] * d.out[1] * d.co == 0)
        return "there is nothing to convolve";
    return NULL;
}

gr_status gr_conv_mma_prepare(gr_prepare *p)
{
    const gr_cuda_device *d = (const gr_cuda_device *)p->device;

    return d->arch >= 80 ? GR_OK
                         : gr_decline(p, "needs compute capability 8.0, this is %d.%d",
                                      d->arch / 10, d->arch % 10);
}
