/*
 * The tile for AVX2: 6 rows of two vectors, 12 sums in 16 registers. The same shape as
 * matmul_avx512.c, which explains it.
 */
#include "op/matmul/cpu/matmul_chain_body.h"
#include "op/matmul/cpu/matmul_kernels.h"
#include "op/unroll_body.h"
#include "op/vec_avx2_body.h"

#include "op/matmul/cpu/matmul_half_body.h" /* needs the vectors */

#include <string.h>

#define WIDTH (2 * LANES)
#define ROWS  6

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)

#define ROW_ZERO(i) \
    if (rows > i)   \
        sum[i][0] = sum[i][1] = _mm256_setzero_ps();
#define ROW_JOIN(i)                                                                          \
    if (rows > i) {                                                                          \
        sum[i][0] = _mm256_add_ps(_mm256_loadu_ps(out + i * out_stride), sum[i][0]);         \
        sum[i][1] = _mm256_add_ps(_mm256_loadu_ps(out + i * out_stride + LANES), sum[i][1]); \
    }
#define ROW_STORE(i)                                               \
    if (rows > i) {                                                \
        _mm256_storeu_ps(out + i * out_stride, sum[i][0]);         \
        _mm256_storeu_ps(out + i * out_stride + LANES, sum[i][1]); \
    }
#define ROW_ADD(i)                                              \
    if (rows > i) {                                             \
        const __m256 x = _mm256_broadcast_ss(s + i * s_stride); \
        sum[i][0] = _mm256_fmadd_ps(x, v0, sum[i][0]);          \
        sum[i][1] = _mm256_fmadd_ps(x, v1, sum[i][1]);          \
    }
#define STEP_K                                        \
    do {                                              \
        const __m256 v0 = _mm256_loadu_ps(v);         \
        const __m256 v1 = _mm256_loadu_ps(v + LANES); \
        EACH_ROW(ROW_ADD)                             \
        v += v_step;                                  \
        s += s_step;                                  \
    } while (0)

/* out has the full width here. rows and packed are constants where this is expanded. */
INLINE void run_tile(const gr_tile *t, const int rows, const bool packed)
{
    const gr_tile_part one = { 0, 0, t->k }, *part = t->parts ? t->parts : &one;
    const gr_tile_part *const end = part + (t->parts ? t->n_parts : 1);
    float *const out = t->out;
    const int64_t v_step = t->v_step, out_stride = t->out_stride;
    const int64_t s_stride = packed ? 1 : t->s_stride, s_step = packed ? rows : 1;
    __m256 sum[ROWS][2];

    EACH_ROW(ROW_ZERO)
    do {
        const float *v = t->v + part->v_at, *s = (const float *)t->s + part->s_at;
        int64_t k = part->k;

        for (; k >= 4; k -= 4) {
            STEP_K;
            STEP_K;
            STEP_K;
            STEP_K;
        }
        for (; k > 0; k--)
            STEP_K;
    } while (++part < end);
    if (t->add) {
        EACH_ROW(ROW_JOIN)
    }
    EACH_ROW(ROW_STORE)
}

#define TILE_MAP(X) X(1) X(2) X(3) X(4) X(5) X(6)

#include "op/matmul/cpu/matmul_pick_body.h"

static void tile(const gr_tile *t)
{
    tile_fn *run = pick_tile(t);
    const size_t n_bytes = (size_t)t->cols * sizeof(float);
    float edge[ROWS * WIDTH];
    gr_tile whole = *t;

    if (t->cols == WIDTH) {
        each_chain(t, run);
        return;
    }
    whole.out = edge;
    whole.out_stride = WIDTH;
    for (int i = 0; t->add && i < t->rows; i++)
        memcpy(edge + i * WIDTH, t->out + i * t->out_stride, n_bytes);
    each_chain(&whole, run);
    for (int i = 0; i < t->rows; i++)
        memcpy(t->out + i * t->out_stride, edge + i * WIDTH, n_bytes);
}

INLINE void transpose_8(const float *src, int64_t src_stride, float *dst, int64_t dst_stride)
{
    __m256 r[8], t[8];

    GR_UNROLL
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(src + i * src_stride);
    GR_UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    GR_UNROLL
    for (int i = 0; i < 4; i++) {
        const int to = 2 * i, from = i / 2 * 4 + i % 2;

        r[to] = _mm256_shuffle_ps(t[from], t[from + 2], 0x44);
        r[to + 1] = _mm256_shuffle_ps(t[from], t[from + 2], 0xee);
    }
    GR_UNROLL
    for (int j = 0; j < 4; j++) {
        _mm256_storeu_ps(dst + j * dst_stride, _mm256_permute2f128_ps(r[j], r[j + 4], 0x20));
        _mm256_storeu_ps(dst + (j + 4) * dst_stride, _mm256_permute2f128_ps(r[j], r[j + 4], 0x31));
    }
}

static void transpose(const float *src, int64_t src_stride, float *dst, int64_t dst_stride,
                      int rows, int cols)
{
    int full_rows = rows & ~7, full_cols = cols & ~7;

    for (int i = 0; i < full_rows; i += 8)
        for (int j = 0; j < full_cols; j += 8)
            transpose_8(src + i * src_stride + j, src_stride, dst + j * dst_stride + i, dst_stride);
    for (int i = 0; i < rows; i++)
        for (int j = i < full_rows ? full_cols : 0; j < cols; j++)
            dst[j * dst_stride + i] = src[i * src_stride + j];
}

static void pack_panel(float *dst, const float *src, int64_t src_step, int64_t n_k)
{
    for (int64_t k = 0; k < n_k; k++, src += src_step, dst += WIDTH) {
        _mm256_storeu_ps(dst, _mm256_loadu_ps(src));
        _mm256_storeu_ps(dst + LANES, _mm256_loadu_ps(src + LANES));
    }
}

static void pack_rows(float *dst, const void *from, int64_t src_step, int64_t n_k, int rows)
{
    const float *src = from;

    for (int64_t k = 0; k < n_k; k++, src += src_step, dst += rows)
        for (int r = 0; r < rows; r++)
            dst[r] = src[r];
}

const gr_tile_isa gr_matmul_tile_avx2 = {
    .width = WIDTH,
    .rows = ROWS,
    .word = 1,
    .tile = tile,
    .transpose = transpose,
    .pack_panel = pack_panel,
    .pack_rows = pack_rows,
    .widen = widen,
    .narrow = narrow,
};
