/* conv_weight on lines: plan and loops. conv_fold.h says how. */
#include "op/conv/conv_fold.h"

#include "base/alloc.h"
#include "base/deal.h"
#include "base/size.h"

#include <stdatomic.h>
#include <string.h>

#define LEAST_CHUNK 768 /* lines: a panel of x and one of y stay in L2 */
#define MOST_CHUNK  4096
#define CHUNK_BYTES ((int64_t)1 << 20) /* of more lines, if all panels are no larger */
#define PIECES      8                  /* dealt to a thread at least, if there are as many blocks */
#define SUM_BYTES   ((size_t)32 * 32 * sizeof(float))

typedef struct fold {
    const gr_fold_isa *isa;
    gr_conv_dims d;
    gr_conv_grids g;
    const gr_conv_grid *grid; /* the only one */
    gr_dtype type_x, type_y, type_w;
    bool low;
    int64_t chunk, n_x; /* lines of y and of a plane of x in a chunk */
    int64_t n_chunks;
    int64_t pad;     /* lines between what threads make of dense x: a thread's own last ones */
    int64_t n_dense; /* of a plane, with them */
    int *lists;      /* owned; by chunk and tap: how many steps matter, then which */
    int64_t run, co; /* of a group; run padded to GR_FOLD_RUN */
    int64_t x_panels, y_panels;
    int64_t x_bytes, y_bytes; /* of a packed panel */
    size_t at_dense_x, at_dense_y, at_x, at_y, at_sums, at_places, at_slices, slice_bytes;
    size_t n_bytes;
    struct fold *other;
} fold;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t div_up(int64_t a, int64_t by)
{
    return (a + by - 1) / by;
}

/* ---- plan ---- */

/* Of a line, as blocks of sums read it, with all its channels. */
static int64_t line_bytes(const fold *f)
{
    const gr_fold_isa *isa = f->isa;
    int64_t unit = isa->line_unit;
    int64_t x = isa->ahead < 0 ? f->run * (int64_t)sizeof(float)
                               : f->x_panels * isa->x_bytes(f->low, unit) / unit;

    return f->grid->n_planes * x + f->y_panels * isa->y_bytes(f->low, unit) / unit;
}

static void choose_sizes(fold *f)
{
    const gr_conv_grid *g = f->grid;
    int64_t unit = f->isa->line_unit, most;

    f->run = div_up(f->g.run, GR_FOLD_RUN) * GR_FOLD_RUN;
    f->co = f->d.co / f->d.groups;
    f->x_panels = f->run / GR_FOLD_RUN;
    f->y_panels = div_up(f->co, f->isa->rows);
    most = min64(max64(CHUNK_BYTES / line_bytes(f), LEAST_CHUNK), MOST_CHUNK);
    f->n_chunks = div_up(g->n_lines, most);
    f->chunk = max64(div_up(div_up(g->n_lines, max64(f->n_chunks, 1)), unit), 1) * unit;
    f->n_chunks = div_up(g->n_lines, f->chunk);
    f->pad = max64(f->isa->ahead, 0);
    f->n_x = f->chunk + g->hi - g->lo + f->pad;
    f->y_bytes = f->isa->y_bytes(f->low, f->chunk);
    f->x_bytes = f->isa->ahead < 0 ? 0 : f->isa->x_bytes(f->low, f->n_x);
}

static size_t take(size_t *at, int64_t n_bytes)
{
    size_t here = *at;

    *at += gr_round_up((size_t)n_bytes, 64);
    return here;
}

static void lay_out(fold *f, int n_threads)
{
    const gr_conv_grid *g = f->grid;
    const int64_t elem = f->low ? 2 : (int64_t)sizeof(float);
    size_t at = 0;

    f->n_dense = f->n_x + (n_threads - 1) * f->pad;
    f->at_dense_x = take(&at, g->n_planes * f->n_dense * f->run * elem);
    f->at_dense_y = take(&at, f->chunk * f->co * elem + 64);
    f->at_x = take(&at, g->n_planes * f->x_panels * f->x_bytes);
    f->at_y = take(&at, f->y_panels * f->y_bytes);
    f->at_sums = take(&at, g->n_taps * f->co * f->run * (int64_t)sizeof(float));
    f->at_places = take(&at, f->chunk * (int64_t)sizeof(int64_t));
    f->at_slices = at;
    f->slice_bytes = SUM_BYTES;
    if (f->type_w != GR_F32)
        f->slice_bytes +=
            gr_round_up((size_t)(f->g.group_at / max64(f->co, 1)) * sizeof(float), 64);
    f->n_bytes = at + f->slice_bytes * (size_t)n_threads;
}

