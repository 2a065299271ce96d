/*
 * conv_weight with plain vectors: x is read where its dense lines lie, y is packed so that
 * a tile's rows are neighbours. conv_fold_avx512.c and conv_fold_avx2.c include it after
 * they have defined TILE.
 */
#include "op/conv/cpu/conv_stretch_body.h"

#include <string.h>

/* pack_rows() may write up to a vector past the end. */
static int64_t y_bytes(bool low, int64_t n_lines)
{
    (void)low;
    return (n_lines * TILE.rows + 16) * (int64_t)sizeof(float);
}

static void copy(const gr_fold_copy *c)
{
    const int64_t elem = (int64_t)gr_dtype_bytes(c->type), n = c->to - c->from;
    float *dst = (float *)c->dst;

    if (n < c->step)
        memset(dst, 0, (size_t)(c->n * c->step) * sizeof(float));
    for (int64_t i = 0; i < c->n && n > 0; i++) {
        const char *src = c->src + (i * c->src_step + c->from) * elem;

        if (c->type == GR_F32)
            memcpy(dst + i * c->step + c->from, src, (size_t)n * sizeof(float));
        else
            TILE.widen(dst + i * c->step + c->from, src, c->type, n);
    }
}

static bool pack_y(const gr_fold_pack *p)
{
    TILE.pack_rows((float *)p->dst, (const float *)p->src, p->step, p->n_lines, p->n_channels);
    return true;
}

static void nothing(void)
{
}

static void block(const gr_fold_block *b)
{
    gr_tile_part parts[GR_FOLD_PARTS];
    gr_tile t = { .v_step = b->x_step, .out_stride = b->out_step, .rows = b->rows };
    int i = 0;

    t.s = (const float *)b->y;
    t.s_packed = true;
    t.add = b->add;
    t.parts = parts;
    do {
        t.n_parts = gr_fold_stretches(b, &i, b->x_step, 1, parts);
        for (int col = 0; col < b->cols; col += TILE.width) {
            t.v = (const float *)b->x + col;
            t.out = b->out + col;
            t.cols = b->cols - col < TILE.width ? b->cols - col : TILE.width;
            TILE.tile(&t);
        }
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
