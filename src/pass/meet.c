/*
 * Exchanges besides the buckets: which there are, and in what order all are started.
 *
 * Ranks meet only if each starts the same exchanges in the same order, whatever plan it runs.
 * What stands where in a graph depends on shapes (a sum over one row is none), so the order is
 * taken from the trace: forward as it goes, then backward, where a bucket is ready once the
 * walk has passed the first use of its parameters:
 *
 *     bn 1, bn 2, bn 3 | bn 3 backward, bucket 0, bn 2 backward, bn 1 backward, bucket 1
 *
 * It is decided once, by the first graph that updates, is part of the fingerprint, and becomes
 * ordering edges from each start to the one before.
 */
#include "base/alloc.h"
#include "base/size.h"
#include "pass/pass.h"

#include <stdlib.h>
#include <string.h>

void gr_meetings_open(gr_meetings *m, size_t n_bytes, size_t align)
{
    if (m->is_open)
        return;
    m->is_open = true;
    m->align = align;
    m->n_bytes = gr_round_up(n_bytes, align);
}

static gr_status add_meeting(gr_meetings *m, gr_arena *arena, const gr_meeting *want)
{
    gr_coll *c = &m->list[m->n].coll;
    size_t n_bytes;

    if (m->is_closed)
        return gr_fail(GR_ERR_ARG,
                       "'%s' (%zu %s) is not among the exchanges of the first plan: a trace must "
                       "have the same layers for every shape",
                       want->coll.label, want->coll.n_elem, gr_dtype_name(want->coll.dtype));
    if (m->n == GR_MAX_COLLS)
        return gr_fail(GR_ERR_ARG, "more than %d exchanges in a step", GR_MAX_COLLS);
    m->list[m->n] = *want;
    c->id = GR_MAX_COLLS - 1 - m->n;
    c->offset = m->n_bytes;
    c->label = gr_arena_strdup(arena, want->coll.label);
    if (!c->label)
        return GR_ERR_NOMEM;
    GR_TRY(gr_size_mul(&n_bytes, c->n_elem, gr_dtype_bytes(c->dtype)));
    GR_TRY(gr_size_add(&m->n_bytes, m->n_bytes, gr_round_up(n_bytes, m->align)));
    m->n++;
    return GR_OK;
}

static bool is_same(const gr_coll *a, const gr_coll *b)
{
    return strcmp(a->label, b->label) == 0 && a->n_elem == b->n_elem && a->dtype == b->dtype;
}

gr_status gr_meetings_get(gr_meetings *m, gr_arena *arena, const gr_meeting *want, bool *used,
                          const gr_coll **out)
{
    int i = 0;

    while (i < m->n && (used[i] || !is_same(&m->list[i].coll, &want->coll)))
        i++;
    if (i == m->n)
        GR_TRY(add_meeting(m, arena, want));
    used[i] = true;
    *out = &m->list[i].coll;
    return GR_OK;
}

void gr_meetings_print(const gr_meetings *m, gr_text *out)
{
    for (int i = 0; i < m->n; i++) {
        const gr_coll *c = &m->list[i].coll;

        gr_text_addf(out, "collective %d = %s at %zu, %zu %s\n", c->id, c->label, c->offset,
                     c->n_elem, gr_dtype_name(c->dtype));
    }
    for (int i = 0; i < m->n_order; i++)
        gr_text_addf(out, "start %d = collective %d\n", i, m->order[i]);
}

/* ---- the order ---- */

typedef struct start {
    gr_node *node;
    int id;
    int turn;    /* forward ones, backward ones and buckets, others */
    int64_t key; /* within their turn: rising */
    int bucket;  /* of equals: meetings before buckets, buckets by number */
} start;

typedef struct starts {
    start list[GR_MAX_COLLS];
    int n;
} starts;

