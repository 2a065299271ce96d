/* conv_weight on lines: the loops. conv_fold.h says how. */
#include "base/deal.h"
#include "op/conv/cpu/conv_fold_plan.h"
#include "op/count.h"
#include "op/lines.h"

#include <stdatomic.h>
#include <string.h>

#define PIECES 8 /* dealt to a thread at least, if there are as many blocks */

/* ---- dense lines ---- */

typedef struct job {
    const gr_fold_plan *f;
    const gr_launch *l;
    char *work;        /* of those that share a chunk */
    int64_t group, lo; /* of the chunk */
    int part;
    bool first;         /* chunk of the part */
    atomic_bool *unfit; /* set by any slice; read when all are done */
    gr_deal deal;       /* blocks of sums; parts */
} job;

static void *work_at(const job *j, size_t at)
{
    return j->work + at;
}

static void set_unfit(const job *j)
{
    atomic_store_explicit(j->unfit, true, memory_order_relaxed);
}

/* By all threads, or by the one whose part it is. */
static void share(job *j, gr_pool_fn *slice, int n_slices)
{
    if (j->f->alone)
        slice(j, 0, 1);
    else
        gr_pool_run(j->l->pool, slice, j, n_slices);
}

/* n elements, widened to f32 unless bf16 is wanted. */
static void copy_line(const gr_fold_plan *f, char *dst, const void *src, gr_dtype t, int64_t n)
{
    if (f->low || t == GR_F32)
        memcpy(dst, src, (size_t)n * gr_dtype_bytes(t));
    else
        f->isa->widen((float *)dst, src, t, n);
}

static void dense_stretch(const job *j, const gr_conv_stretch *s, char *dst)
{
    const gr_fold_plan *f = j->f;
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
    const gr_fold_plan *f = j->f;
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
    const gr_fold_plan *f = j->f;
    int64_t *places = work_at(j, f->at_places);

    gr_conv_results_at(f->grid, j->lo + lo, hi - lo, places + lo);
    while (lo < hi)
        lo += dense_y(j, lo, hi);
}

/* Where line 0 of a plane would be for this slice: each has lines of its own. */
static char *dense_x_at(const job *j, int64_t plane, int slice)
{
    const gr_fold_plan *f = j->f;
    const size_t elem = f->low ? 2 : sizeof(float);

    return (char *)work_at(j, f->at_dense_x) +
           (size_t)((plane * f->n_dense + slice * f->pad) * f->run) * elem;
}

static void dense_x_lines(const job *j, int slice, int64_t lo, int64_t hi)
{
    const gr_fold_plan *f = j->f;
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
    const gr_fold_plan *f = j->f;
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
    const gr_fold_plan *f = j->f;
    const size_t elem = f->low ? 2 : sizeof(float);
    const int64_t from = panel * f->isa->rows;
    gr_fold_pack p = { .step = f->co, .lo = lo, .hi = hi, .low = f->low };

    p.src = (const char *)work_at(j, f->at_dense_y) + (size_t)from * elem;
    p.n_lines = f->chunk;
    p.n_channels = (int)gr_min64(f->co - from, f->isa->rows);
    p.dst = (char *)work_at(j, f->at_y) + (size_t)(panel * f->y_bytes);
    return f->isa->pack_y(&p);
}

/* Dense lines, and while they are in the cache, packed ones. */
static void line_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    const gr_fold_plan *f = j->f;
    bool fit = true;
    int64_t lo, hi;

    gr_pool_cut(f->n_x - f->pad, 16, slice, n_slices, &lo, &hi);
    if (lo < hi)
        dense_x_lines(j, slice, lo, hi + f->pad);
    if (lo < hi && f->isa->ahead >= 0)
        fit = pack_x_lines(j, slice, lo, hi);
    gr_pool_cut(f->chunk, gr_max64(f->isa->line_unit, 16), slice, n_slices, &lo, &hi);
    dense_y_lines(j, lo, hi);
    for (int64_t i = 0; i < f->y_panels && f->isa->y_by_steps && lo < hi; i++)
        fit = pack_y_panel(j, i, lo, hi) && fit;
    if (!fit)
        set_unfit(j);
}

