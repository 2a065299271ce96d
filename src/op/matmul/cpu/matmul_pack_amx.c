/*
 * From matrices to tiles, and from blocks of sums to the result.
 *
 *     left tile                        right tile
 *     line 0:  k0|k16 k1|k17 ..        k0|k16:  line 0, line 1, ..
 *     line 1:  k0|k16 k1|k17 ..        k1|k17:  line 0, line 1, ..
 *
 * A side whose rows in memory run the way of its tiles' rows (gr_amx_is_plain) is taken
 * row by row: each tile row is made of two pieces of memory, 16 k apart. The other way
 * round, blocks of 16 x 16 are transposed first: as f32 before they are split, as words
 * of two numbers in bf16.
 */
#include "op/matmul/cpu/matmul_amx.h"
#include "op/matmul/cpu/matmul_kernels.h"
#include "op/matmul/cpu/matmul_row_body.h"

#include <string.h>

/* What there is of a tile: rows of memory and columns in them, for k and for k + 16. */
typedef struct extent {
    int rows[2], cols[2];
    bool full;
} extent;

typedef struct tile_source {
    const void *src;
    int64_t row_step, pair; /* elements to the next row of memory, to k + 16 */
    int64_t part;           /* bytes between the tiles of a number's parts */
    bool scaled;
    extent e;
} tile_source;

static int clamp_16(int64_t n)
{
    return n < 0 ? 0 : n > 16 ? 16 : (int)n;
}

static void transpose(const void *src, int64_t src_step, void *dst, int rows, int cols)
{
    if (rows < 16 || cols < 16)
        memset(dst, 0, GR_AMX_TILE);
    if (rows > 0 && cols > 0)
        gr_matmul_tile_avx512.transpose(src, src_step, dst, 16, rows, cols);
}

/* ---- f32 ---- */

static void split_rows(char *dst, const tile_source *t)
{
    const float *src = t->src;

    for (int64_t r = 0; r < 16; r++)
        row_put_f32(dst + 64 * r, t->part, src + r * t->row_step, t->pair);
}

INLINE __m512 edge_f32(const float *row, int64_t r, int rows, int cols)
{
    return r < rows ? _mm512_maskz_loadu_ps(row_mask(cols), row) : _mm512_setzero_ps();
}

static void split_rows_edge(char *dst, const tile_source *t)
{
    const float *src = t->src;

    for (int64_t r = 0; r < 16; r++, src += t->row_step)
        row_split(dst + 64 * r, t->part, edge_f32(src, r, t->e.rows[0], t->e.cols[0]),
                  edge_f32(src + t->pair, r, t->e.rows[1], t->e.cols[1]));
}

static void split_turned(char *dst, const tile_source *t)
{
    _Alignas(64) float x[2][16][16];
    const float *src = t->src;

    for (int h = 0; h < 2; h++)
        transpose(src + h * t->pair, t->row_step, x[h], t->e.rows[h], t->e.cols[h]);
    for (int64_t r = 0; r < 16; r++)
        row_split(dst + 64 * r, t->part, _mm512_load_ps(x[0][r]), _mm512_load_ps(x[1][r]));
}

static void pack_tile_f32(char *dst, const tile_source *t, bool plain)
{
    if (!plain)
        split_turned(dst, t);
    else if (t->e.full)
        split_rows(dst, t);
    else
        split_rows_edge(dst, t);
}

/* ---- bf16 ---- */

INLINE __m256i edge_bf16(const uint16_t *row, int64_t r, int rows, int cols)
{
    return r < rows ? _mm256_maskz_loadu_epi16(row_mask(cols), row) : _mm256_setzero_si256();
}

static __m512i pair_rows(char *dst, const tile_source *t, __m512i low)
{
    const uint16_t *src = t->src;

    for (int64_t r = 0; r < 16; r++, src += t->row_step) {
        const __m512i x = row_join_bf16(edge_bf16(src, r, t->e.rows[0], t->e.cols[0]),
                                        edge_bf16(src + t->pair, r, t->e.rows[1], t->e.cols[1]));

        low = t->scaled ? row_watch_scaled(x, low) : row_watch_bf16(x, low);
        _mm512_store_si512(dst + 64 * r, t->scaled ? row_scaled_bf16(x) : x);
    }
    return low;
}

static __m512i pack_tile_bf16(char *dst, const tile_source *t, bool plain, __m512i low)
{
    _Alignas(64) char x[GR_AMX_TILE];
    const uint16_t *src = t->src;

    if (plain && t->e.full && !t->scaled) {
        for (int64_t r = 0; r < 16; r++)
            low = row_put_bf16(dst + 64 * r, src + r * t->row_step, t->pair, low);
        return low;
    }
    low = pair_rows(plain ? dst : x, t, low);
    if (!plain)
        transpose(x, 16, dst, 16, 16);
    return low;
}

/* ---- panels ---- */

static extent extent_of(const gr_amx_side *s, int n_lines, int64_t n_k)
{
    const int lines = clamp_16(n_lines), k0 = clamp_16(n_k), k1 = clamp_16(n_k - 16);
    const bool full = lines == 16 && k1 == 16;

    if (s->step_k == 1) /* rows of memory are lines */
        return (extent){ { lines, k1 > 0 ? lines : 0 }, { k0, k1 }, full };
    return (extent){ { k0, k1 }, { lines, lines }, full };
}

bool gr_amx_pack(char *dst, const gr_amx_side *s, int n_lines, int64_t k_from, int64_t n_k)
{
    const int n_tiles = gr_amx_tiles(n_lines);
    const int64_t step = gr_amx_step_bytes(s->is_f32, n_tiles);
    const size_t elem = s->is_f32 ? sizeof(float) : sizeof(uint16_t);
    const bool plain = gr_amx_is_plain(s);
    __m512i low = _mm512_set1_epi32(-1);
    tile_source t = { .row_step = s->step_k == 1 ? s->step_line : s->step_k,
                      .pair = 16 * s->step_k,
                      .part = n_tiles * GR_AMX_TILE,
                      .scaled = s->scaled };

    for (int64_t k = k_from; k < n_k; k += GR_AMX_K)
        for (int i = 0; i < n_tiles; i++) {
            char *to = dst + k / GR_AMX_K * step + i * GR_AMX_TILE;

            t.src = (const char *)s->src + (size_t)(16 * s->step_line * i + k * s->step_k) * elem;
            t.e = extent_of(s, n_lines - 16 * i, n_k - k);
            if (s->is_f32)
                pack_tile_f32(to, &t, plain);
            else
                low = pack_tile_bf16(to, &t, plain, low);
        }
    return s->scaled ? !row_is_unfit_scaled(low) : !row_is_unfit_bf16(low);
}

/* ---- results ---- */

bool gr_amx_write(const gr_amx_out *o)
{
    __m512 sum = _mm512_setzero_ps();

    for (int col = 0; col < o->cols; col += 16) {
        const __mmask16 mask = row_mask(clamp_16(o->cols - col));

        for (int r = 0; r < o->rows; r++) {
            const int64_t at = r * o->ld + col;
            __m512 x = _mm512_mul_ps(_mm512_load_ps(o->c + r * GR_AMX_LINES + col),
                                     _mm512_set1_ps(o->scale));

            if (o->add)
                x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, o->add + at));
            sum = row_watch(_mm512_maskz_mov_ps(mask, x), sum);
            if (o->y_f32)
                _mm512_mask_storeu_ps(o->y_f32 + at, mask, x);
            else
                _mm256_mask_storeu_epi16(o->y_bf16 + at, mask, row_bf16_of(x));
        }
    }
    return !row_is_unfit_f32(sum);
}
