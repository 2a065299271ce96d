/* The exchange space: making it, and reducing gradients where they lie. */
#include "comm/shm/shm.h"

#include "base/pages.h"
#include "base/pool.h"
#include "base/size.h"
#include "comm/reduce.h"

#include <stdio.h>
#include <string.h>

#define SLICE_ELEMS 1024                /* threads' slices begin at multiples */
#define SLICE_BYTES ((size_t)128 << 10) /* of all ranks' parts, that are worth a slice */
#define ALONE_BYTES ((size_t)512 << 10) /* below, one thread does it all */

/* ---- making the space ---- */

static gr_status make_parts(gr_shm *s, size_t n_bytes)
{
    shm_world *w = s->world;

    if (w->is_threads)
        return shm_segment_anonymous(&w->exchange, n_bytes);
    GR_TRY(shm_segment_create(&w->exchange, n_bytes, SHM_LARGE_PAGES));
    s->head->exchange_fd = w->exchange.fd;
    return GR_OK;
}

/* Round 1: nobody uses the old space any more. Round 2: rank 0 has made the new one.
 * Round 3: everybody has mapped it and given its own part pages. */
static gr_status replace_parts(gr_shm *s, const gr_what *what)
{
    size_t stride =
        gr_round_up(what->n_elem ? what->n_elem : 1,
                    what->n_elem >= GR_LARGE_PAGE_BYTES ? GR_LARGE_PAGE_BYTES : GR_PAGE_BYTES);
    shm_world *w = s->world;
    bool is_mine = s->pg.rank == 0 || !w->is_threads;
    size_t n_bytes;

    GR_TRY(gr_size_mul(&n_bytes, stride, (size_t)s->pg.size));
    GR_TRY(shm_round(s, what, NULL, 0));
    s->parts = NULL;
    s->part_bytes = 0;
    if (is_mine)
        shm_segment_close(&w->exchange);
    if (s->pg.rank == 0)
        GR_TRY(make_parts(s, n_bytes));
    GR_TRY(shm_round(s, what, NULL, 0));
    if (s->pg.rank != 0 && is_mine)
        GR_TRY(shm_segment_open(&w->exchange, w->owner_pid, s->head->exchange_fd, n_bytes,
                                SHM_LARGE_PAGES));
    GR_TRY(shm_segment_populate(&w->exchange, (size_t)s->pg.rank * stride, stride));
    GR_TRY(shm_round(s, what, NULL, 0));
    if (!w->is_threads) {
        shm_segment_hide(&w->exchange);
        GR_TRY(shm_segment_populate(&w->exchange, 0, n_bytes));
    }
    s->parts = (char *)w->exchange.mem;
    s->part_bytes = what->n_elem;
    s->part_stride = stride;
    return GR_OK;
}

gr_status shm_exchange(gr_pg *pg, gr_device *dev, size_t n_bytes, void **base)
{
    gr_shm *s = (gr_shm *)pg;
    gr_what what = { .kind = GR_WHAT_EXCHANGE, .n_elem = n_bytes };

    if (dev && !dev->ops->is_host)
        return gr_fail(GR_ERR_ARG, "group 'shm' has no memory on device '%s'", dev->ops->name);
    for (int i = 0; i < GR_MAX_COLLS; i++)
        if (s->is_open[i])
            return gr_fail(GR_ERR_ARG, "'%s' is started and not finished",
                           s->ranks[pg->rank].coll[i].label);
    /* All ranks have equal sizes, so all take the same way; the round checks it. */
    if (s->parts && n_bytes <= s->part_bytes)
        GR_TRY(shm_round(s, &what, NULL, 0));
    else
        GR_TRY(replace_parts(s, &what));
    *base = s->parts + (size_t)pg->rank * s->part_stride;
    return GR_OK;
}

/* ---- collectives ---- */

