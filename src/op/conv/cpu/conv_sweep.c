/* conv and conv_data on lines: plan and loops. conv_sweep.h says how. */
#include "op/conv/cpu/conv_sweep.h"

#include "base/alloc.h"
#include "base/deal.h"
#include "base/size.h"
#include "op/count.h"

#include <stdatomic.h>
#include <string.h>

#define SOURCE_BYTES ((int64_t)1 << 20) /* of packed lines: half of a 2 MiB L2 */
#define PANEL_BYTES  ((int64_t)1 << 19) /* of a pass of a panel */
#define LEAST_RUN    64                 /* channels of a pass, for sums wait in memory */
#define LEAST_LINES  256                /* of a chunk, so that its weights are worth loading */
#define DEALT_LINES  384                /* of one of several chunks of a thread */
#define DEALT_CHUNKS 4                  /* of a thread, so that cores of unequal speed can share */

typedef struct grid_plan {
    int lines;        /* of a block */
    int64_t chunk;    /* result lines */
    int64_t n_chunks; /* of all groups */
    int64_t n_packed; /* source lines of a plane for a chunk */
    size_t at_weights;
    int64_t *tap_at; /* by pass full or last: n_taps each */
} grid_plan;

typedef struct sweep {
    const gr_conv_isa *isa;
    gr_conv_dims d;
    gr_conv_grids g;
    grid_plan *plans;
    gr_dtype type_src, type_w, type_y;
    bool low;     /* packed as bf16 */
    int64_t pass; /* channels */
    int64_t n_passes, n_panels;
    int64_t n_cuts;   /* chunks of lines at least */
    int64_t even;     /* of so many, if lines are cut: as many for each thread */
    int64_t n_chunks; /* of all grids and groups */
    bool by_panel;    /* dealt are panels of chunks, pass after pass; else whole chunks */
    int n_hands;
    bool late;                 /* weights are packed by the slice that uses them, once */
    size_t at_wide, at_slices; /* weights as f32; slices, each of: */
    size_t at_sums, at_panel, at_places, at_marks, at_lists, at_kept, slice_bytes;
    size_t n_bytes;
    struct sweep *other;
} sweep;

/* ---- plan ---- */

static int64_t pass_run(const sweep *s, int64_t pass)
{
    return gr_min64(s->pass, s->g.run - pass * s->pass);
}

/* Channels that fit: a panel's weights, and the lines of the least chunk with its halo, which
 * is long where taps lie far apart. */
static int64_t channels_that_fit(const sweep *s, const gr_conv_grid *g)
{
    const int64_t unit = s->isa->run_unit, lines = gr_max64(2 * (g->hi - g->lo), LEAST_LINES);
    const int64_t panel = s->isa->panel_bytes(s->low, unit, gr_max64(g->n_taps, 1));
    const int64_t source = lines * gr_max64(g->n_planes, 1) * s->isa->line_bytes(s->low, unit);

    return gr_max64(gr_min64(PANEL_BYTES / panel, 2 * SOURCE_BYTES / source) * unit, LEAST_RUN);
}

static void choose_passes(sweep *s)
{
    int64_t unit = s->isa->run_unit, fits = gr_max64(s->g.run, 1);

    for (int i = 0; i < s->g.n; i++)
        fits = gr_min64(fits, channels_that_fit(s, &s->g.grids[i]));
    s->n_passes = gr_max64(gr_div_up(s->g.run, fits), 1);
    s->pass = gr_max64(gr_div_up(gr_div_up(s->g.run, s->n_passes), unit), 1) * unit;
    s->n_passes = gr_max64(gr_div_up(s->g.run, s->pass), 1);
    s->n_panels = gr_div_up(s->g.cols, s->isa->cols);
}

/* Lines are cut when each thread gets enough of them. Sums of several passes that wait in a
 * slice's own memory must stay with it; then a chunk is dealt as a whole. */
static void choose_cuts(sweep *s, int n_threads)
{
    int64_t n_lines = 0;

    for (int i = 0; i < s->g.n; i++)
        n_lines = gr_max64(n_lines, s->g.grids[i].n_lines);
    s->by_panel = s->n_passes == 1 || s->type_y == GR_F32;
    s->even = n_lines >= LEAST_LINES * n_threads ? n_threads : 1;
    if (n_threads == 1)
        s->n_cuts = 1;
    else if (n_lines >= LEAST_LINES * n_threads || !s->by_panel)
        s->n_cuts =
            n_threads * gr_min64(gr_max64(n_lines / (DEALT_LINES * n_threads), 1), DEALT_CHUNKS);
    else
        s->n_cuts = gr_max64(n_lines / LEAST_LINES, 1);
}

