/*
 * The product of bf16 by AVX512_BF16: an instruction multiplies 16 pairs of numbers and adds both
 * products to a sum of f32, twice the work of one on f32. The tile is that of f32
 * (matmul_tile_avx512_body.h), on words of two neighbours in k.
 *
 * Where k runs along memory, a row is a row of such words as it lies. Where it does not, rows k
 * and k + 1 are put together on the way into panels.
 *
 * The instruction reads subnormals as 0, and writes sums that are subnormal as 0. The former are
 * looked for beforehand (fits), and products with them are done in f32; of the latter nobody
 * would see much (docs/numerics.md).
 */
#include "op/matmul/cpu/matmul_kernels.h"
#include "op/matmul/cpu/matmul_row_body.h"
#include "op/vec_avx512_body.h"

#include <string.h>

INLINE __m512 word_at(const uint16_t *s)
{
    int word;

    memcpy(&word, s, sizeof(word));
    return _mm512_castsi512_ps(_mm512_set1_epi32(word));
}

INLINE __m512 add_products(__m512 x, __m512 v, __m512 sum)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(x),
                            (__m512bh)_mm512_castps_si512(v));
}

#define S_TYPE              uint16_t
#define S_WORD              ((int64_t)2)
#define CHAINED             0 /* operands have lost more than sums can */
#define WORD_AT(s)          word_at(s)
#define MULTIPLY(x, v, sum) add_products(x, v, sum)
#include "op/matmul/cpu/matmul_tile_avx512_body.h"

/* ---- packing ---- */

/* Rows k and k + 1 of memory become words. */
static void pair_rows(float *dst, const uint16_t *src, int64_t step_k, int cols, int64_t n_k)
{
    const __mmask32 m = row_mask_32(cols);

    for (int64_t k = 0; k < n_k; k += 2, src += 2 * step_k, dst += WIDTH) {
        const __m512i x0 = _mm512_maskz_loadu_epi16(m, src);
        const __m512i x1 = _mm512_maskz_loadu_epi16(k + 1 < n_k ? m : 0, src + step_k);
        __m512i low, high;

        row_words_bf16(x0, x1, &low, &high);
        _mm512_storeu_si512(dst, low);
        _mm512_storeu_si512(dst + LANES, high);
    }
}

/* 16 lines, of which `lines` exist, of up to 16 words. */
INLINE void turn_words(float *dst, const uint16_t *src, int64_t step_i, const int lines,
                       int64_t n_k)
{
    const __mmask32 m = row_mask_32(n_k);
    const int n_words = (int)(n_k < 32 ? (n_k + 1) / 2 : 16);
    __m512 r[16];

    GR_UNROLL
    for (int i = 0; i < 16; i++)
        r[i] = _mm512_castsi512_ps(
            _mm512_maskz_loadu_epi16(i < lines ? m : 0, src + (i < lines ? i * step_i : 0)));
    transpose_16(r);
    GR_UNROLL
    for (int i = 0; i < 16; i++)
        if (i < n_words)
            _mm512_storeu_ps(dst + i * WIDTH, r[i]);
}

static void pack_pairs(float *dst, const uint16_t *src, int64_t step_i, int64_t step_k, int cols,
                       int64_t n_k)
{
    if (step_i == 1) {
        pair_rows(dst, src, step_k, cols, n_k);
        return;
    }
    for (int64_t k = 0; k < n_k; k += 32)
        for (int c = 0; c < WIDTH; c += 16) {
            float *to = dst + k / 2 * WIDTH + c;
            const uint16_t *from = src + c * step_i + k;

            if (cols - c >= 16 && n_k - k >= 32)
                turn_words(to, from, step_i, 16, 32);
            else
                turn_words(to, cols > c ? from : src, step_i, cols - c, n_k - k);
        }
}

static void pack_rows(float *dst, const void *from, int64_t src_step, int64_t n_k, int rows)
{
    const uint16_t *src = from;
    const mask m = mask_of(rows);

    for (int64_t k = 0; k < n_k; k += 2, src += 2 * src_step, dst += rows)
        _mm512_storeu_si512(
            dst, row_join_bf16(_mm256_maskz_loadu_epi16(m, src),
                               _mm256_maskz_loadu_epi16(k + 1 < n_k ? m : 0, src + src_step)));
}

/* ---- what it cannot do ---- */

static bool fits(const uint16_t *src, int64_t n)
{
    __m512i low[4];
    int64_t i = 0;

    for (int j = 0; j < 4; j++)
        low[j] = _mm512_set1_epi32(-1);
    for (; i + 128 <= n; i += 128)
        for (int64_t j = 0; j < 4; j++)
            low[j] = row_watch_bf16(_mm512_loadu_si512(src + i + 32 * j), low[j]);
    for (; i < n; i += 32)
        low[0] = row_watch_bf16(_mm512_maskz_loadu_epi16(row_mask_32(n - i), src + i), low[0]);
    return !row_is_unfit_bf16(
        _mm512_min_epu16(_mm512_min_epu16(low[0], low[1]), _mm512_min_epu16(low[2], low[3])));
}

/* ---- f32 ---- */

static void transpose(const float *src, int64_t src_stride, float *dst, int64_t dst_stride,
                      int rows, int cols)
{
    gr_matmul_tile_avx512.transpose(src, src_stride, dst, dst_stride, rows, cols);
}

static void widen(float *dst, const void *src, gr_dtype t, int64_t n)
{
    gr_matmul_tile_avx512.widen(dst, src, t, n);
}

static void narrow(void *dst, const float *src, gr_dtype t, int64_t n)
{
    gr_matmul_tile_avx512.narrow(dst, src, t, n);
}

const gr_tile_isa gr_matmul_tile_avx512_bf16 = {
    .width = WIDTH,
    .rows = 14,
    .word = 2,
    .tile = tile,
    .transpose = transpose,
    .pack_pairs = pack_pairs,
    .pack_rows = pack_rows,
    .fits = fits,
    .widen = widen,
    .narrow = narrow,
};
