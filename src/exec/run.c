/*
 * Running a plan. Binding turns offsets into addresses, once; a run writes the inputs'
 * addresses where they are used and calls the kernels. Nothing allocates, except the
 * backend when a second run records (plan.h).
 *
 * A segment that cannot be recorded is a loss of speed and not of results: what was
 * queued between capture_begin and capture_end did not run. So it is logged with the
 * reason, and the segment runs plainly until the next bind.
 */
#include "exec/plan_private.h"

#include "base/log.h"

#include <stdint.h>

/* ---- binding ---- */

static size_t offset_of(const gr_plan *p, const gr_value *root)
{
    if (root->space == GR_SPACE_ARENA) {
        GR_BUG_IF(p->layout.of_value[root->id] < 0);
        return p->layout.extents[p->layout.of_value[root->id]].offset;
    }
    return root->var ? root->var->offset : root->offset;
}

static void *base_of(const gr_plan *p, gr_space space)
{
    switch (space) {
    case GR_SPACE_ARENA: return p->bases.arena;
    case GR_SPACE_STATE: return p->bases.state;
    case GR_SPACE_EXCHANGE: return p->bases.exchange;
    case GR_SPACE_NONE:
    case GR_SPACE_INPUT: break;
    }
    return NULL;
}

/* NULL for what has no memory, for an input before the first run, and where the base
 * that the value needs was not given. */
static void *resolve(const gr_plan *p, const gr_value *v)
{
    const gr_value *root = gr_value_root(v);
    char *base;

    if (root->space == GR_SPACE_INPUT) {
        GR_BUG_IF(p->feed_of[root->id] < 0);
        return p->feeds[p->feed_of[root->id]].mem;
    }
    base = (char *)base_of(p, root->space);
    return base ? base + offset_of(p, root) : NULL;
}

static gr_status check_resolved(const gr_value *v, const void *mem)
{
    gr_space space = gr_value_root(v)->space;

    if (mem || space == GR_SPACE_NONE || space == GR_SPACE_INPUT)
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "value %%%d needs memory that was not bound", v->id);
}

static gr_status bind_entry(gr_plan *p, gr_entry *e)
{
    const gr_node *n = e->launch.node;
    int work = p->layout.of_work[e->place];

    for (int i = 0; i < n->n_src; i++) {
        e->src[i] = resolve(p, n->src[i]);
        GR_TRY(check_resolved(n->src[i], e->src[i]));
    }
    for (int i = 0; i < n->n_out; i++) {
        e->out[i] = resolve(p, &n->out[i]);
        GR_TRY(check_resolved(&n->out[i], e->out[i]));
    }
    if (work >= 0 && !p->bases.arena)
        return gr_fail(GR_ERR_ARG, "the workspace needs an arena, and none was bound");
    e->launch.work = work >= 0 ? (char *)p->bases.arena + p->layout.extents[work].offset : NULL;
    e->launch.scalars = p->bases.scalars;
    e->launch.fault = p->bases.fault;
    return GR_OK;
}

void gr_plan_drop_recorded(gr_plan *p)
{
    for (int i = 0; i < p->n_segments; i++) {
        gr_segment *s = &p->segments[i];

        if (s->recorded)
            p->device->ops->capture_free(p->device, s->recorded);
        s->recorded = NULL;
    }
    p->n_runs = 0;
}

gr_status gr_plan_bind(gr_plan *p, const gr_bases *b)
{
    GR_BUG_IF((uintptr_t)b->arena % p->device->ops->align != 0);
    gr_plan_drop_recorded(p);
    p->is_bound = false;
    p->bases = *b;
    for (int i = 0; i < p->n_entries; i++)
        GR_TRY(gr_plan_wrap(bind_entry(p, &p->entries[i]), p->entries[i].launch.node));
    p->is_bound = true;
    return GR_OK;
}

void *gr_plan_address(const gr_plan *p, const gr_value *v)
{
    return resolve(p, v);
}

/* ---- running ---- */

gr_status gr_plan_place_inputs(gr_plan *p, void *const *inputs)
{
    bool is_fixed = p->device->ops->can_capture && p->n_runs > 0;

    for (int f = 0; f < p->n_feeds; f++) {
        gr_plan_feed *feed = &p->feeds[f];

        if (feed->mem == inputs[f])
            continue;
        if (is_fixed)
            return gr_fail(GR_ERR_ARG, "input '%s' moved, and '%s' replays fixed addresses",
                           feed->value->name ? feed->value->name : "", p->device->ops->name);
        feed->mem = inputs[f];
        for (int i = 0; i < feed->n_patches; i++)
            *feed->patches[i] = inputs[f];
    }
    return GR_OK;
}

static gr_status wait_events(gr_plan *p, const gr_place_lists *l, int place, gr_stream_kind stream)
{
    for (int i = l->first[place]; i < l->first[place + 1]; i++)
        GR_TRY(p->device->ops->event_wait(p->device, p->events[l->item[i]], stream));
    return GR_OK;
}

/* What the node's stream waits for before it. */
static gr_status fork_before(gr_plan *p, const gr_entry *e)
{
    const gr_backend_ops *ops = p->device->ops;
    void *fork = p->events[p->streams.n_events + (int)e->stream];

    if (p->streams.forks[e->place]) {
        GR_TRY(ops->event_record(p->device, fork, GR_STREAM_COMPUTE));
        GR_TRY(ops->event_wait(p->device, fork, e->stream));
    }
    return wait_events(p, &p->streams.waits, e->place, e->stream);
}

