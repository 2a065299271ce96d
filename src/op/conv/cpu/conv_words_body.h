/*
 * Weights of bf16 on their way into panels, for kernels that multiply words of two bf16 numbers
 * (conv_avx512_bf16.c, conv_amx.c). A word is one tap of one column, of two channels.
 *
 *     weight, per column:   k0: t0 t1 .. t8    k1: t0 t1 .. t8        (taps are neighbours)
 *     panel, per tap:       (k0, k1) of column 0, of column 1, .. 15
 *
 * The taps of 16 columns are joined to words and transposed in registers. Weights are read once,
 * in the order of memory, by more streams than a core foresees: those of later channels are asked
 * for.
 */
#ifndef GR_OP_CONV_WORDS_BODY_H
#define GR_OP_CONV_WORDS_BODY_H

#include "op/conv/cpu/conv_sweep.h"
#include "op/matmul/cpu/matmul_row_body.h"
#include "op/transpose_avx512_body.h"

#define WORDS_COLS  16
#define WORDS_SPAN  64 /* elements of the weight that are transposed together, at most */
#define WORDS_AHEAD 8  /* channels */

/* The elements of the weight that the taps of one channel and one column lie in. */
typedef struct words_span {
    int64_t at, n;
    bool turned; /* few enough, and most of them are taps of this grid */
} words_span;

static words_span words_span_of(const gr_conv_grid *g)
{
    words_span s = { 0, 0, false };
    int64_t end = 0;

    for (int t = 0; t < g->n_taps; t++) {
        const int64_t at = g->taps[t].at;

        s.at = t == 0 || at < s.at ? at : s.at;
        end = t == 0 || at >= end ? at + 1 : end;
    }
    s.n = end - s.at;
    s.turned = s.n > 1 && (s.n <= 16 || (s.n <= WORDS_SPAN && g->n_taps > s.n / 2));
    return s;
}

/* The weights of channel k, counted from the pass's first, and of column `col`. */
INLINE const uint16_t *words_at(const gr_conv_panel *p, int64_t k, int64_t col)
{
    return (const uint16_t *)p->w + p->grids->run_at[p->run_lo + k] + col * p->grids->col_at;
}

/* Asks for `cols` columns of a channel that comes soon. */
INLINE void words_ask(const gr_conv_panel *p, const words_span *s, int64_t k, int64_t col, int cols)
{
    const int64_t step = p->grids->col_at * 2;
    const char *src;

    if (k >= p->run)
        return;
    src = (const char *)(words_at(p, k, col) + s->at);
    if (step >= 64)
        for (int c = 0; c < cols; c++)
            _mm_prefetch(src + c * step, _MM_HINT_T0);
    else
        for (int64_t at = 0; at < cols * step + 63; at += 64)
            _mm_prefetch(src + at, _MM_HINT_T0);
}

/* x[e][lane]: element e of the span, of column col + lane; NULL for w1: there is no such channel.
 */
INLINE void words_turn(const words_span *s, const uint16_t *w0, const uint16_t *w1, int64_t step,
                       const int cols, __m512i *x)
{
    for (int64_t e = 0; e < s->n; e += 16) {
        const __mmask16 m = row_mask(s->n - e < 16 ? (int)(s->n - e) : 16), m1 = w1 ? m : 0;
        const uint16_t *a = w0 + s->at + e, *b = (w1 ? w1 : w0) + s->at + e;
        __m512 r[16];

        GR_UNROLL
        for (int c = 0; c < 16; c++)
            r[c] = _mm512_castsi512_ps(row_join_bf16(
                _mm256_maskz_loadu_epi16(c < cols ? m : 0, a + (c < cols ? c * step : 0)),
                _mm256_maskz_loadu_epi16(c < cols ? m1 : 0, b + (c < cols ? c * step : 0))));
        transpose_16(r);
        GR_UNROLL
        for (int i = 0; i < 16; i++)
            if (e + i < s->n)
                x[e + i] = _mm512_castps_si512(r[i]);
    }
}

/* One tap, number by number: for taps far apart. */
INLINE __m512i words_pick(const uint16_t *w0, const uint16_t *w1, int64_t step, int cols)
{
    _Alignas(64) uint32_t word[16] = { 0 };

    for (int c = 0; c < cols; c++)
        word[c] = w0[c * step] | (w1 ? (uint32_t)w1[c * step] << 16 : 0);
    return _mm512_load_si512(word);
}

/* Channels k0 and k1 of 16 columns from `col` of the panel on, all taps, `tap_step` bytes apart.
 * Columns and channels that are missing are 0. Notes subnormal numbers in `low`. */
INLINE __m512i words_pack(const gr_conv_panel *p, const words_span *s, const int64_t k[2],
                          int64_t col, char *dst, int64_t tap_step, __m512i low)
{
    const int64_t step = p->grids->col_at;
    const int cols = (int)(p->n_cols - col < WORDS_COLS ? p->n_cols - col : WORDS_COLS);
    const uint16_t *w0 = k[0] < p->run ? words_at(p, k[0], p->col + col) : NULL;
    const uint16_t *w1 = k[1] < p->run ? words_at(p, k[1], p->col + col) : NULL;
    __m512i x[WORDS_SPAN], word = _mm512_setzero_si512();

    words_ask(p, s, k[0] + WORDS_AHEAD, p->col + col, cols);
    words_ask(p, s, k[1] + WORDS_AHEAD, p->col + col, cols);
    if (w0 && s->turned && cols == WORDS_COLS)
        words_turn(s, w0, w1, step, WORDS_COLS, x);
    else if (w0 && s->turned)
        words_turn(s, w0, w1, step, cols, x);
    for (int t = 0; t < p->grid->n_taps; t++) {
        const int64_t at = p->grid->taps[t].at;

        if (w0)
            word = s->turned ? x[at - s->at] : words_pick(w0 + at, w1 ? w1 + at : NULL, step, cols);
        _mm512_store_si512(dst + t * tap_step, word);
        low = row_watch_bf16(word, low);
    }
    return low;
}

#endif
