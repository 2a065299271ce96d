/* conv_weight on lines: sizes, workspace, and the steps that matter. */
#include "op/conv/cpu/conv_fold_plan.h"

#include "base/alloc.h"
#include "base/size.h"
#include "op/count.h"

#define LEAST_CHUNK 768 /* lines: a panel of x and one of y stay in L2 */
#define MOST_CHUNK  4096
#define CHUNK_BYTES ((int64_t)1 << 20) /* of more lines, if all panels are no larger */
#define SUM_BYTES   ((size_t)GR_FOLD_SUM_ELEMS * sizeof(float))
#define MOST_PARTS  8  /* a power of 2 */
#define MOST_TAPS   16 /* that are turned into the weight's order by transposing */

/* Of a line, as blocks of sums read it, with all its channels. */
static int64_t line_bytes(const gr_fold_plan *f)
{
    const gr_fold_isa *isa = f->isa;
    int64_t unit = isa->line_unit;
    int64_t x = isa->ahead < 0 ? f->run * (int64_t)sizeof(float)
                               : f->x_panels * isa->x_bytes(f->low, unit) / unit;

    return f->grid->n_planes * x + f->y_panels * isa->y_bytes(f->low, unit) / unit;
}

static int64_t sum_bytes(const gr_fold_plan *f)
{
    return f->grid->n_taps * f->co * f->run * (int64_t)sizeof(float);
}

/* Threads that share a chunk read what others packed, which costs them more than a core's own
 * lines do. With many lines and few sums each packs for itself. The number of parts decides bits,
 * so it depends on the shapes alone. */
static int choose_parts(const gr_fold_plan *f, int64_t n_chunks)
{
    const int64_t packed = f->grid->n_lines * line_bytes(f);
    const int64_t most = gr_min64(packed / gr_max64(2 * sum_bytes(f), 1), n_chunks);
    int n = MOST_PARTS;

    while (n > gr_max64(most, 1))
        n /= 2;
    return n;
}

/* As few chunks as the caches allow, and as many in each part. */
static void choose_chunks(gr_fold_plan *f)
{
    const int64_t n_lines = f->grid->n_lines, unit = f->isa->line_unit;
    const int64_t wish = CHUNK_BYTES / gr_max64(line_bytes(f), 1); /* 0: there are no channels */
    const int64_t most = gr_min64(gr_max64(wish, LEAST_CHUNK), MOST_CHUNK);
    int64_t n = gr_max64(gr_div_up(n_lines, most), 1);

    f->n_parts = choose_parts(f, n);
    n = gr_div_up(n, f->n_parts) * f->n_parts;
    f->chunk = gr_max64(gr_div_up(gr_div_up(n_lines, n), unit), 1) * unit;
    f->n_chunks = gr_div_up(n_lines, f->chunk);
    while (f->n_parts > gr_max64(f->n_chunks, 1)) /* whole units may have left fewer */
        f->n_parts /= 2;
}

