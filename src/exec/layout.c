/*
 * The memory plan, in two halves: lives from the graph, offsets from the lives.
 *
 * Lives (places in the running order):
 * (1) a root value begins at its producer and ends at the last node that reads it, or
 *     reads or makes an alias of it;
 * (2) outputs, the loss and the control value end after the last node;
 * (3) a value without memory (GR_SPACE_NONE) is the token of something that goes on
 *     alone: whatever its producer read or wrote lives until the token's last reader;
 * (4) a workspace lives in its node only;
 *     in (1) to (4) a node on another stream counts up to where it joins, not only at its
 *     place: it forks off there, and others run beside it;
 * (5) where a kernel may write in place, its first result joins a source that ends there,
 *     of the same shape and type, if no other source is another view of that
 *     memory: one extent from the source's begin to the result's end.
 *
 * Offsets: extents are placed one by one, each into the smallest gap that fits among
 * those placed before whose life touches its own, else behind them. The order decides
 * how good that is and no order is best for all graphs, so a few are tried and the
 * smallest result is kept; then what lies at its top is placed first, a number of times.
 * Time is quadratic in the number of extents, once per plan.
 */
#include "exec/layout.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdint.h>
#include <stdlib.h>

/* ---- lives ---- */

static const gr_value *arena_root(const gr_value *v)
{
    const gr_value *root = gr_value_root(v);

    return root->space == GR_SPACE_ARENA ? root : NULL;
}

static void live_until(gr_layout *l, const gr_value *v, int place)
{
    const gr_value *root = arena_root(v);
    gr_extent *e;

    if (!root)
        return;
    GR_BUG_IF(l->of_value[root->id] < 0); /* read before it is made */
    e = &l->extents[l->of_value[root->id]];
    if (e->last < place)
        e->last = place;
}

static int until(const gr_layout_input *in, int place)
{
    return in->until ? in->until[place] : place;
}

static gr_status add_extent(gr_layout *l, const gr_layout_input *in, size_t n_bytes, int place,
                            int *index)
{
    gr_extent *e = &l->extents[l->n_extents];

    if (n_bytes > SIZE_MAX / 2)
        return gr_fail(GR_ERR_ARG, "%zu bytes are more than memory can hold", n_bytes);
    e->n_bytes = gr_round_up(n_bytes > 0 ? n_bytes : 1, in->align);
    e->first = place;
    e->last = until(in, place);
    *index = l->n_extents++;
    return gr_size_add(&l->sum_bytes, l->sum_bytes, e->n_bytes);
}

/* Rule (3), for a node at `place` that reads the token `v`. */
static void hold_until(gr_layout *l, const gr_value *v, int place)
{
    const gr_node *start = v->node;

    for (int i = 0; i < start->n_src; i++)
        live_until(l, start->src[i], place);
    for (int i = 0; i < start->n_out; i++)
        live_until(l, &start->out[i], place);
}

static gr_status add_node(gr_layout *l, const gr_layout_input *in, int place)
{
    const gr_node *n = in->order[place];
    int end = until(in, place);

    for (int i = 0; i < n->n_src; i++) {
        live_until(l, n->src[i], end);
        if (n->src[i]->space == GR_SPACE_NONE)
            hold_until(l, n->src[i], end);
    }
    for (int i = 0; i < n->n_out; i++) {
        const gr_value *v = &n->out[i];

        GR_BUG_IF(v->id < 0 || v->id >= in->g->n_values);
        if (v->alias)
            live_until(l, v, end);
        else if (v->space == GR_SPACE_ARENA)
            GR_TRY(add_extent(l, in, gr_value_bytes(v), place, &l->of_value[v->id]));
    }
    if (in->work_bytes[place] > 0)
        GR_TRY(add_extent(l, in, in->work_bytes[place], place, &l->of_work[place]));
    return GR_OK;
}