/* As many as the instruction set takes; of interleaved images a block takes whole pixels, or
 * the n-th part of one: only then a tap meets zeros in all of its lines or in none. */
static int block_lines(const gr_conv_isa *isa, int64_t inner)
{
    int n = isa->lines;

    while (inner > 1 && inner % n != 0 && n % inner != 0)
        n--;
    return n;
}

static gr_status plan_grid(sweep *s, int i)
{
    const gr_conv_grid *g = &s->g.grids[i];
    grid_plan *p = &s->plans[i];
    int64_t halo = g->hi - g->lo, fits, n;

    p->lines = block_lines(s->isa, g->inner);
    fits = SOURCE_BYTES / gr_max64(g->n_planes * s->isa->line_bytes(s->low, s->pass), 1);
    fits = gr_max64(fits - halo, gr_max64(halo, LEAST_LINES));
    n = gr_max64(gr_div_up(g->n_lines, fits), s->n_cuts);
    n = gr_div_up(n, s->even) * s->even;
    p->chunk = gr_div_up(gr_max64(gr_div_up(g->n_lines, n), 1), p->lines) * p->lines;
    p->n_chunks = gr_div_up(g->n_lines, p->chunk) * s->d.groups;
    s->n_chunks += p->n_chunks;
    p->n_packed = p->chunk + halo;
    p->tap_at = gr_calloc((size_t)g->n_taps * 2 + 1, sizeof(*p->tap_at));
    if (!p->tap_at)
        return GR_ERR_NOMEM;
    for (int t = 0; t < 2 * g->n_taps; t++) {
        const gr_conv_tap *tap = &g->taps[t % g->n_taps];
        int64_t run = t < g->n_taps ? s->pass : pass_run(s, s->n_passes - 1);

        p->tap_at[t] = s->isa->line_at(s->low, run, p->n_packed, tap->plane, tap->shift - g->lo);
    }
    return GR_OK;
}

/* The most that any grid needs. */
typedef struct needs {
    size_t source, panel, lines, marks, lists;
} needs;

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static needs most_needs(const sweep *s)
{
    needs m = { 0 };

    for (int i = 0; i < s->g.n; i++) {
        const gr_conv_grid *g = &s->g.grids[i];
        const grid_plan *p = &s->plans[i];
        const int64_t n_blocks = p->chunk / p->lines, n_marks = p->n_packed * g->n_planes;

        m.source = max_size(m.source, (size_t)(n_marks * s->isa->line_bytes(s->low, s->pass)));
        m.panel = max_size(m.panel, (size_t)s->isa->panel_bytes(s->low, s->pass, g->n_taps));
        m.lines = max_size(m.lines, (size_t)p->chunk);
        m.marks = max_size(m.marks, (size_t)n_marks);
        m.lists = max_size(m.lists, (size_t)(n_blocks * (g->n_taps + 1)));
    }
    return m;
}

static size_t take(size_t *at, size_t n_bytes)
{
    size_t here = *at;

    *at += gr_round_up(n_bytes, 64);
    return here;
}

/* Whether weights are made f32 before they are packed. */
static bool widens(const sweep *s)
{
    return s->type_w != GR_F32 && !s->low;
}

static void lay_out(sweep *s)
{
    const needs m = most_needs(s);
    size_t at = 0, in = m.source;

    for (int i = 0; i < s->g.n; i++) {
        int64_t n_panels = s->late ? 0 : s->d.groups * s->n_panels * s->n_passes;
        int64_t each = s->isa->panel_bytes(s->low, s->pass, s->g.grids[i].n_taps);

        s->plans[i].at_weights = take(&at, (size_t)(n_panels * each));
    }
    s->at_wide = at;
    if (widens(s))
        take(&at, (size_t)(s->g.group_at * s->d.groups) * sizeof(float));
    s->at_slices = at;
    in = gr_round_up(in, 64);
    s->at_sums = take(&in, (size_t)s->isa->lines * GR_CONV_COLS * sizeof(float));
    s->at_panel = take(&in, s->late ? m.panel : 0);
    s->at_places = take(&in, m.lines * sizeof(int64_t));
    s->at_marks = take(&in, m.marks);
    s->at_lists = take(&in, m.lists * sizeof(int));
    s->at_kept = in;
    if (s->type_y != GR_F32 && s->n_passes > 1)
        take(&in, m.lines * (size_t)s->g.cols * sizeof(float));
    s->slice_bytes = in;
    s->n_bytes = at + s->slice_bytes * (size_t)s->n_hands;
}

