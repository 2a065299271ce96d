/*
 * Autodiff: walks the nodes backwards from y and lets each operator add the nodes of its
 * own gradient. The result is graph like any other: planned, scheduled and tested so.
 *
 * (1) Only nodes between an x and y are walked: `wanted` marks values that depend on
 *     an x. What rules add for other sources is dropped by gr_graph_prune().
 * (2) Contributions to one value are added in the order in which the walk meets them,
 *     which is fixed by the graph.
 */
#include <string.h>

#include "base/alloc.h"
#include "gradus/ops.h"
#include "graph/op.h"
#include "op/map/program.h"
#include "op/part/part.h"
#include "op/shape/shape.h"
#include "pass/pass.h"

typedef struct walk {
    gr_graph *g;
    int n_values;              /* when the walk began: later values are the gradients themselves */
    bool *wanted;              /* by value id */
    gr_value **adjoint;        /* by value id: the gradient so far */
    gr_value **d_out, **d_src; /* room for one node */
} walk;

static void walk_fini(walk *w)
{
    gr_free(w->wanted);
    gr_free(w->adjoint);
    gr_free(w->d_out);
    gr_free(w->d_src);
}

static gr_status walk_init(walk *w, gr_graph *g)
{
    size_t n = (size_t)g->n_values + 1;
    size_t n_out = 1, n_src = 1;

    for (int i = 0; i < g->n_nodes; i++) {
        n_out = (size_t)g->nodes[i]->n_out > n_out ? (size_t)g->nodes[i]->n_out : n_out;
        n_src = (size_t)g->nodes[i]->n_src > n_src ? (size_t)g->nodes[i]->n_src : n_src;
    }
    w->g = g;
    w->n_values = g->n_values;
    w->wanted = gr_calloc(n, sizeof(*w->wanted));
    w->adjoint = gr_calloc(n, sizeof(*w->adjoint));
    w->d_out = gr_calloc(n_out, sizeof(*w->d_out));
    w->d_src = gr_calloc(n_src, sizeof(*w->d_src));
    return w->wanted && w->adjoint && w->d_out && w->d_src ? GR_OK : GR_ERR_NOMEM;
}

static void mark_wanted(walk *w, gr_value *const *x, int n)
{
    for (int i = 0; i < n; i++)
        w->wanted[x[i]->id] = true;
    for (int i = 0; i < w->g->n_nodes; i++) {
        const gr_node *node = w->g->nodes[i];

        for (int s = 0; s < node->n_src; s++)
            for (int o = 0; w->wanted[node->src[s]->id] && o < node->n_out; o++)
                if (gr_dtype_is_float(node->out[o].dtype))
                    w->wanted[node->out[o].id] = true;
    }
}

static gr_status add_contribution(walk *w, const gr_node *n, const gr_value *to, gr_value *d)
{
    gr_value **sum = &w->adjoint[to->id];

    *sum = *sum ? gr_map2_at(n->site, w->g, "add", *sum, d) : d;
    return *sum ? GR_OK : gr_graph_status(w->g);
}

static gr_status check_rule(const gr_node *n)
{
    if (n->op->grad)
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "%s: %s has no gradient, but a value that needs one passes it",
                   n->site, n->op->name);
}

static gr_status walk_node(walk *w, gr_node *n)
{
    bool is_reached = false, leads_on = false;

    for (int o = 0; o < n->n_out; o++) {
        w->d_out[o] = w->adjoint[n->out[o].id];
        is_reached = is_reached || w->d_out[o];
    }
    for (int s = 0; s < n->n_src; s++) {
        w->d_src[s] = NULL;
        leads_on = leads_on || w->wanted[n->src[s]->id];
    }
    if (!is_reached || !leads_on)
        return GR_OK;
    GR_TRY(check_rule(n));
    GR_TRY(n->op->grad(w->g, n, w->d_out, w->d_src));
    GR_TRY(gr_graph_status(w->g));
    for (int s = 0; s < n->n_src; s++)
        if (w->d_src[s] && w->wanted[n->src[s]->id])
            GR_TRY(add_contribution(w, n, n->src[s], w->d_src[s]));
    return GR_OK;
}

static gr_status run_walk(walk *w, gr_value *y, gr_value *seed)
{
    int last = w->g->n_nodes - 1;

    while (last >= 0 && w->g->nodes[last] != y->node)
        last--;
    w->adjoint[y->id] = seed;
    for (int i = last; i >= 0; i--)
        GR_TRY(walk_node(w, w->g->nodes[i]));
    return GR_OK;
}

gr_status gr_autodiff(gr_graph *g, gr_value *y, gr_value *seed, gr_value *const *x, int n,
                      gr_value **dx)
{
    walk w = { 0 };
    gr_phase was = g->phase;
    gr_status st;

    GR_TRY(gr_graph_status(g));
    GR_TRY_GOTO(st, walk_init(&w, g), done);
    mark_wanted(&w, x, n);
    g->phase = GR_PHASE_BACKWARD;
    g->wanted = w.wanted;
    g->n_wanted = w.n_values;
    st = run_walk(&w, y, seed);
    g->wanted = NULL;
    for (int i = 0; i < n; i++)
        dx[i] = w.adjoint[x[i]->id];

done:
    g->phase = was;
    walk_fini(&w);
    return st;
}