static gr_status find_lives(gr_layout *l, const gr_layout_input *in)
{
    const gr_graph *g = in->g;

    for (int i = 0; i < g->n_values; i++)
        l->of_value[i] = -1;
    for (int i = 0; i < g->n_nodes; i++)
        l->of_work[i] = -1;
    for (int i = 0; i < g->n_nodes; i++)
        GR_TRY(gr_wrap(add_node(l, in, i), "memory of %s (%s)", in->order[i]->op->name,
                       in->order[i]->site ? in->order[i]->site : "unknown place"));
    for (int i = 0; i < g->n_outputs; i++)
        live_until(l, g->outputs[i].value, g->n_nodes);
    if (g->loss)
        live_until(l, g->loss, g->n_nodes);
    if (g->control)
        live_until(l, g->control, g->n_nodes);
    return GR_OK;
}

/* Rule (5): whether result 0 of `n` may lie where source s does, which ends here. */
static bool may_replace(const gr_layout *l, const gr_node *n, int s, int place)
{
    const gr_value *v = &n->out[0], *src = n->src[s], *root = arena_root(src);

    if (!root || l->extents[l->of_value[root->id]].last != place)
        return false;
    if (!gr_shape_equal(&src->shape, &v->shape) || src->dtype != v->dtype ||
        gr_value_bytes(root) != gr_value_bytes(v))
        return false;
    for (int i = 0; i < n->n_src; i++)
        if (gr_value_root(n->src[i]) == root && !gr_shape_equal(&n->src[i]->shape, &v->shape))
            return false;
    return true;
}

static void replace_source(gr_layout *l, const gr_node *n, int place)
{
    const gr_value *v = &n->out[0];

    if (n->n_out < 1 || v->alias || v->space != GR_SPACE_ARENA)
        return;
    for (int s = 0; s < n->n_src; s++) {
        gr_extent *old, *own = &l->extents[l->of_value[v->id]];

        if (!may_replace(l, n, s, place))
            continue;
        old = &l->extents[l->of_value[gr_value_root(n->src[s])->id]];
        old->last = own->last;
        l->sum_bytes -= own->n_bytes;
        own->n_bytes = 0; /* dropped below */
        l->of_value[v->id] = (int)(old - l->extents);
        return;
    }
}

/* Closes the gaps that joined extents left; `moved` has room for one number each. */
static void close_gaps(gr_layout *l, const gr_graph *g, int *moved)
{
    int kept = 0;

    for (int i = 0; i < l->n_extents; i++) {
        moved[i] = kept;
        if (l->extents[i].n_bytes > 0)
            l->extents[kept++] = l->extents[i];
    }
    l->n_extents = kept;
    for (int i = 0; i < g->n_values; i++)
        if (l->of_value[i] >= 0)
            l->of_value[i] = moved[l->of_value[i]];
    for (int i = 0; i < g->n_nodes; i++)
        if (l->of_work[i] >= 0)
            l->of_work[i] = moved[l->of_work[i]];
}

static gr_status join_in_place(gr_layout *l, const gr_layout_input *in)
{
    int *moved = gr_malloc(((size_t)l->n_extents + 1) * sizeof(*moved));

    if (!moved)
        return GR_ERR_NOMEM;
    for (int i = 0; i < in->g->n_nodes; i++)
        if (in->in_place[i])
            replace_source(l, in->order[i], i);
    close_gaps(l, in->g, moved);
    gr_free(moved);
    return GR_OK;
}

static gr_status make_one(gr_arena *arena, const gr_layout_input *in, bool in_place, gr_layout *out)
{
    size_t n_nodes = (size_t)in->g->n_nodes, n_values = (size_t)in->g->n_values;

    *out = (gr_layout){ .n_extents = 0 };
    out->extents = (gr_extent *)gr_arena_array(arena, n_values + n_nodes, sizeof(gr_extent));
    out->of_value = (int *)gr_arena_array(arena, n_values, sizeof(int));
    out->of_work = (int *)gr_arena_array(arena, n_nodes, sizeof(int));
    if (!out->extents || !out->of_value || !out->of_work)
        return GR_ERR_NOMEM;
    GR_TRY(find_lives(out, in));
    if (in_place)
        GR_TRY(join_in_place(out, in));
    return gr_layout_place(out);
}

