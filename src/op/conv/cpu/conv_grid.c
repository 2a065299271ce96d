/* From convolutions to grids of lines; conv_grid.h has the drawing. */
#include "op/conv/cpu/conv_grid.h"

#include "base/alloc.h"
#include "op/count.h"

#include <string.h>

static int64_t floor_div(int64_t a, int64_t by)
{
    int64_t q = a / by;

    return q * by > a ? q - 1 : q;
}

/* Taps of one axis: which they are, and the source pixel that each has at result 0. */
typedef struct axis {
    int n;
    int64_t *k, *off;
    int64_t step, size, src; /* of the grid, of the source */
    int64_t shift_lo, shift_hi, used, pitch;
} axis;

static bool ever_hits(const axis *a, int64_t off)
{
    int64_t first = off >= 0 ? 0 : (-off + a->step - 1) / a->step;

    return first < a->size && first * a->step + off < a->src;
}

static void keep_tap(axis *a, int64_t k, int64_t off)
{
    if (!ever_hits(a, off))
        return;
    a->k[a->n] = k;
    a->off[a->n++] = off;
}

static gr_status axis_init(axis *a, const gr_conv_dims *d, int i, bool is_data, int64_t phase)
{
    a->k = gr_calloc((size_t)d->k[i], 2 * sizeof(int64_t));
    if (!a->k)
        return GR_ERR_NOMEM;
    a->off = a->k + d->k[i];
    a->step = is_data ? 1 : d->stride[i];
    a->src = is_data ? d->out[i] : d->in[i];
    a->size =
        is_data ? gr_max64((d->in[i] - phase + d->stride[i] - 1) / d->stride[i], 0) : d->out[i];
    for (int64_t k = 0; k < d->k[i]; k++) {
        int64_t off = k * d->dilation[i] - d->pad[i];

        if (!is_data)
            keep_tap(a, k, off);
        else if ((phase - off) % d->stride[i] == 0)
            keep_tap(a, k, (phase - off) / d->stride[i]);
    }
    return GR_OK;
}

static int64_t plane_size(const axis *a, int64_t first)
{
    return gr_max64((a->src - first + a->step - 1) / a->step, 0);
}

/* Room between rows (images): what one row reads to the left of its first pixel is zeros
 * behind the row before, and nothing is read beyond the zeros behind a row. */
static void axis_lay_out(axis *a)
{
    int64_t most = 0;

    for (int i = 0; i < a->n; i++) {
        int64_t shift = floor_div(a->off[i], a->step);

        a->shift_lo = i == 0 ? shift : gr_min64(a->shift_lo, shift);
        a->shift_hi = i == 0 ? shift : gr_max64(a->shift_hi, shift);
        most = gr_max64(most, plane_size(a, a->off[i] - shift * a->step));
    }
    a->used = gr_max64(gr_min64(most, a->size + a->shift_hi), 0);
    a->pitch = gr_max64(gr_max64(a->size + a->shift_hi, a->used - a->shift_lo),
                        gr_max64(a->size, a->used));
}

/* ---- grids ---- */

static int plane_of(gr_conv_grid *g, const axis *y, const axis *x, int64_t row, int64_t col)
{
    for (int i = 0; i < g->n_planes; i++)
        if (g->planes[i].row == row && g->planes[i].col == col)
            return i;
    g->planes[g->n_planes] = (gr_conv_plane){ row, col, 0, 0 };
    g->planes[g->n_planes].rows = gr_min64(plane_size(y, row), y->used);
    g->planes[g->n_planes].cols = g->merged ? g->size[1] : gr_min64(plane_size(x, col), x->used);
    return g->n_planes++;
}

static void add_taps(gr_conv_grid *g, const gr_conv_dims *d, const axis *y, const axis *x)
{
    for (int i = 0; i < y->n; i++)
        for (int j = 0; j < (g->merged ? 1 : x->n); j++) {
            int64_t sy = floor_div(y->off[i], y->step);
            int64_t sx = g->merged ? 0 : floor_div(x->off[j], x->step);
            gr_conv_tap *t = &g->taps[g->n_taps++];

            t->shift = (sy * g->pitch[1] + sx) * g->inner;
            t->at = y->k[i] * d->k[1] + (g->merged ? 0 : x->k[j]);
            t->plane = plane_of(g, y, x, y->off[i] - sy * y->step,
                                g->merged ? 0 : x->off[j] - sx * x->step);
            g->lo = gr_min64(g->lo, t->shift);
            g->hi = gr_max64(g->hi, t->shift);
        }
}

