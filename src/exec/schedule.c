/*
 * The schedule. Which nodes must run before which is found first (depend.h). Then nodes
 * are placed in the given order, with two exceptions:
 *
 * (1) an early node is placed as soon as all predecessors of it and all early nodes
 *     before it are placed, at the latest at its own turn;
 * (2) a late node is skipped at its turn, and placed with all late nodes before it when
 *     a node that has it as predecessor comes up.
 *
 * At the turn of a node everything before it in the given order is placed, except late
 * nodes; so (2) finds the predecessors of the late nodes placed, and the result is an
 * order that can run.
 *
 *     given    A  B  C  start(A)  finish  start(B)  finish  use  use
 *     placed   A  start(A)  B  start(B)  C  finish  use  finish  use
 */
#include "exec/schedule.h"

#include "exec/depend.h"

typedef struct scheduler {
    const gr_graph *g;
    gr_depend before;

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

static gr_status make_room(scheduler *s, gr_arena *a)
{
    size_t n = (size_t)s->g->n_nodes;

    s->early = (int *)gr_arena_array(a, n, sizeof(*s->early));
    s->late = (int *)gr_arena_array(a, n, sizeof(*s->late));
    s->is_placed = (bool *)gr_arena_array(a, n, sizeof(*s->is_placed));
    return s->early && s->late && s->is_placed ? GR_OK : GR_ERR_NOMEM;
}

static void find_movable(scheduler *s)
{
    for (int i = 0; i < s->g->n_nodes; i++) {
        gr_place place = s->g->nodes[i]->op->place;

        if (place == GR_PLACE_EARLY)
            s->early[s->n_early++] = i;
        else if (place == GR_PLACE_LATE)
            s->late[s->n_late++] = i;
    }
}

static bool is_ready(const scheduler *s, int place)
{
    for (int i = s->before.first[place]; i < s->before.first[place + 1]; i++)
        if (!s->is_placed[s->before.pred[i]])
            return false;
    return true;
}

static void put(scheduler *s, int place)
{
    GR_BUG_IF(s->is_placed[place] || !is_ready(s, place));
    s->is_placed[place] = true;
    s->order[s->n_order++] = s->g->nodes[place];
}

/* Places the early nodes that wait for nothing more, by (1). */
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

/* Places the late nodes that the node at `place` needs, by (2). */
static void put_late_before(scheduler *s, int place)
{
    int last = -1;

    for (int i = s->before.first[place]; i < s->before.first[place + 1]; i++) {
        int p = s->before.pred[i];

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
    scheduler s = { .g = g };
    gr_arena *scratch = NULL;
    gr_status st;

    s.order = (gr_node **)gr_arena_array(arena, (size_t)g->n_nodes, sizeof(gr_node *));
    if (!s.order)
        return GR_ERR_NOMEM;
    GR_TRY(gr_arena_create(&scratch));
    GR_TRY_GOTO(st, make_room(&s, scratch), done);
    GR_TRY_GOTO(st, gr_depend_make(scratch, g, sets, g->nodes, &s.before), done);
    find_movable(&s);
    put_all(&s);
    *out = s.order;
done:
    gr_arena_destroy(scratch);
    return st;
}