static void panel_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    int64_t lo, hi;

    gr_pool_cut(j->f->y_panels, 1, slice, n_slices, &lo, &hi);
    for (int64_t i = lo; i < hi; i++)
        if (!pack_y_panel(j, i, 0, j->f->chunk))
            set_unfit(j);
}

/* ---- sums ---- */

static float *part_sums_at(const job *j, int part, int64_t tap, int64_t o)
{
    const gr_fold_plan *f = j->f;

    return (float *)((char *)j->l->work + f->at_sums + (size_t)part * f->part_bytes) +
           (tap * f->co + o) * f->run;
}

static float *sums_at(const job *j, int64_t tap, int64_t o)
{
    return part_sums_at(j, j->part, tap, o);
}

/* Everything but where the sums go. */
static void aim_block(const job *j, gr_fold_block *b, int64_t x_panel, int64_t y_panel, int tap)
{
    const gr_fold_plan *f = j->f;
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
    b->rows = (int)gr_min64(f->co - row, f->isa->rows);
    b->cols = (int)gr_min64(f->g.run - col, GR_FOLD_RUN);
    b->list = gr_fold_list(f, j->lo / f->chunk, tap) + 1;
    b->n_listed = b->list[-1];
}

static void run_block(const job *j, gr_fold_block *b, int64_t x_panel, int64_t y_panel, int tap)
{
    aim_block(j, b, x_panel, y_panel, tap);
    b->out = sums_at(j, tap, y_panel * j->f->isa->rows) + x_panel * GR_FOLD_RUN;
    j->f->isa->block(b);
}

/* Taps are innermost and share both panels, unless x is in several planes and too large. */
static void run_unit(const job *j, gr_fold_block *b, int64_t i)
{
    const gr_fold_plan *f = j->f;
    const int64_t n_taps = f->grid->n_taps, per_x = n_taps * f->y_panels;

    if (f->grid->n_planes > 1)
        run_block(j, b, i / per_x, i % f->y_panels, (int)(i / f->y_panels % n_taps));
    else
        run_block(j, b, i / per_x, i / n_taps % f->y_panels, (int)(i % n_taps));
}

static gr_fold_block first_block(const job *j, int slice)
{
    const gr_fold_plan *f = j->f;
    gr_fold_block b = { .x_step = f->run, .x_lines = f->n_x };

    b.low = f->low;
    b.add = !j->first;
    b.out_step = f->run;
    b.sums = work_at(j, f->at_slices + (size_t)slice * f->slice_bytes);
    return b;
}

static void block_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    gr_fold_block b = first_block(j, slice);
    int64_t lo, hi;

    (void)n_slices;
    j->f->isa->begin();
    while (gr_deal_take(&j->deal, slice, &lo, &hi))
        for (; lo < hi; lo++)
            run_unit(j, &b, lo);
    j->f->isa->end();
}

/* ---- the weight's order ---- */

/* Elements one by one, wherever they go. Taps that only ever see padding are 0. */
static void put_scattered(const job *j, int64_t o, float *row)
{
    const gr_fold_plan *f = j->f;

    memset(row, 0, (size_t)(f->g.group_at / f->co) * sizeof(float));
    for (int t = 0; t < f->grid->n_taps; t++) {
        const float *sums = sums_at(j, t, o);

        for (int64_t r = 0; r < f->g.run; r++)
            row[f->g.run_at[r] + f->grid->taps[t].at] = sums[r];
    }
}

/* Adds the sums of the other parts to those of the first. */
static void join_parts(const job *j, int64_t o)
{
    const gr_fold_plan *f = j->f;

    for (int part = 1; part < f->n_parts; part++)
        for (int t = 0; t < f->grid->n_taps; t++) {
            const float *more = part_sums_at(j, part, t, o);
            float *sums = part_sums_at(j, 0, t, o);

            for (int64_t r = 0; r < f->g.run; r++)
                sums[r] += more[r];
        }
}

/* False: a number is not finite. */
static bool scaled(const gr_fold_plan *f, float *row, int64_t n)
{
    return f->low || !f->isa->scale_row || f->isa->scale_row(row, n);
}