/* As many as fill a tile, where rows are so short that zeros between them would cost. */
static int64_t choose_inner(int64_t n_images, int64_t cols)
{
    for (int64_t inner = 16; inner >= 4; inner /= 2)
        if (n_images % inner == 0 && cols <= inner)
            return inner;
    return 1;
}

static void set_sizes(gr_conv_grid *g, const gr_conv_dims *d, bool is_data)
{
    const int64_t *src = is_data ? d->out : d->in, *res = is_data ? d->in : d->out;

    g->n_images = d->n;
    g->src_h = src[0];
    g->src_w = src[1];
    g->src_c = is_data ? d->co : d->ci;
    g->res_h = res[0];
    g->res_w = res[1];
    g->res_c = is_data ? d->ci : d->co;
    for (int i = 0; i < 2; i++)
        g->res_step[i] = is_data ? d->stride[i] : 1;
}

static gr_status grid_init(gr_conv_grid *g, const gr_conv_dims *d, bool is_data,
                           const int64_t phase[2], bool merged)
{
    axis a[2] = { 0 };
    gr_status st = axis_init(&a[0], d, 0, is_data, phase[0]);

    if (st == GR_OK)
        st = axis_init(&a[1], d, 1, is_data, phase[1]);
    set_sizes(g, d, is_data);
    g->merged = merged;
    g->left = d->pad[1];
    for (int i = 0; st == GR_OK && i < 2; i++) {
        g->res_at[i] = phase[i];
        g->step[i] = a[i].step;
        g->size[i] = a[i].size;
        axis_lay_out(&a[i]);
        g->pitch[i] = i == 1 && merged ? a[i].size : a[i].pitch;
    }
    g->inner = merged ? 1 : choose_inner(d->n, g->size[1]);
    if (st == GR_OK && g->size[0] * g->size[1] * d->n > 0) {
        int64_t groups = d->n / g->inner, last = (groups - 1) * g->pitch[0] + g->size[0] - 1;

        g->planes = gr_calloc((size_t)(a[0].n * a[1].n) + 1, sizeof(*g->planes));
        g->taps = gr_calloc((size_t)(a[0].n * a[1].n) + 1, sizeof(*g->taps));
        st = g->planes && g->taps ? GR_OK : GR_ERR_NOMEM;
        g->n_lines = (last * g->pitch[1] + g->size[1]) * g->inner;
    }
    if (st == GR_OK && g->taps && a[1].n > 0)
        add_taps(g, d, &a[0], &a[1]);
    gr_free(a[0].k);
    gr_free(a[1].k);
    return st;
}

/* ---- all grids ---- */

static bool merging_pays(const gr_conv_dims *d, bool is_data, int64_t unit)
{
    int64_t steps = (d->ci + unit - 1) / unit, merged = (d->ci * d->k[1] + unit - 1) / unit;

    return !is_data && d->groups == 1 && d->dilation[1] == 1 && merged < steps * d->k[1];
}

/* Elements of the weight [co, ci / groups, kh, kw] seen from lines and columns. */
static gr_status set_weights(gr_conv_grids *o, const gr_conv_dims *d, bool is_data, bool merged)
{
    int64_t taps = d->k[0] * d->k[1], ci = d->ci / d->groups, co = d->co / d->groups;

    o->run = is_data ? co : merged ? ci * d->k[1] : ci;
    o->kernel = taps;
    o->cols = is_data ? ci : co;
    o->col_at = is_data ? taps : ci * taps;
    o->group_at = co * ci * taps;
    o->run_at = gr_calloc((size_t)o->run + 1, sizeof(*o->run_at));
    if (!o->run_at)
        return GR_ERR_NOMEM;
    for (int64_t i = 0; i < o->run; i++)
        o->run_at[i] = is_data ? i * ci * taps : merged ? i % ci * taps + i / ci : i * taps;
    return GR_OK;
}

gr_status gr_conv_grids_init(gr_conv_grids *o, const gr_conv_dims *d, bool is_data, int64_t merge)
{
    int64_t phases[2] = { is_data ? d->stride[0] : 1, is_data ? d->stride[1] : 1 };
    bool merged = merge > 1 && merging_pays(d, is_data, merge);

    *o = (gr_conv_grids){ 0 };
    for (int i = 0; i < 2; i++)
        phases[i] = is_data ? gr_min64(phases[i], gr_max64(d->in[i], 1)) : 1;
    GR_TRY(set_weights(o, d, is_data, merged));
    o->grids = gr_calloc((size_t)(phases[0] * phases[1]), sizeof(*o->grids));
    if (!o->grids)
        return GR_ERR_NOMEM;
    for (int64_t y = 0; y < phases[0]; y++)
        for (int64_t x = 0; x < phases[1]; x++) {
            gr_conv_grid *g = &o->grids[o->n++];

            GR_TRY(grid_init(g, d, is_data, (int64_t[]){ y, x }, merged));
            g->run = o->run;
        }
    return GR_OK;
}

