/* Checks of calls, and their blocks. */
#include "comm/call.h"

#include "base/outfile.h"
#include "base/size.h"
#include "comm/reduce.h"

#include <string.h>

#define MAX_BYTES ((size_t)1 << 48) /* more is a mistake, and sums of it do not overflow */

size_t gr_call_count(const gr_pg_call *c, int k)
{
    return c->counts ? c->counts[k] : c->n_elem;
}

size_t gr_call_first(const gr_pg_call *c, int k)
{
    size_t n = 0;

    if (!c->counts)
        return (size_t)k * c->n_elem;
    for (int i = 0; i < k; i++)
        n += c->counts[i];
    return n;
}

static bool has_blocks(gr_call_kind kind)
{
    return kind == GR_CALL_REDUCE_SCATTER || kind == GR_CALL_ALLGATHER || kind == GR_CALL_GATHER ||
           kind == GR_CALL_SCATTER || kind == GR_CALL_ALLTOALL;
}

static bool reduces(gr_call_kind kind)
{
    return kind == GR_CALL_ALLREDUCE || kind == GR_CALL_REDUCE || kind == GR_CALL_REDUCE_SCATTER;
}

static bool has_root(gr_call_kind kind)
{
    return kind == GR_CALL_REDUCE || kind == GR_CALL_BROADCAST || kind == GR_CALL_GATHER ||
           kind == GR_CALL_SCATTER;
}

static bool is_pair(gr_call_kind kind)
{
    return kind == GR_CALL_SEND || kind == GR_CALL_RECV;
}

static gr_status check_sizes(const gr_pg *pg, const gr_pg_call *c)
{
    size_t total = 0, n_bytes, limit = MAX_BYTES / gr_dtype_bytes(c->dtype);
    int n_blocks = has_blocks(c->kind) ? pg->size : 1;

    for (int k = 0; k < n_blocks; k++) {
        size_t n = n_blocks > 1 || c->counts ? gr_call_count(c, k) : c->n_elem;

        GR_TRY(gr_size_add(&total, total, n > limit ? limit + 1 : n));
        if (c->send_counts && c->send_counts[k] > limit)
            total = limit + 1;
        if (total > limit)
            return gr_fail(GR_ERR_ARG, "more than %zu bytes in one call", MAX_BYTES);
    }
    return gr_size_mul(&n_bytes, total, gr_dtype_bytes(c->dtype));
}

static gr_status check_ranks(const gr_pg *pg, const gr_pg_call *c)
{
    static const char *const to_from[] = { "to", "from" };

    if (is_pair(c->kind) && (c->root < 0 || c->root >= pg->size || c->root == pg->rank))
        return gr_fail(GR_ERR_ARG, "%s rank %d by rank %d in a group of %d ranks",
                       to_from[c->kind == GR_CALL_RECV], c->root, pg->rank, pg->size);
    if (has_root(c->kind) && (c->root < 0 || c->root >= pg->size))
        return gr_fail(GR_ERR_ARG, "root is rank %d in a group of %d ranks", c->root, pg->size);
    return GR_OK;
}

/* Elements that this rank reads from src, in a call that is right otherwise. */
static size_t count_read(const gr_pg *pg, const gr_pg_call *c)
{
    bool is_root = c->root == pg->rank;
    size_t n = 0;

    switch (c->kind) {
    case GR_CALL_ALLREDUCE:
    case GR_CALL_REDUCE:
    case GR_CALL_SEND: return c->n_elem;
    case GR_CALL_REDUCE_SCATTER: return gr_call_first(c, pg->size);
    case GR_CALL_ALLGATHER:
    case GR_CALL_GATHER: return gr_call_count(c, pg->rank);
    case GR_CALL_BROADCAST: return is_root ? c->n_elem : 0;
    case GR_CALL_SCATTER: return is_root ? gr_call_first(c, pg->size) : 0;
    case GR_CALL_ALLTOALL:
        for (int k = 0; k < pg->size; k++)
            n += c->send_counts ? c->send_counts[k] : c->n_elem;
        return n;
    case GR_CALL_BARRIER:
    case GR_CALL_RECV:
    case GR_CALL_COUNT: break;
    }
    return 0;
}

/* And writes to dst. */
static size_t count_written(const gr_pg *pg, const gr_pg_call *c)
{
    bool is_root = c->root == pg->rank;

    switch (c->kind) {
    case GR_CALL_ALLREDUCE:
    case GR_CALL_BROADCAST:
    case GR_CALL_RECV: return c->n_elem;
    case GR_CALL_REDUCE: return is_root ? c->n_elem : 0;
    case GR_CALL_REDUCE_SCATTER:
    case GR_CALL_SCATTER: return gr_call_count(c, pg->rank);
    case GR_CALL_ALLGATHER:
    case GR_CALL_ALLTOALL: return gr_call_first(c, pg->size);
    case GR_CALL_GATHER: return is_root ? gr_call_first(c, pg->size) : 0;
    case GR_CALL_BARRIER:
    case GR_CALL_SEND:
    case GR_CALL_COUNT: break;
    }
    return 0;
}

