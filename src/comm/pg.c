/*
 * Process groups: the checked entries.
 *
 * (1) The first failure of a rank sticks: its group refuses all later calls, and the
 *     transport is aborted so that no peer waits for this rank.
 * (2) What is wrong on every rank alike (gr_pg_compare) does not break the group: all
 *     ranks return the same failure, and none may be cut off while it still reads.
 */
#include "comm/pg.h"

#include "base/alloc.h"
#include "base/pages.h"
#include "base/size.h"
#include "comm/call.h"
#include "comm/what.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define VALUE_TEXT 100 /* characters of a setting's value that a message shows */

static gr_status enter(const gr_pg *pg)
{
    if (!pg)
        return gr_fail(GR_ERR_ARG, "there is no process group (NULL)");
    if (pg->broken != GR_OK)
        return gr_fail(GR_ERR_PEER, "process group already failed (%s)",
                       gr_status_text(pg->broken));
    return GR_OK;
}

/* Remembers a failure and tells the peers; hands the status on. */
static gr_status leave(gr_pg *pg, gr_status st)
{
    if (st == GR_OK)
        return GR_OK;
    pg->broken = st;
    pg->ops->abort(pg, gr_error_message());
    return st;
}

gr_status gr_pg_exchange(gr_pg *pg, gr_device *dev, size_t n_bytes, void **base)
{
    GR_TRY(enter(pg));
    return leave(pg, gr_wrap(pg->ops->exchange(pg, dev, n_bytes, base), "exchange space"));
}

gr_status gr_pg_common(gr_pg *pg, size_t n_common, size_t n_bytes, void **mem)
{
    gr_status st;
    void *own;

    GR_TRY(enter(pg));
    n_common = gr_round_up(n_common, GR_PAGE_BYTES);
    GR_BUG_IF(!pg->ops->common || n_common > n_bytes);
    own = gr_pages_map(n_bytes, PROT_READ | PROT_WRITE);
    if (!own)
        return leave(
            pg, gr_fail(GR_ERR_NOMEM, "no memory for %zu bytes: %s", n_bytes, strerror(errno)));
    (void)madvise(own, n_bytes, MADV_HUGEPAGE);
    st = leave(pg, gr_wrap(pg->ops->common(pg, own, n_common), "common memory"));
    if (st != GR_OK)
        gr_pg_common_free(own, n_bytes);
    else
        *mem = own;
    return st;
}

void gr_pg_common_free(void *mem, size_t n_bytes)
{
    if (mem)
        munmap(mem, n_bytes);
}

/* The same, with the time since `from_ns` counted. */
static gr_status leave_timed(gr_pg *pg, int64_t from_ns, gr_status st)
{
    pg->busy_ns += gr_now_ns() - from_ns;
    return leave(pg, st);
}

int64_t gr_pg_busy_ns(const gr_pg *pg)
{
    return pg ? pg->busy_ns : 0;
}

const char *gr_coll_name(const gr_coll *c)
{
    return c->rows                             ? GR_WHAT_ROWS_TEXT
           : c->kind == GR_CALL_REDUCE_SCATTER ? "reduce-scatter"
           : c->kind == GR_CALL_ALLGATHER      ? "all-gather"
                                               : "all-reduce";
}

static gr_status check_kind(const gr_pg *pg, const gr_coll *c)
{
    if (c->rows && c->kind != GR_CALL_REDUCE_SCATTER)
        return gr_fail(GR_ERR_ARG, "'%s': rows are left by a reduce-scatter only", c->label);
    if (c->kind == GR_CALL_ALLREDUCE)
        return GR_OK;
    if (c->kind != GR_CALL_REDUCE_SCATTER && c->kind != GR_CALL_ALLGATHER)
        return gr_fail(GR_ERR_ARG, "'%s': no collective in the exchange space is of kind %d",
                       c->label, (int)c->kind);
    if (!pg->ops->has_shares)
        return gr_fail(GR_ERR_ARG, "group '%s' has no %s in the exchange space ('%s')",
                       pg->ops->name, gr_coll_name(c), c->label);
    if (c->rows && !pg->ops->rows)
        return gr_fail(GR_ERR_ARG, "group '%s' does not show the rows of all ranks ('%s')",
                       pg->ops->name, c->label);
    if (c->n_elem % (size_t)pg->size != 0)
        return gr_fail(GR_ERR_ARG, "%s '%s': %zu elements do not part evenly between %d ranks",
                       gr_coll_name(c), c->label, c->n_elem, pg->size);
    return GR_OK;
}

gr_status gr_pg_start(gr_pg *pg, const gr_coll *c, void *stream)
{
    int64_t from_ns = gr_now_ns();

    GR_TRY(enter(pg));
    GR_TRY(leave(pg, check_kind(pg, c)));
    pg->n_open++;
    return leave_timed(pg, from_ns, pg->ops->start(pg, c, stream));
}

gr_status gr_pg_finish(gr_pg *pg, const gr_coll *c, void *stream)
{
    int64_t from_ns = gr_now_ns();

    GR_TRY(enter(pg));
    pg->n_open--;
    return leave_timed(pg, from_ns, pg->ops->finish(pg, c, stream));
}