static start describe(gr_node *n, const gr_meetings *m, const gr_buckets *b)
{
    int id = ((const gr_collective_attr *)n->attr)->coll.id;
    int meeting = GR_MAX_COLLS - 1 - id;

    if (meeting < m->n) {
        const gr_meeting *k = &m->list[meeting];

        return (start){ n, id, k->backward ? 1 : 0, k->backward ? -(int64_t)k->key : k->key, -1 };
    }
    if (id < b->n_buckets) {
        int64_t first = b->bucket[id].key;

        for (int i = 0; i < id; i++) /* none overtakes those before it */
            if (b->bucket[i].key < first)
                first = b->bucket[i].key;
        return (start){ n, id, 1, -first, id };
    }
    return (start){ n, id, 2, id, id };
}

static int compare_starts(const void *x, const void *y)
{
    const start *a = x, *b = y;

    if (a->turn != b->turn)
        return a->turn < b->turn ? -1 : 1;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->bucket != b->bucket)
        return a->bucket < b->bucket ? -1 : 1;
    return a->id > b->id ? -1 : a->id < b->id;
}

/* What is placed early and gives a token. */
static bool is_start(const gr_node *n)
{
    return n->op->place == GR_PLACE_EARLY && n->out[0].space == GR_SPACE_NONE;
}

static gr_status find_starts(starts *s, const gr_graph *g, const gr_meetings *m,
                             const gr_buckets *b)
{
    for (int i = 0; i < g->n_nodes; i++) {
        if (!is_start(g->nodes[i]))
            continue;
        if (s->n == GR_MAX_COLLS)
            return gr_fail(GR_ERR_ARG, "more than %d exchanges in a step: raise bucket_bytes",
                           GR_MAX_COLLS);
        s->list[s->n++] = describe(g->nodes[i], m, b);
    }
    qsort(s->list, (size_t)s->n, sizeof(*s->list), compare_starts);
    return GR_OK;
}

static gr_node *find_start(const starts *s, int id)
{
    for (int i = 0; i < s->n; i++)
        if (s->list[i].id == id)
            return s->list[i].node;
    return NULL;
}

static gr_status chain(gr_graph *g, const gr_meetings *m, const starts *s)
{
    gr_node *before = NULL;
    int n = 0;

    for (int i = 0; i < m->n_order; i++) {
        gr_node *node = find_start(s, m->order[i]);

        if (!node)
            continue;
        if (before)
            GR_TRY(gr_node_after(g, node, before));
        before = node;
        n++;
    }
    if (n != s->n)
        return gr_fail(GR_ERR_ARG, "%d of %d exchanges were not in the first plan that updates",
                       s->n - n, s->n);
    return GR_OK;
}

static const char *label_of(const gr_meetings *m, int id)
{
    return GR_MAX_COLLS - 1 - id < m->n ? m->list[GR_MAX_COLLS - 1 - id].coll.label : "bucket";
}

/* An updating graph has all of them; a micro-step's has no buckets. */
static gr_status check_all(const gr_meetings *m, const starts *s)
{
    for (int i = 0; i < m->n_order; i++)
        if (!find_start(s, m->order[i]))
            return gr_fail(GR_ERR_ARG, "exchange '%s' of the first plan is not in this one",
                           label_of(m, m->order[i]));
    return GR_OK;
}

gr_status gr_pass_order(gr_graph *g, gr_meetings *m, const gr_buckets *b, bool updates)
{
    starts *s = gr_calloc(1, sizeof(*s));
    gr_status st = s ? find_starts(s, g, m, b) : GR_ERR_NOMEM;

    m->is_closed = true;
    if (st == GR_OK && updates && m->n_order == 0)
        while (m->n_order < s->n) {
            m->order[m->n_order] = s->list[m->n_order].id;
            m->n_order++;
        }
    if (st == GR_OK && m->n_order > 0)
        st = chain(g, m, s);
    if (st == GR_OK && updates)
        st = check_all(m, s);
    gr_free(s);
    return st;
}
