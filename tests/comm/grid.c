/* The grid of STYLE rule 38 for every call. Sums are compared bit by bit with the law. */
#include "comm/grid.h"

#include "check.h"
#include "comm/fill.h"

static const gr_dtype types[] = { GR_F32, GR_F64, GR_BF16, GR_F16, GR_I32, GR_I64, GR_U8 };
static const gr_reduce ops[] = { GR_REDUCE_SUM, GR_REDUCE_AVG,  GR_REDUCE_MAX,
                                 GR_REDUCE_MIN, GR_REDUCE_PROD, GR_REDUCE_OR };

#define GUARD 64 /* bytes behind every buffer that nobody may touch */

/* One call on one rank: its buffers, and what must come of it. */
typedef struct trial {
    gr_pg_call call;
    char *src, *dst, *want;
    size_t dst_bytes;
    size_t counts[64], send_counts[64];
    gr_work *work;
} trial;

static bool is_defined(gr_dtype t, gr_reduce op)
{
    return !(op == GR_REDUCE_AVG && !gr_dtype_is_float(t)) &&
           !(op == GR_REDUCE_OR && gr_dtype_is_float(t));
}

static char *buffer(size_t n_bytes)
{
    char *mem = (char *)malloc(n_bytes + GUARD);

    memset(mem, 0x5a, n_bytes + GUARD);
    return mem;
}

static void check_guard(const char *mem, size_t n_bytes)
{
    for (size_t i = 0; i < GUARD; i++)
        GR_CHECK_EQ(mem[n_bytes + i], 0x5a);
}

/* Unequal blocks: none, some, more; 3 n / 2 elements at most. */
static size_t uneven(int k, size_t n)
{
    return k % 3 == 0 ? 0 : k % 3 == 1 ? n : n + n / 2;
}

static size_t block_count(const trial *t, int k)
{
    return t->call.counts ? t->call.counts[k] : t->call.n_elem;
}

static size_t total(const trial *t, int n_blocks)
{
    size_t n = 0;

    for (int k = 0; k < n_blocks; k++)
        n += block_count(t, k);
    return n;
}

/* Rank r's vector for this trial, whole. */
static void own(const trial *t, void *mem, size_t n, int rank, unsigned seed)
{
    fill_vector(mem, t->call.dtype, n, rank, seed);
}

static void want_sum(trial *t, gr_pg *pg, size_t first, size_t n, unsigned seed)
{
    fill_sum s = { t->call.dtype, t->call.op, gr_pg_size(pg), seed };

    fill_expected(t->want, &s, first, n);
}

/* all-to-all: rank r sends to k what own() of r gives at the place of block k. */
static void want_alltoall(trial *t, gr_pg *pg, size_t n, unsigned seed, bool v)
{
    size_t eb = gr_dtype_bytes(t->call.dtype), at = 0;
    int w = gr_pg_size(pg), me = gr_pg_rank(pg);

    for (int from = 0; from < w; from++) {
        size_t place = 0, all = 0, m = v ? uneven(from + me, n) : n;
        char *x;

        for (int k = 0; k < w; k++) {
            place += k < me ? (v ? uneven(from + k, n) : n) : 0;
            all += v ? uneven(from + k, n) : n;
        }
        x = buffer(all * eb);
        own(t, x, all, from, seed);
        memcpy(t->want + at * eb, x + place * eb, m * eb);
        at += m;
        free(x);
    }
}

/* Sizes of both sides, in elements. */
static void sizes_of(const trial *t, gr_pg *pg, size_t *src, size_t *dst)
{
    int w = gr_pg_size(pg), me = gr_pg_rank(pg);
    size_t all = total(t, w), one = block_count(t, me), n = t->call.n_elem;
    bool is_root = t->call.root == me;

    *src = *dst = n;
    switch ((int)t->call.kind) {
    case GR_CALL_REDUCE: *dst = is_root ? n : 0; break;
    case GR_CALL_REDUCE_SCATTER: *src = all, *dst = one; break;
    case GR_CALL_ALLGATHER: *src = one, *dst = all; break;
    case GR_CALL_GATHER: *src = one, *dst = is_root ? all : 0; break;
    case GR_CALL_SCATTER: *src = is_root ? all : 0, *dst = one; break;
    case GR_CALL_ALLTOALL:
        *dst = all;
        *src = 0;
        for (int k = 0; k < w; k++)
            *src += t->call.send_counts ? t->call.send_counts[k] : n;
        break;
    default: break;
    }
}

