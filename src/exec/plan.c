/*
 * Making a plan: schedule, kernels, segments, streams, memory, inputs; and printing it. After
 * gr_plan_create() every decision is taken, and running needs only addresses.
 */
#include "exec/plan.h"

#include "base/alloc.h"
#include "exec/plan_private.h"
#include "exec/schedule.h"
#include "exec/tune.h"

static const char *site_of(const gr_node *n)
{
    return n->site ? n->site : "unknown place";
}

gr_status gr_plan_wrap(gr_status st, const gr_node *n)
{
    return gr_wrap(st, "%s (node %u, %s)", n->op->name, (unsigned)n->id, site_of(n));
}

/* ---- kernels ---- */

static gr_stream_kind stream_of(const gr_plan *p, const gr_node *n)
{
    return p->device->ops->has_streams && n->op->on_exchange ? GR_STREAM_EXCHANGE
                                                             : GR_STREAM_COMPUTE;
}

/* What the address of `v` will be a multiple of. The caller's memory may lie anywhere, unless
 * inputs are copied. */
static size_t align_of(const gr_plan *p, const gr_value *v)
{
    const gr_value *root = gr_value_root(v);
    const gr_backend_ops *ops = p->device->ops;
    size_t offset = root->var ? root->var->offset : root->offset;

    switch (root->space) {
    case GR_SPACE_ARENA: return ops->align;
    case GR_SPACE_STATE:
    case GR_SPACE_EXCHANGE:
        offset |= ops->align;
        return offset & (~offset + 1); /* its lowest bit */
    case GR_SPACE_INPUT: return ops->needs_copies ? ops->align : 1;
    case GR_SPACE_NONE: break;
    }
    return 0;
}

static gr_status tell_aligns(gr_plan *p, gr_prepare *prep)
{
    const gr_node *n = prep->node;
    size_t *align =
        (size_t *)gr_arena_array(p->arena, (size_t)(n->n_src + n->n_out), sizeof(*align));

    if (!align)
        return GR_ERR_NOMEM;
    for (int i = 0; i < n->n_src + n->n_out; i++)
        align[i] = align_of(p, i < n->n_src ? n->src[i] : &n->out[i - n->n_src]);
    prep->src_align = align;
    prep->out_align = align + n->n_src;
    prep->work_align = p->device->ops->align;
    return GR_OK;
}

static gr_status make_entry(gr_plan *p, const gr_plan_config *c, int place)
{
    const gr_node *n = p->order[place];
    gr_entry *e = &p->entries[p->n_entries];
    gr_prepare prep = { .node = n,
                        .n_threads = c->n_threads > 0 ? c->n_threads : 1,
                        .device = c->device,
                        .sets = c->kernels,
                        .only = c->only,
                        .work_limit = c->work_limit };

    GR_TRY(tell_aligns(p, &prep));
    e->place = place;
    e->stream = stream_of(p, n);
    prep.stream = p->device->ops->stream(p->device, e->stream);
    e->has_effect = n->op->has_effect;
    for (int i = 0; i < n->n_out; i++)
        e->has_effect = e->has_effect || (n->out[i].alias && n->out[i].var);
    e->src = (void **)gr_arena_array(p->arena, (size_t)n->n_src, sizeof(void *));
    e->out = (void **)gr_arena_array(p->arena, (size_t)n->n_out, sizeof(void *));
    if (!e->src || !e->out)
        return GR_ERR_NOMEM;
    e->launch = (gr_launch){ .node = n, .src = e->src, .out = e->out, .stream = prep.stream };
    GR_TRY(gr_kernel_ready(&e->ready, &prep, c->choose ? c->choose(c->choose_arg, n) : NULL));
    p->n_entries++; /* from here on gr_plan_destroy() sees it */
    e->launch.data = e->ready.data;
    return GR_OK;
}

