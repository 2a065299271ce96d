/*
 * Convolution of bf16 on lines with AVX512_BF16: as conv_vec_body.h does it for f32, on words of
 * two neighbours in the channels (matmul_avx512_bf16.c).
 *
 *     lines   [plane][line][run], the source's own numbers; an odd run gets a 0
 *     panel   [tap][word of two channels][32 columns], columns that are missing are 0
 */
#include "op/conv/conv_sweep.h"
#include "op/matmul/matmul_kernels.h"
#include "op/matmul/matmul_row_body.h"

#include <string.h>

#define TILE  gr_matmul_tile_avx512_bf16
#define COLS  GR_CONV_COLS
#define SPAN  64 /* elements of the weight between a column's taps, to be transposed together */
#define AHEAD 64 /* floats, of each column's weights */
#define PARTS 16 /* taps whose sums stay in registers */

/* Words of a line. */
static int64_t words_of(int64_t run)
{
    return (run + 1) / 2;
}

static int64_t line_bytes(bool low, int64_t run)
{
    (void)low;
    return words_of(run) * 4;
}

static int64_t panel_bytes(bool low, int64_t run, int64_t n_taps)
{
    (void)low;
    return n_taps * words_of(run) * COLS * 4;
}

static int64_t line_at(bool low, int64_t run, int64_t n, int64_t plane, int64_t line)
{
    return (plane * n + line) * line_bytes(low, run);
}

/* ---- lines ---- */

static __m512i copy(uint16_t *dst, const uint16_t *src, int64_t n, __m512i low)
{
    for (int64_t i = 0; i < n; i += 32) {
        const __mmask32 m = row_mask_32(n - i);
        const __m512i x = _mm512_maskz_loadu_epi16(m, src + i);

        low = row_watch_bf16(x, low);
        _mm512_mask_storeu_epi16(dst + i, m, x);
    }
    return low;
}

static __m512i pack_stretch(const gr_conv_pack *p, const gr_conv_stretch *s, uint16_t *dst,
                            __m512i low)
{
    const int64_t from = s->from > p->run_lo ? s->from - p->run_lo : 0;
    const int64_t to = s->to < p->run_lo + p->run ? s->to - p->run_lo : p->run;
    const int64_t line = 2 * words_of(p->run);
    const uint16_t *src = (const uint16_t *)p->src + s->at + p->channel + p->run_lo + from;

    if (from >= to) {
        memset(dst, 0, (size_t)(s->n * line) * sizeof(*dst));
        return low;
    }
    if (to - from == line && s->step == line) /* neighbours in memory */
        return copy(dst, src, s->n * line, low);
    for (int64_t i = 0; i < s->n; i++, dst += line) {
        if (to - from < line)
            memset(dst, 0, (size_t)line * sizeof(*dst));
        low = copy(dst + from, src + i * s->step, to - from, low);
    }
    return low;
}

static bool pack(const gr_conv_pack *p)
{
    __m512i low = _mm512_set1_epi32(-1);
    uint16_t *dst = (uint16_t *)p->dst;

    for (int plane = 0; plane < p->grid->n_planes; plane++)
        for (int64_t line = p->first; line < p->first + p->n;) {
            const gr_conv_stretch s = gr_conv_stretch_at(p->grid, plane, line, p->first + p->n);

            low = pack_stretch(p, &s, dst, low);
            line += s.n;
            dst += s.n * 2 * words_of(p->run);
        }
    return !row_is_unfit_bf16(low);
}

/* ---- weights ---- */

/* The elements of the weight that the taps of one channel and one column lie in. */
typedef struct span {
    int64_t at, n;
} span;

static span span_of(const gr_conv_grid *g)
{
    span s = { 0, 0 };
    int64_t end = 0;

    for (int t = 0; t < g->n_taps; t++) {
        const int64_t at = g->taps[t].at;

        s.at = t == 0 || at < s.at ? at : s.at;
        end = t == 0 || at >= end ? at + 1 : end;
    }
    s.n = end - s.at;
    return s;
}

/* x[e][lane], e of the span: 16 columns from `col` on, of which `cols` exist, of channel k. */
static void turn(const gr_conv_panel *p, const span *s, int64_t col, int cols, int64_t k,
                 float (*x)[16])
{
    const int64_t step = p->grids->col_at;
    const float *src = p->w + col * step + p->grids->run_at[p->run_lo + k] + s->at;

    for (int c = 0; c < cols; c++) /* more streams than a core foresees by itself */
        __builtin_prefetch(src + c * step + AHEAD);
    for (int64_t e = 0; e < s->n; e += 16)
        TILE.transpose(src + e, step, x[e], 16, cols, (int)(s->n - e < 16 ? s->n - e : 16));
}

