/* The product of f32 numbers by AVX-512: tile (matmul_tile_avx512_body.h) and packing. */
#include "op/matmul/cpu/matmul_kernels.h"
#include "op/vec_avx512_body.h"

#include "op/matmul/cpu/matmul_half_body.h" /* needs the vectors */

#define S_TYPE              float
#define S_WORD              ((int64_t)1)
#define CHAINED             1
#define WORD_AT(s)          _mm512_set1_ps(*(s))
#define MULTIPLY(x, v, sum) _mm512_fmadd_ps(x, v, sum)
#include "op/matmul/cpu/matmul_tile_avx512_body.h"

/* Rows that do not exist are read as the last one, which a mask keeps from being stored:
 * no branch between the loads. */
INLINE void transpose_as(const float *src, int64_t src_stride, float *dst, int64_t dst_stride,
                         const int rows, const int cols)
{
    const mask in = (mask)((1u << cols) - 1), out = (mask)((1u << rows) - 1);
    __m512 r[16];

    GR_UNROLL
    for (int i = 0; i < 16; i++) {
        r[i] = _mm512_maskz_loadu_ps(in, src);
        src += i + 1 < rows ? src_stride : 0;
    }
    transpose_16(r);
    GR_UNROLL
    for (int i = 0; i < 16; i++)
        if (i < cols)
            _mm512_mask_storeu_ps(dst + i * dst_stride, out, r[i]);
}

static void transpose(const float *src, int64_t src_stride, float *dst, int64_t dst_stride,
                      int rows, int cols)
{
    if (rows == 16 && cols == 16)
        transpose_as(src, src_stride, dst, dst_stride, 16, 16);
    else if (cols == 16)
        transpose_as(src, src_stride, dst, dst_stride, rows, 16);
    else
        transpose_as(src, src_stride, dst, dst_stride, rows, cols);
}

static void pack_panel(float *dst, const float *src, int64_t src_step, int64_t n_k)
{
    for (int64_t k = 0; k < n_k; k++, src += src_step, dst += WIDTH) {
        _mm512_storeu_ps(dst, _mm512_loadu_ps(src));
        _mm512_storeu_ps(dst + LANES, _mm512_loadu_ps(src + LANES));
    }
}

static void pack_rows(float *dst, const void *from, int64_t src_step, int64_t n_k, int rows)
{
    const float *src = from;
    const mask m = mask_of(rows);

    for (int64_t k = 0; k < n_k; k++, src += src_step, dst += rows)
        _mm512_storeu_ps(dst, _mm512_maskz_loadu_ps(m, src));
}

const gr_tile_isa gr_matmul_tile_avx512 = {
    .width = WIDTH,
    .rows = 14,
    .word = 1,
    .tile = tile,
    .transpose = transpose,
    .pack_panel = pack_panel,
    .pack_rows = pack_rows,
    .widen = widen,
    .narrow = narrow,
};
