/*
 * Attention of bf16 by AVX512_BF16: the vector engine (attention_tiles.c) on words of two
 * neighbours in k.
 *
 *     left    [line][k], as in memory
 *     right   [word][32 columns]
 *     p       as right side, a word is keys r and r + 1 of a query; as left side, with k = queries,
 *             a row is 32 queries of a key, which is what rounding two vectors to bf16 gives
 *
 * p and ds are rounded to bf16, sums are f32. Numbers below 2^-126 count as 0.
 */
#include "op/attention/cpu/attention_flash.h"
#include "op/attention/cpu/attention_isa_avx512_body.h"

#include "op/attention/cpu/attention_soft_body.h"

#include <string.h>

#define TILE gr_matmul_tile_avx512_bf16

/* ---- sides ---- */

static void left_rows(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp)
{
    const uint16_t *src = m->src;
    uint16_t *to = dst;

    (void)tmp;
    for (int64_t r = 0; r < m->n; r++, src += m->step, to += f->z.left_rows_step) {
        memcpy(to, src, (size_t)f->d.d * sizeof(*to));
        if (f->d.d % 2 != 0)
            to[f->d.d] = 0;
    }
}

/* Words of rows r + 2 i and r + 2 i + 1, of 16 columns from c on; what is missing becomes 0. */
static void join_rows(__m512i x[16], const gr_flash_rows *m, int64_t r, int64_t c, int64_t d)
{
    const mask cols = d - c < LANES ? mask_of(d - c) : (mask)-1;

    for (int64_t i = 0; i < 16; i++) {
        const int64_t row = r + 2 * i;
        const uint16_t *src = (const uint16_t *)m->src + row * m->step + c;
        const __m256i x0 = _mm256_maskz_loadu_epi16(row < m->n ? cols : 0, src);
        const __m256i x1 = _mm256_maskz_loadu_epi16(row + 1 < m->n ? cols : 0, src + m->step);

        x[i] = _mm512_or_si512(_mm512_cvtepu16_epi32(x0),
                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(x1), 16));
    }
}

static void left_cols(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp)
{
    const int64_t words = f->z.left_cols_step / 2;
    __m512i x[16];

    (void)tmp;
    for (int64_t r = 0; r < m->n; r += 32)
        for (int64_t c = 0; c < f->d.d; c += 16) {
            join_rows(x, m, r, c, f->d.d);
            TILE.transpose((const float *)x, 16, (float *)dst + c * words + r / 2, words, 16, 16);
        }
}

static void right_rows(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp)
{
    (void)tmp;
    TILE.pack_pairs(dst, m->src, m->step, 1, (int)m->n, f->d.d);
}

static void right_cols(const gr_flash *f, void *dst, const gr_flash_rows *m)
{
    char *to = dst;

    for (int64_t c = 0; c < f->d.d; c += GR_FLASH_COLS, to += f->z.right_cols_panel) {
        const int64_t n = f->d.d - c;

        TILE.pack_pairs((float *)to, (const uint16_t *)m->src + c, 1, m->step,
                        (int)(n < GR_FLASH_COLS ? n : GR_FLASH_COLS), m->n);
    }
}

/* ---- probabilities ---- */

/* 32 numbers of bf16: those of x0, then those of x1. */
INLINE __m512i round_pair(vec x0, vec x1)
{
    return (__m512i)_mm512_cvtne2ps_pbh(x1, x0);
}

/* Words of a number of x0 and one of x1. */
INLINE __m512i words_of(vec x0, vec x1)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i from =
        _mm512_or_si512(lane, _mm512_slli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(16)), 16));

    return _mm512_permutexvar_epi16(from, round_pair(x0, x1));
}

INLINE void put_words(void *right, int64_t r, int g, vec x0, vec x1)
{
    _mm512_storeu_si512((float *)right + r / 2 * GR_FLASH_COLS + g * LANES, words_of(x0, x1));
}

