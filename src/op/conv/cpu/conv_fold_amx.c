/*
 * conv_weight with AMX. Lines are what is summed over, so a step is 32 lines.
 *
 *     y   left tiles: [step][part][tile], transposed from dense lines
 *     x   [tile of 16 channels][line][part], 64 bytes each: a row of a right tile, which
 *         holds line l and line l + 16. Every line begins such a row, so a tap may begin
 *         anywhere, and nothing is copied per tap.
 */
#include "op/conv/cpu/conv_amx.h"
#include "op/conv/cpu/conv_fold.h"
#include "op/matmul/cpu/matmul_amx.h"
#include "op/matmul/cpu/matmul_kernels.h"
#include "op/matmul/cpu/matmul_row_body.h"

#define TILES_X (GR_FOLD_RUN / 16)

static int64_t row_bytes(bool low)
{
    return low ? 64 : 3 * 64;
}

static int64_t y_bytes(bool low, int64_t n_lines)
{
    return n_lines / GR_AMX_K * gr_amx_step_bytes(!low, 2);
}

static int64_t x_bytes(bool low, int64_t n_lines)
{
    return TILES_X * n_lines * row_bytes(low);
}

static int64_t x_at(bool low, int64_t line)
{
    return line * row_bytes(low);
}

static int64_t clamp(int64_t n, int64_t most)
{
    return n < 0 ? 0 : n > most ? most : n;
}

/* The lanes of a vector of `n`, beginning with element e, that lie in [from, to). */
static uint64_t lanes(int64_t e, int64_t n, const gr_fold_copy *c)
{
    return (((uint64_t)1 << clamp(c->to - e, n)) - 1) &
           ~(((uint64_t)1 << clamp(c->from - e, n)) - 1);
}

/* Dense lines are a multiple of 32 long: whole vectors are written. */
static void copy(const gr_fold_copy *c)
{
    const float *f32 = (const float *)c->src;
    const uint16_t *bf16 = (const uint16_t *)c->src;

    for (int64_t e = 0; e < c->step; e += 32) {
        const __mmask16 m0 = (__mmask16)lanes(e, 16, c), m1 = (__mmask16)lanes(e + 16, 16, c);
        const __mmask32 m = (__mmask32)lanes(e, 32, c);

        for (int64_t i = 0; i < c->n; i++) {
            const int64_t from = i * c->src_step + e, to = i * c->step + e;

            if (c->type == GR_F32) {
                _mm512_storeu_ps((float *)c->dst + to, _mm512_maskz_loadu_ps(m0, f32 + from));
                _mm512_storeu_ps((float *)c->dst + to + 16,
                                 _mm512_maskz_loadu_ps(m1, f32 + from + 16));
            } else {
                _mm512_storeu_si512((uint16_t *)c->dst + to,
                                    _mm512_maskz_loadu_epi16(m, bf16 + from));
            }
        }
    }
}

static bool pack_y(const gr_fold_pack *p)
{
    const gr_amx_side side = { p->src, 1, p->step, true, !p->low, false };

    return gr_amx_pack(p->dst, &side, p->n_channels, p->lo, p->hi);
}

static bool pack_x(const gr_fold_pack *p)
{
    const int64_t row = row_bytes(p->low), pair = 16 * p->step;
    __m512i low = _mm512_set1_epi32(-1);

    for (int64_t line = p->lo; line < p->hi; line++)
        for (int64_t i = 0; i < TILES_X; i++) {
            char *dst = p->dst + (i * p->n_lines + line) * row;
            const int64_t at = line * p->step + 16 * i;

            if (p->low)
                low = row_put_bf16(dst, (const uint16_t *)p->src + at, pair, low);
            else
                row_put_f32(dst, 64, (const float *)p->src + at, pair);
        }
    return !row_is_unfit_bf16(low);
}

static void add_sums(const gr_fold_block *b)
{
    for (int64_t r = 0; r < b->rows; r++)
        for (int c = 0; c < b->cols; c += 16) {
            float *out = b->out + r * b->out_step + c;
            __m512 x = _mm512_load_ps(b->sums + 32 * r + c);

            if (b->add)
                x = _mm512_add_ps(x, _mm512_loadu_ps(out));
            _mm512_storeu_ps(out, x);
        }
}

static void block(const gr_fold_block *b)
{
    const int tiles = gr_amx_tiles(b->rows);
    gr_conv_tiles t = { .l = b->y, .r = b->x, .n_outer = 1, .sums = b->sums };

    t.list = b->list;
    t.n_inner = b->n_listed;
    t.l_inner = gr_amx_step_bytes(!b->low, tiles);
    t.l_side = (gr_conv_side){ 64, tiles * GR_AMX_TILE, GR_AMX_TILE, tiles };
    t.r_inner = GR_AMX_K * row_bytes(b->low);
    t.r_side = (gr_conv_side){ row_bytes(b->low), 64, b->x_lines * row_bytes(b->low),
                               gr_amx_tiles(b->cols) };
    gr_conv_tiles_run(&t, b->low);
    add_sums(b);
}

static void transpose(const float *src, int64_t src_stride, float *dst, int64_t dst_stride,
                      int rows, int cols)
{
    gr_matmul_tile_avx512.transpose(src, src_stride, dst, dst_stride, rows, cols);
}

static bool scale_row(float *row, int64_t n)
{
    __m512 sum = _mm512_setzero_ps();

    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 m = n - i < 16 ? row_mask((int)(n - i)) : (__mmask16)-1;
        const __m512 x =
            _mm512_mul_ps(_mm512_maskz_loadu_ps(m, row + i), _mm512_set1_ps(ROW_SCALE_OUT));

        sum = row_watch(x, sum);
        _mm512_mask_storeu_ps(row + i, m, x);
    }
    return !row_is_unfit_f32(sum);
}

static void widen(float *dst, const void *src, gr_dtype t, int64_t n)
{
    gr_matmul_tile_avx512.widen(dst, src, t, n);
}

static void narrow(void *dst, const float *src, gr_dtype t, int64_t n)
{
    gr_matmul_tile_avx512.narrow(dst, src, t, n);
}

const gr_fold_isa gr_fold_isa_amx = {
    .rows = 32,
    .line_unit = 32,
    .y_by_steps = true,
    .ahead = 16,
    .y_bytes = y_bytes,
    .x_bytes = x_bytes,
    .x_at = x_at,
    .copy = copy,
    .pack_y = pack_y,
    .pack_x = pack_x,
    .begin = gr_amx_begin,
    .end = gr_amx_end,
    .block = block,
    .transpose = transpose,
    .scale_row = scale_row,
    .widen = widen,
    .narrow = narrow,
};
