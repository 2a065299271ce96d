/*
 * Collectives on arbitrary host memory, in pieces through the staging slots. Rule (1) of
 * shm.h says which half of which slot a rank may touch when.
 */
#include "comm/shm/shm.h"

#include "base/alloc.h"
#include "base/size.h"
#include "comm/reduce.h"

#include <string.h>

/* The half that belongs to the round which this rank enters next. */
static char *half(const gr_shm *s, int rank)
{
    return s->staging + (size_t)rank * SHM_SLOT_BYTES + (s->n_rounds % 2) * SHM_HALF_BYTES;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

gr_status shm_barrier(gr_shm *s, const gr_pg_call *c)
{
    gr_what what;

    gr_call_what(&s->pg, c, &what);
    return shm_round(s, &what, c->label, 0);
}

/* Elements [done, done + n) of a call. */
typedef struct stretch {
    const gr_pg_call *call;
    const gr_what *what;
    gr_reduce_fn *fn;
    size_t elem_bytes, done, n;
} stretch;

/* One piece: in, meet, reduce the own share in all slots, meet, out. The result comes
 * back from the own slot, which nobody touches after the second meeting. */
static gr_status allreduce_piece(gr_shm *s, const stretch *x)
{
    char *first = half(s, 0), *mine = half(s, s->pg.rank);
    size_t at = x->done * x->elem_bytes, lo, hi;

    if (x->n > 0)
        memcpy(mine, (const char *)x->call->src + at, x->n * x->elem_bytes);
    GR_TRY(shm_round(s, x->what, x->call->label, 0));
    gr_share(x->n, x->elem_bytes, s->pg.rank, s->pg.size, &lo, &hi);
    for (int r = 0; r < s->pg.size; r++)
        s->part[r] = first + (size_t)r * SHM_SLOT_BYTES;
    if (lo < hi)
        x->fn(s->part, s->pg.size, lo, hi - lo, gr_reduce_scale(x->call->op, s->pg.size));
    GR_TRY(shm_round(s, x->what, x->call->label, 0));
    if (x->n > 0)
        memcpy((char *)x->call->dst + at, mine, x->n * x->elem_bytes);
    return GR_OK;
}

gr_status shm_allreduce(gr_shm *s, const gr_pg_call *c)
{
    gr_what what;
    stretch x = { .call = c, .what = &what, .elem_bytes = gr_dtype_bytes(c->dtype) };

    GR_TRY(gr_reduce_pick(&x.fn, c->dtype, c->op));
    gr_call_what(&s->pg, c, &what);
    do {
        x.n = smaller(c->n_elem - x.done, SHM_HALF_BYTES / x.elem_bytes);
        GR_TRY(allreduce_piece(s, &x));
        x.done += x.n;
    } while (x.done < c->n_elem);
    return GR_OK;
}

gr_status shm_broadcast(gr_shm *s, const gr_pg_call *c)
{
    size_t n_bytes = c->n_elem * gr_dtype_bytes(c->dtype), done = 0;
    bool is_root = s->pg.rank == c->root;
    gr_what what;

    gr_call_what(&s->pg, c, &what);
    if (is_root && c->src != c->dst && n_bytes > 0)
        memcpy(c->dst, c->src, n_bytes);
    do {
        size_t n = smaller(n_bytes - done, SHM_HALF_BYTES);
        char *from = half(s, c->root);

        if (is_root && n > 0)
            memcpy(from, (const char *)c->src + done, n);
        GR_TRY(shm_round(s, &what, c->label, 0));
        if (!is_root && n > 0)
            memcpy((char *)c->dst + done, from, n);
        done += n;
    } while (done < n_bytes);
    return GR_OK;
}

/* ---- gather ---- */

/* The part [done, done + SHM_HALF_BYTES) of n bytes. */
static size_t piece(size_t n, size_t done)
{
    return n > done ? smaller(n - done, SHM_HALF_BYTES) : 0;
}

/* Room for all ranks' bytes in one block: pointers first, then the texts with their NULs. */
static gr_status make_room(char ***out, const uint64_t *sizes, int n_ranks)
{
    size_t total = (size_t)n_ranks * sizeof(char *);
    char **all;
    char *at;

    for (int r = 0; r < n_ranks; r++) {
        GR_TRY(gr_size_add(&total, total, 1));
        GR_TRY(gr_size_add(&total, total, sizes[r]));
    }
    all = (char **)gr_malloc(total);
    if (!all)
        return GR_ERR_NOMEM;
    at = (char *)(all + n_ranks);
    for (int r = 0; r < n_ranks; r++) {
        all[r] = at;
        at += sizes[r];
        *at++ = '\0';
    }
    *out = all;
    return GR_OK;
}

/* The first meeting carries the sizes and the first piece at once. */
static gr_status gather(gr_shm *s, const char *src, size_t n_bytes, char ***all, uint64_t *n)
{
    gr_what what = { .kind = GR_WHAT_GATHER_BYTES };
    size_t longest = n_bytes, done = 0;

    do {
        size_t mine = piece(n_bytes, done);
        const char *from = half(s, 0);
        size_t card = s->n_rounds % 2;

        if (mine > 0)
            memcpy(half(s, s->pg.rank), src + done, mine);
        GR_TRY(shm_round(s, &what, NULL, n_bytes));
        if (done == 0) {
            for (int r = 0; r < s->pg.size; r++) {
                n[r] = s->ranks[r].round[card].n_bytes;
                longest = n[r] > longest ? n[r] : longest;
            }
            GR_TRY(make_room(all, n, s->pg.size));
        }
        for (int r = 0; r < s->pg.size; r++)
            memcpy((*all)[r] + (done < n[r] ? done : n[r]), from + (size_t)r * SHM_SLOT_BYTES,
                   piece(n[r], done));
        done += SHM_HALF_BYTES;
    } while (done < longest);
    return GR_OK;
}

gr_status shm_gather_bytes(gr_pg *pg, const void *src, size_t n_bytes, char ***out, size_t *sizes)
{
    uint64_t *n = (uint64_t *)gr_calloc((size_t)pg->size, sizeof(*n));
    char **all = NULL;
    gr_status st;

    if (!n)
        return GR_ERR_NOMEM;
    st = gather((gr_shm *)pg, (const char *)src, n_bytes, &all, n);
    for (int r = 0; r < pg->size && sizes && st == GR_OK; r++)
        sizes[r] = n[r];
    gr_free(n);
    if (st != GR_OK) {
        gr_free(all);
        return st;
    }
    *out = all;
    return GR_OK;
}