gr_status gr_pg_poll(gr_pg *pg)
{
    int64_t from_ns;

    GR_TRY(enter(pg));
    if (pg->n_open == 0) /* next to nothing: not worth two looks at the clock */
        return leave(pg, pg->ops->poll(pg));
    from_ns = gr_now_ns();
    return leave_timed(pg, from_ns, pg->ops->poll(pg));
}

gr_status gr_pg_rows(gr_pg *pg, const gr_coll *c, gr_coll_rows *out)
{
    GR_TRY(enter(pg));
    GR_BUG_IF(!c->rows || !pg->ops->rows); /* it was started */
    return leave(pg, pg->ops->rows(pg, c, out));
}

gr_status gr_pg_run(gr_pg *pg, const gr_pg_call *c)
{
    int64_t from_ns = gr_now_ns();
    gr_pg_call call;

    GR_TRY(enter(pg));
    GR_TRY(leave(pg, gr_call_check(pg, c, &call)));
    return leave_timed(pg, from_ns, pg->ops->run(pg, &call));
}

gr_status gr_pg_begin(gr_work **out, gr_pg *pg, const gr_pg_call *c)
{
    gr_pg_call call;

    if (!out)
        return gr_fail(GR_ERR_ARG, "there is no place for the work (NULL)");
    *out = NULL;
    GR_TRY(enter(pg));
    GR_TRY(leave(pg, gr_call_check(pg, c, &call)));
    return leave(pg, pg->ops->begin(pg, &call, out));
}

gr_status gr_work_test(gr_work *w, bool *is_done)
{
    if (!w || !is_done)
        return gr_fail(GR_ERR_ARG, "there is no %s (NULL)", w ? "place for the answer" : "work");
    GR_TRY(enter(w->pg));
    return leave(w->pg, w->pg->ops->work_test(w, is_done));
}

gr_status gr_work_finish(gr_work *w)
{
    if (!w)
        return gr_fail(GR_ERR_ARG, "there is no work (NULL)");
    GR_TRY(enter(w->pg));
    return leave(w->pg, w->pg->ops->work_finish(w));
}

gr_status gr_pg_gather_bytes(gr_pg *pg, const void *src, size_t n_bytes, char ***out, size_t *sizes)
{
    GR_TRY(enter(pg));
    if (!src && n_bytes > 0)
        return leave(pg,
                     gr_fail(GR_ERR_ARG, "gather: the memory with the %zu bytes is NULL", n_bytes));
    return leave(pg, pg->ops->gather_bytes(pg, src, n_bytes, out, sizes));
}

void gr_pg_abort(gr_pg *pg, const char *why)
{
    if (pg)
        pg->ops->abort(pg, why ? why : "no reason given");
}

void gr_pg_destroy(gr_pg *pg)
{
    if (pg)
        pg->ops->destroy(pg);
}

int gr_pg_rank(const gr_pg *pg)
{
    return pg ? pg->rank : 0;
}

int gr_pg_size(const gr_pg *pg)
{
    return pg ? pg->size : 1;
}

int gr_pg_local_rank(const gr_pg *pg)
{
    return pg ? pg->local_rank : 0;
}

/* ---- compare ---- */

/* One line "key = value" of a text; empty at its end. */
typedef struct setting {
    const char *key, *value;
    int key_len, value_len;
} setting;

static setting next_setting(const char **at)
{
    const char *line = *at;
    size_t len = strcspn(line, "\n");
    const char *mark = (const char *)memmem(line, len, " = ", 3);
    size_t key_len = mark ? (size_t)(mark - line) : len;
    size_t value_at = mark ? key_len + 3 : len;
    size_t value_len = len - value_at;

    *at = line + len + (line[len] == '\n');
    return (setting){ .key = line,
                      .value = line + value_at,
                      .key_len = (int)(key_len > VALUE_TEXT ? VALUE_TEXT : key_len),
                      .value_len = (int)(value_len > VALUE_TEXT ? VALUE_TEXT : value_len) };
}

/* Both texts differ: names the first line in which they do. */
static gr_status name_difference(const char *a, const char *b, int rank)
{
    setting x, y;
    const char *line_a, *line_b;

    do {
        line_a = a;
        line_b = b;
        x = next_setting(&a);
        y = next_setting(&b);
    } while (a - line_a == b - line_b && memcmp(line_a, line_b, (size_t)(a - line_a)) == 0 &&
             a != line_a);
    if (x.key_len == y.key_len && strncmp(x.key, y.key, (size_t)x.key_len) == 0)
        return gr_fail(GR_ERR_ARG, "ranks differ in '%.*s': rank 0 has '%.*s', rank %d has '%.*s'",
                       x.key_len, x.key, x.value_len, x.value, rank, y.value_len, y.value);
    return gr_fail(
        GR_ERR_ARG, "ranks differ: rank 0 has '%.*s = %.*s' where rank %d has '%.*s = %.*s'",
        x.key_len, x.key, x.value_len, x.value, rank, y.key_len, y.key, y.value_len, y.value);
}

gr_status gr_pg_compare(gr_pg *pg, const char *text)
{
    gr_status st = GR_OK;
    char **texts;

    GR_TRY(gr_pg_gather_bytes(pg, text, strlen(text), &texts, NULL));
    for (int r = 1; r < pg->size && st == GR_OK; r++)
        if (strcmp(texts[0], texts[r]) != 0)
            st = name_difference(texts[0], texts[r], r);
    free(texts);
    return st;
}