static __m512i put_word(char *dst, __m512 x0, __m512 x1, __m512i low)
{
    row_store_pairs(dst, _mm512_castps_si512(x0), _mm512_castps_si512(x1));
    return row_watch_bf16(_mm512_load_si512(dst), low);
}

/* Channels k and k + 1 of 16 columns, all taps, `step` bytes apart. */
static __m512i pack_turned(const gr_conv_panel *p, const span *s, char *dst, int64_t col, int64_t k,
                           int64_t step, __m512i low)
{
    const int cols = (int)(p->n_cols - col < 16 ? p->n_cols - col : 16);
    const __mmask16 m0 = row_mask(cols), m1 = k + 1 < p->run ? m0 : 0;
    _Alignas(64) float x[2][SPAN][16];

    turn(p, s, p->col + col, cols, k, x[0]);
    if (k + 1 < p->run)
        turn(p, s, p->col + col, cols, k + 1, x[1]);
    for (int t = 0; t < p->grid->n_taps; t++) {
        const int64_t e = p->grid->taps[t].at - s->at;

        low = put_word(dst + t * step, _mm512_maskz_load_ps(m0, x[0][e]),
                       _mm512_maskz_load_ps(m1, x[1][e]), low);
    }
    return low;
}

INLINE __m512 gather(const float *src, int64_t step, __mmask16 m)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i index = _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)step));

    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), m, index, src, 4);
}

/* The same element by element: for few taps, or taps far apart. */
static __m512i pack_gathered(const gr_conv_panel *p, char *dst, int64_t col, int64_t k,
                             int64_t step, __m512i low)
{
    const int cols = (int)(p->n_cols - col < 16 ? p->n_cols - col : 16);
    const __mmask16 m0 = row_mask(cols), m1 = k + 1 < p->run ? m0 : 0;
    const int64_t *at = p->grids->run_at + p->run_lo + k, next = k + 1 < p->run ? at[1] : at[0];
    const float *w = p->w + (p->col + col) * p->grids->col_at;

    for (int t = 0; t < p->grid->n_taps; t++) {
        const float *src = w + p->grid->taps[t].at;

        low = put_word(dst + t * step, gather(src + at[0], p->grids->col_at, m0),
                       gather(src + next, p->grids->col_at, m1), low);
    }
    return low;
}

static bool pack_panel(const gr_conv_panel *p)
{
    const span s = span_of(p->grid);
    const bool turned = s.n <= SPAN && p->grid->n_taps > s.n / 2 && p->grid->n_taps > 2;
    const int64_t step = words_of(p->run) * COLS * 4;
    __m512i low = _mm512_set1_epi32(-1);

    if (p->n_cols < COLS)
        memset(p->dst, 0, (size_t)panel_bytes(true, p->run, p->grid->n_taps));
    for (int64_t col = 0; col < p->n_cols; col += 16)
        for (int64_t k = 0; k < p->run; k += 2) {
            char *dst = p->dst + (k / 2 * COLS + col) * 4;

            if (turned)
                low = pack_turned(p, &s, dst, col, k, step, low);
            else
                low = pack_gathered(p, dst, col, k, step, low);
        }
    return !row_is_unfit_bf16(low);
}

/* ---- sums ---- */

static void nothing(void)
{
}

static void block(const gr_conv_block *b)
{
    const int64_t words = words_of(b->run);
    gr_tile_part parts[PARTS];
    gr_tile t = { .s = b->src, .v = (const float *)b->panel, .out = b->sums, .parts = parts };

    t.s_stride = 2 * words;
    t.v_step = t.out_stride = COLS;
    t.rows = b->n_lines;
    t.cols = (int)COLS;
    if (b->n_listed == 0)
        memset(b->sums, 0, (size_t)b->n_lines * COLS * sizeof(float));
    for (int i = 0; i < b->n_listed; i += t.n_parts) {
        t.n_parts = b->n_listed - i < PARTS ? b->n_listed - i : PARTS;
        for (int p = 0; p < t.n_parts; p++) {
            const int64_t tap = b->list[i + p];

            parts[p] = (gr_tile_part){ tap * words * COLS, b->tap_at[tap] / 2, words };
        }
        t.add = i > 0;
        TILE.tile(&t);
    }
}

static bool write_lines(const gr_conv_write *w)
{
    return gr_conv_isa_avx512.write(w);
}

static void widen(float *dst, const void *src, gr_dtype t, int64_t n)
{
    TILE.widen(dst, src, t, n);
}

const gr_conv_isa gr_conv_isa_avx512_bf16 = {
    .lines = 14,
    .cols = 32,
    .run_unit = 2,
    .scale = 1,
    .line_bytes = line_bytes,
    .panel_bytes = panel_bytes,
    .line_at = line_at,
    .pack = pack,
    .pack_panel = pack_panel,
    .begin = nothing,
    .end = nothing,
    .block = block,
    .write = write_lines,
    .widen = widen,
};
