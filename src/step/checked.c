/*
 * The checked run: node by node, every floating result looked at, the first bad one told.
 *
 * (1) The plan is one of its own, without the optional passes: each operator of the trace
 *     is a node, nothing is written over, and updates stand at the end.
 * (2) The run goes on to its end though something was found, because other ranks wait in
 *     the exchanges. State (and the slots of gradients, which accumulate) is copied before
 *     and put back afterwards.
 * (3) Minus infinity that comes in through an input or a constant is a mask, and is let
 *     through until it meets something that makes it NaN. So is minus infinity in a second
 *     result (the log-sum of a row that is masked as a whole).
 */
#include "gradus/inspect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nan.h"
#include "op/element.h"
#include "op/map/program.h"
#include "step/private.h"

typedef struct scan {
    int64_t n, n_nan, n_up, n_down, n_zero; /* up, down: infinities by sign */
    int64_t first;                          /* of NaN and infinities; -1: none */
    double first_value, lo, hi;             /* of the finite ones; lo > hi: there are none */
} scan;

typedef struct checker {
    gr_step *s;
    gr_entry *e;
    gr_check_report *report;
    bool *is_read;          /* by value id: somebody reads it, or it is an output */
    bool *has_down;         /* by value id of the root: minus infinity is expected in it */
    void *buffer;           /* host copy of one value; NULL on a host device */
    void *state, *exchange; /* host copies of before */
} checker;

static scan scan_memory(const void *mem, gr_dtype t, int64_t n)
{
    scan c = { .n = n, .first = -1, .lo = INFINITY, .hi = -INFINITY };

    for (int64_t i = 0; i < n; i++) {
        double x = gr_element_f64(mem, t, i);

        if (isfinite(x)) {
            c.lo = x < c.lo ? x : c.lo;
            c.hi = x > c.hi ? x : c.hi;
            c.n_zero += x == 0;
            continue;
        }
        if (c.first < 0) {
            c.first = i;
            c.first_value = gr_plain_nan(x);
        }
        c.n_nan += isnan(x);
        c.n_up += x > 0;
        c.n_down += x < 0;
    }
    return c;
}

static bool has_numbers(const gr_value *v)
{
    return gr_dtype_is_float(v->dtype) && gr_value_root(v)->space != GR_SPACE_NONE &&
           gr_shape_count(&v->shape) > 0;
}

static gr_status scan_value(checker *c, const gr_value *v, scan *out)
{
    gr_device *d = c->s->device;
    const void *mem = gr_plan_address(c->e->plan, v);

    if (!d->ops->has_host_memory) {
        GR_TRY(d->ops->download(d, c->buffer, mem, gr_value_bytes(v)));
        GR_TRY(d->ops->sync(d));
        mem = c->buffer;
    }
    *out = scan_memory(mem, v->dtype, gr_shape_count(&v->shape));
    return GR_OK;
}

/* ---- the report ---- */

static void add_counts(gr_text *t, const scan *c)
{
    gr_text_addf(t, "%lld NaN, %lld inf, %lld -inf of %lld elements", (long long)c->n_nan,
                 (long long)c->n_up, (long long)c->n_down, (long long)c->n);
}

static void add_range(gr_text *t, const scan *c)
{
    if (c->lo <= c->hi)
        gr_text_addf(t, "%.6g to %.6g, %lld zeros", c->lo, c->hi, (long long)c->n_zero);
    else
        gr_text_add(t, "no finite number");
    if (c->first >= 0) {
        gr_text_add(t, "; ");
        add_counts(t, c);
    }
}

static void add_place(gr_text *t, const gr_shape *s, int64_t element)
{
    int64_t index[GR_MAX_DIMS];

    for (int d = s->n_dims - 1; d >= 0; d--) {
        index[d] = element % s->dim[d];
        element /= s->dim[d];
    }
    for (int d = 0; d < s->n_dims; d++)
        gr_text_addf(t, "%s%lld", d > 0 ? ", " : "", (long long)index[d]);
}

static void add_found(gr_text *t, const gr_shape *shape, const scan *c)
{
    gr_text_add(t, "  ");
    add_counts(t, c);
    gr_text_add(t, "; the first at [");
    add_place(t, shape, c->first);
    gr_text_addf(t, "] is %g\n", c->first_value);
}

