/*
 * Convolution on lines with plain vectors: packed lines and panels are f32 whatever the
 * types, and sums are made by the tiles of matmul. conv_avx512.c and conv_avx2.c include it
 * after their vectors and define TILE.
 *
 *     lines   [plane][line][run]
 *     panel   [tap][run][width], columns that are missing are 0
 */
#include "op/conv/conv_sweep.h"
#include "op/matmul/matmul_kernels.h"

#include <string.h>

static int64_t line_bytes(bool low, int64_t run)
{
    (void)low;
    return run * (int64_t)sizeof(float);
}

static int64_t panel_bytes(bool low, int64_t run, int64_t n_taps)
{
    (void)low;
    return n_taps * run * TILE.width * (int64_t)sizeof(float);
}

static int64_t line_at(bool low, int64_t run, int64_t n, int64_t plane, int64_t line)
{
    (void)low;
    return (plane * n + line) * run * (int64_t)sizeof(float);
}

/* ---- packing ---- */

INLINE void copy_line(float *dst, const void *src, gr_dtype t, int64_t n)
{
    if (t == GR_F32)
        memcpy(dst, src, (size_t)n * sizeof(float));
    else
        TILE.widen(dst, src, t, n);
}

static void pack_stretch(const gr_conv_pack *p, const gr_conv_stretch *s, float *dst)
{
    const int64_t from = s->from > p->run_lo ? s->from - p->run_lo : 0;
    const int64_t to = s->to < p->run_lo + p->run ? s->to - p->run_lo : p->run;
    const int64_t elem = (int64_t)gr_dtype_bytes(p->type);
    const char *src = (const char *)p->src + (s->at + p->channel + p->run_lo + from) * elem;

    if (from >= to) {
        memset(dst, 0, (size_t)(s->n * p->run) * sizeof(float));
        return;
    }
    if (to - from == p->run && s->step == p->run) { /* neighbours in memory */
        copy_line(dst, src, p->type, s->n * p->run);
        return;
    }
    for (int64_t i = 0; i < s->n; i++, dst += p->run) {
        if (to - from < p->run)
            memset(dst, 0, (size_t)p->run * sizeof(float));
        copy_line(dst + from, src + i * s->step * elem, p->type, to - from);
    }
}

static bool pack(const gr_conv_pack *p)
{
    float *dst = (float *)p->dst;

    for (int plane = 0; plane < p->grid->n_planes; plane++)
        for (int64_t line = p->first; line < p->first + p->n;) {
            const gr_conv_stretch s = gr_conv_stretch_at(p->grid, plane, line, p->first + p->n);

            pack_stretch(p, &s, dst);
            line += s.n;
            dst += s.n * p->run;
        }
    return true;
}

/* The weights are read in the order of memory, along all columns at once. */
static bool pack_panel(const gr_conv_panel *p)
{
    const int64_t width = TILE.width, step = p->grids->col_at;
    const float *w = p->w + p->col * step;

    for (int64_t k = 0; k < p->run; k++)
        for (int t = 0; t < p->grid->n_taps; t++) {
            const float *src = w + p->grids->run_at[p->run_lo + k] + p->grid->taps[t].at;
            float *dst = (float *)p->dst + (t * p->run + k) * width;

            for (int c = 0; c < p->n_cols; c++)
                dst[c] = src[c * step];
            for (int c = p->n_cols; c < width; c++)
                dst[c] = 0;
        }
    return true;
}

/* ---- sums ---- */

static void nothing(void)
{
}

static void block(const gr_conv_block *b)
{
    gr_tile t = { .out = b->sums, .v_step = TILE.width, .out_stride = GR_CONV_COLS };

    t.s_stride = t.k = b->run;
    t.rows = b->n_lines;
    t.cols = TILE.width;
    if (b->n_listed == 0)
        memset(b->sums, 0, (size_t)b->n_lines * GR_CONV_COLS * sizeof(float));
    for (int i = 0; i < b->n_listed; i++) {
        t.s = (const float *)(b->src + b->tap_at[b->list[i]]);
        t.v = (const float *)b->panel + b->list[i] * b->run * TILE.width;
        t.add = i > 0;
        TILE.tile(&t);
    }
}

static bool write_lines(const gr_conv_write *w)
{
    const int64_t elem = (int64_t)gr_dtype_bytes(w->type);

    for (int i = 0; i < w->n_lines; i++)
        for (int64_t c = 0; c < w->n_cols && w->at[i] >= 0; c += LANES) {
            const mask m = w->n_cols - c < LANES ? mask_of(w->n_cols - c) : MASK_ALL;
            char *y = (char *)w->y + (w->at[i] + c) * elem;
            float *wait = w->kept ? w->kept + i * w->cols_kept + c : (float *)y;
            vec x = vec_load(w->sums + i * GR_CONV_COLS + c);

            if (w->add)
                x = vec_add(x, vec_load_masked(wait, m));
            if (w->last)
                vec_narrow_masked(y, w->type, m, x);
            else
                vec_store_masked(wait, m, x);
        }
    return true;
}

static void widen(float *dst, const void *src, gr_dtype t, int64_t n)
{
    TILE.widen(dst, src, t, n);
}
