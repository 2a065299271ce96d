/*
 * The plan cache: one entry per role, trace and set of feeds (names, types, shapes). When it is
 * full, the entry whose last use is longest ago goes.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "step/private.h"

/* The first of two would be taken, and the other not used, in silence. */
static gr_status check_twice(const gr_named *feeds, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(feeds[k].name, feeds[i].name) == 0)
            return gr_fail(GR_ERR_ARG, "feeds %d and %d are both called '%s'", k, i, feeds[i].name);
    return GR_OK;
}

gr_status gr_step_check_feeds(const gr_named *feeds, int n_feeds)
{
    if (n_feeds < 0 || (n_feeds > 0 && !feeds))
        return gr_fail(GR_ERR_ARG, "%d feeds at address %p", n_feeds, (const void *)feeds);
    for (int i = 0; i < n_feeds; i++) {
        gr_status st;

        if (!feeds[i].name)
            return gr_fail(GR_ERR_ARG, "feed %d has no name", i);
        GR_TRY(check_twice(feeds, i));
        st = gr_shape_check(&feeds[i].shape, feeds[i].dtype);
        if (st != GR_OK)
            return gr_wrap(st, "feed '%s'", feeds[i].name);
    }
    return GR_OK;
}

static bool is_for(const gr_entry *e, gr_purpose p, const gr_named *feeds, int n_feeds)
{
    if (e->purpose.role != p.role || e->purpose.trace != p.trace || e->n_feeds != n_feeds)
        return false;
    for (int i = 0; i < n_feeds; i++)
        if (e->feeds[i].dtype != feeds[i].dtype ||
            !gr_shape_equal(&e->feeds[i].shape, &feeds[i].shape) ||
            strcmp(e->feeds[i].name, feeds[i].name) != 0)
            return false;
    return true;
}

void gr_entry_destroy(gr_step *s, gr_entry *e)
{
    if (!e)
        return;
    gr_plan_destroy(e->plan);
    gr_graph_destroy(e->graph);
    if (e->input_mem)
        s->device->ops->free(s->device, e->input_mem);
    for (int i = 0; e->feeds && i < e->n_feeds; i++)
        gr_free((void *)(uintptr_t)e->feeds[i].name);
    gr_free(e->feeds);
    gr_free(e->feed_of);
    gr_free(e->inputs);
    gr_free(e);
}

static gr_status keep_feeds(gr_entry *e, const gr_named *feeds, int n_feeds)
{
    e->feeds = gr_calloc((size_t)n_feeds + 1, sizeof(*e->feeds));
    if (!e->feeds)
        return GR_ERR_NOMEM;
    e->n_feeds = n_feeds;
    for (int i = 0; i < n_feeds; i++) {
        e->feeds[i] = feeds[i];
        e->feeds[i].mem = NULL;
        e->feeds[i].name = gr_strdup(feeds[i].name);
        if (!e->feeds[i].name)
            return GR_ERR_NOMEM;
    }
    return GR_OK;
}

static int find_feed(const gr_entry *e, const char *name)
{
    int i = 0;

    while (strcmp(e->feeds[i].name, name) != 0)
        i++; /* the trace took its inputs from these feeds, so it is there */
    return i;
}

/* Which feed goes where; an input that is copied gets device memory of its own. */
static gr_status place_inputs(gr_step *s, gr_entry *e)
{
    int n = gr_plan_n_inputs(e->plan);
    size_t at = GR_SLOT_ALIGN;

    e->feed_of = gr_calloc((size_t)n + 1, sizeof(*e->feed_of));
    e->inputs = gr_calloc((size_t)n + 1, sizeof(*e->inputs));
    if (!e->feed_of || !e->inputs)
        return GR_ERR_NOMEM;
    e->input_bytes = GR_SLOT_ALIGN;
    for (int i = 0; i < n; i++) {
        e->feed_of[i] = find_feed(e, gr_plan_input(e->plan, i)->name);
        e->input_bytes += gr_round_up(gr_value_bytes(gr_plan_input(e->plan, i)), GR_SLOT_ALIGN);
    }
    if (!s->device->ops->needs_copies)
        return GR_OK;
    GR_TRY(s->device->ops->alloc(s->device, e->input_bytes, &e->input_mem));
    for (int i = 0; i < n; i++) {
        e->inputs[i] = (char *)e->input_mem + at;
        at += gr_round_up(gr_value_bytes(gr_plan_input(e->plan, i)), GR_SLOT_ALIGN);
    }
    return GR_OK;
}

