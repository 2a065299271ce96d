/*
 * The engine of the vector kernels: sides are rows of floats, products are tiles of matmul's
 * (matmul_avx512.c, matmul_avx2.c). attention_avx512_bf16.c has sides of its own.
 *
 *     left   [line][k]          a tile reads one number of each of its lines at a time
 *     right  [k][32 columns]    a tile reads vectors
 */
#include "op/attention/cpu/attention_flash.h"
#include "op/count.h"

#include <string.h>

/* The rows as floats: where they lie, if they are, else in tmp. */
static const float *as_floats(const gr_flash *f, const gr_flash_rows *m, float *tmp, int64_t *step)
{
    if (m->type == GR_F32) {
        *step = m->step;
        return m->src;
    }
    gr_flash_widen(f, tmp, m, m->n);
    *step = f->d_pad;
    return tmp;
}

/* dst[column][row]. */
static void turn(const gr_flash *f, float *dst, int64_t dst_step, const gr_flash_rows *m,
                 float *tmp)
{
    int64_t step;
    const float *src = as_floats(f, m, tmp, &step);

    for (int64_t r = 0; r < m->n; r += 16)
        for (int64_t c = 0; c < f->d.d; c += 16)
            f->e->tile->transpose(src + r * step + c, step, dst + c * dst_step + r, dst_step,
                                  (int)gr_min64(m->n - r, 16), (int)gr_min64(f->d.d - c, 16));
}

void gr_flash_left_rows(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp)
{
    float *to = dst;
    const char *src = m->src;
    const size_t row_bytes = (size_t)m->step * gr_dtype_bytes(m->type);

    (void)tmp;
    for (int64_t r = 0; r < m->n; r++, src += row_bytes, to += f->z.left_rows_step)
        if (m->type == GR_F32)
            memcpy(to, src, (size_t)f->d.d * sizeof(float));
        else
            f->e->tile->widen(to, src, m->type, f->d.d);
}

void gr_flash_left_cols(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp)
{
    turn(f, dst, f->z.left_cols_step, m, tmp);
}

void gr_flash_right_rows(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp)
{
    if (m->n < GR_FLASH_COLS)
        memset(dst, 0, f->z.right_rows);
    turn(f, dst, GR_FLASH_COLS, m, tmp);
}

void gr_flash_right_cols(const gr_flash *f, void *dst, const gr_flash_rows *m)
{
    gr_flash_widen(f, dst, m, m->n);
}

void gr_flash_multiply(const gr_flash *f, const gr_flash_product *p)
{
    const gr_tile_isa *isa = f->e->tile;
    const int64_t n_tiles = (p->lines + isa->rows - 1) / isa->rows;
    gr_tile t = { .v_step = p->right_step,
                  .s_stride = p->left_step,
                  .out_stride = GR_FLASH_COLS,
                  .k = gr_div_up(p->k, isa->word),
                  .cols = isa->width,
                  .add = p->add };

    for (int64_t i = 0; i < n_tiles; i++) { /* of equal height, or one more */
        const int64_t first = p->lines * i / n_tiles, end = p->lines * (i + 1) / n_tiles;

        t.rows = (int)(end - first);
        t.s = (const char *)p->left + first * p->left_step * (4 / isa->word);
        for (int64_t c = 0; c < GR_FLASH_COLS; c += isa->width) {
            t.v = (const float *)p->right + c;
            t.out = p->c + first * GR_FLASH_COLS + c;
            isa->tile(&t);
        }
    }
}

void gr_flash_nothing(void)
{
}