static bool is_trainable(const gr_node *n)
{
    return n->op == &gr_op_variable && n->out[0].var->kind == GR_VAR_PARAM &&
           !n->out[0].var->frozen;
}

static gr_value *make_seed(gr_graph *g, double scale, gr_var *loss_scale)
{
    gr_value *seed;

    g->phase = GR_PHASE_BACKWARD;
    if (loss_scale) {
        seed = gr_mapk_at("loss scale", g, "mul", gr_graph_var(g, "loss scale", loss_scale), scale);
        seed = gr_cast_at("loss scale", g, seed, g->loss->dtype);
        seed = gr_reshape_at("loss scale", g, seed, g->loss->shape);
    } else {
        seed = gr_fill_at("loss gradient", g, g->loss->dtype, g->loss->shape, scale);
    }
    g->phase = GR_PHASE_FORWARD;
    return seed;
}

/* Sums of contributions, and moves of elements: what a gradient is made of must be as wide
 * as the gradient. */
static bool is_made_of_sources(const gr_node *n)
{
    const gr_program *p;

    if (n->op == &gr_op_reshape || n->op == &gr_op_transpose || n->op == &gr_op_concat ||
        n->op == &gr_op_split || n->op == &gr_op_slice || n->op == &gr_op_pad ||
        n->op == &gr_op_flip)
        return true;
    if (n->op != &gr_op_map || n->n_src != 2)
        return false;
    p = n->attr;
    return p->n_instr == 1 && p->instr[0].fn == GR_FN_ADD;
}

static void mark_grad(gr_value *v)
{
    if (v->is_grad)
        return;
    v->is_grad = true;
    if (v->node->phase == GR_PHASE_BACKWARD && is_made_of_sources(v->node))
        for (int s = 0; s < v->node->n_src; s++)
            mark_grad(v->node->src[s]);
}

static gr_status set_grads(gr_graph *g, gr_value *const *x, gr_value *const *dx, int n)
{
    g->n_grads = g->vars->n;
    g->grads = gr_arena_array(g->arena, (size_t)g->n_grads + 1, sizeof(*g->grads));
    if (!g->grads)
        return GR_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        g->grads[x[i]->var->index] = dx[i];
        if (dx[i])
            mark_grad(dx[i]);
    }
    return GR_OK;
}

gr_status gr_pass_autodiff(gr_graph *g, double scale, gr_var *loss_scale)
{
    size_t room = (size_t)g->n_nodes + 1;
    gr_value **x = gr_arena_array(g->arena, room, sizeof(*x));
    gr_value **dx = gr_arena_array(g->arena, room, sizeof(*dx));
    gr_value *seed = make_seed(g, scale, loss_scale);
    int n = 0;

    if (!x || !dx)
        return GR_ERR_NOMEM;
    GR_TRY(gr_graph_status(g));
    for (int i = 0; i < g->n_nodes; i++)
        if (is_trainable(g->nodes[i]))
            x[n++] = &g->nodes[i]->out[0];
    GR_TRY(gr_autodiff(g, g->loss, seed, x, n, dx));
    return set_grads(g, x, dx, n);
}

/* Everything that keeps gr_gradients() from being a plain call of gr_autodiff(). */
static gr_status check_request(gr_graph *g, const gr_value *y, gr_value *const *x, int n)
{
    GR_TRY(gr_graph_status(g));
    if (!y || gr_shape_count(&y->shape) != 1 || !gr_dtype_is_float(y->dtype))
        return gr_fail(GR_ERR_ARG, "gradients are taken of one floating number");
    for (int i = 0; i < n; i++)
        if (!x[i] || !gr_dtype_is_float(x[i]->dtype))
            return gr_fail(GR_ERR_ARG, "gradient %d is asked for a value that is not floating", i);
    return GR_OK;
}

static gr_status gradients(const char *site, gr_graph *g, gr_value *y, gr_value *const *x, int n,
                           gr_value **dx)
{
    gr_value *seed;

    GR_TRY(check_request(g, y, x, n));
    seed = gr_fill_at(site, g, y->dtype, y->shape, 1);
    GR_TRY(gr_graph_status(g));
    GR_TRY(gr_autodiff(g, y, seed, x, n, dx));
    for (int i = 0; i < n; i++)
        if (!dx[i])
            return gr_fail(GR_ERR_ARG, "y does not depend on x[%d]", i);
    return GR_OK;
}

void gr_gradients_at(const char *site, gr_graph *g, gr_value *y, gr_value *const *x, int n,
                     gr_value **dx)
{
    gr_status st;

    if (n < 0 || (n > 0 && (!x || !dx))) {
        gr_graph_fail(g, site, "gradients: of %d values, and x or dx is NULL", n);
        return;
    }
    for (int i = 0; i < n; i++)
        dx[i] = NULL;
    st = gradients(site, g, y, x, n, dx);
    if (st != GR_OK && g->status == GR_OK)
        gr_graph_stick(g, st == GR_ERR_NOMEM ? st : gr_wrap(st, "%s: gradients", site));
}
