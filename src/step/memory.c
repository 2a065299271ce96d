/*
 * What a step needs: planned as for a run, but nothing of that size is allocated and the
 * plan is thrown away. Before the first plan the variables of the trace are, too.
 */
#include "gradus/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "step/private.h"

/* A plan that is only looked at. */
typedef struct look {
    gr_step *s;
    const gr_graph *g;
    const gr_plan *plan;
    const gr_layout *layout;
    gr_node *const *order;
    const char **label; /* by place in the order: the layer of a forward node; or NULL */
    bool *counted;      /* by extent */
    int first_backward; /* place; n_nodes: there is none */
    gr_memory_report *r;
} look;

/* ---- layers ---- */

/* "blocks.0.fc1" of "blocks.0.fc1.weight"; from the graph's arena. */
static const char *layer_of(gr_arena *a, const char *param)
{
    const char *dot = strrchr(param, '.');

    return dot ? gr_arena_printf(a, "%.*s", (int)(dot - param), param) : param;
}

static int place_of(const look *l, const gr_node *n)
{
    int i = 0;

    while (l->order[i] != n)
        i++;
    return i;
}

/* The layer of a node: its block, else that of a parameter it reads, else that of the
 * first source that has one. */
static gr_status label_node(look *l, gr_arena *a, int place)
{
    const gr_node *n = l->order[place];

    if (n->block > 0) {
        l->label[place] = l->g->blocks[n->block - 1];
        return GR_OK;
    }
    for (int s = 0; s < n->n_src; s++) {
        const gr_var *v = gr_value_root(n->src[s])->var;
        const gr_var *param = v ? gr_var_param(v) : NULL;

        if (!param)
            continue;
        l->label[place] = layer_of(a, param->name);
        return l->label[place] ? GR_OK : GR_ERR_NOMEM;
    }
    for (int s = 0; s < n->n_src && !l->label[place]; s++)
        l->label[place] = l->label[place_of(l, n->src[s]->node)];
    return GR_OK;
}

/* ---- what is kept ---- */

static bool is_kept(const look *l, const gr_extent *e)
{
    return e->first < l->first_backward && e->last >= l->first_backward && e->last < l->g->n_nodes;
}

static void add_item(gr_memory_report *r, const char *name, size_t n_bytes)
{
    gr_memory_item *last = &r->kept_by[GR_MEMORY_ITEMS - 1];

    for (int i = 0; i < r->n_kept_by; i++)
        if (strcmp(r->kept_by[i].name, name) == 0) {
            r->kept_by[i].n_bytes += n_bytes;
            return;
        }
    if (r->n_kept_by == GR_MEMORY_ITEMS) { /* full: the last one takes what is left */
        snprintf(last->name, sizeof(last->name), "others");
        last->n_bytes += n_bytes;
        return;
    }
    snprintf(r->kept_by[r->n_kept_by].name, GR_CHECK_NAME, "%s", name);
    r->kept_by[r->n_kept_by++].n_bytes = n_bytes;
}