void gr_conv_fold_release(void *data)
{
    fold *f = data;

    if (!f)
        return;
    gr_conv_fold_release(f->other);
    gr_conv_grids_fini(&f->g);
    gr_free(f->lists);
    gr_free(f);
}

/* ---- steps that matter ---- */

static int *list_of(const fold *f, int64_t chunk, int64_t tap)
{
    return f->lists + (chunk * f->grid->n_taps + tap) * (f->chunk / f->isa->line_unit + 1);
}

static bool matters(const uint8_t *mark, const int64_t *places, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (mark[i] && places[i] >= 0)
            return true;
    return false;
}

/* `marks` and `places` have room for a chunk's lines of x, by plane, and of y. */
static void list_chunk(fold *f, int64_t chunk, uint8_t *marks, int64_t *places)
{
    const gr_conv_grid *g = f->grid;
    const int64_t unit = f->isa->line_unit, first = chunk * f->chunk;

    gr_conv_results_at(g, first, f->chunk, places);
    for (int p = 0; p < g->n_planes; p++)
        gr_conv_mark_lines(g, p, first + g->lo, f->n_x, marks + p * f->n_x);
    for (int t = 0; t < g->n_taps; t++) {
        const uint8_t *mark = marks + g->taps[t].plane * f->n_x + g->taps[t].shift - g->lo;
        int *list = list_of(f, chunk, t);

        for (int64_t i = 0; i < f->chunk; i += unit)
            if (matters(mark + i, places + i, unit))
                list[++list[0]] = (int)(i / unit);
    }
}

/* They depend on the shapes alone. */
static gr_status make_lists(fold *f)
{
    const gr_conv_grid *g = f->grid;
    size_t n = (size_t)(f->n_chunks * g->n_taps * (f->chunk / f->isa->line_unit + 1));
    uint8_t *marks;
    int64_t *places;
    gr_status st;

    if (f->isa->line_unit == 1)
        return GR_OK;
    f->lists = gr_calloc(n + 1, sizeof(*f->lists));
    marks = gr_malloc((size_t)(g->n_planes * f->n_x) + 1);
    places = gr_malloc(((size_t)f->chunk + 1) * sizeof(*places));
    st = f->lists && marks && places ? GR_OK : GR_ERR_NOMEM;
    for (int64_t c = 0; c < f->n_chunks && st == GR_OK; c++)
        list_chunk(f, c, marks, places);
    gr_free(marks);
    gr_free(places);
    return st;
}

static gr_status make(fold *f, const gr_prepare *p, const gr_fold_isa *isa)
{
    const gr_node *n = p->node;

    f->isa = isa;
    f->type_x = n->src[0]->dtype;
    f->type_y = n->src[1]->dtype;
    f->type_w = n->out[0].dtype;
    f->low = isa->ahead >= 0 && f->type_x == GR_BF16;
    gr_conv_get_dims(n, &f->d);
    GR_TRY(gr_conv_grids_init(&f->g, &f->d, false, GR_FOLD_RUN));
    f->grid = &f->g.grids[0];
    choose_sizes(f);
    lay_out(f, p->n_threads);
    return make_lists(f);
}

gr_status gr_conv_fold_prepare(gr_prepare *p, const gr_fold_isa *isa, const gr_fold_isa *other)
{
    fold *f = gr_calloc(1, sizeof(*f));
    gr_prepare second = *p;
    gr_status st;

    if (!f)
        return GR_ERR_NOMEM;
    st = make(f, p, isa);
    if (st == GR_OK && other) {
        st = gr_conv_fold_prepare(&second, other, NULL);
        f->other = st == GR_OK ? second.data : NULL;
    }
    if (st != GR_OK) {
        gr_conv_fold_release(f);
        return st;
    }
    p->data = f;
    return GR_OK;
}

size_t gr_conv_fold_workspace(const gr_node *n, const void *data)
{
    const fold *f = data;
    size_t other = f->other ? gr_conv_fold_workspace(n, f->other) : 0;

    return f->n_bytes > other ? f->n_bytes : other;
}

