/*
 * Convolution of bf16 on lines with AVX512_BF16: as conv_vec_body.h does it for f32, on words of
 * two neighbours in the channels (matmul_avx512_bf16.c).
 *
 *     lines   [plane][line][run], the source's own numbers; an odd run gets a 0
 *     panel   [tap][word of two channels][32 columns], columns that are missing are 0
 */
#include "op/conv/cpu/conv_words_body.h"
#include "op/matmul/cpu/matmul_kernels.h"

#include <string.h>

#define TILE  gr_matmul_tile_avx512_bf16
#define COLS  GR_CONV_COLS
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

static bool pack_panel(const gr_conv_panel *p)
{
    const words_span s = words_span_of(p->grid);
    const int64_t step = words_of(p->run) * COLS * 4;
    __m512i low = _mm512_set1_epi32(-1);

    if (p->n_cols <= COLS / 2)
        memset(p->dst, 0, (size_t)panel_bytes(true, p->run, p->grid->n_taps));
    for (int64_t k = 0; k < p->run; k += 2)
        for (int64_t col = 0; col < p->n_cols; col += WORDS_COLS)
            low = words_pack(p, &s, (const int64_t[]){ k, k + 1 }, col,
                             p->dst + (k / 2 * COLS + col) * 4, step, low);
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