static int compare_items(const void *a, const void *b)
{
    const gr_memory_item *x = a, *y = b;
    bool x_rest = strcmp(x->name, "others") == 0, y_rest = strcmp(y->name, "others") == 0;

    if (x_rest != y_rest)
        return x_rest ? 1 : -1;
    if (x->n_bytes != y->n_bytes)
        return x->n_bytes < y->n_bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* Values written over one another lie in one extent: it counts once, for the last of them. */
static void count_kept(look *l)
{
    for (int i = l->first_backward - 1; i >= 0; i--)
        for (int o = 0; o < l->order[i]->n_out; o++) {
            const gr_value *v = &l->order[i]->out[o];
            int at = v->alias || v->space != GR_SPACE_ARENA ? -1 : l->layout->of_value[v->id];

            if (at < 0 || l->counted[at] || !is_kept(l, &l->layout->extents[at]))
                continue;
            l->counted[at] = true;
            l->r->kept += l->layout->extents[at].n_bytes;
            add_item(l->r, l->label[i] ? l->label[i] : "others", l->layout->extents[at].n_bytes);
        }
    qsort(l->r->kept_by, (size_t)l->r->n_kept_by, sizeof(l->r->kept_by[0]), compare_items);
}

/* ---- the peak ---- */

static size_t alive_at(const look *l, int place, bool kept_only)
{
    size_t n_bytes = 0;

    for (int i = 0; i < l->layout->n_extents; i++) {
        const gr_extent *e = &l->layout->extents[i];

        if (e->first <= place && place <= e->last && (!kept_only || is_kept(l, e)))
            n_bytes += e->n_bytes;
    }
    return n_bytes;
}

static void find_peak(look *l)
{
    gr_memory_report *r = l->r;
    const gr_node *n = NULL;
    int at = 0;

    for (int i = 0; i < l->g->n_nodes && !n; i++)
        if (alive_at(l, i, false) == l->layout->least_bytes) {
            n = l->order[i];
            at = i;
        }
    for (int i = 0; i < l->g->n_nodes; i++)
        if (l->layout->of_work[i] >= 0 &&
            l->layout->extents[l->layout->of_work[i]].n_bytes > r->work)
            r->work = l->layout->extents[l->layout->of_work[i]].n_bytes;
    if (!n)
        return; /* nothing lies in the arena */
    snprintf(r->peak_op, sizeof(r->peak_op), "%s", n->op->name);
    snprintf(r->peak_site, sizeof(r->peak_site), "%s", n->site ? n->site : "");
    r->peak_node = n->id;
    r->peak_kept = alive_at(l, at, true);
    if (l->layout->of_work[at] >= 0)
        r->peak_work = l->layout->extents[l->layout->of_work[at]].n_bytes;
}

/* ---- putting together ---- */

static void count_state(const gr_step *s, gr_memory_report *r)
{
    for (int i = 0; i < s->vars->n; i++) {
        const gr_var *v = s->vars->list[i];
        size_t n_bytes = gr_round_up((size_t)gr_shape_count(&v->shape) * gr_dtype_bytes(v->dtype),
                                     s->vars->align);

        if (v->common)
            n_bytes /= (size_t)gr_pg_size(s->c.pg); /* so that the ranks' reports add up */
        if (gr_var_param(v))
            r->params += n_bytes;
        else if (v->kind == GR_VAR_BUFFER || v->kind == GR_VAR_HELD)
            r->buffers += n_bytes;
        else
            r->optim += n_bytes;
    }
}

static gr_status fill_report(look *l)
{
    gr_arena *a = NULL;
    size_t n = (size_t)l->g->n_nodes;
    gr_status st;

    l->r->arena = gr_plan_arena_bytes(l->plan);
    l->r->arena_live = l->layout->least_bytes;
    l->r->arena_sum = l->layout->sum_bytes;
    l->r->n_blocks = l->g->n_blocks;
    l->r->n_recomputed = l->g->n_recomputed;
    l->r->recomputed = l->g->recomputed_bytes;
    GR_TRY(gr_arena_create(&a));
    l->label = gr_arena_array(a, n + 1, sizeof(*l->label));
    l->counted = gr_arena_array(a, (size_t)l->layout->n_extents + 1, sizeof(*l->counted));
    st = l->label && l->counted ? GR_OK : GR_ERR_NOMEM;
    l->first_backward = l->g->n_nodes;
    for (int i = l->g->n_nodes - 1; i >= 0; i--)
        if (l->order[i]->phase == GR_PHASE_BACKWARD && l->order[i]->n_src > 0)
            l->first_backward = i;
    for (int i = 0; i < l->g->n_nodes && st == GR_OK; i++)
        st = label_node(l, a, i);
    if (st == GR_OK) {
        count_kept(l);
        find_peak(l);
    }
    gr_arena_destroy(a);
    return st;
}

/* Where they are sent ahead there are two more of each. */
static size_t input_bytes(const gr_step *s, const gr_plan *p)
{
    size_t n_bytes = 0, n_each = s->device->ops->has_streams ? 3 : 1;

    for (int i = 0; i < gr_plan_n_inputs(p); i++)
        n_bytes += gr_round_up(gr_value_bytes(gr_plan_input(p, i)), GR_SLOT_ALIGN);
    return n_bytes * n_each;
}

static void add_up(const gr_step *s, bool training, gr_memory_report *r)
{
    count_state(s, r);
    if (training && (gr_pg_size(s->c.pg) > 1 || s->c.accumulate > 1))
        r->exchange = gr_step_exchange_bytes(s);
    r->total = r->params + r->buffers + r->optim + r->exchange + r->inputs + r->arena;
}

size_t gr_step_total_bytes(const gr_step *s, const gr_plan *plan, bool training)
{
    gr_memory_report r = { .inputs = input_bytes(s, plan), .arena = gr_plan_arena_bytes(plan) };

    add_up(s, training, &r);
    return r.total;
}

/* One plan; *r is that of the one with the larger arena. */
static gr_status measure_one(gr_step *s, gr_purpose purpose, const gr_named *feeds, int n_feeds,
                             gr_memory_report *r)
{
    gr_memory_report own = { 0 };
    look l = { .s = s, .r = &own };
    gr_graph *g = NULL;
    gr_plan *plan = NULL;
    gr_status st = gr_step_build(s, purpose, feeds, n_feeds, &g);

    if (st == GR_OK)
        st = gr_step_make_plan(s, g, &plan);
    if (st == GR_OK) {
        l.g = g;
        l.plan = plan;
        l.layout = gr_plan_layout(plan);
        l.order = gr_plan_order(plan);
        st = fill_report(&l);
        own.inputs = input_bytes(s, plan);
    }
    if (st == GR_OK && (own.arena >= r->arena || r->total == 0)) {
        own.total = 1; /* filled */
        *r = own;
    }
    gr_plan_destroy(plan);
    gr_graph_destroy(g);
    return st;
}

static gr_status measure(gr_step *s, bool training, const gr_named *feeds, int n_feeds,
                         gr_memory_report *r)
{
    if (!training)
        GR_TRY(measure_one(s, (gr_purpose){ GR_ROLE_EVAL, s->eval_trace }, feeds, n_feeds, r));
    else if (s->c.accumulate == 1)
        GR_TRY(measure_one(s, gr_training(GR_ROLE_WHOLE), feeds, n_feeds, r));
    else {
        GR_TRY(measure_one(s, gr_training(GR_ROLE_LAST), feeds, n_feeds, r));
        GR_TRY(measure_one(s, gr_training(GR_ROLE_MICRO), feeds, n_feeds, r));
    }
    add_up(s, training, r);
    return GR_OK;
}

gr_status gr_step_memory_report(gr_step *s, bool training, const gr_named *feeds, int n_feeds,
                                gr_memory_report *out)
{
    gr_status st;

    GR_TRY(gr_step_check_given(s));
    if (!out)
        return gr_fail(GR_ERR_ARG, "memory report: out is NULL");
    *out = (gr_memory_report){ 0 };
    GR_TRY(gr_step_check_feeds(feeds, n_feeds));
    st = measure(s, training, feeds, n_feeds, out);
    gr_step_forget_trace(s);
    return st;
}

gr_status gr_step_memory_report_named(gr_step *s, const char *trace, const gr_named *feeds,
                                      int n_feeds, gr_memory_report *out)
{
    gr_status st;
    int at;

    GR_TRY(gr_step_check_given(s));
    if (!out)
        return gr_fail(GR_ERR_ARG, "memory report: out is NULL");
    *out = (gr_memory_report){ 0 };
    GR_TRY(gr_step_check_feeds(feeds, n_feeds));
    GR_TRY(gr_step_find_trace(s, trace, &at));
    st = measure_one(s, (gr_purpose){ GR_ROLE_EVAL, at }, feeds, n_feeds, out);
    add_up(s, false, out);
    gr_step_forget_trace(s);
    return gr_wrap(st, "trace '%s'", trace);
}

/* ---- text ---- */

static void add_line(gr_text *t, const char *what, size_t n_bytes, size_t total)
{
    gr_text_addf(t, "%-34s %12.3f MiB %5.1f%%\n", what, (double)n_bytes / (1 << 20),
                 total > 0 ? 100.0 * (double)n_bytes / (double)total : 0.0);
}

static void print_report(const gr_memory_report *r, gr_text *t)
{
    char name[GR_CHECK_NAME + 8];

    add_line(t, "all", r->total, r->total);
    add_line(t, "parameters", r->params, r->total);
    add_line(t, "optimiser state", r->optim, r->total);
    add_line(t, "buffers", r->buffers, r->total);
    add_line(t, "gradients, to be exchanged", r->exchange, r->total);
    add_line(t, "inputs", r->inputs, r->total);
    add_line(t, "arena (all else, shared)", r->arena, r->total);
    add_line(t, "  alive at once, at the most", r->arena_live, r->total);
    add_line(t, "  largest workspace", r->work, r->total);
    add_line(t, "  kept for the backward pass", r->kept, r->total);
    for (int i = 0; i < r->n_kept_by; i++) {
        snprintf(name, sizeof(name), "    %s", r->kept_by[i].name);
        add_line(t, name, r->kept_by[i].n_bytes, r->total);
    }
    if (r->peak_op[0])
        gr_text_addf(t,
                     "the most is alive in %s (node %u, %s): %.3f MiB of it kept, %.3f MiB "
                     "workspace\n",
                     r->peak_op, (unsigned)r->peak_node,
                     r->peak_site[0] ? r->peak_site : "unknown place",
                     (double)r->peak_kept / (1 << 20), (double)r->peak_work / (1 << 20));
    if (r->n_blocks > 0)
        gr_text_addf(t, "%d of %d blocks are computed again, which saves %.3f MiB of kept values\n",
                     r->n_recomputed, r->n_blocks, (double)r->recomputed / (1 << 20));
}

gr_status gr_memory_report_text(const gr_memory_report *r, char **out)
{
    gr_text t = GR_TEXT_INIT;
    gr_status st;

    if (!r || !out)
        return gr_fail(GR_ERR_ARG, "memory report: r or out is NULL");
    print_report(r, &t);
    st = gr_text_status(&t);
    *out = st == GR_OK ? strdup(gr_text_str(&t)) : NULL;
    gr_text_fini(&t);
    if (st == GR_OK && !*out)
        return gr_fail(GR_ERR_NOMEM, "no memory for a report");
    return st;
}

/* ---- which batch fits ---- */

static void scale_first(gr_named *feeds, int n_feeds, int64_t batch, void *user)
{
    (void)user;
    for (int i = 0; i < n_feeds; i++)
        if (feeds[i].shape.n_dims > 0)
            feeds[i].shape.dim[0] = batch;
}

static gr_status bytes_of_batch(gr_step *s, const gr_named *feeds, int n_feeds,
                                const gr_fit_config *c, int64_t batch, size_t *n_bytes)
{
    gr_named *scaled = gr_malloc(((size_t)n_feeds + 1) * sizeof(*scaled));
    gr_memory_report r = { 0 };
    gr_status st;

    if (!scaled)
        return GR_ERR_NOMEM;
    for (int i = 0; i < n_feeds; i++)
        scaled[i] = feeds[i];
    (c->scale ? c->scale : scale_first)(scaled, n_feeds, batch, c->user);
    st = gr_step_memory_report(s, true, scaled, n_feeds, &r);
    gr_free(scaled);
    *n_bytes = r.total;
    return st == GR_OK ? GR_OK : gr_wrap(st, "batch %lld", (long long)batch);
}

static gr_status check_fit(const gr_fit_config *c, const int64_t *batch, const size_t *n_bytes)
{
    if (!c || !batch || !n_bytes)
        return gr_fail(GR_ERR_ARG, "fit: config, batch or n_bytes is NULL");
    if (c->min_batch < 1 || c->max_batch < c->min_batch)
        return gr_fail(GR_ERR_ARG, "fit: batches from %lld to %lld make no sense",
                       (long long)c->min_batch, (long long)c->max_batch);
    return GR_OK;
}

/* Doubles from the smallest until one does not fit, then halves the stretch between. `most` is the
 * largest that may still fit: it can be the largest number there is, and one more cannot be. */
gr_status gr_step_fit_batch(gr_step *s, const gr_named *feeds, int n_feeds, const gr_fit_config *c,
                            int64_t *batch, size_t *n_bytes)
{
    int64_t good, most;
    size_t need, good_bytes;

    GR_TRY(gr_step_check_given(s));
    GR_TRY(check_fit(c, batch, n_bytes));
    GR_TRY(gr_step_check_feeds(feeds, n_feeds)); /* before they are copied */
    GR_TRY(bytes_of_batch(s, feeds, n_feeds, c, c->min_batch, &good_bytes));
    if (good_bytes > c->limit_bytes)
        return gr_fail(GR_ERR_NOMEM, "fit: a batch of %lld needs %zu bytes, the limit is %zu",
                       (long long)c->min_batch, good_bytes, c->limit_bytes);
    good = c->min_batch;
    most = c->max_batch;
    for (bool doubling = true; good < most;) {
        int64_t next = doubling && good <= most / 2 ? 2 * good : good + (most - good + 1) / 2;

        GR_TRY(bytes_of_batch(s, feeds, n_feeds, c, next, &need));
        if (need > c->limit_bytes) {
            most = next - 1;
            doubling = false;
        } else {
            good = next;
            good_bytes = need;
        }
    }
    *batch = good;
    *n_bytes = good_bytes;
    return GR_OK;
}