static void fill_report(gr_check_report *r, gr_check_kind kind, const char *name, const scan *c)
{
    r->kind = kind;
    snprintf(r->name, sizeof(r->name), "%s", name ? name : "");
    r->element = c->first;
    r->value = c->first_value;
    r->n_nan = c->n_nan;
    r->n_inf = c->n_up + c->n_down;
}

static void keep_text(gr_check_report *r, gr_text *t)
{
    snprintf(r->text, sizeof(r->text), "%s", gr_text_str(t));
    gr_text_fini(t);
}

static void report_named(gr_check_report *r, gr_check_kind kind, const gr_named *n, const scan *c)
{
    char shape[GR_SHAPE_TEXT];
    gr_text t = GR_TEXT_INIT;

    fill_report(r, kind, n->name, c);
    r->dtype = n->dtype;
    r->shape = n->shape;
    gr_text_addf(&t, "%s '%s' %s %s is not finite\n",
                 kind == GR_CHECK_INPUT ? "input" : "before the step, variable", n->name,
                 gr_dtype_name(n->dtype), gr_shape_text(&n->shape, shape, sizeof(shape)));
    add_found(&t, &n->shape, c);
    keep_text(r, &t);
}

/* Whether the node writes its result over that source: a variable that it updates. */
static bool overwrites(const gr_node *n, const gr_value *v)
{
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o].alias && gr_value_root(&n->out[o]) == gr_value_root(v))
            return true;
    return false;
}

/* A source as the node read it; a variable as it was before the step. */
static gr_status scan_source(checker *c, const gr_node *n, const gr_value *v, scan *out)
{
    if (!v->var || !overwrites(n, v))
        return scan_value(c, v, out);
    *out =
        scan_memory((const char *)c->state + v->var->offset, v->dtype, gr_shape_count(&v->shape));
    return GR_OK;
}

static gr_status add_source(checker *c, gr_text *t, const gr_node *n, int s, bool *all_finite)
{
    const gr_value *v = n->src[s];
    char shape[GR_SHAPE_TEXT];
    scan range;

    gr_text_addf(t, "  source %d: ", s);
    if (v->name)
        gr_text_addf(t, "'%s' ", v->name);
    else
        gr_text_addf(t, "%%%d of %s (%s) ", v->id, v->node->op->name,
                     v->node->site ? v->node->site : "unknown place");
    gr_text_addf(t, "%s %s", gr_dtype_name(v->dtype),
                 gr_shape_text(&v->shape, shape, sizeof(shape)));
    if (has_numbers(v)) {
        GR_TRY(scan_source(c, n, v, &range));
        gr_text_add(t, ": ");
        add_range(t, &range);
        *all_finite = *all_finite && range.first < 0;
    }
    gr_text_add(t, "\n");
    return GR_OK;
}

/* What was found beyond the largest f16, though it came from finite numbers. */
static void add_overflow(checker *c, gr_text *t, const gr_node *n)
{
    gr_text_add(t, "  this is an overflow: f16 ends at 65504");
    if (c->s->c.amp == GR_AMP_F16 && n->phase == GR_PHASE_BACKWARD)
        gr_text_add(t, "; in the backward pass the loss scale may be too high, and training "
                       "skips such a step and halves it");
    gr_text_add(t, "\n");
}

static gr_status report_node(checker *c, const gr_node *n, int o, const scan *found)
{
    gr_check_report *r = c->report;
    const gr_value *v = &n->out[o];
    char shape[GR_SHAPE_TEXT];
    gr_text t = GR_TEXT_INIT;
    bool all_finite = true;
    gr_status st = GR_OK;

    fill_report(r, v->var ? GR_CHECK_UPDATE : GR_CHECK_NODE, v->var ? v->var->name : n->op->name,
                found);
    snprintf(r->site, sizeof(r->site), "%s", n->site ? n->site : "");
    r->node = n->id;
    r->output = o;
    r->dtype = v->dtype;
    r->shape = v->shape;
    gr_text_addf(&t, "%s", n->op->name);
    if (n->op->print)
        n->op->print(n, &t);
    gr_text_addf(&t, " (node %u, %s): result %d, %%%d %s %s, is not finite\n", (unsigned)n->id,
                 n->site ? n->site : "unknown place", o, v->id, gr_dtype_name(v->dtype),
                 gr_shape_text(&v->shape, shape, sizeof(shape)));
    add_found(&t, &v->shape, found);
    for (int s = 0; s < n->n_src && st == GR_OK; s++)
        st = add_source(c, &t, n, s, &all_finite);
    r->is_overflow = all_finite && v->dtype == GR_F16 && found->n_nan == 0;
    if (r->is_overflow)
        add_overflow(c, &t, n);
    keep_text(r, &t);
    return st;
}