/* What others will wait for behind it, and what joins there. */
static gr_status join_after(gr_plan *p, const gr_entry *e)
{
    int event = p->streams.event[e->place];

    if (event >= 0)
        GR_TRY(p->device->ops->event_record(p->device, p->events[event], e->stream));
    return wait_events(p, &p->streams.joins, e->place, GR_STREAM_COMPUTE);
}

static gr_status run_kernel(gr_plan *p, gr_entry *e)
{
    if (p->forks)
        GR_TRY(fork_before(p, e));
    GR_TRY(e->ready.kernel->run(&e->launch));
    return p->forks ? join_after(p, e) : GR_OK;
}

gr_status gr_plan_run_entries(gr_plan *p, const gr_run *r, int first, int end)
{
    bool polls = r->poll && p->device->ops->can_poll;

    for (int i = first; i < end; i++) {
        gr_entry *e = &p->entries[i];
        gr_status st;

        /* After bad data nothing may change that the caller cannot take back. */
        if (e->has_effect && p->device->ops->runs_at_once)
            GR_TRY(gr_plan_check_fault(p, p->bases.fault));
        e->launch.pool = r->pool;
        st = run_kernel(p, e);
        if (st != GR_OK)
            return gr_plan_wrap(st, e->launch.node);
        if (polls)
            GR_TRY(r->poll(r->poll_arg));
    }
    return GR_OK;
}

/* Records the segment; s->recorded stays NULL after a failure. */
static gr_status record(gr_plan *p, const gr_run *r, gr_segment *s)
{
    const gr_backend_ops *ops = p->device->ops;
    void *recorded = NULL;
    gr_error queueing;
    gr_status st;

    GR_TRY(ops->capture_begin(p->device));
    gr_error_take(&queueing, gr_plan_run_entries(p, r, s->first, s->end));
    /* Also after a failure: the device must leave its recording state. */
    st = ops->capture_end(p->device, &recorded);
    if (queueing.status != GR_OK) {
        if (recorded)
            ops->capture_free(p->device, recorded);
        return gr_error_raise(&queueing);
    }
    if (st == GR_OK)
        s->recorded = recorded;
    return st;
}

static gr_status run_segment(gr_plan *p, const gr_run *r, gr_segment *s)
{
    if (s->can_capture && !s->recorded && p->n_runs == 1) {
        gr_status st = record(p, r, s);

        if (st != GR_OK)
            gr_log(EXEC, WARN, "nodes %d to %d run one by one: %s: %s", s->first, s->end - 1,
                   gr_status_text(st), gr_error_message());
    }
    if (!s->recorded)
        return gr_plan_run_entries(p, r, s->first, s->end);
    return gr_wrap(p->device->ops->capture_launch(p->device, s->recorded),
                   "recorded nodes %d to %d", s->first, s->end - 1);
}

static gr_status run_all(gr_plan *p, const gr_run *r)
{
    if (p->n_runs == 0 || p->n_segments == 0)
        return gr_plan_run_entries(p, r, 0, p->n_entries);
    for (int i = 0; i < p->n_segments; i++)
        GR_TRY(run_segment(p, r, &p->segments[i]));
    return GR_OK;
}

gr_status gr_plan_check_fault(const gr_plan *p, const gr_fault *f)
{
    const gr_node *n = NULL;

    /* Set last by whoever found it, maybe a device: what else it holds is there then. */
    if (!f || __atomic_load_n(&f->is_set, __ATOMIC_ACQUIRE) == 0)
        return GR_OK;
    for (int i = 0; i < p->n_entries && !n; i++)
        if (p->entries[i].launch.node->id == f->node_id)
            n = p->entries[i].launch.node;
    return gr_fail(GR_ERR_ARG, "%s (%s): index %lld at row %lld is outside [0, %lld)",
                   n ? n->op->name : "unknown operator", n && n->site ? n->site : "unknown place",
                   (long long)f->value, (long long)f->row, (long long)f->limit);
}

gr_status gr_plan_run(gr_plan *p, const gr_run *r)
{
    GR_BUG_IF(!p->is_bound);
    GR_TRY(gr_plan_place_inputs(p, r->inputs));
    GR_TRY(run_all(p, r));
    p->n_runs++;
    return p->device->ops->runs_at_once ? gr_plan_check_fault(p, p->bases.fault) : GR_OK;
}

/* ---- node by node ---- */

int gr_plan_n_nodes(const gr_plan *p)
{
    return p->n_entries;
}

const gr_node *gr_plan_node(const gr_plan *p, int i)
{
    GR_BUG_IF(i < 0 || i >= p->n_entries);
    return p->entries[i].launch.node;
}

gr_status gr_plan_begin_nodes(gr_plan *p, const gr_run *r)
{
    GR_BUG_IF(!p->is_bound);
    return gr_plan_place_inputs(p, r->inputs);
}

gr_status gr_plan_run_node(gr_plan *p, const gr_run *r, int i)
{
    return gr_plan_run_entries(p, r, i, i + 1);
}