void gr_conv_sweep_release(void *data)
{
    sweep *s = data;

    if (!s)
        return;
    for (int i = 0; s->plans && i < s->g.n; i++)
        gr_free(s->plans[i].tap_at);
    gr_conv_sweep_release(s->other);
    gr_free(s->plans);
    gr_conv_grids_fini(&s->g);
    gr_free(s);
}

static gr_status make(sweep *s, const gr_prepare *p, const gr_conv_isa *isa)
{
    const gr_node *n = p->node;

    s->isa = isa;
    s->type_src = n->src[0]->dtype;
    s->type_w = n->src[1]->dtype;
    s->type_y = n->out[0].dtype;
    s->low = isa->run_unit > 1 && s->type_src == GR_BF16;
    gr_conv_get_dims(n, &s->d);
    GR_TRY(gr_conv_grids_init(&s->g, &s->d, n->op == &gr_op_conv_data, 32));
    s->plans = gr_calloc((size_t)s->g.n + 1, sizeof(*s->plans));
    if (!s->plans)
        return GR_ERR_NOMEM;
    choose_passes(s);
    choose_cuts(s, p->n_threads < 1 ? 1 : p->n_threads);
    for (int i = 0; i < s->g.n; i++)
        GR_TRY(plan_grid(s, i));
    s->n_hands = gr_deal_hands(s->by_panel ? s->n_chunks * s->n_panels : s->n_chunks, p->n_threads);
    s->late = true;
    for (int i = 0; i < s->g.n; i++)
        s->late = s->late && s->plans[i].chunk >= s->g.grids[i].n_lines;
    lay_out(s);
    return GR_OK;
}

gr_status gr_conv_sweep_prepare(gr_prepare *p, const gr_conv_isa *isa, const gr_conv_isa *other)
{
    sweep *s = gr_calloc(1, sizeof(*s));
    gr_prepare second = *p;
    gr_status st;

    if (!s)
        return GR_ERR_NOMEM;
    st = make(s, p, isa);
    if (st == GR_OK && other) {
        st = gr_conv_sweep_prepare(&second, other, NULL);
        s->other = st == GR_OK ? second.data : NULL;
    }
    if (st != GR_OK) {
        gr_conv_sweep_release(s);
        return st;
    }
    p->data = s;
    return GR_OK;
}

size_t gr_conv_sweep_workspace(const gr_node *n, const void *data)
{
    const sweep *s = data;
    size_t other = s->other ? gr_conv_sweep_workspace(n, s->other) : 0;

    return s->n_bytes > other ? s->n_bytes : other;
}

/* ---- weights ---- */

typedef struct job {
    const sweep *s;
    const gr_launch *l;
    const char *w;          /* as panels take them: see gr_conv_panel */
    int64_t pass, pass_end; /* of this run */
    atomic_bool unfit;      /* set by any slice; read when all are done */
    gr_deal deal;           /* items: panels of chunks */
} job;

static char *panel_at(const job *j, int grid, int64_t group, int64_t panel, int64_t pass)
{
    const sweep *s = j->s;
    int64_t i = (group * s->n_panels + panel) * s->n_passes + pass;

    return (char *)j->l->work + s->plans[grid].at_weights +
           (size_t)(i * s->isa->panel_bytes(s->low, s->pass, s->g.grids[grid].n_taps));
}

static void widen_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const sweep *s = j->s;
    int64_t lo, hi;

    gr_pool_cut(s->g.group_at * s->d.groups, 4096, slice, n_slices, &lo, &hi);
    s->isa->widen((float *)((char *)j->l->work + s->at_wide) + lo,
                  (const char *)j->l->src[1] + lo * 2, s->type_w, hi - lo);
}

static bool pack_panel(const job *j, int grid, int64_t group, int64_t panel, int64_t pass,
                       char *dst)
{
    const sweep *s = j->s;
    gr_conv_panel p = { .grids = &s->g, .grid = &s->g.grids[grid], .low = s->low, .dst = dst };

    p.w = j->w + group * s->g.group_at * (int64_t)(s->low ? 2 : sizeof(float));
    p.run_lo = pass * s->pass;
    p.run = pass_run(s, pass);
    p.col = panel * s->isa->cols;
    p.n_cols = (int)gr_min64(s->g.cols - p.col, s->isa->cols);
    return s->isa->pack_panel(&p);
}