static void fill_want(trial *t, gr_pg *pg, unsigned seed)
{
    int w = gr_pg_size(pg), me = gr_pg_rank(pg), root = t->call.root;
    size_t eb = gr_dtype_bytes(t->call.dtype), n = t->call.n_elem, at = 0, one = block_count(t, me);
    size_t before = total(t, me), all = total(t, w);
    char *x;

    switch ((int)t->call.kind) {
    case GR_CALL_ALLREDUCE: want_sum(t, pg, 0, n, seed); break;
    case GR_CALL_REDUCE:
        if (root == me)
            want_sum(t, pg, 0, n, seed);
        break;
    case GR_CALL_REDUCE_SCATTER: want_sum(t, pg, before, one, seed); break;
    case GR_CALL_BROADCAST: own(t, t->want, n, root, seed); break;
    case GR_CALL_ALLGATHER:
    case GR_CALL_GATHER:
        for (int r = 0; r < w && t->dst_bytes > 0; r++) {
            own(t, t->want + at * eb, block_count(t, r), r, seed);
            at += block_count(t, r);
        }
        break;
    case GR_CALL_SCATTER:
        x = buffer(all * eb);
        own(t, x, all, root, seed);
        memcpy(t->want, x + before * eb, one * eb);
        free(x);
        break;
    case GR_CALL_ALLTOALL: want_alltoall(t, pg, n, seed, t->call.counts != NULL); break;
    default: break;
    }
}

static void prepare(trial *t, gr_pg *pg, const gr_pg_call *c, bool is_uneven, unsigned seed)
{
    int w = gr_pg_size(pg), me = gr_pg_rank(pg);
    size_t eb = gr_dtype_bytes(c->dtype), n_src, n_dst;

    *t = (trial){ .call = *c };
    for (int k = 0; k < w && is_uneven; k++) {
        t->counts[k] = uneven(c->kind == GR_CALL_ALLTOALL ? k + me : k, c->n_elem);
        t->send_counts[k] = uneven(me + k, c->n_elem);
    }
    if (is_uneven)
        t->call.counts = t->counts;
    if (is_uneven && c->kind == GR_CALL_ALLTOALL)
        t->call.send_counts = t->send_counts;
    sizes_of(t, pg, &n_src, &n_dst);
    t->src = buffer(n_src * eb);
    t->dst = buffer(n_dst * eb);
    t->dst_bytes = n_dst * eb;
    t->want = buffer(t->dst_bytes);
    own(t, t->src, n_src, me, seed);
    fill_want(t, pg, seed);
    t->call.src = t->src;
    t->call.dst = t->dst;
}

static void verify(trial *t)
{
    bool same = memcmp(t->dst, t->want, t->dst_bytes) == 0;

    if (!same)
        fprintf(stderr, "kind %d, type %s, op %d, n %zu, root %d, uneven %d\n", (int)t->call.kind,
                gr_dtype_name(t->call.dtype), (int)t->call.op, t->call.n_elem, t->call.root,
                t->call.counts != NULL);
    GR_CHECK(same);
    check_guard(t->dst, t->dst_bytes);
    free(t->src);
    free(t->dst);
    free(t->want);
}

static gr_status one(gr_pg *pg, const gr_pg_call *c, bool is_uneven, unsigned seed)
{
    trial t;

    prepare(&t, pg, c, is_uneven, seed);
    GR_TRY(gr_pg_run(pg, &t.call));
    verify(&t);
    return GR_OK;
}

/* In place: src is NULL and dst as comm.h says. The result is found where it says. */
static gr_status one_in_place(gr_pg *pg, const gr_pg_call *c, unsigned seed)
{
    int w = gr_pg_size(pg), me = gr_pg_rank(pg);
    size_t eb = gr_dtype_bytes(c->dtype), n = c->n_elem, all_bytes = n * (size_t)w * eb, at = 0;
    char *mem = buffer(all_bytes);
    trial t;

    prepare(&t, pg, c, false, seed);
    if (c->kind == GR_CALL_ALLGATHER || (c->kind == GR_CALL_GATHER && c->root == me)) {
        memcpy(mem + (size_t)me * n * eb, t.src, n * eb);
    } else {
        size_t n_src, n_dst;

        sizes_of(&t, pg, &n_src, &n_dst);
        memcpy(mem, t.src, n_src * eb);
    }
    if (c->kind == GR_CALL_REDUCE_SCATTER || (c->kind == GR_CALL_SCATTER && c->root == me))
        at = (size_t)me * n * eb;
    t.call.src = NULL;
    t.call.dst = mem;
    GR_TRY(gr_pg_run(pg, &t.call));
    if (c->kind != GR_CALL_GATHER || c->root == me)
        memcpy(t.dst, mem + at, t.dst_bytes);
    check_guard(mem, all_bytes);
    verify(&t);
    free(mem);
    return GR_OK;
}

