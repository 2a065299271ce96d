/*
 * Shares of a collective in the exchange space: what each rank is to reduce, or to copy, when all
 * have started. A share is cut into pieces at places that depend on its length alone. Whoever has
 * time takes the next one: the threads of the rank whose share it is, and ranks that wait for it.
 * All law is in reduce.h: who sums an element does not change its bits.
 *
 *     taken   turn + 0, 1, ... n    raised by who takes a piece
 *     done    turn + 0, 1, ... n    raised when a piece is reduced; at n the share is
 *
 * (1) A turn is larger than every count of the turns before it, so whoever comes late to a share
 *     that is used again finds no piece left.
 * (2) The owner sets both to a new turn before it shows its card, and nobody looks before that.
 * (3) A rank that helps says whom in `helps` before it takes a piece, and takes it back when all
 *     it took are reduced: if it dies in between, those who wait know whom to blame.
 */
#include "comm/shm/shm.h"

#include "base/pool.h"
#include "comm/reduce.h"

#include <string.h>

#define TURN_BITS   24   /* pieces of a share are fewer than 2^this */
#define GRAIN       1024 /* elements: pieces begin at multiples */
#define MOST_PIECES 4096
#define PIECE_BYTES ((size_t)128 << 10) /* of all ranks' parts: some 10 us */
#define ALONE_BYTES ((size_t)512 << 10) /* below, one thread does it all */

typedef struct share {
    gr_shm *s;
    const gr_what *what;
    gr_reduce_fn *reduce; /* of an all-reduce */
    gr_fold_fn *fold;     /* of a reduce-scatter */
    int owner;
    size_t first, n; /* elements; all shares are of one length but perhaps in an all-reduce */
    size_t piece;    /* elements of one */
    shm_share *count;
    uint64_t turn, end; /* of count->taken and count->done: none, and all */
} share;

static uint64_t turn_of(uint64_t number)
{
    return (number + 1) << TURN_BITS;
}

/* Where the share lies and how it is cut; not what is done with it. */
static share find_share(gr_shm *s, uint64_t number, int owner)
{
    const size_t i = number % GR_MAX_COLLS;
    const gr_what *what = &s->ranks[s->pg.rank].coll[i].what;
    const size_t elem = gr_dtype_bytes((gr_dtype)what->dtype), size = (size_t)s->pg.size;
    share h = { .s = s, .what = what, .owner = owner, .n = what->n_elem / size };
    size_t end;

    if (what->kind == GR_WHAT_ROWS)
        h.n = 0; /* ranks do it outside */
    h.first = (size_t)owner * h.n;
    if (what->kind == GR_CALL_ALLREDUCE) {
        gr_share(what->n_elem, elem, owner, s->pg.size, &h.first, &end);
        h.n = end - h.first;
    }
    h.piece = PIECE_BYTES / (elem * size);
    if (h.piece < h.n / MOST_PIECES)
        h.piece = h.n / MOST_PIECES;
    h.piece = (h.piece / GRAIN + 1) * GRAIN;
    h.count = &s->ranks[owner].share[i];
    h.turn = turn_of(number);
    h.end = h.turn + (h.n + h.piece - 1) / h.piece;
    return h;
}

void shm_share_open(gr_shm *s, uint64_t number)
{
    shm_share *mine = &s->ranks[s->pg.rank].share[number % GR_MAX_COLLS];

    atom64_set(&mine->done, turn_of(number));
    atom64_set(&mine->taken, turn_of(number));
}

static bool is_done(gr_shm *s, uint64_t number, int owner)
{
    const share h = find_share(s, number, owner);

    return atom64_get(&h.count->done) >= h.end;
}

bool shm_has_done(gr_shm *s, int rank, uint64_t n)
{
    uint64_t *known = &s->n_done[rank];

    /* (3) of shm.h: what a card was used for before is finished. */
    if (s->n_started > *known + GR_MAX_COLLS)
        *known = s->n_started - GR_MAX_COLLS;
    while (*known < s->n_ready && is_done(s, *known, rank))
        ++*known;
    return *known >= n;
}

static bool has_pieces(const share *h)
{
    uint64_t taken = atom64_get(&h->count->taken);

    return taken >= h->turn && taken < h->end;
}

/* ---- the work ---- */

/* Sums of all parts, in rank order, into all parts. */
static void reduce_stretch(const share *h, size_t first, size_t n)
{
    h->reduce(h->s->part, h->s->pg.size, h->first + first, n,
              gr_reduce_scale((gr_reduce)h->what->op, h->s->pg.size));
}

/* Sums of all parts, in rank order, into the owner's part alone. */
static void fold_stretch(const share *h, size_t first, size_t n)
{
    const gr_shm *s = h->s;
    const gr_fold f = { .src = (const void *const *)s->part,
                        .n_src = s->pg.size,
                        .dst = &s->part[h->owner],
                        .n_dst = 1,
                        .first = h->first + first,
                        .n_elem = n,
                        .scale = gr_reduce_scale((gr_reduce)h->what->op, s->pg.size) };

    h->fold(&f);
}