/* ---- looking ---- */

static bool has_infinite_constant(const gr_node *n)
{
    const gr_program *p = (const gr_program *)n->attr;

    if (n->op != &gr_op_map)
        return false;
    for (int i = 0; i < p->n_instr; i++)
        if (p->instr[i].fn == GR_FN_CONST && isinf(p->instr[i].k))
            return true;
    return false;
}

/* Rule (3). */
static bool expects_down(const checker *c, const gr_node *n, int o)
{
    if (o > 0 || has_infinite_constant(n))
        return true;
    for (int s = 0; s < n->n_src; s++)
        if (c->has_down[gr_value_root(n->src[s])->id])
            return true;
    return false;
}

/* What is wrong with one shows in its parameter, or in the cast that these plans have. */
static bool is_copy(const gr_var *v)
{
    return v && v->kind == GR_VAR_COPY;
}

static gr_status look_at_node(checker *c, const gr_node *n)
{
    for (int o = 0; o < n->n_out && c->report->kind == GR_CHECK_CLEAN; o++) {
        const gr_value *v = &n->out[o];
        scan found;

        if (!has_numbers(v) || is_copy(v->var) || !(c->is_read[v->id] || v->var))
            continue;
        GR_TRY(scan_value(c, v, &found));
        if (found.first < 0)
            continue;
        if (found.n_nan + found.n_up == 0 && expects_down(c, n, o))
            c->has_down[gr_value_root(v)->id] = true;
        else
            GR_TRY(report_node(c, n, o, &found));
    }
    return GR_OK;
}

static void look_at_feeds(checker *c, const gr_named *feeds, int n_feeds)
{
    for (int i = 0; i < n_feeds && c->report->kind == GR_CHECK_CLEAN; i++) {
        scan found = { .first = -1 };

        if (gr_dtype_is_float(feeds[i].dtype))
            found = scan_memory(feeds[i].mem, feeds[i].dtype, gr_shape_count(&feeds[i].shape));
        if (found.n_nan + found.n_up > 0)
            report_named(c->report, GR_CHECK_INPUT, &feeds[i], &found);
        for (int k = 0; found.n_down > 0 && k < gr_plan_n_inputs(c->e->plan); k++)
            if (c->e->feed_of[k] == i)
                c->has_down[gr_plan_input(c->e->plan, k)->id] = true;
    }
}

static void look_at_state(checker *c)
{
    const gr_vars *vars = c->s->vars;

    for (int i = 0; i < vars->n && c->report->kind == GR_CHECK_CLEAN; i++) {
        const gr_var *v = vars->list[i];
        gr_named named = { v->name, v->dtype, v->shape, (char *)c->state + v->offset };
        scan found = { .first = -1 };

        if (gr_dtype_is_float(v->dtype) && !is_copy(v))
            found = scan_memory(named.mem, v->dtype, gr_shape_count(&v->shape));
        if (found.first >= 0)
            report_named(c->report, GR_CHECK_STATE, &named, &found);
    }
}

/* ---- running ---- */

static void checker_fini(checker *c)
{
    const gr_backend_ops *ops = c->s->device->ops;

    gr_free(c->is_read);
    gr_free(c->has_down);
    ops->host_free(c->s->device, c->buffer);
    ops->host_free(c->s->device, c->state);
    ops->host_free(c->s->device, c->exchange);
}

static void note_readers(checker *c)
{
    const gr_graph *g = c->e->graph;

    for (int i = 0; i < g->n_nodes; i++)
        for (int s = 0; s < g->nodes[i]->n_src; s++)
            c->is_read[g->nodes[i]->src[s]->id] = true;
    for (int i = 0; i < g->n_outputs; i++)
        c->is_read[g->outputs[i].value->id] = true;
}

static size_t largest_value(const gr_graph *g)
{
    size_t most = 1;

    for (int i = 0; i < g->n_values; i++)
        if (g->values[i]->space != GR_SPACE_NONE && gr_value_bytes(g->values[i]) > most)
            most = gr_value_bytes(g->values[i]);
    return most;
}

