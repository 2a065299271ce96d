/*
 * conv and conv_data by tiles: products of matrices, a group at a time, whose left one is gathered
 * from the image while it is read. The weight is arranged before, so that both come in packs where
 * channels allow it.
 */
#include "op/conv/cuda/tile.cuh"

typedef struct tile_args {
    gr_conv_plan p;
    const void *arranged;
    int64_t n_terms; /* of a sum */
    gr_divider tiles_m, tiles_n;
    bool packs_a, packs_b;
} tile_args;

/* ---- the product ---- */

/* Terms at .. at + 3 of a row's sum; at moves on by a tile. */
template <class T, bool IS_DATA>
static __device__ __forceinline__ gr_pack<typename gr_conv_type<T>::sum, GR_TILE_PACK>
load_image(const tile_args &a, const gr_conv_pixel &pixel, bool is_row, int64_t group,
           gr_conv_place *at)
{
    typedef typename gr_conv_type<T>::sum C;
    const gr_conv_plan &p = a.p;
    gr_pack<C, GR_TILE_PACK> x = gr_tile_zeros<C>();
    gr_conv_place now = *at;

    gr_conv_step(&p, at, GR_TILE_K);
    if (!is_row)
        return x;
    if (a.packs_a) {
        int64_t from = now.ky < p.k[0] ? gr_conv_other<IS_DATA>(&p, &pixel, now.ky, now.kx) : -1;

        if (from >= 0)
            x = gr_tile_load<T>(p.from, from * p.c_from + group * p.n_from + now.c, GR_TILE_PACK,
                                true, p.from_type);
        return x;
    }
#pragma unroll
    for (int j = 0; j < GR_TILE_PACK; j++) {
        int64_t from = now.ky < p.k[0] ? gr_conv_other<IS_DATA>(&p, &pixel, now.ky, now.kx) : -1;

        if (from >= 0)
            x.v[j] = gr_conv_type<T>::at(p.from, from * p.c_from + group * p.n_from + now.c,
                                         p.from_type);
        gr_conv_step(&p, &now, 1);
    }
    return x;
}

/* Grid: tiles of columns, tiles of rows, groups; the columns innermost. */
template <class T, bool IS_DATA>
static __global__ void __launch_bounds__(GR_TILE_THREADS)
    conv_tiles(const __grid_constant__ tile_args a)
{
    typedef typename gr_conv_type<T>::sum C;
    typedef typename gr_conv_type<T>::item item;
    __shared__ gr_tile<C> tile;
    const gr_conv_plan &p = a.p;
    const int t = threadIdx.x;
    const int64_t rest = gr_divide(&a.tiles_n, blockIdx.x), group = gr_divide(&a.tiles_m, rest);
    const int64_t n0 = (blockIdx.x - rest * a.tiles_n.n) * GR_TILE_N;
    const int64_t m0 = (rest - group * a.tiles_m.n) * GR_TILE_M;
    /* What this thread brings: terms ka .. ka + 3 of row ma, columns nb .. nb + 3 of term kb. */
    const int ma = t / 4, ka = t % 4 * GR_TILE_PACK, kb = t / 16, nb = t % 16 * GR_TILE_PACK;
    const item *weight = (const item *)a.arranged + group * a.n_terms * p.n_to;
    const bool is_row = m0 + ma < p.n_pixels;
    gr_conv_pixel pixel = gr_conv_pixel_of<IS_DATA>(&p, is_row ? m0 + ma : 0);
    gr_conv_place place = { 0, 0, 0 };
    C sum[GR_TILE_PACK][GR_TILE_PACK] = {};
    gr_pack<C, GR_TILE_PACK> next_a = gr_tile_zeros<C>(), next_b = next_a;

    auto load = [&](int64_t k0) {
        next_a = load_image<T, IS_DATA>(a, pixel, is_row, group, &place);
        next_b = k0 + kb < a.n_terms ? gr_tile_load<T>(weight, (k0 + kb) * p.n_to + n0 + nb,
                                                       p.n_to - n0 - nb, a.packs_b, GR_F64)
                                     : gr_tile_zeros<C>();
    };

    if (a.n_terms > 0) {
        gr_conv_step(&p, &place, ka);
        load(0);
    }
    for (int64_t k0 = 0; k0 < a.n_terms; k0 += GR_TILE_K) {
#pragma unroll
        for (int j = 0; j < GR_TILE_PACK; j++)
            tile.a[ka + j][ma / GR_TILE_PACK].v[ma % GR_TILE_PACK] = next_a.v[j];
        tile.b[kb][nb / GR_TILE_PACK] = next_b;
        __syncthreads();
        if (k0 + GR_TILE_K < a.n_terms)
            load(k0 + GR_TILE_K);
        tile.multiply(sum);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < GR_TILE_PACK; i++)
#pragma unroll
        for (int j = 0; j < GR_TILE_PACK; j++) {
            int64_t m = m0 + t / 16 * GR_TILE_PACK + i, n = n0 + t % 16 * GR_TILE_PACK + j;

            if (m < p.n_pixels && n < p.n_to)
                gr_store_f64(p.out, m * p.c_to + group * p.n_to + n, p.out_type, (double)sum[i][j]);
        }
}

/* ---- launch ---- */

template <class T, bool IS_DATA> static gr_status launch(const gr_launch *l, const gr_conv_plan &p)
{
    tile_args a;

    a.p = p;
    a.arranged = l->work;
    a.n_terms = p.k[0] * p.k[1] * p.n_from;
    a.tiles_m = gr_divider_of(gr_ceil_div(p.n_pixels, GR_TILE_M));
    a.tiles_n = gr_divider_of(gr_ceil_div(p.n_to, GR_TILE_N));
    a.packs_a = p.n_from % GR_TILE_PACK == 0 && gr_pack_is_aligned(p.from);
    a.packs_b = p.n_to % GR_TILE_PACK == 0;
    GR_TRY(gr_conv_arrange(l, &p, IS_DATA));
    return gr_cuda_launch("conv tiles launch",
                          gr_cuda_grid_of(a.tiles_m.n * a.tiles_n.n * p.groups, 1, GR_TILE_THREADS),
                          gr_cuda_stream(l->stream), conv_tiles<T, IS_DATA>, a);
}

gr_status gr_conv_tiles_run(const gr_launch *l)
{
    gr_conv_plan p = gr_conv_plan_of(l, false);

    if (p.n_pixels == 0 || p.c_to == 0)
        return GR_OK;
    GR_CONV_TYPES(l->node, T, return launch<T, false>(l, p))
}

gr_status gr_conv_data_tiles_run(const gr_launch *l)
{
    gr_conv_plan p = gr_conv_plan_of(l, true);

    if (p.n_pixels == 0 || p.c_to == 0)
        return GR_OK;
    GR_CONV_TYPES(l->node, T, return launch<T, true>(l, p))
}