/* ---- dense lines ---- */

typedef struct job {
    const fold *f;
    const gr_launch *l;
    int64_t group, lo, n_lines; /* of the chunk */
    bool first;
    atomic_bool unfit; /* set by any slice; read when all are done */
    gr_deal deal;      /* blocks of sums */
} job;

static void *work_at(const job *j, size_t at)
{
    return (char *)j->l->work + at;
}

/* n elements, widened to f32 unless bf16 is wanted. */
static void copy_line(const fold *f, char *dst, const void *src, gr_dtype t, int64_t n)
{
    if (f->low || t == GR_F32)
        memcpy(dst, src, (size_t)n * gr_dtype_bytes(t));
    else
        f->isa->widen((float *)dst, src, t, n);
}

static void dense_stretch(const job *j, const gr_conv_stretch *s, char *dst)
{
    const fold *f = j->f;
    const int64_t at = s->at + j->group * f->g.run, elem = (int64_t)gr_dtype_bytes(f->type_x);
    gr_fold_copy c = { .src = (const char *)j->l->src[0] + at * elem, .src_step = s->step };

    c.type = f->type_x;
    c.n = s->n;
    c.from = s->from;
    c.to = s->to;
    c.dst = dst;
    c.step = f->run;
    f->isa->copy(&c);
}

/* Lines of y from `line` on that are neighbours in memory, or all zeros; how many. */
static int64_t dense_y(const job *j, int64_t line, int64_t end)
{
    const fold *f = j->f;
    const size_t elem = f->low ? 2 : sizeof(float);
    const int64_t *places = work_at(j, f->at_places), at = places[line] + j->group * f->co;
    const int64_t step = places[line] < 0 ? 0 : f->co;
    char *dst = (char *)work_at(j, f->at_dense_y) + (size_t)(line * f->co) * elem;
    int64_t n = 1;

    while (line + n < end && places[line + n] == places[line + n - 1] + step)
        n++;
    if (step == 0)
        memset(dst, 0, (size_t)(n * f->co) * elem);
    else
        copy_line(f, dst, (const char *)j->l->src[1] + (size_t)at * gr_dtype_bytes(f->type_y),
                  f->type_y, n * f->co);
    return n;
}

/* Lines [lo, hi) of the chunk. */
static void dense_y_lines(const job *j, int64_t lo, int64_t hi)
{
    const fold *f = j->f;
    int64_t *places = work_at(j, f->at_places);

    gr_conv_results_at(f->grid, j->lo + lo, hi - lo, places + lo);
    while (lo < hi)
        lo += dense_y(j, lo, hi);
}

/* Where line 0 of a plane would be for this slice: each has lines of its own. */
static char *dense_x_at(const job *j, int64_t plane, int slice)
{
    const fold *f = j->f;
    const size_t elem = f->low ? 2 : sizeof(float);

    return (char *)work_at(j, f->at_dense_x) +
           (size_t)((plane * f->n_dense + slice * f->pad) * f->run) * elem;
}

static void dense_x_lines(const job *j, int slice, int64_t lo, int64_t hi)
{
    const fold *f = j->f;
    const size_t line_bytes = (size_t)f->run * (f->low ? 2 : sizeof(float));
    const int64_t first = j->lo + f->grid->lo;

    for (int plane = 0; plane < f->grid->n_planes; plane++)
        for (int64_t line = lo; line < hi;) {
            const gr_conv_stretch s = gr_conv_stretch_at(f->grid, plane, first + line, first + hi);

            dense_stretch(j, &s, dense_x_at(j, plane, slice) + (size_t)line * line_bytes);
            line += s.n;
        }
}

/* ---- packing ---- */

static bool pack_x_lines(const job *j, int slice, int64_t lo, int64_t hi)
{
    const fold *f = j->f;
    const size_t elem = f->low ? 2 : sizeof(float);
    gr_fold_pack p = { .step = f->run, .lo = lo, .hi = hi, .low = f->low };
    bool fit = true;

    p.n_lines = f->n_x;
    p.n_channels = GR_FOLD_RUN;
    for (int64_t i = 0; i < f->grid->n_planes * f->x_panels; i++) {
        p.src =
            dense_x_at(j, i / f->x_panels, slice) + (size_t)(i % f->x_panels * GR_FOLD_RUN) * elem;
        p.dst = (char *)work_at(j, f->at_x) + (size_t)(i * f->x_bytes);
        fit = f->isa->pack_x(&p) && fit;
    }
    return fit;
}