static gr_status check(const gr_shm *s, const gr_coll *c)
{
    size_t n_bytes, end;

    if (c->id < 0 || c->id >= GR_MAX_COLLS)
        return gr_fail(GR_ERR_ARG, "collective %d is not below %d", c->id, GR_MAX_COLLS);
    GR_TRY(gr_size_mul(&n_bytes, c->n_elem, gr_dtype_bytes(c->dtype)));
    GR_TRY(gr_size_add(&end, c->offset, n_bytes));
    if (end > s->part_bytes || c->offset % SHM_LINE != 0)
        return gr_fail(GR_ERR_ARG,
                       "bytes %zu to %zu do not lie in the exchange space of %zu bytes, "
                       "or not at a multiple of 64",
                       c->offset, end, s->part_bytes);
    return GR_OK;
}

static gr_status start(gr_shm *s, const gr_coll *c)
{
    uint64_t number = s->n_started;
    size_t i = number % GR_MAX_COLLS;
    shm_rank *me = &s->ranks[s->pg.rank];
    gr_fold_fn *fn;

    GR_TRY(check(s, c)); /* own mistakes before those of others */
    if (c->kind != GR_CALL_ALLGATHER)
        GR_TRY(gr_fold_pick(&fn, c->dtype, c->op));
    if (s->is_open[i] || s->number_of[c->id] != 0)
        return gr_fail(GR_ERR_ARG, "collective %d is started again before it is finished", c->id);
    GR_TRY(shm_alive(s));
    s->is_open[i] = true;
    s->number_of[c->id] = number + 1;
    s->n_started++;
    me->coll[i].what = (gr_what){ .kind = (int32_t)c->kind,
                                  .id = c->id + 1,
                                  .dtype = (int32_t)c->dtype,
                                  .op = (int32_t)c->op,
                                  .n_ranks = s->pg.size,
                                  .n_elem = c->n_elem,
                                  .detail = c->offset,
                                  .agreed = s->pg.agreed_name ? s->pg.agreed : 0 };
    gr_label_put(me->coll[i].label, c->label);
    atom64_hint(&me->last, number * 4 + SHM_GOAL_DONE);
    shm_publish(s, &me->coll[i].number, number + 1);
    return shm_progress(s);
}

gr_status shm_start(gr_pg *pg, const gr_coll *c, void *stream)
{
    (void)stream;
    return gr_wrap(start((gr_shm *)pg, c), "%s '%s'", gr_coll_name(c), c->label ? c->label : "");
}

/* ---- a rank's own work in a collective that all have started ---- */

/* Of a share's elements, which all are of the same length but perhaps in an all-reduce. */
typedef struct own_work {
    gr_shm *s;
    const gr_what *what;
    gr_reduce_fn *reduce; /* of an all-reduce */
    gr_fold_fn *fold;     /* of a reduce-scatter */
    size_t first, n;      /* this rank's share */
} own_work;

/* Sums of all parts, in rank order, into all parts. */
static void reduce_stretch(const own_work *w, size_t first, size_t n)
{
    w->reduce(w->s->part, w->s->pg.size, w->first + first, n,
              gr_reduce_scale((gr_reduce)w->what->op, w->s->pg.size));
}

/* Sums of all parts, in rank order, into the own part alone. */
static void fold_stretch(const own_work *w, size_t first, size_t n)
{
    const gr_shm *s = w->s;
    const gr_fold f = { .src = (const void *const *)s->part,
                        .n_src = s->pg.size,
                        .dst = &s->part[s->pg.rank],
                        .n_dst = 1,
                        .first = w->first + first,
                        .n_elem = n,
                        .scale = gr_reduce_scale((gr_reduce)w->what->op, s->pg.size) };

    w->fold(&f);
}

/* The same stretch of every other rank's share, out of its part. */
static void gather_stretch(const own_work *w, size_t first, size_t n)
{
    const gr_shm *s = w->s;
    const size_t elem = gr_dtype_bytes((gr_dtype)w->what->dtype);

    for (int r = 0; r < s->pg.size; r++) {
        const size_t at = ((size_t)r * w->n + first) * elem;

        if (r != s->pg.rank)
            memcpy((char *)s->part[s->pg.rank] + at, (const char *)s->part[r] + at, n * elem);
    }
}

