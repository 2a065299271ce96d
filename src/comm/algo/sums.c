/*
 * Reductions in which whoever sums has every rank's elements.
 *
 * all (small counts): everybody sends everything to everybody, and sums.
 *   one step, n (W - 1) bytes out per rank.
 *
 * shares: rank k sums share k of everybody and hands it out.
 *
 *              rank 0          rank 1          rank 2
 *   start      a0 b0 c0        a1 b1 c1        a2 b2 c2
 *   raw        a1 a2 come      b0 b2 come      c0 c1 come
 *   sum        a               b               c           in rank order
 *   out        a to 1, 2       b to 0, 2       c to 0, 1
 *
 *   two steps, 2 n (W - 1) / W bytes out per rank, as a ring; pieces of a share flow, so
 *   the first results go out while the last raw elements still come in.
 *   Counts below W leave some shares empty.
 *
 *   Raw elements are patient messages (wire.h): on wires that have patience they come into
 *   a small window, DEPTH pieces of each rank, which stays in the processor's cache from the
 *   copy out of the system's buffers to the sum and from there to the next piece:
 *
 *       places   0     1     0     1
 *       pieces   0     1     2     3 ...     piece i + DEPTH waits for the sum of piece i
 */
#include "comm/algo/algo.h"

#include "base/alloc.h"

gr_fold gr_algo_fold(const gr_algo_args *a, size_t n_elem)
{
    return (gr_fold){ .n_elem = n_elem, .scale = gr_reduce_scale(a->call->op, a->size) };
}

void gr_share(size_t n, size_t elem_bytes, int k, int n_shares, size_t *lo, size_t *hi)
{
    size_t per_line = 64 / elem_bytes;
    size_t n_lines = (n + per_line - 1) / per_line;
    size_t each = n_lines / (size_t)n_shares, rest = n_lines % (size_t)n_shares, i = (size_t)k;

    *lo = gr_least((i * each + (i < rest ? i : rest)) * per_line, n);
    *hi = gr_least((i * each + (i < rest ? i : rest) + each + (i < rest)) * per_line, n);
}

size_t gr_lane_part(const gr_algo_args *a, size_t n, size_t *first)
{
    size_t lo, hi;

    gr_share(n, a->elem_bytes, a->lane, a->n_lanes, &lo, &hi);
    *first += lo;
    return hi - lo;
}

#define DEPTH        2
#define WINDOW_BYTES ((size_t)2 << 20) /* of all ranks together: a second-level cache */
#define LEAST_PIECE  ((size_t)32 << 10)
#define MOST_PIECE   ((size_t)128 << 10)

/* Room for the other ranks' elements, each `stride` bytes after the one before. */
typedef struct terms {
    const void **src; /* one address per rank, for the fold that is being written */
    char *room;
    size_t stride;
} terms;

/* `more` bytes follow the room. */
static gr_status begin_terms(const gr_algo_args *a, terms *t, size_t n_elem, size_t more)
{
    t->stride = (n_elem * a->elem_bytes + 63) & ~(size_t)63;
    t->room = gr_sched_scratch(a->sched, (size_t)(a->size - 1) * t->stride + more);
    t->src = (const void **)gr_calloc((size_t)a->size, sizeof(*t->src));
    return t->room && t->src ? GR_OK : GR_ERR_NOMEM;
}

static char *place_of(const gr_algo_args *a, const terms *t, int rank)
{
    return t->room + (size_t)(rank < a->rank ? rank : rank - 1) * t->stride;
}

/* A stretch of n elements: this rank's own, where the others' begin, where the sum goes. */
typedef struct stretch {
    const char *own;
    size_t at; /* bytes from the beginning of every place */
    void *dst;
    size_t n;
} stretch;

/* The sum of a stretch in rank order, when the steps from `lo` on are done. */
static int add_sum(const gr_algo_args *a, const terms *t, const stretch *x, int lo)
{
    gr_fold f = gr_algo_fold(a, x->n);

    for (int r = 0; r < a->size; r++)
        t->src[r] = r == a->rank ? x->own : place_of(a, t, r) + x->at;
    f.src = t->src;
    f.n_src = a->size;
    f.dst = &x->dst;
    f.n_dst = 1;
    return gr_sched_fold(a->sched, &f, lo, a->sched->n_steps);
}

