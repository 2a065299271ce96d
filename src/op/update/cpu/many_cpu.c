/*
 * CPU kernels of many_updates. Elements are dealt out in units of GR_UPDATE_GRAIN, counted
 * through all parts; a slice takes a stretch of neighbouring units. A unit never crosses
 * from one parameter into the next. With rows, ranks share the units of one pile.
 */
#include "base/alloc.h"
#include "base/deal.h"
#include "comm/reduce.h"
#include "op/isa.h"
#include "op/update/cpu/update_cpu.h"
#include "op/update/many.h"
#include "op/update/update.h"

#define PIECES    4 /* of a thread: cores may differ in speed */
#define MIN_UNITS 4 /* of all parts together: fewer are not worth a second thread */

typedef struct many_plan {
    int n_parts;
    gr_node node[]; /* of each part */
} many_plan;

static gr_status many_prepare(gr_prepare *p)
{
    const gr_many_attr *a = (const gr_many_attr *)p->node->attr;
    size_t n = (size_t)a->n_parts;
    many_plan *plan = (many_plan *)gr_malloc(sizeof(*plan) + n * sizeof(plan->node[0]));

    if (!plan)
        return GR_ERR_NOMEM;
    plan->n_parts = a->n_parts;
    for (int i = 0; i < a->n_parts; i++)
        plan->node[i] = gr_many_node(p->node, &a->part[i]);
    p->data = plan;
    return GR_OK;
}

static size_t many_workspace(const gr_node *n, const void *data)
{
    (void)n;
    return (size_t)((const many_plan *)data)->n_parts * sizeof(gr_update_job);
}

typedef struct many_run many_run;
struct many_run {
    /* Elements [first, first + n) of a part: whole units, but for the part's end. */
    void (*stretch)(const many_run *m, const gr_update_job *j, size_t first, size_t n);
    const gr_update_job *jobs;
    int n_jobs;
    int64_t n_units;
    gr_deal *deal; /* units: a thread mostly gets the same ones in every step */

    gr_coll_rows rows; /* with rows only */
    gr_fold_fn *fold;
    int rank, n_ranks;
    double scale;
};

static void run_stretch(const many_run *m, const gr_update_job *j, size_t first, size_t n)
{
    (void)m;
    gr_update_run(j, first, n);
}

static int64_t units_of(const gr_update_job *j)
{
    return (int64_t)((j->n + GR_UPDATE_GRAIN - 1) / GR_UPDATE_GRAIN);
}

/* Units [lo, hi), counted over all parts. */
static void run_units(const many_run *m, int64_t lo, int64_t hi)
{
    int64_t at = 0;

    for (int i = 0; i < m->n_jobs && at < hi; i++) {
        const gr_update_job *j = &m->jobs[i];
        int64_t n = units_of(j);
        int64_t from = lo > at ? lo - at : 0, to = hi - at < n ? hi - at : n;
        size_t first = (size_t)from * GR_UPDATE_GRAIN, end = (size_t)to * GR_UPDATE_GRAIN;

        if (from < to)
            m->stretch(m, j, first, (end < j->n ? end : j->n) - first);
        at += n;
    }
}

static void run_slice(void *arg, int slice, int n_slices)
{
    const many_run *m = (const many_run *)arg;
    int64_t lo, hi;

    (void)n_slices;
    while (gr_deal_take(m->deal, slice, &lo, &hi))
        run_units(m, lo, hi);
}

/* ---- rows ---- */

#define PIECE_UNITS 8 /* that a thread takes at once: 128 KiB of each rank's gradients */

/* All ranks' gradients of at most a block into `sum`, by the law of comm/reduce.h. */
static void sum_rows(const many_run *m, size_t at, size_t n, float *sum)
{
    void *const dst[1] = { sum };

    for (int r = 0; r < m->n_ranks; r++) {
        const void *src[1] = { (const float *)m->rows.row[r] + at };
        const gr_fold f = { .prefix = r > 0 ? sum : NULL,
                            .src = src,
                            .n_src = 1,
                            .dst = dst,
                            .n_dst = 1,
                            .n_elem = n,
                            .scale = m->scale };

        m->fold(&f);
    }
}