void gr_conv_grids_fini(gr_conv_grids *o)
{
    for (int i = 0; i < o->n; i++) {
        gr_free(o->grids[i].planes);
        gr_free(o->grids[i].taps);
    }
    gr_free(o->grids);
    gr_free(o->run_at);
    *o = (gr_conv_grids){ 0 };
}

/* ---- lines ---- */

static gr_conv_stretch merged_stretch(const gr_conv_grid *g, int64_t at_row, int64_t x, int64_t n)
{
    const int64_t width = g->src_w * g->src_c, step = g->step[1] * g->src_c;
    int64_t first = x * step - g->left * g->src_c; /* element within the row */
    gr_conv_stretch s = { .at = at_row + first, .step = step, .from = -first, .to = width - first };

    s.n = 1;
    if (s.from <= 0 && s.to >= g->run)
        s.n = gr_min64(n, (s.to - g->run) / step + 1);
    s.from = gr_min64(gr_max64(s.from, 0), g->run);
    s.to = gr_min64(gr_max64(s.to, s.from), g->run);
    return s;
}

/* Where a line lies. */
typedef struct place {
    int64_t image, y, x; /* image may be outside */
    int64_t in;          /* number among interleaved images, counted in `image` as well */
} place;

static place place_of(const gr_conv_grid *g, int64_t line)
{
    int64_t pixel = floor_div(line, g->inner), row = floor_div(pixel, g->pitch[1]);
    int64_t group = floor_div(row, g->pitch[0]);
    place p = { .in = line - pixel * g->inner, .y = row - group * g->pitch[0] };

    p.x = pixel - row * g->pitch[1];
    p.image = group * g->inner + p.in;
    return p;
}

gr_conv_stretch gr_conv_stretch_at(const gr_conv_grid *g, int plane, int64_t line, int64_t end)
{
    const gr_conv_plane *p = &g->planes[plane];
    const place at = place_of(g, line);
    const int64_t left = gr_min64((g->pitch[1] - at.x) * g->inner - at.in, end - line);
    int64_t at_row;

    if (at.image < 0 || at.image >= g->n_images || at.y >= p->rows || at.x >= p->cols)
        return (gr_conv_stretch){ .n = left };
    at_row = ((at.image * g->src_h + at.y * g->step[0] + p->row) * g->src_w) * g->src_c;
    if (g->merged)
        return merged_stretch(g, at_row, at.x, left);
    return (gr_conv_stretch){
        .n = gr_min64(left, g->inner > 1 ? g->inner - at.in : p->cols - at.x),
        .at = at_row + (at.x * g->step[1] + p->col) * g->src_c,
        .step = (g->inner > 1 ? g->src_h * g->src_w : g->step[1]) * g->src_c,
        .from = 0,
        .to = g->run,
    };
}

void gr_conv_mark_lines(const gr_conv_grid *g, int plane, int64_t line, int64_t n, uint8_t *mark)
{
    for (int64_t i = 0; i < n;) {
        const gr_conv_stretch s = gr_conv_stretch_at(g, plane, line + i, line + n);

        memset(mark + i, s.to > s.from, (size_t)s.n);
        i += s.n;
    }
}

void gr_conv_results_at(const gr_conv_grid *g, int64_t line, int64_t n, int64_t *at)
{
    place p = place_of(g, line);

    for (int64_t i = 0; i < n; i++) {
        int64_t y = p.y * g->res_step[0] + g->res_at[0], x = p.x * g->res_step[1] + g->res_at[1];

        at[i] = -1;
        if (p.x < g->size[1] && p.y < g->size[0] && p.image < g->n_images)
            at[i] = ((p.image * g->res_h + y) * g->res_w + x) * g->res_c;
        p.image++;
        if (++p.in < g->inner)
            continue;
        p.image -= g->inner;
        p.in = 0;
        if (++p.x < g->pitch[1])
            continue;
        p.x = 0;
        if (++p.y < g->pitch[0])
            continue;
        p.y = 0;
        p.image += g->inner;
    }
}
