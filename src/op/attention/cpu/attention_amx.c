/*
 * Attention by AMX: products of tiles, packed and multiplied by matmul's code (matmul_amx.h),
 * and probabilities that are stored as tiles right where they are computed.
 *
 *     p as right side, k = keys:     a tile row is key k and k + 16 of 16 queries
 *     p as left side, k = queries:   a tile row is queries 0..15 and 16..31 of a key
 *
 * Both are two vectors side by side that the loop holds anyway, so nothing is transposed.
 *
 * (1) f32 keeps its precision: numbers are split in three (matmul_row_body.h). What that cannot
 *     do (infinities, NaN, sums beyond 2^80) shows as a result that is not finite, and
 *     everything is done again by the AVX-512 kernel.
 * (2) bf16 is taken as it is; p and ds are rounded to bf16, sums are f32. Numbers below 2^-126
 *     count as 0.
 */
#include "op/attention/cpu/attention_flash.h"
#include "op/attention/cpu/attention_isa_avx512_body.h"
#include "op/matmul/cpu/matmul_amx.h"
#include "op/matmul/cpu/matmul_row_body.h"

#include "op/attention/cpu/attention_soft_body.h"
#include "op/count.h"

#include <string.h>

/* ---- sides ---- */

static gr_amx_side side_of(const gr_flash *f, const gr_flash_rows *m, bool is_left, bool by_rows)
{
    return (gr_amx_side){ .src = m->src,
                          .step_line = by_rows ? m->step : 1,
                          .step_k = by_rows ? 1 : m->step,
                          .is_left = is_left,
                          .is_f32 = f->is_f32 };
}

/* Panels of 32 lines, `panel` bytes apart. */
static void pack(const gr_flash *f, char *dst, int64_t panel, gr_amx_side s, int64_t n_lines,
                 int64_t n_k)
{
    const int64_t next = GR_AMX_LINES * s.step_line * (f->is_f32 ? 4 : 2);

    for (int64_t i = 0; i < n_lines; i += GR_AMX_LINES) {
        (void)gr_amx_pack(dst, &s, (int)gr_min64(n_lines - i, GR_AMX_LINES), 0, n_k);
        s.src = (const char *)s.src + next;
        dst += panel;
    }
}

static void left_rows(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp)
{
    (void)tmp;
    pack(f, dst, f->z.left_rows_step, side_of(f, m, true, true), m->n, f->d.d);
}

static void left_cols(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp)
{
    (void)tmp;
    pack(f, dst, f->z.left_cols_step, side_of(f, m, true, false), f->d.d, m->n);
}

static void right_rows(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp)
{
    (void)tmp;
    pack(f, dst, 0, side_of(f, m, false, true), m->n, f->d.d);
}

static void right_cols(const gr_flash *f, void *dst, const gr_flash_rows *m)
{
    pack(f, dst, (int64_t)f->z.right_cols_panel, side_of(f, m, false, false), f->d.d, m->n);
}

static void product(const gr_flash *f, const gr_flash_product *p)
{
    gr_amx_feed nothing = { .unfit = false };
    gr_amx_block b = { .l = p->left,
                       .r = p->right,
                       .tiles_r = gr_amx_tiles((int)p->cols),
                       .n_steps = (p->k + GR_AMX_K - 1) / GR_AMX_K,
                       .c = p->c,
                       .add = p->add };

    for (int64_t i = 0; i < p->lines; i += GR_AMX_LINES) {
        b.tiles_l = gr_amx_tiles((int)gr_min64(p->lines - i, GR_AMX_LINES));
        if (f->is_f32)
            gr_amx_block_f32(&b, &nothing);
        else
            gr_amx_block_bf16(&b, &nothing);
        b.l += p->left_step;
        b.c += GR_AMX_LINES * GR_AMX_LINES;
    }
}

/* ---- probabilities ---- */

/* A row of a tile (of three, for f32) of step `dst`, made of x0 and x1. */
INLINE void put_pair(char *dst, vec x0, vec x1, const bool is_f32)
{
    const __m512i half = _mm512_set1_epi32(0x8000), top = _mm512_set1_epi32(-0x10000);

    if (is_f32) {
        row_split(dst, 2 * GR_AMX_TILE, x0, x1);
        return;
    }
    row_store_pairs(dst, _mm512_add_epi32(_mm512_castps_si512(x0), half),
                    _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x1), half), top));
}