/* Joined extents are longer and may fit worse: then each keeps its own. */
gr_status gr_layout_make(gr_arena *arena, const gr_layout_input *in, gr_layout *out)
{
    gr_layout apart;

    GR_TRY(make_one(arena, in, in->in_place != NULL, out));
    if (!in->in_place || out->n_bytes == out->least_bytes)
        return GR_OK;
    GR_TRY(make_one(arena, in, false, &apart));
    if (apart.n_bytes < out->n_bytes)
        *out = apart;
    return GR_OK;
}

/* ---- offsets ---- */

/* The first rule that tells two extents apart decides; the last ones make the order, and
 * with it the plan, the same on every machine. */
static int compare_sizes(const gr_extent *a, const gr_extent *b)
{
    return (a->n_bytes < b->n_bytes) - (a->n_bytes > b->n_bytes);
}

static int compare_spans(const gr_extent *a, const gr_extent *b)
{
    int x = a->last - a->first, y = b->last - b->first;

    return (x < y) - (x > y);
}

static int compare_births(const gr_extent *a, const gr_extent *b)
{
    if (a->first != b->first)
        return (a->first > b->first) - (a->first < b->first);
    return (a > b) - (a < b); /* one array: the place in it */
}

static int largest_first(const void *pa, const void *pb)
{
    const gr_extent *a = *(gr_extent *const *)pa, *b = *(gr_extent *const *)pb;
    int c = compare_sizes(a, b);

    return c ? c : compare_births(a, b);
}

static int longest_first(const void *pa, const void *pb)
{
    const gr_extent *a = *(gr_extent *const *)pa, *b = *(gr_extent *const *)pb;
    int c = compare_spans(a, b);

    return c ? c : largest_first(pa, pb);
}

static int oldest_first(const void *pa, const void *pb)
{
    const gr_extent *a = *(gr_extent *const *)pa, *b = *(gr_extent *const *)pb;

    return compare_births(a, b);
}

typedef int compare_fn(const void *, const void *);
static compare_fn *const orders[] = { largest_first, longest_first, oldest_first };

/* The place for `e` among `placed`, which is sorted by offset. */
static size_t best_gap(gr_extent *const *placed, int n, const gr_extent *e)
{
    size_t end = 0; /* of those passed so far that live when e does */
    size_t best = 0, best_gap_bytes = SIZE_MAX;

    for (int i = 0; i < n; i++) {
        const gr_extent *p = placed[i];

        if (p->last < e->first || p->first > e->last)
            continue;
        if (p->offset > end && p->offset - end >= e->n_bytes && p->offset - end < best_gap_bytes) {
            best = end;
            best_gap_bytes = p->offset - end;
        }
        if (p->offset + p->n_bytes > end)
            end = p->offset + p->n_bytes;
    }
    return best_gap_bytes < SIZE_MAX ? best : end;
}