static gr_status check_memory(const gr_pg *pg, const gr_pg_call *c)
{
    if (!c->src && !c->dst && count_read(pg, c) > 0)
        return gr_fail(GR_ERR_ARG, "the memory with what rank %d gives is NULL", pg->rank);
    if (!c->dst && count_written(pg, c) > 0)
        return gr_fail(GR_ERR_ARG, "the memory for the result on rank %d is NULL", pg->rank);
    return GR_OK;
}

static gr_status check(const gr_pg *pg, const gr_pg_call *c)
{
    gr_fold_fn *fn;

    if ((unsigned)c->kind >= GR_CALL_COUNT)
        return gr_fail(GR_ERR_ARG, "there is no call of kind %d", (int)c->kind);
    if (c->kind == GR_CALL_BARRIER)
        return GR_OK;
    if ((unsigned)c->dtype >= GR_DTYPE_COUNT)
        return gr_fail(GR_ERR_ARG, "there is no element type %d", (int)c->dtype);
    if (reduces(c->kind))
        GR_TRY(gr_fold_pick(&fn, c->dtype, c->op));
    if (c->counts && !has_blocks(c->kind))
        return gr_fail(GR_ERR_ARG, "counts are for calls with a block per rank");
    if ((c->kind == GR_CALL_ALLTOALL) && !c->counts != !c->send_counts)
        return gr_fail(GR_ERR_ARG, "an all-to-all takes both lists of counts or none");
    GR_TRY(check_ranks(pg, c));
    GR_TRY(check_sizes(pg, c));
    return check_memory(pg, c);
}

/* In place: src becomes the part of dst that this rank gives. */
static void fill_source(const gr_pg *pg, gr_pg_call *c)
{
    size_t elem_bytes = gr_dtype_bytes(c->dtype);
    char *dst = (char *)c->dst;

    bool is_root = c->root == pg->rank;

    c->src = dst;
    if (c->kind == GR_CALL_ALLGATHER || (c->kind == GR_CALL_GATHER && is_root))
        c->src = dst + gr_call_first(c, pg->rank) * elem_bytes;
    if (c->kind == GR_CALL_REDUCE_SCATTER || (c->kind == GR_CALL_SCATTER && is_root))
        c->dst = dst + gr_call_first(c, pg->rank) * elem_bytes;
}

/* Puts what was asked for before a message. A pair is named from this side, not from the one
 * that both agree on. */
static gr_status wrap_call(gr_status st, const gr_pg *pg, const gr_pg_call *c)
{
    char text[GR_WHAT_TEXT];
    gr_what what;

    gr_call_what(pg, c, &what);
    if (is_pair(c->kind)) {
        what.kind = (int32_t)c->kind;
        what.root = c->root;
    }
    return gr_wrap(st, "%s", gr_what_text(&what, c->label, text, sizeof(text)));
}

gr_status gr_call_check(const gr_pg *pg, const gr_pg_call *c, gr_pg_call *out)
{
    gr_status st;

    if (!c)
        return gr_fail(GR_ERR_ARG, "there is no call (NULL)");
    st = check(pg, c);
    if (st != GR_OK)
        return wrap_call(st, pg, c);
    *out = *c;
    if (!c->src && c->dst)
        fill_source(pg, out);
    if (c->kind == GR_CALL_SEND && c->src)
        out->dst = NULL;
    return GR_OK;
}

void gr_call_what(const gr_pg *pg, const gr_pg_call *c, gr_what *what)
{
    bool pair = is_pair(c->kind);

    memset(what, 0, sizeof(*what));
    what->kind = (int32_t)(pair ? GR_CALL_SEND : c->kind);
    what->n_ranks = pg->size;
    what->agreed = pg->agreed_name && !pair ? pg->agreed : 0;
    if (c->kind == GR_CALL_BARRIER)
        return;
    what->dtype = (int32_t)c->dtype;
    what->op = reduces(c->kind) ? (int32_t)c->op : 0;
    if (c->kind == GR_CALL_RECV)
        what->root = pg->rank; /* both sides of a pair name the receiver */
    else if (c->kind == GR_CALL_SEND || has_root(c->kind))
        what->root = c->root;
    what->n_elem = c->n_elem;
    if (!c->counts || !has_blocks(c->kind)) /* a call that is about to be refused may have some */
        return;
    if (c->kind == GR_CALL_ALLTOALL) { /* its counts differ between ranks by nature */
        what->n_elem = 0;
        what->detail = 1;
        return;
    }
    what->n_elem = gr_call_first(c, pg->size);
    what->detail = 1 + (uint64_t)gr_crc32c(0, c->counts, (size_t)pg->size * sizeof(*c->counts));
}
