/*
 * The schedule. First the orders that must hold are written down as a list of
 * predecessors for each node:
 *
 * (1) producers of its sources, and the nodes in `after`;
 * (2) who wrote its sources' memory last (in-place writers), so that it reads the same
 *     value wherever the two end up;
 * (3) for a writer: everyone who accessed that memory before, so that readers of the
 *     old value stay before it (rule 4 of graph.h). A node of GR_PLACE_EARLY counts as
 *     a writer of its sources: what it starts may change them at any time from then on.
 *
 * Then nodes are placed in the given order, with two exceptions:
 *
 * (4) an early node is placed as soon as all predecessors of it and all early nodes
 *     before it are placed, at the latest at its own turn;
 * (5) a late node is skipped at its turn, and placed with all late nodes before it when
 *     a node that has it as predecessor comes up.
 *
 * At the turn of a node everything before it in the given order is placed, except late
 * nodes; so (5) finds the predecessors of the late nodes placed, and the result is an
 * order that can run.
 *
 *     given    A  B  C  start(A)  finish  start(B)  finish  use  use
 *     placed   A  start(A)  B  start(B)  C  finish  use  finish  use
 */
#include "exec/schedule.h"

#include "base/alloc.h"

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

typedef struct scheduler {
    const gr_graph *g;
    const gr_kernel_set *sets;

    node_place *by_node; /* sorted by address, to find the nodes in `after` */
    memory *memories;    /* by id of the root value */
    reader *readers;
    int n_readers;
    int *pred; /* predecessors of place i: pred[first[i]] .. pred[first[i + 1] - 1] */
    int *first;
    int n_pred;

    int *early, *late; /* places of such nodes, in the given order */
    int n_early, n_late;
    int next_early, next_late; /* those before are placed */
    bool *is_placed;
    gr_node **order;
    int n_order;
} scheduler;

bool gr_schedule_runs(const gr_kernel_set *sets, const gr_node *n)
{
    return n->op->kernels != NULL || gr_kernel_list(sets, n->op) != NULL;
}

static int compare_nodes(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const node_place *)a)->node;
    uintptr_t y = (uintptr_t)((const node_place *)b)->node;

    return (x > y) - (x < y);
}

static int place_of(const scheduler *s, const gr_node *n)
{
    const node_place key = { .node = n };
    const node_place *found = (const node_place *)bsearch(&key, s->by_node, (size_t)s->g->n_nodes,
                                                          sizeof(key), compare_nodes);

    GR_BUG_IF(!found); /* the verifier wants every named node in the graph */
    return found->place;
}

static memory *memory_of(scheduler *s, const gr_value *v)
{
    int id = gr_value_root(v)->id;

    GR_BUG_IF(id < 0 || id >= s->g->n_values);
    return &s->memories[id];
}

static void add_pred(scheduler *s, int place, int before)
{
    if (before >= 0 && before != place)
        s->pred[s->n_pred++] = before;
}

static void note_read(scheduler *s, int place, const gr_value *v)
{
    memory *m = memory_of(s, v);

    add_pred(s, place, m->writer);
    s->readers[s->n_readers] = (reader){ .place = place, .next = m->reader };
    m->reader = s->n_readers++;
}

static void note_write(scheduler *s, int place, const gr_value *v)
{
    memory *m = memory_of(s, v);

    add_pred(s, place, m->writer);
    for (int r = m->reader; r >= 0; r = s->readers[r].next)
        add_pred(s, place, s->readers[r].place);
    *m = (memory){ .writer = place, .reader = -1 };
}

