/*
 * The group of one rank. Its exchange space is plain memory of the device; a collective
 * is over when it starts. It checks its arguments as a larger group would, so that what
 * works with one rank is not refused with two. Abort may come from any thread.
 */
#include "comm/solo.h"

#include "base/alloc.h"
#include "comm/reduce.h"
#include "net/env.h"

#include <stdatomic.h>
#include <string.h>

typedef struct solo {
    gr_pg pg;       /* first: a gr_pg * is a solo * */
    gr_device *dev; /* borrowed; of `mem` */
    void *mem;      /* owned; from `dev`, or from gr_malloc_aligned() when dev is NULL */
    size_t n_bytes;
    atomic_bool aborted;
} solo;

static gr_status solo_ready(gr_pg *pg)
{
    if (atomic_load(&((solo *)pg)->aborted))
        return gr_fail(GR_ERR_PEER, "the process group was aborted");
    return GR_OK;
}

static void drop_exchange(solo *s)
{
    if (s->mem && s->dev)
        s->dev->ops->free(s->dev, s->mem);
    else
        gr_free(s->mem);
    s->mem = NULL;
    s->n_bytes = 0;
}

static gr_status solo_exchange(gr_pg *pg, gr_device *dev, size_t n_bytes, void **base)
{
    solo *s = (solo *)pg;

    GR_TRY(solo_ready(pg));
    if (!s->mem || n_bytes > s->n_bytes || dev != s->dev) {
        drop_exchange(s);
        s->dev = dev;
        if (dev) {
            GR_TRY(dev->ops->alloc(dev, n_bytes ? n_bytes : 1, &s->mem));
        } else {
            s->mem = gr_malloc_aligned(n_bytes);
            if (!s->mem)
                return GR_ERR_NOMEM;
            memset(s->mem, 0, n_bytes);
        }
        s->n_bytes = n_bytes;
    }
    *base = s->mem;
    return GR_OK;
}

static gr_status solo_coll(gr_pg *pg, const gr_coll *c, void *stream)
{
    gr_reduce_fn *fn;

    (void)stream;
    GR_TRY(solo_ready(pg));
    if (c->kind == GR_CALL_ALLGATHER)
        return GR_OK;
    return gr_wrap(gr_reduce_pick(&fn, c->dtype, c->op), "%s '%s'", gr_coll_name(c), c->label);
}

static gr_status solo_gather(gr_pg *pg, const void *src, size_t n_bytes, char ***out, size_t *sizes)
{
    char **all;

    GR_TRY(solo_ready(pg));
    all = (char **)gr_malloc(sizeof(char *) + n_bytes + 1);
    if (!all)
        return GR_ERR_NOMEM;
    all[0] = (char *)(all + 1);
    if (n_bytes > 0)
        memcpy(all[0], src, n_bytes);
    all[0][n_bytes] = '\0';
    if (sizes)
        sizes[0] = n_bytes;
    *out = all;
    return GR_OK;
}

/* Everything this rank gives is what it gets. */
static gr_status solo_run(gr_pg *pg, const gr_pg_call *c)
{
    size_t n = c->counts ? c->counts[0] : c->n_elem;

    GR_TRY(solo_ready(pg));
    if (c->kind == GR_CALL_SEND || c->kind == GR_CALL_RECV || c->kind == GR_CALL_BARRIER)
        return GR_OK; /* a rank does not send to itself: refused before */
    if (c->dst && c->src && c->dst != c->src && n > 0)
        memmove(c->dst, c->src, n * gr_dtype_bytes(c->dtype));
    return GR_OK;
}

static gr_status solo_begin(gr_pg *pg, const gr_pg_call *c, gr_work **out)
{
    GR_TRY(solo_run(pg, c));
    *out = (gr_work *)gr_calloc(1, sizeof(**out));
    if (!*out)
        return GR_ERR_NOMEM;
    (*out)->pg = pg;
    return GR_OK;
}

static gr_status solo_test(gr_work *w, bool *is_done)
{
    *is_done = true;
    return solo_ready(w->pg);
}

static gr_status solo_finish(gr_work *w)
{
    gr_status st = solo_ready(w->pg);

    gr_free(w);
    return st;
}

static gr_status solo_split(gr_pg *pg, const gr_part *part, gr_pg **out)
{
    gr_pg_config config = { .timeout_ms = pg->timeout_ms };

    return part->n == 0 ? GR_OK : gr_solo_create(out, &config);
}

static void solo_describe(const gr_pg *pg, gr_text *text)
{
    (void)pg;
    gr_text_add(text, "one rank: nothing is exchanged\n");
}

static void solo_abort(gr_pg *pg, const char *why)
{
    (void)why;
    atomic_store(&((solo *)pg)->aborted, true);
}

static void solo_destroy(gr_pg *pg)
{
    drop_exchange((solo *)pg);
    gr_free(pg);
}

static const gr_pg_ops solo_ops = {
    .name = "solo",
    .can_capture = true,
    .has_shares = true,
    .exchange = solo_exchange,
    .start = solo_coll,
    .finish = solo_coll,
    .poll = solo_ready,
    .gather_bytes = solo_gather,
    .run = solo_run,
    .begin = solo_begin,
    .work_test = solo_test,
    .work_finish = solo_finish,
    .split = solo_split,
    .describe = solo_describe,
    .abort = solo_abort,
    .destroy = solo_destroy,
};

gr_status gr_solo_create(gr_pg **out, const gr_pg_config *config)
{
    solo *s = (solo *)gr_calloc(1, sizeof(*s));

    if (!s)
        return GR_ERR_NOMEM;
    s->pg = (gr_pg){ .ops = &solo_ops, .size = 1, .timeout_ms = config->timeout_ms };
    *out = &s->pg;
    return GR_OK;
}

gr_status gr_solo_check(void)
{
    gr_job job;

    GR_TRY(gr_job_ranks_from_env(&job));
    if (job.n_ranks <= 1)
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "this process is rank %d of %d (%s)", job.rank, job.n_ranks,
                   job.source);
}