INLINE void forward_as(const gr_flash_forward *w, const bool is_f32, const bool plain)
{
    const vec c = vec_set(w->in.c);
    const int64_t step = gr_amx_step_bytes(is_f32, 2);
    vec top[2], sum[2];

    forward_top(w, plain);
    GR_UNROLL
    for (int g = 0; g < 2; g++) {
        top[g] = vec_finite(vec_load(w->top + g * LANES));
        sum[g] = vec_load(w->sum + g * LANES);
    }
    for (int64_t k = 0; k < w->in.n_pad; k += GR_AMX_K)
        for (int64_t r = k; r < k + 16; r++) {
            GR_UNROLL
            for (int g = 0; g < 2; g++) {
                const vec p0 = forward_p(w, r, g, c, top[g], plain);
                const vec p1 = forward_p(w, r + 16, g, c, top[g], plain);

                sum[g] = vec_add(sum[g], vec_add(p0, p1));
                put_pair((char *)w->p + k / GR_AMX_K * step + g * GR_AMX_TILE + 64 * (r - k),
                         dropped(&w->in, r, g, p0), dropped(&w->in, r + 16, g, p1), is_f32);
            }
        }
    GR_UNROLL
    for (int g = 0; g < 2; g++)
        vec_store(w->sum + g * LANES, sum[g]);
}

INLINE pair pair_of(const gr_flash_backward *w, int64_t r, int g, const bool plain)
{
    const pair none = { vec_set(0), vec_set(0) };

    return plain || r < w->in.n_keys ? backward_of(w, r, g, plain) : none;
}

INLINE void put_plain(const gr_flash_backward *w, int64_t r, const pair y[2])
{
    if (!w->ds_plain || r >= w->in.n_keys)
        return;
    vec_store(w->ds_plain + r * GR_FLASH_COLS, y[0].ds);
    vec_store(w->ds_plain + r * GR_FLASH_COLS + LANES, y[1].ds);
}

/* Keys r and r + 16 of the step of 32 keys at k. */
INLINE void backward_rows(const gr_flash_backward *w, int64_t k, int64_t r, const bool is_f32,
                          const bool plain)
{
    const int64_t step = gr_amx_step_bytes(is_f32, 2), n = k / GR_AMX_K, row = 64 * (r - k);
    pair y[2][2];

    GR_UNROLL
    for (int64_t i = 0; i < 2; i++) {
        const int64_t left = n * GR_FLASH_GROUP * step + i * GR_AMX_TILE + row;

        y[i][0] = pair_of(w, r + 16 * i, 0, plain);
        y[i][1] = pair_of(w, r + 16 * i, 1, plain);
        if (w->p)
            put_pair((char *)w->p + left, y[i][0].p, y[i][1].p, is_f32);
        if (w->ds_left)
            put_pair((char *)w->ds_left + left, y[i][0].ds, y[i][1].ds, is_f32);
        put_plain(w, r + 16 * i, y[i]);
    }
    for (int g = 0; w->ds && g < 2; g++)
        put_pair((char *)w->ds + n * step + g * GR_AMX_TILE + row, y[0][g].ds, y[1][g].ds, is_f32);
}

INLINE void backward_as(const gr_flash_backward *w, const bool is_f32, const bool plain)
{
    const int64_t step = gr_amx_step_bytes(is_f32, 2), panel = GR_FLASH_GROUP * step;

    for (int64_t k = 0; k < w->in.n_pad; k += GR_AMX_K)
        for (int64_t r = k; r < k + 16; r++)
            backward_rows(w, k, r, is_f32, plain);
    for (int64_t k = w->in.n_pad; k < w->in.n_rows; k += GR_AMX_K) { /* that none of these sees */
        if (w->p)
            memset((char *)w->p + k / GR_AMX_K * panel, 0, (size_t)step);
        if (w->ds_left)
            memset((char *)w->ds_left + k / GR_AMX_K * panel, 0, (size_t)step);
    }
}

#define TYPE_MAP(X) X(f32, true) X(bf16, false)

#define X(name, is_f32)                                     \
    static void forward_##name(const gr_flash_forward *w)   \
    {                                                       \
        if (is_plain(&w->in))                               \
            forward_as(w, is_f32, true);                    \
        else                                                \
            forward_as(w, is_f32, false);                   \
    }                                                       \
    static void backward_##name(const gr_flash_backward *w) \
    {                                                       \
        if (is_plain(&w->in))                               \
            backward_as(w, is_f32, true);                   \
        else                                                \
            backward_as(w, is_f32, false);                  \
    }                                                       \
    static const gr_flash_soft soft_##name = {              \
        .forward = forward_##name,                          \
        .backward = backward_##name,                        \
        .finish = soft_finish,                              \
        .dots = soft_dots,                                  \
        .drop = soft_drop,                                  \
    };
TYPE_MAP(X)
#undef X

const gr_flash_engine gr_flash_amx = {
    .soft = &soft_f32,
    .soft_bf16 = &soft_bf16,
    .tile = &gr_matmul_tile_avx512,
    .tiles = true,
    .pad = 32,
    .begin = gr_amx_begin,
    .end = gr_amx_end,
    .left_rows = left_rows,
    .left_cols = left_cols,
    .right_rows = right_rows,
    .right_cols = right_cols,
    .product = product,
};