static void choose_sizes(gr_fold_plan *f)
{
    const gr_conv_grid *g = f->grid;

    f->run = gr_div_up(f->g.run, GR_FOLD_RUN) * GR_FOLD_RUN;
    f->co = f->d.co / f->d.groups;
    f->x_panels = f->run / GR_FOLD_RUN;
    f->y_panels = gr_div_up(f->co, f->isa->rows);
    choose_chunks(f);
    f->pad = gr_max64(f->isa->ahead, 0);
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

bool gr_fold_is_regular(const gr_fold_plan *f)
{
    const int64_t n_taps = f->d.k[0] * f->d.k[1];

    return !f->grid->merged && f->grid->n_taps == n_taps && n_taps <= MOST_TAPS;
}

/* A slice's own: sums of a block, those of all taps, a row of the weight. */
static void lay_out_slices(gr_fold_plan *f)
{
    f->slice_bytes = SUM_BYTES;
    if (f->at_once)
        f->slice_bytes += (size_t)f->grid->n_taps * SUM_BYTES;
    if (f->type_w != GR_F32)
        f->slice_bytes +=
            gr_round_up((size_t)(f->g.group_at / gr_max64(f->co, 1)) * sizeof(float), 64);
}

/* What the `n_slices` threads have that share a chunk. */
static void lay_out_team(gr_fold_plan *f, int n_slices)
{
    const gr_conv_grid *g = f->grid;
    const int64_t elem = f->low ? 2 : (int64_t)sizeof(float);
    size_t at = 0;

    f->n_dense = f->n_x + (n_slices - 1) * f->pad;
    f->at_dense_x = take(&at, g->n_planes * f->n_dense * f->run * elem);
    f->at_dense_y = take(&at, f->chunk * f->co * elem + 64);
    f->at_x = take(&at, g->n_planes * f->x_panels * f->x_bytes);
    f->at_y = take(&at, f->y_panels * f->y_bytes);
    f->at_places = take(&at, f->chunk * (int64_t)sizeof(int64_t));
    f->at_slices = at;
    lay_out_slices(f);
    f->team_bytes = at + f->slice_bytes * (size_t)n_slices;
}

static void lay_out(gr_fold_plan *f, int n_threads)
{
    int n_slices;

    f->alone = f->n_parts > 1 && (f->n_parts % n_threads == 0 || f->n_parts >= 4 * n_threads);
    n_slices = f->alone ? 1 : n_threads;
    f->at_once =
        gr_fold_is_regular(f) && f->n_parts == 1 && f->x_panels * f->y_panels >= 2 * n_threads;
    lay_out_team(f, n_slices);
    f->at_sums = f->team_bytes * (size_t)(n_threads / n_slices);
    if (!f->at_once || f->n_chunks > 1)
        f->part_bytes = gr_round_up((size_t)sum_bytes(f), 64);
    f->n_bytes = f->at_sums + f->part_bytes * (size_t)f->n_parts;
}

void gr_conv_fold_release(void *data)
{
    gr_fold_plan *f = data;

    if (!f)
        return;
    gr_conv_fold_release(f->other);
    gr_conv_grids_fini(&f->g);
    gr_free(f->lists);
    gr_free(f);
}

/* ---- steps that matter ---- */

int *gr_fold_list(const gr_fold_plan *f, int64_t chunk, int64_t tap)
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
static void list_chunk(gr_fold_plan *f, int64_t chunk, uint8_t *marks, int64_t *places)
{
    const gr_conv_grid *g = f->grid;
    const int64_t unit = f->isa->line_unit, first = chunk * f->chunk;

    gr_conv_results_at(g, first, f->chunk, places);
    for (int p = 0; p < g->n_planes; p++)
        gr_conv_mark_lines(g, p, first + g->lo, f->n_x, marks + p * f->n_x);
    for (int t = 0; t < g->n_taps; t++) {
        const uint8_t *mark = marks + g->taps[t].plane * f->n_x + g->taps[t].shift - g->lo;
        int *list = gr_fold_list(f, chunk, t);

        for (int64_t i = 0; i < f->chunk; i += unit)
            if (matters(mark + i, places + i, unit))
                list[++list[0]] = (int)(i / unit);
    }
}

/* They depend on the shapes alone. */
static gr_status make_lists(gr_fold_plan *f)
{
    const gr_conv_grid *g = f->grid;
    size_t n = (size_t)(f->n_chunks * g->n_taps * (f->chunk / f->isa->line_unit + 1));
    uint8_t *marks;
    int64_t *places;
    gr_status st;

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

static gr_status make(gr_fold_plan *f, const gr_prepare *p, const gr_fold_isa *isa)
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
    gr_fold_plan *f = gr_calloc(1, sizeof(*f));
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
    const gr_fold_plan *f = data;
    size_t other = f->other ? gr_conv_fold_workspace(n, f->other) : 0;

    return f->n_bytes > other ? f->n_bytes : other;
}