INLINE void forward_as(const gr_flash_forward *w, const bool plain)
{
    const vec c = vec_set(w->in.c);
    vec top[N_VEC], sum[N_VEC];

    forward_top(w, plain);
    GR_UNROLL
    for (int g = 0; g < N_VEC; g++) {
        top[g] = vec_finite(vec_load(w->top + g * LANES));
        sum[g] = vec_load(w->sum + g * LANES);
    }
    for (int64_t r = 0; r < w->in.n_pad; r += 2) {
        GR_UNROLL
        for (int g = 0; g < N_VEC; g++) {
            const vec p0 = forward_p(w, r, g, c, top[g], plain);
            const vec p1 = forward_p(w, r + 1, g, c, top[g], plain);

            sum[g] = vec_add(sum[g], vec_add(p0, p1));
            put_words(w->p, r, g, dropped(&w->in, r, g, p0), dropped(&w->in, r + 1, g, p1));
        }
    }
    GR_UNROLL
    for (int g = 0; g < N_VEC; g++)
        vec_store(w->sum + g * LANES, sum[g]);
}

static void forward(const gr_flash_forward *w)
{
    if (is_plain(&w->in))
        forward_as(w, true);
    else
        forward_as(w, false);
}

#define LINE GR_FLASH_PAIRS_LINE(GR_FLASH_GROUP *GR_FLASH_COLS)

/* Row r of a left side, 32 queries. */
INLINE void put_left(void *left, int64_t r, vec x0, vec x1)
{
    if (left)
        _mm512_storeu_si512((uint16_t *)left + r * LINE, round_pair(x0, x1));
}

INLINE void put_row(const gr_flash_backward *w, int64_t r, const pair y[N_VEC])
{
    put_left(w->p, r, y[0].p, y[1].p);
    put_left(w->ds_left, r, y[0].ds, y[1].ds);
    if (w->ds_plain && r < w->in.n_keys) {
        vec_store(w->ds_plain + r * GR_FLASH_COLS, y[0].ds);
        vec_store(w->ds_plain + r * GR_FLASH_COLS + LANES, y[1].ds);
    }
}

INLINE pair pair_of(const gr_flash_backward *w, int64_t r, int g, const bool plain)
{
    const pair none = { vec_set(0), vec_set(0) };

    return plain || r < w->in.n_keys ? backward_of(w, r, g, plain) : none;
}

INLINE void backward_as(const gr_flash_backward *w, const bool plain)
{
    for (int64_t r = 0; r < w->in.n_pad; r += 2) {
        pair y[2][N_VEC];

        GR_UNROLL
        for (int64_t i = 0; i < 2; i++) {
            GR_UNROLL
            for (int g = 0; g < N_VEC; g++)
                y[i][g] = pair_of(w, r + i, g, plain);
            put_row(w, r + i, y[i]);
        }
        GR_UNROLL
        for (int g = 0; g < N_VEC; g++)
            if (w->ds)
                put_words(w->ds, r, g, y[0][g].ds, y[1][g].ds);
    }
}

static void backward(const gr_flash_backward *w)
{
    const vec zero = vec_set(0);

    for (int64_t r = w->in.n_pad; r < w->in.n_rows; r++) { /* keys that none of these sees */
        put_left(w->p, r, zero, zero);
        put_left(w->ds_left, r, zero, zero);
    }
    if (is_plain(&w->in))
        backward_as(w, true);
    else
        backward_as(w, false);
}

static const gr_flash_soft soft = {
    .forward = forward,
    .backward = backward,
    .finish = soft_finish,
    .dots = soft_dots,
    .drop = soft_drop,
};

const gr_flash_engine gr_flash_avx512_bf16 = {
    .soft = &soft,
    .soft_bf16 = &soft,
    .tile = &TILE,
    .pad = 2,
    .begin = gr_flash_nothing,
    .end = gr_flash_nothing,
    .left_rows = left_rows,
    .left_cols = left_cols,
    .right_rows = right_rows,
    .right_cols = right_cols,
    .product = gr_flash_multiply,
};
