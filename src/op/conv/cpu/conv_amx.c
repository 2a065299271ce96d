/*
 * Convolution on lines with AMX: f32 by three bf16 parts of each number, as products of
 * matrices are (matmul_amx.c), or bf16.
 *
 *     lines   [plane][step of 32 channels][line][part], 64 bytes each: a row of a left tile.
 *             Tiles are loaded from there, wherever a tap's lines begin, so nothing is
 *             copied per tap.
 *     panel   [step][tap][part][tile]: right tiles of 16 columns
 *
 * Steps are the outer loop and taps the inner one: the lines that the taps of a step share
 * are in L1.
 */
#include "op/conv/cpu/conv_amx.h"
#include "op/conv/cpu/conv_words_body.h"
#include "op/matmul/cpu/matmul_amx.h"
#include "op/matmul/cpu/matmul_kernels.h"

#include <string.h>

static int64_t n_steps(int64_t run)
{
    return (run + GR_AMX_K - 1) / GR_AMX_K;
}

static int64_t row_bytes(bool low)
{
    return low ? 64 : 3 * 64;
}

static int64_t line_bytes(bool low, int64_t run)
{
    return n_steps(run) * row_bytes(low);
}

static int64_t panel_bytes(bool low, int64_t run, int64_t n_taps)
{
    return n_taps * n_steps(run) * gr_amx_step_bytes(!low, 2);
}

static int64_t line_at(bool low, int64_t run, int64_t n, int64_t plane, int64_t line)
{
    return (plane * n_steps(run) * n + line) * row_bytes(low);
}

/* ---- lines ---- */

static int clamp_16(int64_t n)
{
    return n < 0 ? 0 : n > 16 ? 16 : (int)n;
}

/* Lanes c, c + 1, .. that lie in [from, to). */
INLINE __mmask16 lanes(int64_t c, int64_t from, int64_t to)
{
    return (__mmask16)(row_mask(clamp_16(to - c)) & ~row_mask(clamp_16(from - c)));
}

INLINE void put_f32(char *dst, const float *src, int64_t c, int64_t from, int64_t to)
{
    if (from <= c && to >= c + GR_AMX_K)
        row_put_f32(dst, 64, src + c, 16);
    else
        row_split(dst, 64, _mm512_maskz_loadu_ps(lanes(c, from, to), src + c),
                  _mm512_maskz_loadu_ps(lanes(c + 16, from, to), src + c + 16));
}

INLINE __m512i put_bf16(char *dst, const uint16_t *src, int64_t c, int64_t from, int64_t to,
                        __m512i low)
{
    __m512i x;

    if (from <= c && to >= c + GR_AMX_K)
        return row_put_bf16(dst, src + c, 16, low);
    x = row_join_bf16(_mm256_maskz_loadu_epi16(lanes(c, from, to), src + c),
                      _mm256_maskz_loadu_epi16(lanes(c + 16, from, to), src + c + 16));
    _mm512_store_si512(dst, x);
    return row_watch_bf16(x, low);
}

static void zero_lines(const gr_conv_pack *p, char *dst, int64_t n)
{
    for (int64_t k = 0; k < n_steps(p->run); k++)
        memset(dst + k * p->n * row_bytes(p->low), 0, (size_t)(n * row_bytes(p->low)));
}

static __m512i pack_stretch(const gr_conv_pack *p, const gr_conv_stretch *s, char *dst, __m512i low)
{
    const int64_t from = s->from - p->run_lo, steps = n_steps(p->run), row = row_bytes(p->low);
    const int64_t to = s->to < p->run_lo + p->run ? s->to - p->run_lo : p->run;
    const int64_t at = s->at + p->channel + p->run_lo;

    if (from >= to || to <= 0) {
        zero_lines(p, dst, s->n);
        return low;
    }
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t k = 0; k < steps; k++) {
            char *to_row = dst + (k * p->n + i) * row;

            if (p->low)
                low = put_bf16(to_row, (const uint16_t *)p->src + at + i * s->step, k * GR_AMX_K,
                               from, to, low);
            else
                put_f32(to_row, (const float *)p->src + at + i * s->step, k * GR_AMX_K, from, to);
        }
    return low;
}

static bool pack(const gr_conv_pack *p)
{
    __m512i low = _mm512_set1_epi32(-1);

    for (int plane = 0; plane < p->grid->n_planes; plane++) {
        char *dst = p->dst + line_at(p->low, p->run, p->n, plane, 0);

        for (int64_t line = p->first; line < p->first + p->n;) {
            const gr_conv_stretch s = gr_conv_stretch_at(p->grid, plane, line, p->first + p->n);

            low = pack_stretch(p, &s, dst, low);
            line += s.n;
            dst += s.n * row_bytes(p->low);
        }
    }
    return !row_is_unfit_bf16(low);
}

/* ---- weights ---- */

/* 16 columns of one element of a line; `k` counts from the pass's first. */
INLINE __m512 columns(const gr_conv_panel *p, int64_t k, int64_t at, __mmask16 m, __m512i index)
{
    if (k >= p->run)
        return _mm512_setzero_ps();
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), m, index,
                                    (const float *)p->w + at + p->grids->run_at[p->run_lo + k], 4);
}