static gr_status all_forms(gr_pg *pg, const gr_pg_call *c, unsigned seed)
{
    GR_TRY(one(pg, c, false, seed));
    GR_TRY(one_in_place(pg, c, seed + 1));
    if (c->kind == GR_CALL_REDUCE_SCATTER ||
        (c->kind >= GR_CALL_GATHER && c->kind <= GR_CALL_ALLTOALL) || c->kind == GR_CALL_ALLGATHER)
        GR_TRY(one(pg, c, true, seed + 2));
    return GR_OK;
}

/* A ring of sends and receives: each gives to the right and takes from the left. */
static gr_status pairs(gr_pg *pg, gr_dtype t, size_t n)
{
    int w = gr_pg_size(pg), me = gr_pg_rank(pg), left = (me + w - 1) % w, right = (me + 1) % w;
    size_t n_bytes = n * gr_dtype_bytes(t);
    char *out = buffer(n_bytes), *in = buffer(n_bytes), *want = buffer(n_bytes);
    gr_pg_call send = { .kind = GR_CALL_SEND, .dtype = t, .src = out, .n_elem = n, .root = right };
    gr_work *work;

    if (w > 1) {
        fill_vector(out, t, n, me, 5);
        fill_vector(want, t, n, left, 5);
        GR_TRY(gr_pg_begin(&work, pg, &send));
        GR_TRY(gr_pg_recv(pg, (gr_vec){ in, n, t }, left));
        GR_TRY(gr_work_finish(work));
        GR_CHECK(memcmp(in, want, n_bytes + GUARD) == 0);
    }
    free(out);
    free(in);
    free(want);
    return GR_OK;
}

static gr_status run_ops(gr_pg *pg, size_t n, gr_dtype t, size_t n_ops)
{
    unsigned seed = (unsigned)n + (unsigned)t;

    for (int kind = 0; kind < GR_CALL_BARRIER; kind++)
        for (size_t o = 0; o < n_ops; o++) {
            gr_pg_call c = { .kind = (gr_call_kind)kind,
                             .dtype = t,
                             .op = ops[o],
                             .n_elem = n,
                             .root = (int)(n + (size_t)kind) % gr_pg_size(pg),
                             .label = "grid" };

            if (kind > GR_CALL_REDUCE_SCATTER && o > 0)
                break;
            if (is_defined(t, ops[o]))
                GR_TRY(all_forms(pg, &c, seed += 3));
        }
    return pairs(pg, t, n);
}

gr_status grid_run_type(gr_pg *pg, size_t n, gr_dtype t)
{
    return run_ops(pg, n, t, sizeof(ops) / sizeof(ops[0]));
}

gr_status grid_run_sum(gr_pg *pg, size_t n, gr_dtype t)
{
    return run_ops(pg, n, t, 1);
}

gr_status grid_run(gr_pg *pg, size_t n)
{
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
        GR_TRY(grid_run_type(pg, n, types[t]));
    return gr_pg_barrier(pg);
}

/* ---- random sequences ---- */

static unsigned draw(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

gr_status grid_random(gr_pg *pg, unsigned seed, int n_steps)
{
    enum { MOST = 5 };
    trial open[MOST];
    int n_open = 0;
    unsigned state = seed; /* the same draws on all ranks */

    for (int i = 0; i < n_steps; i++) {
        gr_pg_call c = { .kind = (gr_call_kind)draw(&state, GR_CALL_BARRIER),
                         .dtype = types[draw(&state, 7)],
                         .n_elem = draw(&state, draw(&state, 4) == 0 ? 70000 : 300),
                         .root = (int)draw(&state, (unsigned)gr_pg_size(pg)),
                         .label = "random" };
        bool is_uneven =
            draw(&state, 3) == 0 && c.kind >= GR_CALL_REDUCE_SCATTER && c.kind != GR_CALL_BROADCAST;

        do
            c.op = ops[draw(&state, 6)];
        while (!is_defined(c.dtype, c.op));
        if (draw(&state, 2) == 0) {
            GR_TRY(one(pg, &c, is_uneven, seed + (unsigned)i));
        } else if (n_open < MOST) {
            prepare(&open[n_open], pg, &c, is_uneven, seed + (unsigned)i);
            GR_TRY(gr_pg_begin(&open[n_open].work, pg, &open[n_open].call));
            n_open++;
        }
        if (n_open == MOST || (n_open > 0 && draw(&state, 3) == 0)) {
            int k = (int)draw(&state, (unsigned)n_open);

            GR_TRY(gr_work_finish(open[k].work));
            verify(&open[k]);
            open[k] = open[--n_open];
            /* counts move with their trial */
            for (int j = 0; j < n_open; j++) {
                if (open[j].call.counts)
                    open[j].call.counts = open[j].counts;
            }
        }
    }
    while (n_open > 0) {
        GR_TRY(gr_work_finish(open[--n_open].work));
        verify(&open[n_open]);
    }
    return gr_pg_barrier(pg);
}