static void insert_by_offset(gr_extent **placed, int n, gr_extent *e)
{
    int i = n;

    for (; i > 0 && placed[i - 1]->offset > e->offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = e;
}

/* Gives every extent an offset in the queue's order; returns the bytes needed. */
static size_t place_queue(gr_layout *l, gr_extent *const *queue, gr_extent **placed)
{
    size_t n_bytes = 0;

    for (int i = 0; i < l->n_extents; i++) {
        gr_extent *e = queue[i];

        e->offset = best_gap(placed, i, e);
        insert_by_offset(placed, i, e);
        if (e->offset + e->n_bytes > n_bytes)
            n_bytes = e->offset + e->n_bytes;
    }
    return n_bytes;
}

/* The most that is alive at one place. `change` holds one number per place, zeroed. */
static size_t most_alive(const gr_layout *l, size_t *change, int n_places)
{
    size_t alive = 0, most = 0;

    for (int i = 0; i < l->n_extents; i++) {
        change[l->extents[i].first] += l->extents[i].n_bytes;
        change[l->extents[i].last + 1] -= l->extents[i].n_bytes; /* wraps, and back again */
    }
    for (int i = 0; i < n_places; i++) {
        alive += change[i];
        if (alive > most)
            most = alive;
    }
    return most;
}

typedef struct place_room {
    gr_extent **queue, **placed;
    gr_extent **best_queue; /* the best order so far */
    size_t *best;           /* and its offsets */
    size_t *change;
    int n_places;
} place_room;

static gr_status make_room(place_room *r, gr_arena *a, const gr_layout *l)
{
    size_t n = (size_t)l->n_extents;

    for (int i = 0; i < l->n_extents; i++)
        if (l->extents[i].last + 2 > r->n_places)
            r->n_places = l->extents[i].last + 2;
    r->queue = (gr_extent **)gr_arena_array(a, n, sizeof(*r->queue));
    r->placed = (gr_extent **)gr_arena_array(a, n, sizeof(*r->placed));
    r->best_queue = (gr_extent **)gr_arena_array(a, n, sizeof(*r->best_queue));
    r->best = (size_t *)gr_arena_array(a, n, sizeof(*r->best));
    r->change = (size_t *)gr_arena_array(a, (size_t)r->n_places, sizeof(*r->change));
    return r->queue && r->placed && r->best_queue && r->best && r->change ? GR_OK : GR_ERR_NOMEM;
}

/* Places the queue, and keeps it when it is better than what there was. */
static void try_queue(gr_layout *l, place_room *r)
{
    size_t n_bytes = place_queue(l, r->queue, r->placed);

    if (n_bytes >= l->n_bytes)
        return;
    l->n_bytes = n_bytes;
    for (int i = 0; i < l->n_extents; i++) {
        r->best[i] = l->extents[i].offset;
        r->best_queue[i] = r->queue[i];
    }
}

static void try_order(gr_layout *l, place_room *r, compare_fn *order)
{
    for (int i = 0; i < l->n_extents; i++)
        r->queue[i] = &l->extents[i];
    qsort(r->queue, (size_t)l->n_extents, sizeof(*r->queue), order);
    try_queue(l, r);
}

/* Moves to the queue's front what ended highest when it was last placed. */
static void promote_highest(gr_layout *l, gr_extent **queue)
{
    int top = 0;

    for (int i = 1; i < l->n_extents; i++)
        if (queue[i]->offset + queue[i]->n_bytes > queue[top]->offset + queue[top]->n_bytes)
            top = i;
    for (gr_extent *e = queue[top]; top > 0; top--) {
        queue[top] = queue[top - 1];
        if (top == 1)
            queue[0] = e;
    }
}

/* From the best order on: again and again, what came to lie at the top goes first. */
static void improve(gr_layout *l, place_room *r)
{
    int n_tries = l->n_extents < 400 ? 64 : l->n_extents < 2000 ? 16 : 4;

    for (int i = 0; i < l->n_extents; i++) {
        r->queue[i] = r->best_queue[i];
        l->extents[i].offset = r->best[i];
    }
    for (int t = 0; t < n_tries && l->n_bytes > l->least_bytes; t++) {
        promote_highest(l, r->queue);
        try_queue(l, r);
    }
}

static void place_all(gr_layout *l, place_room *r)
{
    l->least_bytes = most_alive(l, r->change, r->n_places);
    l->n_bytes = SIZE_MAX;
    for (size_t k = 0; k < sizeof(orders) / sizeof(orders[0]) && l->n_bytes > l->least_bytes; k++)
        try_order(l, r, orders[k]);
    if (l->n_extents > 0)
        improve(l, r);
    for (int i = 0; i < l->n_extents; i++)
        l->extents[i].offset = r->best[i];
}

gr_status gr_layout_place(gr_layout *l)
{
    place_room r = { .n_places = 0 };
    gr_arena *scratch = NULL;
    gr_status st;

    GR_TRY(gr_arena_create(&scratch));
    GR_TRY_GOTO(st, make_room(&r, scratch, l), done);
    place_all(l, &r);
done:
    gr_arena_destroy(scratch);
    return st;
}