static void pack_weights_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    const sweep *s = j->s;
    int64_t lo, hi, per_group = s->n_panels * s->n_passes;
    bool fit = true;

    gr_pool_cut(s->d.groups * per_group, 1, slice, n_slices, &lo, &hi);
    for (int64_t i = lo; i < hi; i++)
        for (int grid = 0; grid < s->g.n; grid++) {
            int64_t group = i / per_group, panel = i / s->n_passes % s->n_panels;
            int64_t pass = i % s->n_passes;

            fit = pack_panel(j, grid, group, panel, pass, panel_at(j, grid, group, panel, pass)) &&
                  fit;
        }
    if (!fit)
        atomic_store_explicit(&j->unfit, true, memory_order_relaxed);
}

/* ---- lines ---- */

/* What one slice works on. */
typedef struct chunk {
    job *j;
    int64_t number; /* of all; -1: none yet */
    int grid;
    int64_t group, lo, hi; /* result lines */
    int64_t packed;        /* the pass whose source lines are there; -1: none */
    char *source, *panel;
    float *sums, *kept;
    int64_t *at;
    uint8_t *marks; /* source lines that are not zeros */
    int *lists;     /* of each block: how many taps, then which; -1: no line is a result */
    bool unfit;
} chunk;

/* Whether a tap matters to the n result lines from i on. */
static bool matters(const chunk *c, const gr_conv_tap *t, int64_t i, int64_t n)
{
    const sweep *s = c->j->s;
    const uint8_t *mark =
        c->marks + t->plane * s->plans[c->grid].n_packed + t->shift - s->g.grids[c->grid].lo;

    for (int64_t k = i; k < i + n; k++)
        if (mark[k] && c->at[k] >= 0)
            return true;
    return false;
}

static void list_taps(const chunk *c)
{
    const sweep *s = c->j->s;
    const gr_conv_grid *g = &s->g.grids[c->grid];
    const int64_t n_packed = s->plans[c->grid].n_packed, n_lines = c->hi - c->lo;
    const int lines = s->plans[c->grid].lines;
    int *list = c->lists;

    for (int plane = 0; plane < g->n_planes; plane++)
        gr_conv_mark_lines(g, plane, c->lo + g->lo, n_packed, c->marks + plane * n_packed);
    for (int64_t i = 0; i < n_lines; i += lines, list += g->n_taps + 1) {
        const int64_t n = gr_min64(n_lines - i, lines);

        list[0] = -1;
        for (int64_t k = i; k < i + n && list[0] < 0; k++)
            list[0] = c->at[k] >= 0 ? 0 : -1;
        for (int t = 0; t < g->n_taps && list[0] >= 0; t++)
            if (matters(c, &g->taps[t], i, n))
                list[++list[0]] = t;
    }
}

static void run_panel(chunk *c, int64_t panel, int64_t pass)
{
    const sweep *s = c->j->s;
    const gr_conv_grid *g = &s->g.grids[c->grid];
    const grid_plan *p = &s->plans[c->grid];
    const int64_t col = panel * s->isa->cols, run = pass_run(s, pass);
    const int64_t line_step = s->isa->line_at(s->low, run, p->n_packed, 0, 1);
    const size_t elem = gr_dtype_bytes(s->type_y);
    const int *list = c->lists;
    gr_conv_block b = { .panel =
                            c->panel ? c->panel : panel_at(c->j, c->grid, c->group, panel, pass),
                        .tap_at = p->tap_at + (pass == s->n_passes - 1 ? g->n_taps : 0),
                        .n_taps = g->n_taps,
                        .n_packed = p->n_packed,
                        .run = run,
                        .low = s->low,
                        .sums = c->sums };
    gr_conv_write w = { .sums = c->sums, .type = s->type_y, .scale = s->low ? 1 : s->isa->scale };

    b.n_cols = w.n_cols = (int)gr_min64(s->g.cols - col, s->isa->cols);
    w.y = (char *)c->j->l->out[0] + (size_t)(c->group * s->g.cols + col) * elem;
    w.add = pass > 0;
    w.last = pass == s->n_passes - 1;
    w.cols_kept = s->g.cols;
    if (c->panel && !pack_panel(c->j, c->grid, c->group, panel, pass, c->panel))
        c->unfit = true;
    for (int64_t line = c->lo; line < c->hi; line += p->lines, list += g->n_taps + 1) {
        const int64_t i = line - c->lo;

        if (list[0] < 0)
            continue;
        b.list = list + 1;
        b.n_listed = list[0];
        b.src = c->source + i * line_step;
        b.n_lines = w.n_lines = (int)gr_min64(c->hi - line, p->lines);
        w.at = c->at + i;
        w.kept = c->kept ? c->kept + i * w.cols_kept + col : NULL;
        s->isa->block(&b);
        if (!s->isa->write(&w))
            c->unfit = true;
    }
}