/* Copies the state, and the slots while gradients add up in them, to the host. */
static gr_status checker_init(checker *c)
{
    gr_step *s = c->s;
    const gr_backend_ops *ops = s->device->ops;
    size_t n = (size_t)c->e->graph->n_values + 1;

    c->is_read = gr_calloc(n, sizeof(*c->is_read));
    c->has_down = gr_calloc(n, sizeof(*c->has_down));
    if (!c->is_read || !c->has_down)
        return GR_ERR_NOMEM;
    note_readers(c);
    if (!ops->has_host_memory)
        GR_TRY(ops->host_alloc(s->device, largest_value(c->e->graph), &c->buffer));
    GR_TRY(ops->host_alloc(s->device, s->vars->n_bytes + 1, &c->state));
    GR_TRY(ops->download(s->device, c->state, s->bases.state, s->vars->n_bytes));
    if (s->c.accumulate > 1) {
        GR_TRY(ops->host_alloc(s->device, s->exchange_bytes + 1, &c->exchange));
        GR_TRY(ops->download(s->device, c->exchange, s->bases.exchange, s->exchange_bytes));
    }
    return ops->sync(s->device);
}

static gr_status put_back(checker *c)
{
    gr_step *s = c->s;
    const gr_backend_ops *ops = s->device->ops;

    s->saw_bad_data = false; /* what it did is undone here */
    GR_TRY(ops->upload(s->device, s->bases.state, c->state, s->vars->n_bytes));
    if (c->exchange)
        GR_TRY(ops->upload(s->device, s->bases.exchange, c->exchange, s->exchange_bytes));
    return ops->sync(s->device);
}

static gr_status run_nodes(checker *c, const gr_run *r)
{
    gr_plan *p = c->e->plan;

    GR_TRY(gr_plan_begin_nodes(p, r));
    for (int i = 0; i < gr_plan_n_nodes(p); i++) {
        GR_TRY(gr_plan_run_node(p, r, i));
        GR_TRY(look_at_node(c, gr_plan_node(p, i)));
    }
    return GR_OK;
}

/* Whether any rank found something. */
static gr_status agree(const checker *c, bool *any)
{
    int32_t found = c->report->kind != GR_CHECK_CLEAN;

    if (gr_pg_size(c->s->c.pg) > 1)
        GR_TRY(gr_pg_allreduce(c->s->c.pg, (gr_vec){ &found, 1, GR_I32 }, GR_REDUCE_MAX));
    *any = found != 0;
    if (*any && c->report->kind == GR_CHECK_CLEAN) {
        c->report->kind = GR_CHECK_PEER;
        snprintf(c->report->text, sizeof(c->report->text),
                 "another rank found a number that is not finite; it says which\n");
    }
    return GR_OK;
}

static gr_status run_checked(checker *c, const gr_named *feeds, int n_feeds, double lr)
{
    gr_run r = { .inputs = c->e->inputs };
    gr_error error;
    bool any = false;

    GR_TRY(checker_init(c));
    look_at_feeds(c, feeds, n_feeds);
    look_at_state(c);
    GR_TRY(gr_step_begin_run(c->s, c->e, feeds, n_feeds, lr, &r));
    gr_error_take(&error, gr_step_end_run(c->s, run_nodes(c, &r)));
    if (error.status == GR_OK)
        gr_error_take(&error, gr_step_sync(c->s));
    if (error.status == GR_OK)
        gr_error_take(&error, agree(c, &any));
    if (any || error.status != GR_OK)
        GR_TRY(put_back(c));
    else
        gr_step_count(c->s);
    return error.status == GR_OK ? GR_OK : gr_error_raise(&error);
}

gr_status gr_step_run_checked(gr_step *s, const gr_named *feeds, int n_feeds, double lr,
                              gr_check_report *report)
{
    checker c = { .s = s, .report = report };
    gr_status st;

    GR_TRY(gr_step_check_given(s));
    if (!report)
        return gr_fail(GR_ERR_ARG, "checked run: the report is NULL");
    *report = (gr_check_report){ .kind = GR_CHECK_CLEAN };
    snprintf(report->text, sizeof(report->text), "every value of the step is finite\n");
    GR_TRY(gr_step_check_training(s, feeds, n_feeds, lr));
    s->checks = true; /* plans made from here on are for looking at */
    st = gr_step_train_entry(s, feeds, n_feeds, &c.e);
    s->checks = false;
    GR_TRY(st);
    st = run_checked(&c, feeds, n_feeds, lr);
    checker_fini(&c);
    return st;
}