static bool pack_y_panel(const job *j, int64_t panel, int64_t lo, int64_t hi)
{
    const fold *f = j->f;
    const size_t elem = f->low ? 2 : sizeof(float);
    const int64_t from = panel * f->isa->rows;
    gr_fold_pack p = { .step = f->co, .lo = lo, .hi = hi, .low = f->low };

    p.src = (const char *)work_at(j, f->at_dense_y) + (size_t)from * elem;
    p.n_lines = f->chunk;
    p.n_channels = (int)min64(f->co - from, f->isa->rows);
    p.dst = (char *)work_at(j, f->at_y) + (size_t)(panel * f->y_bytes);
    return f->isa->pack_y(&p);
}

/* Dense lines, and while they are in the cache, packed ones. */
static void line_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    const fold *f = j->f;
    bool fit = true;
    int64_t lo, hi;

    gr_pool_cut(f->n_x - f->pad, 16, slice, n_slices, &lo, &hi);
    if (lo < hi)
        dense_x_lines(j, slice, lo, hi + f->pad);
    if (lo < hi && f->isa->ahead >= 0)
        fit = pack_x_lines(j, slice, lo, hi);
    gr_pool_cut(f->chunk, max64(f->isa->line_unit, 16), slice, n_slices, &lo, &hi);
    dense_y_lines(j, lo, hi);
    for (int64_t i = 0; i < f->y_panels && f->isa->line_unit > 1 && lo < hi; i++)
        fit = pack_y_panel(j, i, lo, hi) && fit;
    if (!fit)
        atomic_store_explicit(&j->unfit, true, memory_order_relaxed);
}

static void panel_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    int64_t lo, hi;

    gr_pool_cut(j->f->y_panels, 1, slice, n_slices, &lo, &hi);
    for (int64_t i = lo; i < hi; i++)
        if (!pack_y_panel(j, i, 0, j->f->chunk))
            atomic_store_explicit(&j->unfit, true, memory_order_relaxed);
}

/* ---- sums ---- */

static float *sums_at(const job *j, int64_t tap, int64_t o)
{
    return (float *)work_at(j, j->f->at_sums) + (tap * j->f->co + o) * j->f->run;
}

static void run_block(const job *j, gr_fold_block *b, int64_t x_panel, int64_t y_panel, int tap)
{
    const fold *f = j->f;
    const gr_conv_tap *t = &f->grid->taps[tap];
    const int64_t line = t->shift - f->grid->lo, row = y_panel * f->isa->rows;
    const int64_t col = x_panel * GR_FOLD_RUN;

    b->y = (const char *)work_at(j, f->at_y) + (size_t)(y_panel * f->y_bytes);
    if (f->isa->ahead < 0)
        b->x = dense_x_at(j, t->plane, 0) + (size_t)(line * f->run + col) * sizeof(float);
    else
        b->x =
            (const char *)work_at(j, f->at_x) +
            (size_t)((t->plane * f->x_panels + x_panel) * f->x_bytes + f->isa->x_at(f->low, line));
    b->rows = (int)min64(f->co - row, f->isa->rows);
    b->cols = (int)min64(f->g.run - col, GR_FOLD_RUN);
    b->out = sums_at(j, tap, row) + col;
    if (f->isa->line_unit > 1) {
        b->list = list_of(f, j->lo / f->chunk, tap) + 1;
        b->n_listed = b->list[-1];
    }
    f->isa->block(b);
}

/* Taps are innermost and share both panels, unless x is in several planes and too large. */
static void run_unit(const job *j, gr_fold_block *b, int64_t i)
{
    const fold *f = j->f;
    const int64_t n_taps = f->grid->n_taps, per_x = n_taps * f->y_panels;

    if (f->grid->n_planes > 1)
        run_block(j, b, i / per_x, i % f->y_panels, (int)(i / f->y_panels % n_taps));
    else
        run_block(j, b, i / per_x, i / n_taps % f->y_panels, (int)(i % n_taps));
}

