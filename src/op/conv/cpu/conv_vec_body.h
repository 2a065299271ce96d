/*
 * Convolution on lines with plain vectors: packed lines and panels are f32 whatever the
 * types, and sums are made by the tiles of matmul. conv_avx512.c and conv_avx2.c include it
 * after their vectors and define TILE.
 *
 *     lines   [plane][line][run]
 *     panel   [tap][run][width], columns that are missing are 0
 */
#include "op/conv/cpu/conv_sweep.h"
#include "op/matmul/cpu/matmul_kernels.h"

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

#define AHEAD  64 /* floats, of each column's weights */
#define TURNED 16 /* rows and columns that are transposed at once, at most */

/* A merged line's channels lie within each other's kernels. */
static bool turning_pays(const gr_conv_panel *p)
{
    const int64_t n = p->grids->kernel;

    return n >= 4 && n <= TURNED && !p->grid->merged && p->n_cols % TURNED == 0;
}

/* Columns of channel k, whose taps are neighbours in memory: w[column][tap] to
 * [tap][column], and from there to where each tap has its own. */
INLINE void turn_columns(const gr_conv_panel *p, int64_t k, int col)
{
    const int64_t step = p->grids->col_at;
    const float *src =
        (const float *)p->w + (p->col + col) * step + p->grids->run_at[p->run_lo + k];
    float *dst = (float *)p->dst + k * TILE.width + col, turned[TURNED * TURNED];

    for (int c = 0; c < TURNED; c++) /* more streams than a core foresees by itself */
        __builtin_prefetch(src + c * step + AHEAD);
    TILE.transpose(src, step, turned, TURNED, TURNED, (int)p->grids->kernel);
    for (int t = 0; t < p->grid->n_taps; t++)
        memcpy(dst + t * p->run * TILE.width, turned + p->grid->taps[t].at * TURNED,
               TURNED * sizeof(float));
}

static void pick_columns(const gr_conv_panel *p, int64_t k)
{
    const int64_t step = p->grids->col_at;
    const float *w = (const float *)p->w + p->col * step + p->grids->run_at[p->run_lo + k];

    for (int t = 0; t < p->grid->n_taps; t++) {
        float *dst = (float *)p->dst + (t * p->run + k) * TILE.width;

        for (int c = 0; c < p->n_cols; c++)
            dst[c] = w[p->grid->taps[t].at + c * step];
    }
}

/* The weights are read in the order of memory, along all columns at once. */
static bool pack_panel(const gr_conv_panel *p)
{
    const bool turn = turning_pays(p);

    if (p->n_cols < TILE.width)
        memset(p->dst, 0, (size_t)panel_bytes(p->low, p->run, p->grid->n_taps));
    for (int64_t k = 0; k < p->run && !turn; k++)
        pick_columns(p, k);
    for (int c = 0; c < p->n_cols && turn; c += TURNED)
        for (int64_t k = 0; k < p->run; k++)
            turn_columns(p, k, c);
    return true;
}

/* ---- sums ---- */

static void nothing(void)
{
}

#define PARTS 16 /* taps whose sums stay in registers, at most */

/* Listed taps from the i-th on that are summed in one go, which is one chain
 * (matmul_chain_body.h). Which taps go together is a matter of their places, not of which are
 * listed: so the zeros that are left out change no bit. */
static int next_taps(const gr_conv_block *b, int i, gr_tile_part *parts)
{
    const int64_t fit = b->run < GR_TILE_CHAIN ? GR_TILE_CHAIN / b->run : 1;
    const int64_t together = fit < PARTS ? fit : PARTS;
    const int64_t chain = b->list[i] / together;
    int n = 0;

    for (; i + n < b->n_listed && b->list[i + n] / together == chain; n++) {
        const int64_t tap = b->list[i + n];

        parts[n] = (gr_tile_part){ .v_at = tap * b->run * TILE.width, .k = b->run };
        parts[n].s_at = b->tap_at[tap] / (int64_t)sizeof(float);
    }
    return n;
}

static void block(const gr_conv_block *b)
{
    gr_tile_part parts[PARTS];
    gr_tile t = { .out = b->sums, .v_step = TILE.width, .out_stride = GR_CONV_COLS };

    t.s = (const float *)b->src;
    t.v = (const float *)b->panel;
    t.s_stride = b->run;
    t.rows = b->n_lines;
    t.cols = TILE.width;
    t.parts = parts;
    if (b->n_listed == 0)
        memset(b->sums, 0, (size_t)b->n_lines * GR_CONV_COLS * sizeof(float));
    for (int i = 0; i < b->n_listed; i += t.n_parts) {
        t.n_parts = next_taps(b, i, parts);
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