/* In place, the sum also waits until the own elements have gone out. */
gr_status gr_algo_sum_all(const gr_algo_args *a)
{
    size_t n = a->call->n_elem, n_bytes = n * a->elem_bytes;
    stretch x = { .own = (const char *)a->call->src, .dst = a->call->dst, .n = n };
    int lo = a->sched->n_steps;
    terms t = { NULL, NULL, 0 };
    gr_status st = begin_terms(a, &t, n, 0);

    for (int k = 1; k < a->size && st == GR_OK; k++) {
        int to = (a->rank + k) % a->size, from = (a->rank + a->size - k) % a->size;

        gr_sched_recv(a->sched, from, place_of(a, &t, from), n_bytes, GR_NONE);
        gr_sched_send(a->sched, to, a->call->src, n_bytes, GR_NONE);
    }
    if (st == GR_OK)
        add_sum(a, &t, &x, lo);
    gr_free(t.src);
    return st;
}

/* reduce, small: everybody sends everything to the root, and the root sums. */
gr_status gr_algo_reduce_root(const gr_algo_args *a)
{
    size_t n = a->call->n_elem, n_bytes = n * a->elem_bytes;
    stretch x = { .own = (const char *)a->call->src, .dst = a->call->dst, .n = n };
    int lo = a->sched->n_steps;
    terms t = { NULL, NULL, 0 };
    gr_status st;

    if (a->rank != a->call->root) {
        gr_sched_send(a->sched, a->call->root, a->call->src, n_bytes, GR_NONE);
        return GR_OK;
    }
    st = begin_terms(a, &t, n, 0);
    for (int r = 0; r < a->size && st == GR_OK; r++)
        if (r != a->rank)
            gr_sched_recv(a->sched, r, place_of(a, &t, r), n_bytes, GR_NONE);
    if (st == GR_OK)
        add_sum(a, &t, &x, lo);
    gr_free(t.src);
    return st;
}

/* One rank's part in a sum by shares. */
typedef struct shares {
    const gr_algo_args *a;
    terms t;
    size_t (*share)(const gr_algo_args *a, int k, size_t *first); /* returns its count */
    char *result;     /* where my share goes; NULL: into the room */
    size_t piece;     /* elements */
    int folds[DEPTH]; /* the last ones written, by place in the window */
} shares;

static shares make_shares(const gr_algo_args *a,
                          size_t (*share)(const gr_algo_args *a, int k, size_t *first))
{
    size_t window = (WINDOW_BYTES / DEPTH / (size_t)a->size) & ~(size_t)63;
    size_t most = gr_least(window > LEAST_PIECE ? window : LEAST_PIECE, MOST_PIECE);
    size_t n_bytes = a->has_patience ? gr_least(a->piece_bytes, most) : a->piece_bytes;
    shares s = { .a = a, .share = share, .piece = n_bytes / a->elem_bytes };

    for (int i = 0; i < DEPTH; i++)
        s.folds[i] = GR_NONE;
    return s;
}

static size_t whole_share(const gr_algo_args *a, int k, size_t *first)
{
    size_t lo, hi;

    gr_share(a->call->n_elem, a->elem_bytes, k, a->size, &lo, &hi);
    *first = lo;
    return gr_lane_part(a, hi - lo, first);
}

static size_t block_share(const gr_algo_args *a, int k, size_t *first)
{
    *first = gr_call_first(a->call, k);
    return gr_lane_part(a, gr_call_count(a->call, k), first);
}

/* Raw elements of every share go to the rank that sums it, piece by piece in turn. */
static void send_raw(const shares *s)
{
    const gr_algo_args *a = s->a;
    size_t longest = 0, first;

    for (int k = 0; k < a->size; k++) {
        size_t n = s->share(a, k, &first);

        longest = n > longest ? n : longest;
    }
    for (size_t at = 0; at < longest; at += s->piece)
        for (int k = 1; k < a->size; k++) {
            int to = (a->rank + k) % a->size;
            size_t n = s->share(a, to, &first);

            if (at < n)
                gr_sched_send_patient(a->sched, to,
                                      (const char *)a->call->src + (first + at) * a->elem_bytes,
                                      gr_least(s->piece, n - at) * a->elem_bytes);
        }
}