static void rows_stretch(const many_run *m, const gr_update_job *j, size_t first, size_t n)
{
    const size_t at = (size_t)(j->grad - (const float *)m->rows.row[m->rank]);
    float sum[GR_UPDATE_BLOCK];

    for (size_t end = first + n; first < end; first += GR_UPDATE_BLOCK) {
        size_t len = end - first < GR_UPDATE_BLOCK ? end - first : GR_UPDATE_BLOCK;

        sum_rows(m, at + first, len, sum);
        gr_update_run_from(j, first, len, sum);
    }
}

static void rows_slice(void *arg, int slice, int n_slices)
{
    const many_run *m = (const many_run *)arg;
    uint64_t n_pieces = (uint64_t)(m->n_units + PIECE_UNITS - 1) / PIECE_UNITS, piece;

    (void)slice;
    (void)n_slices;
    while ((piece = gr_coll_rows_take(&m->rows, n_pieces)) < n_pieces) {
        int64_t lo = (int64_t)piece * PIECE_UNITS, left = m->n_units - lo;

        run_units(m, lo, lo + (left < PIECE_UNITS ? left : PIECE_UNITS));
    }
}

static gr_status run_rows(const gr_launch *l, many_run *m)
{
    const gr_collective_attr *c = &((const gr_many_attr *)l->node->attr)->rows;

    GR_TRY(gr_pg_rows(c->pg, &c->coll, &m->rows));
    GR_TRY(gr_fold_pick(&m->fold, GR_F32, c->coll.op));
    m->stretch = rows_stretch;
    m->rank = gr_pg_rank(c->pg);
    m->n_ranks = gr_pg_size(c->pg);
    m->scale = gr_reduce_scale(c->coll.op, m->n_ranks);
    gr_pool_run(l->pool, rows_slice, m, m->n_units <= PIECE_UNITS ? 1 : gr_pool_size(l->pool));
    return GR_OK;
}

/* ---- kernels ---- */

static gr_status run_many(const gr_launch *l, const gr_update_loops *loops)
{
    const gr_many_attr *a = (const gr_many_attr *)l->node->attr;
    const many_plan *plan = (const many_plan *)l->data;
    gr_update_job *jobs = (gr_update_job *)l->work;
    gr_deal deal;
    many_run m = { .stretch = run_stretch, .jobs = jobs, .deal = &deal };
    int64_t grain;
    int n_hands;

    for (int i = 0; i < plan->n_parts; i++) {
        gr_launch part = *l;

        part.node = &plan->node[i];
        part.src = l->src + a->part[i].src;
        part.out = l->out + a->part[i].out;
        if (!gr_update_begin_of(a->part[i].op)(&part, loops, &jobs[m.n_jobs]))
            continue; /* skipped: the step's gradients are not finite */
        m.n_units += units_of(&jobs[m.n_jobs++]);
    }
    if (a->rows.pg)
        return run_rows(l, &m);
    n_hands = m.n_units < MIN_UNITS ? 1 : gr_deal_hands(m.n_units, gr_pool_size(l->pool));
    grain = m.n_units / (n_hands == 1 ? 1 : PIECES * n_hands);
    gr_deal_open(&deal, m.n_units, grain < 1 ? 1 : grain, n_hands);
    gr_pool_run(l->pool, run_slice, &m, n_hands);
    return GR_OK;
}

static gr_status run_avx512(const gr_launch *l)
{
    return run_many(l, &gr_update_avx512);
}

static gr_status run_avx2(const gr_launch *l)
{
    return run_many(l, &gr_update_avx2);
}

static gr_status run_reference(const gr_launch *l)
{
    return run_many(l, &gr_update_ref);
}

/* clang-format off */
#define KERNEL(kernel, why_not, fn) \
    { .name = kernel, .reject = why_not, .prepare = many_prepare, .workspace = many_workspace, \
      .run = fn, .release = gr_free }
/* clang-format on */

const gr_kernel gr_many_updates_cpu[] = {
    KERNEL("avx512", gr_no_avx512, run_avx512),
    KERNEL("avx2", gr_no_avx2, run_avx2),
    KERNEL("reference", NULL, run_reference),
    { .name = NULL },
};
