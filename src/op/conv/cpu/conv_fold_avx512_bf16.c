/*
 * conv_weight of bf16 with AVX512_BF16. Lines are what is summed over, so words are two lines.
 *
 *     y   [word][rows]: lines 2 i and 2 i + 1
 *     x   [line][32 channels]: line l and line l + 1. Every line begins such a row, so a tap may
 *         begin anywhere, and nothing is copied per tap.
 */
#include "op/conv/cpu/conv_fold.h"
#include "op/conv/cpu/conv_stretch_body.h"
#include "op/matmul/cpu/matmul_kernels.h"
#include "op/matmul/cpu/matmul_row_body.h"

#include <string.h>

#define TILE gr_matmul_tile_avx512_bf16
#define ROWS 14

static int64_t y_bytes(bool low, int64_t n_lines)
{
    (void)low;
    return n_lines / 2 * ROWS * 4;
}

static int64_t x_at(bool low, int64_t line)
{
    (void)low;
    return line * GR_FOLD_RUN * 4;
}

static int64_t x_bytes(bool low, int64_t n_lines)
{
    return x_at(low, n_lines);
}

/* Lanes [from, to) of 32, beginning with element e. */
INLINE __mmask32 lanes(int64_t e, int64_t from, int64_t to)
{
    return row_mask_32(to - e) & ~row_mask_32(from - e);
}

/* Dense lines are a multiple of 32 long: whole vectors are written. */
static void copy(const gr_fold_copy *c)
{
    const uint16_t *src = (const uint16_t *)c->src;
    uint16_t *dst = (uint16_t *)c->dst;

    for (int64_t e = 0; e < c->step; e += 32) {
        const __mmask32 m = lanes(e, c->from, c->to);

        for (int64_t i = 0; i < c->n; i++)
            _mm512_storeu_si512(dst + i * c->step + e,
                                _mm512_maskz_loadu_epi16(m, src + i * c->src_step + e));
    }
}

/* A stretch of lines that begins and ends with steps. Threads pack neighbours: nothing is written
 * past the end. */
static bool pack_y(const gr_fold_pack *p)
{
    const __mmask16 m = row_mask(p->n_channels);
    const int64_t rows = p->n_channels, end = p->hi / 2 * rows;
    const uint16_t *src = (const uint16_t *)p->src + p->lo * p->step;
    __m512i low = _mm512_set1_epi32(-1);

    for (int64_t at = p->lo / 2 * rows; at < end; at += rows, src += 2 * p->step) {
        const __m512i x = row_join_bf16(_mm256_maskz_loadu_epi16(m, src),
                                        _mm256_maskz_loadu_epi16(m, src + p->step));

        low = row_watch_bf16(x, low);
        if (at + 16 <= end)
            _mm512_storeu_si512(p->dst + at * 4, x);
        else
            _mm512_mask_storeu_epi32(p->dst + at * 4, m, x);
    }
    return !row_is_unfit_bf16(low);
}

static bool pack_x(const gr_fold_pack *p)
{
    const uint16_t *src = (const uint16_t *)p->src + p->lo * p->step;
    char *dst = p->dst + x_at(true, p->lo);
    __m512i low = _mm512_set1_epi32(-1), x = _mm512_loadu_si512(src);

    for (int64_t line = p->lo; line < p->hi; line++, dst += x_at(true, 1)) {
        const __m512i next = _mm512_loadu_si512(src += p->step);
        __m512i first, second;

        row_words_bf16(x, next, &first, &second);
        _mm512_store_si512(dst, first);
        _mm512_store_si512(dst + 64, second);
        low = row_watch_bf16(x, low);
        x = next;
    }
    return !row_is_unfit_bf16(row_watch_bf16(x, low));
}

static void nothing(void)
{
}

static void block(const gr_fold_block *b)
{
    gr_tile_part parts[GR_FOLD_PARTS];
    gr_tile t = { .v = (const float *)b->x, .s = b->y, .out = b->out, .parts = parts };
    int i = 0;

    t.v_step = 2 * GR_FOLD_RUN;
    t.out_stride = b->out_step;
    t.rows = b->rows;
    t.cols = b->cols;
    t.s_packed = true;
    t.add = b->add;
    do {
        t.n_parts = gr_fold_stretches(b, &i, GR_FOLD_RUN, 2, parts);
        TILE.tile(&t);
        t.add = true;
    } while (i < b->n_listed);
}

static void transpose(const float *src, int64_t src_stride, float *dst, int64_t dst_stride,
                      int rows, int cols)
{
    TILE.transpose(src, src_stride, dst, dst_stride, rows, cols);
}

static void widen(float *dst, const void *src, gr_dtype t, int64_t n)
{
    TILE.widen(dst, src, t, n);
}

static void narrow(void *dst, const float *src, gr_dtype t, int64_t n)
{
    TILE.narrow(dst, src, t, n);
}

const gr_fold_isa gr_fold_isa_avx512_bf16 = {
    .rows = ROWS,
    .line_unit = GR_FOLD_UNIT,
    .y_by_steps = true,
    .ahead = 1,
    .y_bytes = y_bytes,
    .x_bytes = x_bytes,
    .x_at = x_at,
    .copy = copy,
    .pack_y = pack_y,
    .pack_x = pack_x,
    .begin = nothing,
    .end = nothing,
    .block = block,
    .transpose = transpose,
    .widen = widen,
    .narrow = narrow,
};