gr_status gr_step_make_plan(gr_step *s, gr_graph *g, gr_plan **out)
{
    gr_plan_config pc = {
        .device = s->device, .n_threads = s->n_threads, .choose = gr_step_choose, .choose_arg = s
    };

    pc.reserve = s->c.tune && !s->is_tuned; /* so that what fits now fits after measuring */
    if (s->module)
        pc.kernels = s->module->kernels;
    if (g->control) { /* its place is behind the variables: see state.c */
        g->control->space = GR_SPACE_STATE;
        g->control->offset = s->vars->n_bytes;
    }
    return gr_plan_create(out, g, &pc);
}

void gr_step_forget_trace(gr_step *s)
{
    if (s->sealed)
        return;
    s->vars->n = 0;
    s->vars->sealed = false;
    s->has_buckets = false;
    s->meetings = (gr_meetings){ 0 };
}

/* A step that is too large is refused before anything of its size is allocated. */
static gr_status check_limit(const gr_step *s, const gr_entry *e)
{
    size_t need = gr_step_total_bytes(s, e->plan, gr_role_trains(e->purpose.role));

    if (s->c.recompute != GR_RECOMPUTE_LIMIT || !gr_role_trains(e->purpose.role) ||
        need <= s->c.memory_limit)
        return GR_OK;
    return gr_fail(GR_ERR_NOMEM,
                   "a step needs %zu bytes though all of %d blocks are computed again, the limit "
                   "is %zu: take a smaller batch, or mark smaller blocks",
                   need, e->graph->n_blocks, s->c.memory_limit);
}

static gr_status fill_entry(gr_step *s, gr_entry *e, const gr_named *feeds, int n_feeds)
{
    GR_TRY(keep_feeds(e, feeds, n_feeds));
    GR_TRY(gr_step_build(s, e->purpose, e->feeds, n_feeds, &e->graph));
    GR_TRY(gr_step_seal(s));
    if (gr_role_trains(e->purpose.role))
        GR_TRY(gr_step_tune(s, e->graph));
    GR_TRY(gr_step_make_plan(s, e->graph, &e->plan));
    GR_TRY(check_limit(s, e));
    GR_TRY(place_inputs(s, e));
    GR_TRY(gr_step_grow_staging(s, e->input_bytes));
    GR_TRY(gr_step_grow_arena(s, gr_plan_arena_bytes(e->plan)));
    return gr_step_bind(s, e);
}

static void drop_oldest(gr_step *s)
{
    int oldest = 0;

    for (int i = 1; i < s->n_entries; i++)
        if (s->entries[i]->used_at < s->entries[oldest]->used_at)
            oldest = i;
    gr_log(STEP, DEBUG, "plan cache is full at %d; one plan goes", s->n_entries);
    if (s->last == s->entries[oldest])
        s->last = NULL;
    GR_IGNORE(s->device->ops->sync(s->device)); /* a failure shows at the next call */
    gr_entry_destroy(s, s->entries[oldest]);
    s->n_plans_dropped++;
    s->entries[oldest] = s->entries[--s->n_entries];
}

static gr_status make_entry(gr_step *s, gr_purpose purpose, const gr_named *feeds, int n_feeds,
                            gr_entry **out)
{
    gr_entry *e = gr_calloc(1, sizeof(*e));
    gr_status st;

    if (!e)
        return GR_ERR_NOMEM;
    e->purpose = purpose;
    e->is_checked = s->checks;
    GR_TRY_GOTO(st, fill_entry(s, e, feeds, n_feeds), fail);
    if (s->n_entries == s->c.max_plans)
        drop_oldest(s);
    GR_TRY_GOTO(
        st, gr_grow((void **)&s->entries, &s->cap_entries, s->n_entries + 1, sizeof(*s->entries)),
        fail);
    s->entries[s->n_entries++] = e;
    s->n_plans_made++;
    *out = e;
    return GR_OK;

fail:
    gr_entry_destroy(s, e);
    gr_step_forget_trace(s); /* what a failed first one left must not meet the next */
    return st;
}

gr_status gr_step_entry(gr_step *s, gr_purpose purpose, const gr_named *feeds, int n_feeds,
                        gr_entry **out)
{
    gr_entry *e = NULL;

    GR_TRY(gr_step_check_feeds(feeds, n_feeds));
    for (int i = 0; i < s->n_entries && !e; i++)
        if (s->entries[i]->is_checked == s->checks &&
            is_for(s->entries[i], purpose, feeds, n_feeds))
            e = s->entries[i];
    if (!e && s->sealed && !s->can_train && gr_role_trains(purpose.role))
        return gr_fail(GR_ERR_ARG, "the state was laid out by an evaluation; plan a training "
                                   "shape with gr_step_plan() before the first gr_step_eval()");
    if (!e)
        GR_TRY(make_entry(s, purpose, feeds, n_feeds, &e));
    e->used_at = ++s->clock;
    *out = e;
    return GR_OK;
}