/* My share: raw elements in, sum. The fold of a piece is the last of its steps. */
static int sum_piece(shares *s, size_t at, size_t n)
{
    const gr_algo_args *a = s->a;
    size_t place = at / s->piece % DEPTH, first;
    int lo = a->sched->n_steps;
    stretch x = { .at = (a->has_patience ? place * s->piece : at) * a->elem_bytes,
                  .dst = s->result + at * a->elem_bytes,
                  .n = n };

    s->share(a, a->rank, &first);
    x.own = (const char *)a->call->src + (first + at) * a->elem_bytes;
    for (int k = 1; k < a->size; k++) {
        int from = (a->rank + a->size - k) % a->size;

        gr_sched_recv_patient(a->sched, from, place_of(a, &s->t, from) + x.at, n * a->elem_bytes,
                              a->has_patience ? s->folds[place] : GR_NONE);
    }
    s->folds[place] = add_sum(a, &s->t, &x, lo);
    return s->folds[place];
}

/* Share k's finished pieces, from the rank that summed them into dst. */
static void take_result(const shares *s, int k)
{
    const gr_algo_args *a = s->a;
    size_t first, n = s->share(a, k, &first);

    for (size_t at = 0; at < n; at += s->piece)
        gr_sched_recv(a->sched, k, (char *)a->call->dst + (first + at) * a->elem_bytes,
                      gr_least(s->piece, n - at) * a->elem_bytes, GR_NONE);
}

typedef void after_piece(const shares *s, size_t at, size_t n, int fold);

/* takes: this rank gets the other shares' results. */
static gr_status sum_shares(shares *s, bool takes, after_piece *after)
{
    const gr_algo_args *a = s->a;
    size_t first, n = s->share(a, a->rank, &first);
    size_t window = a->has_patience ? gr_least(n, DEPTH * s->piece) : n;
    gr_status st = begin_terms(a, &s->t, window, s->result ? 0 : n * a->elem_bytes);

    if (st == GR_OK && !s->result)
        s->result = s->t.room + (size_t)(a->size - 1) * s->t.stride;
    if (st == GR_OK)
        send_raw(s);
    for (int k = 1; k < a->size && takes && st == GR_OK; k++)
        take_result(s, (a->rank + a->size - k) % a->size);
    gr_sched_loosen(a->sched);
    for (size_t at = 0; at < n && st == GR_OK; at += s->piece) {
        size_t m = gr_least(s->piece, n - at);
        int fold = sum_piece(s, at, m);

        if (after)
            after(s, at, m, fold);
    }
    gr_free(s->t.src);
    return st;
}

static void to_all(const shares *s, size_t at, size_t n, int fold)
{
    const gr_algo_args *a = s->a;

    for (int k = 1; k < a->size; k++)
        gr_sched_send(a->sched, (a->rank + k) % a->size, s->result + at * a->elem_bytes,
                      n * a->elem_bytes, fold);
}

static void to_root(const shares *s, size_t at, size_t n, int fold)
{
    if (s->a->rank != s->a->call->root)
        gr_sched_send(s->a->sched, s->a->call->root, s->result + at * s->a->elem_bytes,
                      n * s->a->elem_bytes, fold);
}

/* In place nothing is overwritten too early: share k's sum comes back only after rank k
 * has all of this rank's elements of it. */
gr_status gr_algo_sum_shares(const gr_algo_args *a)
{
    shares s = make_shares(a, whole_share);
    size_t first;

    whole_share(a, a->rank, &first);
    s.result = (char *)a->call->dst + first * a->elem_bytes;
    return sum_shares(&s, true, to_all);
}

gr_status gr_algo_reduce_shares(const gr_algo_args *a)
{
    bool is_root = a->rank == a->call->root;
    shares s = make_shares(a, whole_share);
    size_t first;

    whole_share(a, a->rank, &first);
    s.result = is_root ? (char *)a->call->dst + first * a->elem_bytes : NULL;
    return sum_shares(&s, is_root, to_root);
}

gr_status gr_algo_reduce_scatter(const gr_algo_args *a)
{
    shares s = make_shares(a, block_share);
    size_t first = 0; /* dst is this rank's block */

    gr_lane_part(a, gr_call_count(a->call, a->rank), &first);
    s.result = (char *)a->call->dst + first * a->elem_bytes;
    return sum_shares(&s, false, NULL);
}