/* Predecessors of the node at `place`, by (1), (2) and (3). */
static void note_node(scheduler *s, int place)
{
    const gr_node *n = s->g->nodes[place];
    bool runs = gr_schedule_runs(s->sets, n);

    s->first[place] = s->n_pred;
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
static gr_status make_room(scheduler *s, gr_arena *a)
{
    size_t n = (size_t)s->g->n_nodes;
    size_t n_src = 0, n_pred = 0;

    for (int i = 0; i < s->g->n_nodes; i++) {
        const gr_node *node = s->g->nodes[i];

        n_src += (size_t)node->n_src;
        n_pred += 4 * (size_t)node->n_src + (size_t)node->n_out + (size_t)node->n_after;
    }
    s->by_node = (node_place *)gr_arena_array(a, n, sizeof(*s->by_node));
    s->memories = (memory *)gr_arena_array(a, (size_t)s->g->n_values, sizeof(*s->memories));
    s->readers = (reader *)gr_arena_array(a, n_src, sizeof(*s->readers));
    s->pred = (int *)gr_arena_array(a, n_pred, sizeof(*s->pred));
    s->first = (int *)gr_arena_array(a, n + 1, sizeof(*s->first));
    s->early = (int *)gr_arena_array(a, n, sizeof(*s->early));
    s->late = (int *)gr_arena_array(a, n, sizeof(*s->late));
    s->is_placed = (bool *)gr_arena_array(a, n, sizeof(*s->is_placed));
    if (!s->by_node || !s->memories || !s->readers || !s->pred || !s->first || !s->early ||
        !s->late || !s->is_placed)
        return GR_ERR_NOMEM;
    return GR_OK;
}

static void note_all(scheduler *s)
{
    int n = s->g->n_nodes;

    for (int i = 0; i < s->g->n_values; i++)
        s->memories[i] = (memory){ .writer = -1, .reader = -1 };
    for (int i = 0; i < n; i++)
        s->by_node[i] = (node_place){ .node = s->g->nodes[i], .place = i };
    qsort(s->by_node, (size_t)n, sizeof(*s->by_node), compare_nodes);
    for (int i = 0; i < n; i++) {
        gr_place place = s->g->nodes[i]->op->place;

        note_node(s, i);
        if (place == GR_PLACE_EARLY)
            s->early[s->n_early++] = i;
        else if (place == GR_PLACE_LATE)
            s->late[s->n_late++] = i;
    }
    s->first[n] = s->n_pred;
}

static bool is_ready(const scheduler *s, int place)
{
    for (int i = s->first[place]; i < s->first[place + 1]; i++)
        if (!s->is_placed[s->pred[i]])
            return false;
    return true;
}

static void put(scheduler *s, int place)
{
    GR_BUG_IF(s->is_placed[place] || !is_ready(s, place));
    s->is_placed[place] = true;
    s->order[s->n_order++] = s->g->nodes[place];
}

/* Places the early nodes that wait for nothing more, by (4). */
static void put_early(scheduler *s)
{
    for (; s->next_early < s->n_early; s->next_early++) {
        int next = s->early[s->next_early];

        if (!is_ready(s, next))
            return;
        put(s, next);
    }
}

/* Places the late nodes up to and with the one at `last`. */
static void put_late(scheduler *s, int last)
{
    while (s->next_late < s->n_late && s->late[s->next_late] <= last) {
        put(s, s->late[s->next_late++]);
        put_early(s);
    }
}

/* Places the late nodes that the node at `place` needs, by (5). */
static void put_late_before(scheduler *s, int place)
{
    int last = -1;

    for (int i = s->first[place]; i < s->first[place + 1]; i++) {
        int p = s->pred[i];

        if (s->g->nodes[p]->op->place == GR_PLACE_LATE && p > last)
            last = p;
    }
    put_late(s, last);
}

static void put_all(scheduler *s)
{
    int n = s->g->n_nodes;

    put_early(s);
    for (int i = 0; i < n; i++) {
        gr_place place = s->g->nodes[i]->op->place;

        if (place == GR_PLACE_LATE || s->is_placed[i])
            continue;
        put_late_before(s, i);
        if (place == GR_PLACE_EARLY)
            continue; /* it waited for late nodes only, and went with the last of them */
        put(s, i);
        put_early(s);
    }
    put_late(s, n);
    GR_BUG_IF(s->n_order != n);
}

gr_status gr_schedule_make(gr_arena *arena, const gr_graph *g, const gr_kernel_set *sets,
                           gr_node ***out)
{
    scheduler s = { .g = g, .sets = sets };
    gr_arena *scratch = NULL;
    gr_status st;

    s.order = (gr_node **)gr_arena_array(arena, (size_t)g->n_nodes, sizeof(gr_node *));
    if (!s.order)
        return GR_ERR_NOMEM;
    GR_TRY(gr_arena_create(&scratch));
    GR_TRY_GOTO(st, make_room(&s, scratch), done);
    note_all(&s);
    put_all(&s);
    *out = s.order;
done:
    gr_arena_destroy(scratch);
    return st;
}