static void work_slice(void *arg, int slice, int n_slices)
{
    const own_work *w = (const own_work *)arg;
    int64_t lo, hi;

    gr_pool_cut((int64_t)w->n, SLICE_ELEMS, slice, n_slices, &lo, &hi);
    if (lo >= hi)
        return;
    if (w->what->kind == GR_CALL_ALLREDUCE)
        reduce_stretch(w, (size_t)lo, (size_t)(hi - lo));
    else if (w->what->kind == GR_CALL_REDUCE_SCATTER)
        fold_stretch(w, (size_t)lo, (size_t)(hi - lo));
    else
        gather_stretch(w, (size_t)lo, (size_t)(hi - lo));
}

/* Small slices, so that threads with slower cores take fewer; one for what is done before another
 * thread is awake. */
static int count_slices(const own_work *w)
{
    size_t bytes = w->n * gr_dtype_bytes((gr_dtype)w->what->dtype) * (size_t)w->s->pg.size;
    size_t n_threads = (size_t)gr_pool_size(w->s->pg.pool), most = 4 * n_threads;

    if (n_threads == 1 || bytes < ALONE_BYTES)
        return 1;
    return (int)(bytes / SLICE_BYTES < most ? bytes / SLICE_BYTES : most);
}

static gr_status do_own_work(gr_shm *s, const gr_what *what)
{
    const gr_dtype dtype = (gr_dtype)what->dtype;
    own_work w = { .s = s, .what = what, .n = what->n_elem / (size_t)s->pg.size };
    size_t end;

    for (int r = 0; r < s->pg.size; r++)
        s->part[r] = s->parts + (size_t)r * s->part_stride + what->detail;
    w.first = (size_t)s->pg.rank * w.n;
    if (what->kind == GR_CALL_ALLREDUCE) {
        GR_TRY(gr_reduce_pick(&w.reduce, dtype, (gr_reduce)what->op));
        gr_share(what->n_elem, gr_dtype_bytes(dtype), s->pg.rank, s->pg.size, &w.first, &end);
        w.n = end - w.first;
    }
    if (what->kind == GR_CALL_REDUCE_SCATTER)
        GR_TRY(gr_fold_pick(&w.fold, dtype, (gr_reduce)what->op));
    gr_pool_run(s->pg.pool, work_slice, &w, count_slices(&w));
    return GR_OK;
}

gr_status shm_progress(gr_shm *s)
{
    if (s->engine.open)
        GR_TRY(gr_engine_move(&s->engine));
    while (s->n_reduced < s->n_started) {
        uint64_t number = s->n_reduced;
        size_t i = number % GR_MAX_COLLS;
        const shm_card *mine = &s->ranks[s->pg.rank].coll[i];

        for (; s->next_started < s->pg.size; s->next_started++) {
            shm_card *theirs = &s->ranks[s->next_started].coll[i];

            if (atom64_get(&theirs->number) != number + 1)
                return GR_OK;
            if (memcmp(&mine->what, &theirs->what, sizeof(gr_what)) != 0)
                return shm_mismatch(s, s->next_started, mine, theirs);
        }
        GR_TRY(do_own_work(s, &mine->what));
        s->next_started = 0;
        s->n_reduced++;
        shm_publish(s, &s->ranks[s->pg.rank].n_done, number + 1);
    }
    return GR_OK;
}

gr_status shm_poll(gr_pg *pg)
{
    gr_shm *s = (gr_shm *)pg;

    GR_TRY(shm_alive(s));
    return shm_progress(s);
}

gr_status shm_finish(gr_pg *pg, const gr_coll *c, void *stream)
{
    gr_shm *s = (gr_shm *)pg;
    uint64_t number;

    (void)stream;
    if (c->id < 0 || c->id >= GR_MAX_COLLS || s->number_of[c->id] == 0)
        return gr_fail(GR_ERR_ARG, "%s %d '%s' is finished but was not started", gr_coll_name(c),
                       c->id, c->label ? c->label : "");
    number = s->number_of[c->id] - 1;
    GR_TRY(shm_wait(
        s, (shm_goal){ .kind = SHM_GOAL_DONE, .number = number, .own_only = c->own_only }));
    s->number_of[c->id] = 0;
    s->is_open[number % GR_MAX_COLLS] = false;
    return GR_OK;
}