/* The same stretch of every other rank's share, out of its part, into the owner's. */
static void gather_stretch(const share *h, size_t first, size_t n)
{
    const gr_shm *s = h->s;
    const size_t elem = gr_dtype_bytes((gr_dtype)h->what->dtype);

    for (int r = 0; r < s->pg.size; r++) {
        const size_t at = ((size_t)r * h->n + first) * elem;

        if (r != h->owner)
            memcpy((char *)s->part[h->owner] + at, (const char *)s->part[r] + at, n * elem);
    }
}

static void do_piece(const share *h, size_t number)
{
    const size_t first = number * h->piece;
    const size_t n = h->n - first < h->piece ? h->n - first : h->piece;

    if (h->what->kind == GR_CALL_ALLREDUCE)
        reduce_stretch(h, first, n);
    else if (h->what->kind == GR_CALL_REDUCE_SCATTER)
        fold_stretch(h, first, n);
    else
        gather_stretch(h, first, n);
}

/* What every thread does: pieces, until none is left. */
static void work_slice(void *arg, int slice, int n_slices)
{
    const share *h = (const share *)arg;
    uint64_t taken = atom64_get(&h->count->taken);

    (void)slice;
    (void)n_slices;
    while (taken >= h->turn && taken < h->end) {
        if (!atom64_claim(&h->count->taken, &taken, taken + 1))
            continue; /* `taken` is what somebody else made of it */
        do_piece(h, (size_t)(taken - h->turn));
        atom64_add(&h->count->done, 1);
        taken = atom64_get(&h->count->taken);
    }
}

static int count_threads(const share *h)
{
    size_t bytes = h->n * gr_dtype_bytes((gr_dtype)h->what->dtype) * (size_t)h->s->pg.size;

    return bytes < ALONE_BYTES ? 1 : gr_pool_size(h->s->pg.pool);
}

static gr_status work_on(share *h)
{
    gr_shm *s = h->s;

    for (int r = 0; r < s->pg.size; r++)
        s->part[r] = s->parts + (size_t)r * s->part_stride + h->what->detail;
    if (h->what->kind == GR_CALL_ALLREDUCE)
        GR_TRY(gr_reduce_pick(&h->reduce, (gr_dtype)h->what->dtype, (gr_reduce)h->what->op));
    if (h->what->kind == GR_CALL_REDUCE_SCATTER)
        GR_TRY(gr_fold_pick(&h->fold, (gr_dtype)h->what->dtype, (gr_reduce)h->what->op));
    gr_pool_run(s->pg.pool, work_slice, h, count_threads(h));
    if (atom64_get(&h->count->done) >= h->end)
        shm_tell(s);
    return GR_OK;
}

gr_status shm_share_work(gr_shm *s, uint64_t number)
{
    share h = find_share(s, number, s->pg.rank);

    return has_pieces(&h) ? work_on(&h) : GR_OK;
}

/* ---- helping ---- */

static gr_status help_with(share *h)
{
    atom32 *helps = &h->s->ranks[h->s->pg.rank].helps;
    gr_status st;

    atom32_set(helps, (uint32_t)h->owner + 1);
    st = work_on(h);
    atom32_set(helps, 0);
    return st;
}

gr_status shm_help(gr_shm *s)
{
    for (int i = 1; i < s->pg.size; i++) {
        int owner = (s->pg.rank + i) % s->pg.size; /* helpers begin at different ranks */

        if (shm_has_done(s, owner, s->n_ready))
            continue;
        for (uint64_t number = s->n_done[owner]; number < s->n_ready; number++) {
            share h = find_share(s, number, owner);

            if (has_pieces(&h))
                return help_with(&h); /* and then a look at what this rank waits for */
        }
    }
    return GR_OK;
}

/* ---- rows ---- */

/* Rank 0's count is used by all: it has a new turn since before rank 0's card was shown. Rules (1)
 * and (2) hold for it as well; nothing counts what is done, that is for ranks to say by a
 * later meeting. */
gr_status shm_rows(gr_pg *pg, const gr_coll *c, gr_coll_rows *out)
{
    gr_shm *s = (gr_shm *)pg;
    uint64_t number = s->last_of[c->id] - 1;

    GR_BUG_IF(s->last_of[c->id] == 0);
    for (int r = 0; r < pg->size; r++)
        s->part[r] = s->parts + (size_t)r * s->part_stride + c->offset;
    *out = (gr_coll_rows){ .row = (const void *const *)s->part,
                           .next = &s->ranks[0].share[number % GR_MAX_COLLS].taken.v,
                           .first = turn_of(number) };
    return GR_OK;
}