static void pack_row(const gr_conv_panel *p, char *dst, int64_t k, __m512i index)
{
    const int n_tiles = gr_amx_tiles(p->n_cols);
    const int64_t part = n_tiles * GR_AMX_TILE, step = gr_amx_step_bytes(true, n_tiles);

    for (int t = 0; t < p->grid->n_taps; t++)
        for (int64_t i = 0; i < n_tiles; i++) {
            const int64_t at = (p->col + 16 * i) * p->grids->col_at + p->grid->taps[t].at;
            const __mmask16 m = row_mask(clamp_16(p->n_cols - 16 * i));
            const __m512 x0 = columns(p, k, at, m, index), x1 = columns(p, k + 16, at, m, index);

            row_split(dst + t * step + i * GR_AMX_TILE, part, x0, x1);
        }
}

static void pack_panel_f32(const gr_conv_panel *p)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i index = _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)p->grids->col_at));
    const int64_t step = gr_amx_step_bytes(true, gr_amx_tiles(p->n_cols));

    for (int64_t k = 0; k < n_steps(p->run); k++)
        for (int64_t r = 0; r < 16; r++)
            pack_row(p, p->dst + k * p->grid->n_taps * step + 64 * r, k * GR_AMX_K + r, index);
}

/* A row of a tile has channels 16 apart as pairs. */
static bool pack_panel_bf16(const gr_conv_panel *p)
{
    const words_span s = words_span_of(p->grid);
    const int n_tiles = gr_amx_tiles(p->n_cols);
    const int64_t step = gr_amx_step_bytes(false, n_tiles);
    __m512i low = _mm512_set1_epi32(-1);

    for (int64_t k = 0; k < n_steps(p->run); k++)
        for (int64_t r = 0; r < 16; r++)
            for (int64_t i = 0; i < n_tiles; i++) {
                const int64_t channel = k * GR_AMX_K + r;
                char *dst = p->dst + k * p->grid->n_taps * step + i * GR_AMX_TILE + 64 * r;

                low = words_pack(p, &s, (const int64_t[]){ channel, channel + 16 }, i * WORDS_COLS,
                                 dst, step, low);
            }
    return !row_is_unfit_bf16(low);
}

static bool pack_panel(const gr_conv_panel *p)
{
    if (p->low)
        return pack_panel_bf16(p);
    pack_panel_f32(p);
    return true;
}

/* ---- sums ---- */

static void block(const gr_conv_block *b)
{
    const int tiles = gr_amx_tiles(b->n_cols);
    gr_conv_tiles t = { .n_outer = n_steps(b->run), .n_inner = b->n_listed, .sums = b->sums };

    t.l = b->src;
    t.l_at = b->tap_at;
    t.list = b->list;
    t.l_outer = b->n_packed * row_bytes(b->low);
    t.l_side =
        (gr_conv_side){ row_bytes(b->low), 64, 16 * row_bytes(b->low), gr_amx_tiles(b->n_lines) };
    t.r = b->panel;
    t.r_inner = gr_amx_step_bytes(!b->low, tiles);
    t.r_outer = t.r_inner * b->n_taps;
    t.r_side = (gr_conv_side){ 64, tiles * GR_AMX_TILE, GR_AMX_TILE, tiles };
    gr_conv_tiles_run(&t, b->low);
}

static bool write_lines(const gr_conv_write *w)
{
    const __m512 scale = _mm512_set1_ps(w->scale);
    __m512 sum = _mm512_setzero_ps();

    for (int c = 0; c < w->n_cols; c += 16) {
        const __mmask16 m = row_mask(clamp_16(w->n_cols - c));

        for (int i = 0; i < w->n_lines; i++) {
            float *y = (float *)w->y + w->at[i] + c, *wait = y;
            __m512 x = _mm512_mul_ps(_mm512_load_ps(w->sums + i * GR_CONV_COLS + c), scale);

            if (w->at[i] < 0)
                continue;
            if (w->kept)
                wait = w->kept + i * w->cols_kept + c;
            if (w->add)
                x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(m, wait));
            sum = row_watch(_mm512_maskz_mov_ps(m, x), sum);
            if (!w->last)
                _mm512_mask_storeu_ps(wait, m, x);
            else if (w->type == GR_F32)
                _mm512_mask_storeu_ps(y, m, x);
            else
                _mm256_mask_storeu_epi16((uint16_t *)w->y + w->at[i] + c, m, row_bf16_of(x));
        }
    }
    return w->scale == 1 || !row_is_unfit_f32(sum);
}

static void widen(float *dst, const void *src, gr_dtype t, int64_t n)
{
    gr_matmul_tile_avx512.widen(dst, src, t, n);
}

const gr_conv_isa gr_conv_isa_amx = {
    .lines = 32,
    .cols = 32,
    .run_unit = 32,
    .scale = ROW_SCALE_OUT,
    .line_bytes = line_bytes,
    .panel_bytes = panel_bytes,
    .line_at = line_at,
    .pack = pack,
    .pack_panel = pack_panel,
    .begin = gr_amx_begin,
    .end = gr_amx_end,
    .block = block,
    .write = write_lines,
    .widen = widen,
};
