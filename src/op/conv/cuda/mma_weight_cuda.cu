/*
 * conv_weight in 16 bits by tensor cores, its sums over pixels cut into parts as in
 * tiles_weight_cuda.cu. The result is rounded once, from f32.
 */
#include "op/conv/cuda/mma.cuh"

typedef struct mma_args {
    gr_conv_plan p;
    gr_conv_parts parts;
    const uint16_t *y;
    float *sums;
    int64_t n_cols; /* (ky, kx, i) */
    gr_divider tiles_m, tiles_n, groups;
    bool packs_a, packs_b;
} mma_args;

#if GR_MMA_CODE

static __device__ __forceinline__ gr_conv_place place_of(const gr_conv_plan &p, int64_t n)
{
    gr_conv_place at;
    int64_t tap = n / p.n_from;

    at.c = n - tap * p.n_from;
    at.ky = tap / p.k[1];
    at.kx = tap - at.ky * p.k[1];
    return at;
}

/* Columns at .. at + 7 of one pixel. */
static __device__ __forceinline__ gr_mma_pack load_image(const mma_args &a,
                                                         const gr_conv_pixel &pixel, int64_t group,
                                                         gr_conv_place at)
{
    const gr_conv_plan &p = a.p;
    const uint16_t *mem = (const uint16_t *)p.from + group * p.n_from;
    gr_mma_pack x = gr_mma_zeros();

    if (a.packs_b) {
        int64_t from = at.ky < p.k[0] ? gr_conv_other<false>(&p, &pixel, at.ky, at.kx) : -1;

        return from >= 0 ? gr_pack_get<gr_mma_pack>(mem + from * p.c_from + at.c) : x;
    }
#pragma unroll
    for (int j = 0; j < GR_MMA_PACK; j++) {
        int64_t from = at.ky < p.k[0] ? gr_conv_other<false>(&p, &pixel, at.ky, at.kx) : -1;

        if (from >= 0)
            x.v[j] = mem[from * p.c_from + at.c];
        gr_conv_step(&p, &at, 1);
    }
    return x;
}

#endif

/* Grid: tiles of columns, tiles of rows, groups, parts; the columns innermost. */
template <class T, int N>
static __global__ void __launch_bounds__(GR_MMA_THREADS, 2)
    weight_mma(const __grid_constant__ mma_args a)
{
#if GR_MMA_CODE
    const int STEP_A = GR_MMA_M + 8, STEP_B = N + 8, PACKS_B = N / 64;
    __shared__ __align__(32) uint16_t as[2][GR_MMA_K][STEP_A];
    __shared__ __align__(32) uint16_t bs[2][GR_MMA_K][STEP_B];
    __shared__ __align__(32) float stage[GR_MMA_THREADS / 32][GR_MMA_EDGE][GR_MMA_EDGE + 4];
    const gr_conv_plan &p = a.p;
    const int t = threadIdx.x, warp = t / 32, wm = warp / 2 * 32, wn = warp % 2 * (N / 2);
    const int64_t r1 = gr_divide(&a.tiles_n, blockIdx.x), r2 = gr_divide(&a.tiles_m, r1);
    const int64_t part = gr_divide(&a.groups, r2), group = r2 - part * a.groups.n;
    const int64_t n0 = (blockIdx.x - r1 * a.tiles_n.n) * N;
    const int64_t m0 = (r1 - r2 * a.tiles_m.n) * GR_MMA_M;
    /* What this thread brings of pixel k: rows ma .. ma + 15, columns nb .. */
    const int k = t / 8, ma = t % 8 * 2 * GR_MMA_PACK, nb = t % 8 * PACKS_B * GR_MMA_PACK;
    const int64_t begin = part * a.parts.pixels;
    const int64_t end = begin + a.parts.pixels < p.n_pixels ? begin + a.parts.pixels : p.n_pixels;
    gr_conv_place place[PACKS_B];
    gr_mma_pack next_a[2], next_b[PACKS_B];
    gr_mma_warp<T, N, true> sums;

    auto load = [&](int64_t k0) {
        const bool is_pixel = k0 + k < end;
        const gr_conv_pixel pixel = gr_conv_pixel_of<false>(&p, is_pixel ? k0 + k : 0);

#pragma unroll
        for (int i = 0; i < 2; i++) {
            int64_t m = m0 + ma + i * GR_MMA_PACK;

            next_a[i] = is_pixel ? gr_mma_load(a.y, (k0 + k) * p.c_to + group * p.n_to + m,
                                               p.n_to - m, a.packs_a)
                                 : gr_mma_zeros();
        }
#pragma unroll
        for (int i = 0; i < PACKS_B; i++)
            next_b[i] = is_pixel ? load_image(a, pixel, group, place[i]) : gr_mma_zeros();
    };
    auto put = [&](int to) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            *(gr_mma_pack *)&as[to][k][ma + i * GR_MMA_PACK] = next_a[i];
#pragma unroll
        for (int i = 0; i < PACKS_B; i++)
            *(gr_mma_pack *)&bs[to][k][nb + i * GR_MMA_PACK] = next_b[i];
    };