/* Chunk `number`: grid by grid, chunks of lines, groups. */
static void open_chunk(chunk *c, int64_t number)
{
    const sweep *s = c->j->s;
    int64_t i = number;

    if (c->number == number)
        return;
    c->number = number;
    for (c->grid = 0; i >= s->plans[c->grid].n_chunks; c->grid++)
        i -= s->plans[c->grid].n_chunks;
    c->group = i % s->d.groups;
    c->lo = i / s->d.groups * s->plans[c->grid].chunk;
    c->hi = gr_min64(c->lo + s->plans[c->grid].chunk, s->g.grids[c->grid].n_lines);
    c->packed = -1;
    gr_conv_results_at(&s->g.grids[c->grid], c->lo, c->hi - c->lo, c->at);
    list_taps(c);
}

static void pack_source(chunk *c, int64_t pass)
{
    const sweep *s = c->j->s;
    const gr_conv_grid *g = &s->g.grids[c->grid];
    gr_conv_pack p = { .grid = g, .src = c->j->l->src[0], .type = s->type_src, .low = s->low };

    if (c->packed == pass)
        return;
    c->packed = pass;
    p.channel = c->group * s->g.run;
    p.first = c->lo + g->lo;
    p.n = s->plans[c->grid].n_packed;
    p.dst = c->source;
    p.run_lo = pass * s->pass;
    p.run = pass_run(s, pass);
    if (!s->isa->pack(&p))
        c->unfit = true;
}

/* Items [at, end), each a panel of a chunk. */
static void run_items(chunk *c, int64_t at, int64_t end)
{
    const int64_t n_panels = c->j->s->n_panels;

    while (at < end) {
        const int64_t first = at % n_panels, last = gr_min64(first + end - at, n_panels);

        open_chunk(c, at / n_panels);
        for (int64_t pass = c->j->pass; pass < c->j->pass_end; pass++) {
            pack_source(c, pass);
            for (int64_t panel = first; panel < last; panel++)
                run_panel(c, panel, pass);
        }
        at += last - first;
    }
}

static void run_slice(void *arg, int hand, int n_hands)
{
    job *j = arg;
    const sweep *s = j->s;
    char *work = (char *)j->l->work + s->at_slices + (size_t)hand * s->slice_bytes;
    chunk c = { .j = j, .number = -1, .source = work, .sums = (float *)(work + s->at_sums) };
    int64_t at, end;

    (void)n_hands;
    c.panel = s->late ? work + s->at_panel : NULL;
    c.at = (int64_t *)(work + s->at_places);
    c.marks = (uint8_t *)(work + s->at_marks);
    c.lists = (int *)(work + s->at_lists);
    c.kept = s->slice_bytes > s->at_kept ? (float *)(work + s->at_kept) : NULL;
    s->isa->begin();
    while (gr_deal_take(&j->deal, hand, &at, &end))
        run_items(&c, at, end);
    s->isa->end();
    if (c.unfit)
        atomic_store_explicit(&j->unfit, true, memory_order_relaxed);
}

/* All panels of all chunks. */
static void run_passes(job *j)
{
    const sweep *s = j->s;
    const int64_t each = s->by_panel ? 1 : s->n_passes;

    for (j->pass = 0; j->pass < s->n_passes; j->pass += each) {
        j->pass_end = j->pass + each;
        gr_deal_open(&j->deal, s->n_chunks * s->n_panels, s->by_panel ? 1 : s->n_panels,
                     s->n_hands);
        gr_pool_run(j->l->pool, run_slice, j, s->n_hands);
    }
}

gr_status gr_conv_sweep_run(const gr_launch *l)
{
    const sweep *s = l->data;
    job j = { .s = s, .l = l, .w = l->src[1] };
    int n_threads = gr_pool_size(l->pool);

    if (gr_shape_count(&l->node->out[0].shape) == 0)
        return GR_OK;
    if (s->g.run == 0) { /* a sum of nothing */
        memset(l->out[0], 0, gr_value_bytes(&l->node->out[0]));
        return GR_OK;
    }
    if (widens(s)) {
        j.w = (const char *)l->work + s->at_wide;
        gr_pool_run(l->pool, widen_slice, &j, n_threads);
    }
    if (!s->late)
        gr_pool_run(l->pool, pack_weights_slice, &j, n_threads);
    run_passes(&j);
    if (s->other && atomic_load_explicit(&j.unfit, memory_order_relaxed)) {
        gr_launch again = *l;

        again.data = s->other;
        return gr_conv_sweep_run(&again);
    }
    return GR_OK;
}