/* All of output channel o; false: a number is not finite. */
static bool put_row(const job *j, int64_t o, float *row)
{
    const gr_fold_plan *f = j->f;
    const int64_t n_taps = f->d.k[0] * f->d.k[1];

    if (!gr_fold_is_regular(f))
        put_scattered(j, o, row);
    else
        for (int64_t r = 0; r < f->g.run; r += 16)
            f->isa->transpose(sums_at(j, 0, o) + r, f->co * f->run, row + r * n_taps, n_taps,
                              (int)n_taps, (int)gr_min64(f->g.run - r, 16));
    return scaled(f, row, f->g.group_at / f->co);
}

static void put_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    const gr_fold_plan *f = j->f;
    const int64_t n = f->g.group_at / f->co;
    const size_t apart = f->alone ? f->team_bytes : f->slice_bytes;
    float *scratch = (float *)work_at(j, f->at_slices + (size_t)slice * apart) + GR_FOLD_SUM_ELEMS;
    bool fit = true;
    int64_t lo, hi;

    gr_pool_cut(f->co, 1, slice, n_slices, &lo, &hi);
    for (int64_t o = lo; o < hi; o++) {
        int64_t at = (j->group * f->co + o) * n;

        join_parts(j, o);
        if (f->type_w == GR_F32) {
            fit = put_row(j, o, (float *)j->l->out[0] + at) && fit;
        } else {
            fit = put_row(j, o, scratch) && fit;
            f->isa->narrow((uint16_t *)j->l->out[0] + at, scratch, f->type_w, n);
        }
    }
    if (!fit)
        set_unfit(j);
}

/* ---- the last chunk ---- */

/* What a slice has of its own, and the pair of panels that it works on. */
typedef struct pair {
    float *sums; /* [tap][row][GR_FOLD_SUM_STEP] */
    float *row;  /* for weights that are not f32 */
    int64_t x_panel, y_panel;
    int rows, cols;
} pair;

/* Where row r of the pair begins in the weight. */
static int64_t row_at(const job *j, const pair *p, int r)
{
    const gr_fold_plan *f = j->f;
    const int64_t o = j->group * f->co + p->y_panel * f->isa->rows + r;

    return o * (f->g.group_at / f->co) + p->x_panel * GR_FOLD_RUN * f->grid->n_taps;
}

/* Asks for a tap's share of the lines that the pair will be put to. Gradients that ranks exchange
 * are in no cache: so they come while the tap is summed, instead of holding up the stores. */
static void ask_for_lines(const job *j, const pair *p, const gr_fold_block *b, int tap)
{
    const int n_taps = j->f->grid->n_taps;
    const int64_t n_bytes = (int64_t)b->cols * n_taps * (int64_t)sizeof(float);

    if (j->f->type_w != GR_F32)
        return;
    for (int r = tap * b->rows / n_taps; r < (tap + 1) * b->rows / n_taps; r++)
        gr_ask_for_lines((const float *)j->l->out[0] + row_at(j, p, r), n_bytes);
}

static void sum_pair(const job *j, gr_fold_block *b, pair *p)
{
    const gr_fold_plan *f = j->f;

    b->out_step = GR_FOLD_SUM_STEP;
    for (int t = 0; t < f->grid->n_taps; t++) {
        aim_block(j, b, p->x_panel, p->y_panel, t);
        ask_for_lines(j, p, b, t);
        b->out = p->sums + t * GR_FOLD_SUM_ELEMS;
        for (int r = 0; r < b->rows && b->add; r++)
            memcpy(b->out + r * GR_FOLD_SUM_STEP,
                   sums_at(j, t, p->y_panel * f->isa->rows + r) + p->x_panel * GR_FOLD_RUN,
                   (size_t)b->cols * sizeof(float));
        f->isa->block(b);
    }
    p->rows = b->rows;
    p->cols = b->cols;
}

/* False: a number is not finite. */
static bool put_pair(const job *j, const pair *p)
{
    const gr_fold_plan *f = j->f;
    const int64_t n_taps = f->grid->n_taps;
    bool fit = true;

    for (int r = 0; r < p->rows; r++) {
        const int64_t at = row_at(j, p, r);
        float *row = f->type_w == GR_F32 ? (float *)j->l->out[0] + at : p->row;

        for (int c = 0; c < p->cols; c += 16)
            f->isa->transpose(p->sums + r * GR_FOLD_SUM_STEP + c, GR_FOLD_SUM_ELEMS,
                              row + c * n_taps, n_taps, (int)n_taps,
                              (int)gr_min64(p->cols - c, 16));
        fit = scaled(f, row, p->cols * n_taps) && fit;
        if (f->type_w != GR_F32)
            f->isa->narrow((uint16_t *)j->l->out[0] + at, row, f->type_w, p->cols * n_taps);
    }
    return fit;
}