static void fold_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    const fold *f = j->f;
    gr_fold_block b = { .x_step = f->run, .x_lines = f->n_x, .n_lines = f->chunk };
    int64_t lo, hi;

    b.low = f->low;
    b.add = !j->first;
    b.out_step = f->run;
    b.sums = work_at(j, f->at_slices + (size_t)slice * f->slice_bytes);
    (void)n_slices;
    f->isa->begin();
    while (gr_deal_take(&j->deal, slice, &lo, &hi))
        for (int64_t i = lo; i < hi; i++)
            run_unit(j, &b, i);
    f->isa->end();
}

/* ---- the weight's order ---- */

/* Elements one by one, wherever they go. Taps that only ever see padding are 0. */
static void put_scattered(const job *j, int64_t o, float *row)
{
    const fold *f = j->f;

    memset(row, 0, (size_t)(f->g.group_at / f->co) * sizeof(float));
    for (int t = 0; t < f->grid->n_taps; t++) {
        const float *sums = sums_at(j, t, o);

        for (int64_t r = 0; r < f->g.run; r++)
            row[f->g.run_at[r] + f->grid->taps[t].at] = sums[r];
    }
}

/* All of output channel o; false: a number is not finite. */
static bool put_row(const job *j, int64_t o, float *row)
{
    const fold *f = j->f;
    const int64_t n_taps = f->d.k[0] * f->d.k[1];

    if (f->grid->merged || f->grid->n_taps < n_taps || n_taps > 16)
        put_scattered(j, o, row);
    else
        for (int64_t r = 0; r < f->g.run; r += 16)
            f->isa->transpose(sums_at(j, 0, o) + r, f->co * f->run, row + r * n_taps, n_taps,
                              (int)n_taps, (int)min64(f->g.run - r, 16));
    return f->isa->scale_row(row, f->g.group_at / f->co, f->low ? 1 : f->isa->scale);
}

static void put_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    const fold *f = j->f;
    const int64_t n = f->g.group_at / f->co;
    float *scratch =
        (float *)((char *)work_at(j, f->at_slices) + (size_t)slice * f->slice_bytes + SUM_BYTES);
    bool fit = true;
    int64_t lo, hi;

    gr_pool_cut(f->co, 1, slice, n_slices, &lo, &hi);
    for (int64_t o = lo; o < hi; o++) {
        int64_t at = (j->group * f->co + o) * n;

        if (f->type_w == GR_F32) {
            fit = put_row(j, o, (float *)j->l->out[0] + at) && fit;
        } else {
            fit = put_row(j, o, scratch) && fit;
            f->isa->narrow((uint16_t *)j->l->out[0] + at, scratch, f->type_w, n);
        }
    }
    if (!fit && !f->low)
        atomic_store_explicit(&j->unfit, true, memory_order_relaxed);
}

static void run_group(job *j)
{
    const fold *f = j->f;
    const int64_t n_units = f->x_panels * f->y_panels * f->grid->n_taps;
    int n_threads = gr_pool_size(j->l->pool), n_hands = gr_deal_hands(n_units, n_threads);

    j->first = true;
    for (j->lo = 0; j->lo < f->grid->n_lines; j->lo += f->chunk) {
        gr_pool_run(j->l->pool, line_slice, j, n_threads);
        if (f->isa->line_unit == 1)
            gr_pool_run(j->l->pool, panel_slice, j, n_threads);
        gr_deal_open(&j->deal, n_units, max64(n_units / (PIECES * n_hands), 1), n_hands);
        gr_pool_run(j->l->pool, fold_slice, j, n_hands);
        j->first = false;
    }
    gr_pool_run(j->l->pool, put_slice, j, n_threads);
}

gr_status gr_conv_fold_run(const gr_launch *l)
{
    const fold *f = l->data;
    job j = { .f = f, .l = l };

    if (gr_shape_count(&l->node->out[0].shape) == 0)
        return GR_OK;
    if (f->grid->n_lines == 0) { /* a sum of nothing */
        memset(l->out[0], 0, gr_value_bytes(&l->node->out[0]));
        return GR_OK;
    }
    for (; j.group < f->d.groups; j.group++)
        run_group(&j);
    if (f->other && atomic_load_explicit(&j.unfit, memory_order_relaxed)) {
        gr_launch again = *l;

        again.data = f->other;
        return gr_conv_fold_run(&again);
    }
    return GR_OK;
}
