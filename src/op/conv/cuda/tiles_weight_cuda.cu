/*
 * conv_weight by tiles: a group's gradient is a matrix [o, (ky, kx, i)] and a sum over pixels, of
 * y's channels times what each tap sees of x. The sum is cut into parts, each a block of its own.
 */
#include "op/conv/cuda/tile.cuh"

typedef struct tile_args {
    gr_conv_plan p;
    gr_conv_parts parts;
    const void *y;
    void *sums;
    int64_t n_cols; /* (ky, kx, i) */
    gr_divider tiles_m, tiles_n, groups;
    bool packs_a, packs_b;
} tile_args;

/* Four neighbouring columns: where their taps are, and their channels of x. */
typedef struct columns {
    gr_conv_place at[GR_TILE_PACK];
} columns;

static __device__ columns columns_at(const tile_args &a, int64_t n)
{
    gr_conv_place at = { 0, 0, 0 };
    columns c;

    /* Not by steps: there may be many taps and channels. */
    int64_t tap = n / a.p.n_from;

    at.c = n - tap * a.p.n_from;
    at.ky = tap / a.p.k[1];
    at.kx = tap - at.ky * a.p.k[1];
#pragma unroll
    for (int j = 0; j < GR_TILE_PACK; j++) {
        c.at[j] = at;
        gr_conv_step(&a.p, &at, 1);
    }
    return c;
}

template <class T>
static __device__ __forceinline__ gr_pack<typename gr_conv_type<T>::sum, GR_TILE_PACK>
load_image(const tile_args &a, const columns &cols, int64_t pixel, int64_t group)
{
    typedef typename gr_conv_type<T>::sum C;
    const gr_conv_plan &p = a.p;
    gr_pack<C, GR_TILE_PACK> x = gr_tile_zeros<C>();
    gr_conv_pixel at = gr_conv_pixel_of<false>(&p, pixel);

    if (a.packs_b) {
        const gr_conv_place &c = cols.at[0];
        int64_t from = c.ky < p.k[0] ? gr_conv_other<false>(&p, &at, c.ky, c.kx) : -1;

        if (from >= 0)
            x = gr_tile_load<T>(p.from, from * p.c_from + group * p.n_from + c.c, GR_TILE_PACK,
                                true, p.from_type);
        return x;
    }
#pragma unroll
    for (int j = 0; j < GR_TILE_PACK; j++) {
        const gr_conv_place &c = cols.at[j];
        int64_t from = c.ky < p.k[0] ? gr_conv_other<false>(&p, &at, c.ky, c.kx) : -1;

        if (from >= 0)
            x.v[j] =
                gr_conv_type<T>::at(p.from, from * p.c_from + group * p.n_from + c.c, p.from_type);
    }
    return x;
}

/* Grid: tiles of columns, tiles of rows, groups, parts; the columns innermost. */
template <class T>
static __global__ void __launch_bounds__(GR_TILE_THREADS)
    weight_tiles(const __grid_constant__ tile_args a)
{
    typedef typename gr_conv_type<T>::sum C;
    __shared__ gr_tile<C> tile;
    const gr_conv_plan &p = a.p;
    const int t = threadIdx.x;
    const int64_t r1 = gr_divide(&a.tiles_n, blockIdx.x), r2 = gr_divide(&a.tiles_m, r1);
    const int64_t part = gr_divide(&a.groups, r2), group = r2 - part * a.groups.n;
    const int64_t n0 = (blockIdx.x - r1 * a.tiles_n.n) * GR_TILE_N;
    const int64_t m0 = (r1 - r2 * a.tiles_m.n) * GR_TILE_M;
    /* What this thread brings: rows and columns at .. at + 3 of pixel k. */
    const int k = t / 16, at = t % 16 * GR_TILE_PACK;
    const int64_t begin = part * a.parts.pixels;
    const int64_t end = begin + a.parts.pixels < p.n_pixels ? begin + a.parts.pixels : p.n_pixels;
    const columns cols = columns_at(a, n0 + at);
    C sum[GR_TILE_PACK][GR_TILE_PACK] = {};
    gr_pack<C, GR_TILE_PACK> next_a = gr_tile_zeros<C>(), next_b = next_a;

    auto load = [&](int64_t k0) {
        next_a = gr_tile_zeros<C>();
        next_b = next_a;
        if (k0 + k >= end)
            return;
        next_a = gr_tile_load<T>(a.y, (k0 + k) * p.c_to + group * p.n_to + m0 + at,
                                 p.n_to - m0 - at, a.packs_a, p.weight_type);
        next_b = load_image<T>(a, cols, k0 + k, group);
    };

    load(begin);
    for (int64_t k0 = begin; k0 < end; k0 += GR_TILE_K) {
        tile.a[k][at / GR_TILE_PACK] = next_a;
        tile.b[k][at / GR_TILE_PACK] = next_b;
        __syncthreads();
        if (k0 + GR_TILE_K < end)
            load(k0 + GR_TILE_K);
        tile.multiply(sum);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < GR_TILE_PACK; i++)
#pragma unroll
        for (int j = 0; j < GR_TILE_PACK; j++) {
            int64_t m = m0 + t / 16 * GR_TILE_PACK + i, n = n0 + t % 16 * GR_TILE_PACK + j;

            if (m < p.n_to && n < a.n_cols)
                ((C *)a.sums)[part * a.parts.count + (group * p.n_to + m) * a.n_cols + n] =
                    sum[i][j];
        }
}

/* ---- launch ---- */

static int64_t blocks_of(const gr_node *n)
{
    gr_conv_dims d;

    gr_conv_get_dims(n, &d);
    return gr_ceil_div(d.co / d.groups, GR_TILE_M) *
           gr_ceil_div(d.ci / d.groups * d.k[0] * d.k[1], GR_TILE_N) * d.groups;
}

static gr_conv_parts parts_of(const gr_node *n)
{
    return gr_conv_parts_of(n, blocks_of(n), 16 * GR_TILE_K);
}

template <class T> static gr_status launch(const gr_launch *l)
{
    const gr_conv_plan p = gr_conv_plan_of(l, false);
    tile_args a;

    a.p = p;
    a.parts = parts_of(l->node);
    a.y = p.weight;
    a.sums = l->work;
    a.n_cols = p.k[0] * p.k[1] * p.n_from;
    a.tiles_m = gr_divider_of(gr_ceil_div(p.n_to, GR_TILE_M));
    a.tiles_n = gr_divider_of(gr_ceil_div(a.n_cols, GR_TILE_N));
    a.groups = gr_divider_of(p.groups);
    a.packs_a = p.n_to % GR_TILE_PACK == 0 && gr_pack_is_aligned(a.y);
    a.packs_b = p.n_from % GR_TILE_PACK == 0 && gr_pack_is_aligned(p.from);
    return gr_cuda_launch(
        "conv_weight tiles launch",
        gr_cuda_grid_of(a.tiles_m.n * a.tiles_n.n * p.groups * a.parts.n, 1, GR_TILE_THREADS),
        gr_cuda_stream(l->stream), weight_tiles<T>, a);
}

size_t gr_conv_weight_tiles_workspace(const gr_node *n, const void *data)
{
    gr_conv_parts s = parts_of(n);

    (void)data;
    return gr_conv_parts_bytes(n, &s);
}

gr_status gr_conv_weight_tiles_run(const gr_launch *l)
{
    gr_conv_parts s = parts_of(l->node);

    if (s.count == 0)
        return GR_OK;
    GR_CONV_TYPES(l->node, T, GR_TRY(launch<T>(l)))
    return gr_conv_parts_join(l, &s);
}