static bool is_last(const job *j)
{
    return j->lo + j->f->chunk >= j->f->grid->n_lines;
}

static void pair_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    const gr_fold_plan *f = j->f;
    gr_fold_block b = first_block(j, slice);
    pair p = { .sums = b.sums + GR_FOLD_SUM_ELEMS };
    bool fit = true;
    int64_t lo, hi;

    p.row = p.sums + f->grid->n_taps * GR_FOLD_SUM_ELEMS;
    (void)n_slices;
    f->isa->begin();
    while (gr_deal_take(&j->deal, slice, &lo, &hi))
        for (; lo < hi; lo++) {
            p.x_panel = lo / f->y_panels;
            p.y_panel = lo % f->y_panels;
            sum_pair(j, &b, &p);
            fit = put_pair(j, &p) && fit;
        }
    f->isa->end();
    if (!fit)
        set_unfit(j);
}

/* ---- all of it ---- */

/* Hands out blocks of sums; the last chunk's by pairs of panels, if they are put at once. */
static void run_blocks(job *j)
{
    const gr_fold_plan *f = j->f;
    const bool by_pairs = f->at_once && is_last(j);
    const int64_t n = f->x_panels * f->y_panels * (by_pairs ? 1 : f->grid->n_taps);
    const int n_hands = f->alone ? 1 : gr_deal_hands(n, gr_pool_size(j->l->pool));

    gr_deal_open(&j->deal, n, gr_max64(n / (PIECES * n_hands), 1), n_hands);
    share(j, by_pairs ? pair_slice : block_slice, n_hands);
}

static void run_part(job *j, int part)
{
    const gr_fold_plan *f = j->f;
    const int n_threads = gr_pool_size(j->l->pool);
    int64_t chunk = part * f->n_chunks / f->n_parts;

    j->part = part;
    j->first = true;
    for (; chunk < (part + 1) * f->n_chunks / f->n_parts; chunk++) {
        j->lo = chunk * f->chunk;
        share(j, line_slice, n_threads);
        if (!f->isa->y_by_steps)
            share(j, panel_slice, n_threads);
        run_blocks(j);
        j->first = false;
    }
}

/* Whole parts, in buffers of the slice's own. */
static void part_slice(void *arg, int slice, int n_slices)
{
    job *all = arg;
    job own = { .f = all->f, .l = all->l, .group = all->group, .unfit = all->unfit };
    int64_t lo, hi;

    (void)n_slices;
    own.work = all->work + (size_t)slice * all->f->team_bytes;
    while (gr_deal_take(&all->deal, slice, &lo, &hi))
        for (; lo < hi; lo++)
            run_part(&own, (int)lo);
}

static void run_group(job *j)
{
    const gr_fold_plan *f = j->f;
    const int n_threads = gr_pool_size(j->l->pool);

    if (f->alone) {
        gr_deal_open(&j->deal, f->n_parts, 1, n_threads);
        gr_pool_run(j->l->pool, part_slice, j, n_threads);
    } else {
        for (int part = 0; part < f->n_parts; part++)
            run_part(j, part);
    }
    if (!f->at_once) {
        j->part = 0;
        gr_pool_run(j->l->pool, put_slice, j, n_threads);
    }
}

gr_status gr_conv_fold_run(const gr_launch *l)
{
    const gr_fold_plan *f = l->data;
    atomic_bool unfit = false;
    job j = { .f = f, .l = l, .work = l->work, .unfit = &unfit };

    if (gr_shape_count(&l->node->out[0].shape) == 0)
        return GR_OK;
    if (f->grid->n_lines == 0) { /* a sum of nothing */
        memset(l->out[0], 0, gr_value_bytes(&l->node->out[0]));
        return GR_OK;
    }
    for (; j.group < f->d.groups; j.group++)
        run_group(&j);
    if (f->other && atomic_load_explicit(&unfit, memory_order_relaxed)) {
        gr_launch again = *l;

        again.data = f->other;
        return gr_conv_fold_run(&again);
    }
    return GR_OK;
}