#pragma unroll
    for (int i = 0; i < PACKS_B; i++)
        place[i] = place_of(p, n0 + nb + i * GR_MMA_PACK);
    load(begin);
    put(0);
    __syncthreads();
    for (int64_t k0 = begin, at = 0; k0 < end; k0 += GR_MMA_K, at ^= 1) {
        const bool more = k0 + GR_MMA_K < end;

        if (more)
            load(k0 + GR_MMA_K);
        sums.multiply(&as[at][0][wm], STEP_A, &bs[at][0][wn], STEP_B);
        if (more)
            put((int)at ^ 1);
        __syncthreads();
    }
    sums.each(stage[warp], [&](int row, int col, const float *sum) {
        int64_t m = m0 + wm + row, n = n0 + wn + col;
        float *to = a.sums + part * a.parts.count + (group * p.n_to + m) * a.n_cols + n;

        for (int j = 0; j < GR_MMA_PACK; j++)
            if (m < p.n_to && n + j < a.n_cols)
                to[j] = sum[j];
    });
#endif
}

/* ---- launch ---- */

static int width_of(int64_t n_cols)
{
    return n_cols <= 64 ? 64 : 128;
}

static gr_conv_parts parts_of(const gr_node *n)
{
    gr_conv_dims d;
    int64_t cols;

    gr_conv_get_dims(n, &d);
    cols = d.ci / d.groups * d.k[0] * d.k[1];
    return gr_conv_parts_of(
        n, gr_ceil_div(d.co / d.groups, GR_MMA_M) * gr_ceil_div(cols, width_of(cols)) * d.groups,
        16 * GR_MMA_K);
}

template <class T, int N> static gr_status launch_tiles(mma_args &a, cudaStream_t s)
{
    a.tiles_m = gr_divider_of(gr_ceil_div(a.p.n_to, GR_MMA_M));
    a.tiles_n = gr_divider_of(gr_ceil_div(a.n_cols, N));
    return gr_cuda_launch(
        "conv_weight tensor core launch",
        gr_cuda_grid_of(a.tiles_m.n * a.tiles_n.n * a.p.groups * a.parts.n, 1, GR_MMA_THREADS), s,
        weight_mma<T, N>, a);
}

template <class T> static gr_status launch(const gr_launch *l, const gr_conv_parts &parts)
{
    mma_args a;

    a.p = gr_conv_plan_of(l, false);
    a.parts = parts;
    a.y = (const uint16_t *)a.p.weight;
    a.sums = (float *)l->work;
    a.n_cols = a.p.k[0] * a.p.k[1] * a.p.n_from;
    a.groups = gr_divider_of(a.p.groups);
    a.packs_a = a.p.n_to % GR_MMA_PACK == 0 && gr_pack_is_aligned(a.y);
    a.packs_b = a.p.n_from % GR_MMA_PACK == 0 && gr_pack_is_aligned(a.p.from);
    if (width_of(a.n_cols) == 64)
        return launch_tiles<T, 64>(a, gr_cuda_stream(l->stream));
    return launch_tiles<T, 128>(a, gr_cuda_stream(l->stream));
}

size_t gr_conv_weight_mma_workspace(const gr_node *n, const void *data)
{
    gr_conv_parts s = parts_of(n);

    (void)data;
    return gr_conv_parts_bytes(n, &s);
}

gr_status gr_conv_weight_mma_run(const gr_launch *l)
{
    gr_conv_parts s = parts_of(l->node);

    if (l->node->src[0]->dtype == GR_BF16)
        GR_TRY(launch<__nv_bfloat16>(l, s));
    else
        GR_TRY(launch<__half>(l, s));
    return gr_conv_parts_join(l, &s);
}
