/*
 * What a node waits for, whatever the order of the others:
 *
 * (1) producers of its sources, and the nodes in `after`;
 * (2) who wrote its sources' memory last (in-place writers), so that it reads the same
 *     value wherever the two end up;
 * (3) for a writer: everyone who accessed that memory before, so that readers of the
 *     old value stay before it (rule 4 of graph.h). A node of GR_PLACE_EARLY counts as
 *     a writer of its sources: what it starts may change them at any time from then on.
 */
#include "exec/depend.h"

#include "exec/schedule.h"

#include <stdint.h>
#include <stdlib.h>

typedef struct node_place {
    const gr_node *node;
    int place;
} node_place;

/* One access of a memory since its last write, as a list by number. */
typedef struct reader {
    int place;
    int next; /* -1 ends */
} reader;

typedef struct memory {
    int writer; /* place of the last writer, -1: none yet */
    int reader; /* first of the readers since then, -1: none */
} memory;

typedef struct finder {
    const gr_graph *g;
    const gr_kernel_set *sets;
    gr_node *const *nodes;
    node_place *by_node; /* sorted by address, to find the nodes in `after` */
    memory *memories;    /* by id of the root value */
    reader *readers;
    int n_readers;
    gr_depend *d;
    int n_pred;
} finder;

static int compare_nodes(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const node_place *)a)->node;
    uintptr_t y = (uintptr_t)((const node_place *)b)->node;

    return (x > y) - (x < y);
}

static int place_of(const finder *s, const gr_node *n)
{
    const node_place key = { .node = n };
    const node_place *found = (const node_place *)bsearch(&key, s->by_node, (size_t)s->g->n_nodes,
                                                          sizeof(key), compare_nodes);

    GR_BUG_IF(!found); /* the verifier wants every named node in the graph */
    return found->place;
}

static memory *memory_of(finder *s, const gr_value *v)
{
    int id = gr_value_root(v)->id;

    GR_BUG_IF(id < 0 || id >= s->g->n_values);
    return &s->memories[id];
}

static void add_pred(finder *s, int place, int before)
{
    if (before >= 0 && before != place)
        s->d->pred[s->n_pred++] = before;
}

static void note_read(finder *s, int place, const gr_value *v)
{
    memory *m = memory_of(s, v);

    add_pred(s, place, m->writer);
    s->readers[s->n_readers] = (reader){ .place = place, .next = m->reader };
    m->reader = s->n_readers++;
}

static void note_write(finder *s, int place, const gr_value *v)
{
    memory *m = memory_of(s, v);

    add_pred(s, place, m->writer);
    for (int r = m->reader; r >= 0; r = s->readers[r].next)
        add_pred(s, place, s->readers[r].place);
    *m = (memory){ .writer = place, .reader = -1 };
}

/* Predecessors of the node at `place`, by (1), (2) and (3). */
static void note_node(finder *s, int place)
{
    const gr_node *n = s->nodes[place];
    bool runs = gr_schedule_runs(s->sets, n);

    s->d->first[place] = s->n_pred;
    for (int i = 0; i < n->n_after; i++)
        add_pred(s, place, place_of(s, n->after[i]));
    for (int i = 0; i < n->n_src; i++) {
        add_pred(s, place, place_of(s, n->src[i]->node));
        note_read(s, place, n->src[i]);
    }
    for (int i = 0; i < n->n_src && n->op->place == GR_PLACE_EARLY; i++)
        note_write(s, place, n->src[i]);
    for (int i = 0; i < n->n_out; i++)
        if (runs || !n->out[i].alias)
            note_write(s, place, &n->out[i]);
}

/* Room for everything. Each reader becomes a predecessor of at most one writer, which
 * bounds their number: per source one producer, one writer, one write, one reader. */
static gr_status make_room(finder *s, gr_arena *scratch, gr_arena *out)
{
    size_t n = (size_t)s->g->n_nodes;
    size_t n_src = 0, n_pred = 0;

    for (int i = 0; i < s->g->n_nodes; i++) {
        const gr_node *node = s->nodes[i];

        n_src += (size_t)node->n_src;
        n_pred += 4 * (size_t)node->n_src + (size_t)node->n_out + (size_t)node->n_after;
    }
    s->by_node = (node_place *)gr_arena_array(scratch, n, sizeof(*s->by_node));
    s->memories = (memory *)gr_arena_array(scratch, (size_t)s->g->n_values, sizeof(*s->memories));
    s->readers = (reader *)gr_arena_array(scratch, n_src, sizeof(*s->readers));
    s->d->pred = (int *)gr_arena_array(out, n_pred, sizeof(int));
    s->d->first = (int *)gr_arena_array(out, n + 1, sizeof(int));
    if (!s->by_node || !s->memories || !s->readers || !s->d->pred || !s->d->first)
        return GR_ERR_NOMEM;
    return GR_OK;
}

static void note_all(finder *s)
{
    int n = s->g->n_nodes;

    for (int i = 0; i < s->g->n_values; i++)
        s->memories[i] = (memory){ .writer = -1, .reader = -1 };
    for (int i = 0; i < n; i++)
        s->by_node[i] = (node_place){ .node = s->nodes[i], .place = i };
    qsort(s->by_node, (size_t)n, sizeof(*s->by_node), compare_nodes);
    for (int i = 0; i < n; i++)
        note_node(s, i);
    s->d->first[n] = s->n_pred;
}

gr_status gr_depend_make(gr_arena *arena, const gr_graph *g, const gr_kernel_set *sets,
                         gr_node *const *nodes, gr_depend *out)
{
    finder s = { .g = g, .sets = sets, .nodes = nodes, .d = out };
    gr_arena *scratch = NULL;
    gr_status st;

    GR_TRY(gr_arena_create(&scratch));
    GR_TRY_GOTO(st, make_room(&s, scratch, arena), done);
    note_all(&s);
done:
    gr_arena_destroy(scratch);
    return st;
}