/* Room for whatever measuring the node may choose. */
static gr_status reserve(gr_plan *p, const gr_plan_config *c, const gr_node *n, size_t *work_bytes)
{
    gr_tune t = { .device = c->device,
                  .kernels = c->kernels,
                  .n_threads = c->n_threads,
                  .work_limit = c->work_limit };
    size_t most, all;

    if (!c->reserve || !n->op->tunes)
        return GR_OK;
    GR_TRY(gr_tune_reserve(&t, n, &most));
    all = gr_tune_bytes(n, most);
    if (most > *work_bytes)
        *work_bytes = most;
    if (all > p->tune_bytes)
        p->tune_bytes = all;
    return GR_OK;
}

/* An entry for each node that runs, and the workspace that its kernel asks for. */
static gr_status make_entries(gr_plan *p, const gr_plan_config *c, size_t *work_bytes,
                              bool *in_place)
{
    int n = p->graph->n_nodes;

    p->entries = (gr_entry *)gr_arena_array(p->arena, (size_t)n, sizeof(gr_entry));
    if (!p->entries)
        return GR_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        const gr_entry *e = &p->entries[p->n_entries];

        if (!gr_schedule_runs(c->kernels, p->order[i]))
            continue;
        GR_TRY(gr_plan_wrap(make_entry(p, c, i), p->order[i]));
        work_bytes[i] = e->ready.work_bytes;
        GR_TRY(gr_plan_wrap(reserve(p, c, p->order[i], &work_bytes[i]), p->order[i]));
        in_place[i] = e->ready.kernel->in_place;
    }
    return GR_OK;
}

/* ---- inputs ---- */

static gr_status find_feeds(gr_plan *p)
{
    const gr_graph *g = p->graph;

    p->feeds = (gr_plan_feed *)gr_arena_array(p->arena, (size_t)g->n_values, sizeof(gr_plan_feed));
    p->feed_of = (int *)gr_arena_array(p->arena, (size_t)g->n_values, sizeof(int));
    if (!p->feeds || !p->feed_of)
        return GR_ERR_NOMEM;
    for (int i = 0; i < g->n_values; i++)
        p->feed_of[i] = -1;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_out; k++) {
            const gr_value *v = &g->nodes[i]->out[k];

            if (v->space != GR_SPACE_INPUT || v->alias)
                continue;
            p->feed_of[v->id] = p->n_feeds;
            p->feeds[p->n_feeds++].value = v;
        }
    return GR_OK;
}

/* Counts the uses of inputs among one node's addresses; writes them down where there
 * is room already. */
static void note_uses(gr_plan *p, gr_value *const *values, void **slots, int n)
{
    for (int i = 0; i < n; i++) {
        int f = p->feed_of[gr_value_root(values[i])->id];

        if (f < 0)
            continue;
        if (p->feeds[f].patches)
            p->feeds[f].patches[p->feeds[f].n_patches] = &slots[i];
        p->feeds[f].n_patches++;
    }
}

static void note_all_uses(gr_plan *p)
{
    for (int i = 0; i < p->n_entries; i++) {
        const gr_node *n = p->entries[i].launch.node;

        note_uses(p, n->src, p->entries[i].src, n->n_src);
        for (int k = 0; k < n->n_out; k++) {
            gr_value *out = &n->out[k];

            note_uses(p, &out, &p->entries[i].out[k], 1);
        }
    }
}

static gr_status make_feeds(gr_plan *p)
{
    GR_TRY(find_feeds(p));
    note_all_uses(p);
    for (int f = 0; f < p->n_feeds; f++) {
        gr_plan_feed *feed = &p->feeds[f];

        feed->patches =
            (void ***)gr_arena_array(p->arena, (size_t)feed->n_patches, sizeof(void **));
        if (!feed->patches)
            return GR_ERR_NOMEM;
        feed->n_patches = 0;
    }
    note_all_uses(p);
    return GR_OK;
}

/* ---- segments ---- */

static gr_status make_segments(gr_plan *p)
{
    gr_segment *s = NULL;

    if (!p->device->ops->can_capture)
        return GR_OK;
    p->segments = (gr_segment *)gr_arena_array(p->arena, (size_t)p->n_entries, sizeof(gr_segment));
    if (!p->segments)
        return GR_ERR_NOMEM;
    for (int i = 0; i < p->n_entries; i++) {
        bool can_capture = !p->entries[i].ready.kernel->no_capture;

        if (!s || s->can_capture != can_capture) {
            s = &p->segments[p->n_segments++];
            *s = (gr_segment){ .first = i, .can_capture = can_capture };
        }
        s->end = i + 1;
    }
    return GR_OK;
}

/* ---- streams ---- */

/* Fills what gr_streams_make() needs; a device that cannot record has one segment. */
static gr_status describe_streams(gr_plan *p, gr_streams_input *in)
{
    size_t n = (size_t)p->graph->n_nodes;
    bool *runs = (bool *)gr_arena_array(p->arena, n, sizeof(bool));
    bool *ends = (bool *)gr_arena_array(p->arena, n, sizeof(bool));
    gr_stream_kind *of = (gr_stream_kind *)gr_arena_array(p->arena, n, sizeof(*of));

    if (!runs || !ends || !of)
        return GR_ERR_NOMEM;
    for (int i = 0; i < p->n_entries; i++) {
        runs[p->entries[i].place] = true;
        of[p->entries[i].place] = p->entries[i].stream;
    }
    for (int i = 0; i < p->n_segments; i++)
        ends[p->entries[p->segments[i].end - 1].place] = true;
    if (p->n_entries > 0)
        ends[p->entries[p->n_entries - 1].place] = true;
    in->n_places = p->graph->n_nodes;
    in->runs = runs;
    in->ends = ends;
    in->of = of;
    return GR_OK;
}

static gr_status make_events(gr_plan *p)
{
    int n = p->streams.n_events + GR_N_STREAMS; /* these for forks */

    p->events = (void **)gr_arena_array(p->arena, (size_t)n, sizeof(*p->events));
    if (!p->events)
        return GR_ERR_NOMEM;
    for (; p->n_events < n; p->n_events++)
        GR_TRY(p->device->ops->event_create(p->device, &p->events[p->n_events]));
    return GR_OK;
}

/* Nothing where the device has one stream, or all nodes are on it. */
static gr_status make_streams(gr_plan *p, const gr_kernel_set *sets)
{
    gr_streams_input in = { 0 };
    gr_depend before;

    for (int i = 0; i < p->n_entries; i++)
        p->forks = p->forks || p->entries[i].stream != GR_STREAM_COMPUTE;
    if (!p->forks)
        return GR_OK;
    GR_TRY(describe_streams(p, &in));
    GR_TRY(gr_depend_make(p->arena, p->graph, sets, p->order, &before));
    in.before = &before;
    GR_TRY(gr_streams_make(p->arena, &in, &p->streams));
    return make_events(p);
}

/* ---- the plan ---- */

static gr_status make_parts(gr_plan *p, const gr_plan_config *c)
{
    const gr_graph *g = p->graph;
    gr_layout_input in = { .g = g };
    size_t *work_bytes;
    bool *in_place;

    GR_TRY(gr_arena_create(&p->arena));
    GR_TRY(gr_schedule_make(p->arena, g, c->kernels, &p->order));
    work_bytes = (size_t *)gr_arena_array(p->arena, (size_t)g->n_nodes, sizeof(size_t));
    in_place = (bool *)gr_arena_array(p->arena, (size_t)g->n_nodes, sizeof(bool));
    if (!work_bytes || !in_place)
        return GR_ERR_NOMEM;
    GR_TRY(make_entries(p, c, work_bytes, in_place));
    GR_TRY(make_segments(p));
    GR_TRY(make_streams(p, c->kernels));
    in.until = p->forks ? p->streams.until : NULL;
    in.align = p->device->ops->align;
    in.order = p->order;
    in.work_bytes = work_bytes;
    in.in_place = g->in_place ? in_place : NULL;
    GR_TRY(gr_layout_make(p->arena, &in, &p->layout));
    return make_feeds(p);
}

gr_status gr_plan_create(gr_plan **out, const gr_graph *g, const gr_plan_config *c)
{
    gr_plan *p = (gr_plan *)gr_calloc(1, sizeof(*p));
    gr_status st;

    if (!p)
        return GR_ERR_NOMEM;
    p->graph = g;
    p->device = c->device;
    GR_TRY_GOTO(st, make_parts(p, c), fail);
    *out = p;
    return GR_OK;

fail:
    gr_plan_destroy(p);
    return st;
}

void gr_plan_destroy(gr_plan *p)
{
    if (!p)
        return;
    gr_plan_drop_recorded(p);
    for (int i = 0; i < p->n_events; i++)
        p->device->ops->event_destroy(p->device, p->events[i]);
    for (int i = p->n_entries - 1; i >= 0; i--)
        gr_kernel_end(&p->entries[i].ready);
    gr_arena_destroy(p->arena);
    gr_free(p);
}

size_t gr_plan_arena_bytes(const gr_plan *p)
{
    return p->layout.n_bytes > p->tune_bytes ? p->layout.n_bytes : p->tune_bytes;
}

const gr_layout *gr_plan_layout(const gr_plan *p)
{
    return &p->layout;
}

gr_node *const *gr_plan_order(const gr_plan *p)
{
    return p->order;
}

int gr_plan_n_inputs(const gr_plan *p)
{
    return p->n_feeds;
}

const gr_value *gr_plan_input(const gr_plan *p, int i)
{
    GR_BUG_IF(i < 0 || i >= p->n_feeds);
    return p->feeds[i].value;
}

/* ---- printing ---- */

static void print_value(const gr_plan *p, const gr_value *v, gr_text *out)
{
    static const char *const space_names[] = {
        [GR_SPACE_NONE] = "none",         [GR_SPACE_ARENA] = "arena", [GR_SPACE_STATE] = "state",
        [GR_SPACE_EXCHANGE] = "exchange", [GR_SPACE_INPUT] = "input",
    };
    const gr_value *root = gr_value_root(v);

    gr_text_addf(out, "  %%%d", v->id);
    if (v != root)
        gr_text_addf(out, " = %%%d", root->id);
    gr_text_addf(out, " %s", space_names[root->space]);
    if (root->space == GR_SPACE_ARENA)
        gr_text_addf(out, "+%zu", p->layout.extents[p->layout.of_value[root->id]].offset);
    else if (root->space == GR_SPACE_STATE || root->space == GR_SPACE_EXCHANGE)
        gr_text_addf(out, "+%zu", root->var ? root->var->offset : root->offset);
    if (root->space != GR_SPACE_NONE)
        gr_text_addf(out, " %zu bytes", gr_value_bytes(v));
}

static void print_node(const gr_plan *p, int place, const gr_kernel *kernel, gr_text *out)
{
    const gr_node *n = p->order[place];
    int work = p->layout.of_work[place];

    gr_text_addf(out, "%4d %-18s %-12s", place, n->op->name, kernel ? kernel->name : "-");
    for (int i = 0; i < n->n_out; i++)
        print_value(p, &n->out[i], out);
    if (work >= 0)
        gr_text_addf(out, "  work arena+%zu %zu bytes", p->layout.extents[work].offset,
                     p->layout.extents[work].n_bytes);
    if (p->forks && p->streams.of[place] != GR_STREAM_COMPUTE)
        gr_text_add(out, "  on the exchange stream");
    gr_text_addf(out, "  (%s)\n", site_of(n));
}

void gr_plan_print(const gr_plan *p, gr_text *out)
{
    int next = 0;

    for (int i = 0; i < p->graph->n_nodes; i++) {
        bool runs = next < p->n_entries && p->entries[next].place == i;

        print_node(p, i, runs ? p->entries[next].ready.kernel : NULL, out);
        next += runs;
    }
    gr_text_addf(out, "arena: %zu bytes; at least %zu are alive at once; %zu without sharing\n",
                 p->layout.n_bytes, p->layout.least_bytes, p->layout.sum_bytes);
}
