/*
 * Mixed precision: walks the nodes in order and decides the type of every result.
 *
 * (1) Products (GR_AMP_LOW) read `low` copies of their sources and give `low`.
 * (2) Elementwise and moving operators (GR_AMP_FOLLOW) give `low` when a floating source
 *     is `low` and the others are `low` or parameters; their arithmetic is f32 in any
 *     case. A wide source that is no parameter (a target, a loss) keeps the result wide.
 * (3) Reductions and losses (GR_AMP_WIDE) take `low` sources and give f32.
 * (4) Gradients of parameters are f32 whatever computed them: buckets and master weights
 *     are f32.
 * (5) What keeps its types (GR_AMP_KEEP) reads f32 copies of sources that were f32.
 * A value is cast once, however many products read it.
 */
#include "base/alloc.h"
#include "gradus/ops.h"
#include "graph/op.h"
#include "pass/pass.h"

typedef struct amp {
    gr_graph *g;
    gr_dtype low;
    gr_value **cast; /* by value id of before the pass: its low copy, */
    gr_value **wide; /* and its f32 copy, of what has become low */
    bool *was_f32;   /* by value id */
    int n_values;
} amp;

/* Lets the node read its source as `t`; `copies` holds those made so far. */
static gr_status use_copy(amp *a, gr_node *n, int s, gr_value **copies, gr_dtype t)
{
    gr_value *v = n->src[s];

    if (v->id >= a->n_values || !copies[v->id]) {
        gr_value *c;

        a->g->phase = v->node->phase;
        a->g->block = n->block;
        c = gr_cast_at(n->site, a->g, v, t);
        a->g->block = 0;
        if (!c)
            return gr_graph_status(a->g);
        if (v->id < a->n_values)
            copies[v->id] = c;
        n->src[s] = c;
        return GR_OK;
    }
    n->src[s] = copies[v->id];
    return GR_OK;
}

static gr_status low_copy(amp *a, gr_node *n, int s)
{
    return n->src[s]->dtype == GR_F32 ? use_copy(a, n, s, a->cast, a->low) : GR_OK;
}

/* Rule (5). */
static gr_status keep_sources(amp *a, gr_node *n)
{
    for (int s = 0; s < n->n_src; s++) {
        const gr_value *v = n->src[s];

        if (v->id < a->n_values && a->was_f32[v->id] && v->dtype == a->low)
            GR_TRY(use_copy(a, n, s, a->wide, GR_F32));
    }
    return GR_OK;
}

static bool is_wide_activation(const gr_value *v)
{
    return v->dtype == GR_F64 || (v->dtype == GR_F32 && gr_value_root(v)->space != GR_SPACE_STATE);
}

static bool follows_low(const amp *a, const gr_node *n)
{
    bool has_low = false;

    if (n->op->amp == GR_AMP_FIRST)
        return n->n_src > 0 && n->src[0]->dtype == a->low;
    for (int s = 0; s < n->n_src; s++) {
        if (is_wide_activation(n->src[s]))
            return false;
        has_low = has_low || n->src[s]->dtype == a->low;
    }
    return has_low;
}

static gr_dtype wanted_type(const amp *a, const gr_node *n)
{
    if (n->out[0].is_grad || n->out[0].dtype != GR_F32 || n->op->amp == GR_AMP_WIDE)
        return n->out[0].dtype;
    if (n->op->amp == GR_AMP_LOW || follows_low(a, n))
        return a->low;
    return n->out[0].dtype;
}

static gr_status retype(amp *a, gr_node *n)
{
    gr_dtype want = wanted_type(a, n);

    if (n->op->retype && n->n_out > 0 && gr_dtype_is_float(n->out[0].dtype)) {
        n->attr = n->op->retype(a->g, n, want);
        if (!n->attr)
            return GR_ERR_NOMEM;
    }
    return n->op->infer(n);
}

/* What the user made f64 stays so. */
static bool is_f64(const gr_node *n)
{
    for (int s = 0; s < n->n_src; s++)
        if (n->src[s]->dtype == GR_F64)
            return true;
    return n->n_out > 0 && n->out[0].dtype == GR_F64;
}

static gr_status amp_node(amp *a, gr_node *n)
{
    if (n->op->amp == GR_AMP_KEEP)
        return keep_sources(a, n);
    if (is_f64(n))
        return GR_OK;
    for (int s = 0; s < n->n_src && n->op->amp == GR_AMP_LOW; s++)
        if (s >= 32 || !(n->op->wide_src >> s & 1))
            GR_TRY(low_copy(a, n, s));
    return retype(a, n);
}

/* Rule (4) for operators whose type cannot be chosen (a view of a low value). */
static gr_status widen_grads(amp *a)
{
    for (int i = 0; i < a->g->n_grads; i++) {
        gr_value *d = a->g->grads[i];

        if (!d || d->dtype == GR_F32)
            continue;
        a->g->phase = GR_PHASE_BACKWARD;
        a->g->grads[i] = gr_cast_at(d->node->site, a->g, d, GR_F32);
        GR_TRY(gr_graph_status(a->g));
        a->g->grads[i]->is_grad = true;
    }
    return GR_OK;
}

static gr_status amp_init(amp *a)
{
    size_t n = (size_t)a->n_values + 1;

    a->cast = gr_calloc(n, sizeof(*a->cast));
    a->wide = gr_calloc(n, sizeof(*a->wide));
    a->was_f32 = gr_calloc(n, sizeof(*a->was_f32));
    if (!a->cast || !a->wide || !a->was_f32)
        return GR_ERR_NOMEM;
    for (int i = 0; i < a->n_values; i++)
        a->was_f32[i] = a->g->values[i]->dtype == GR_F32;
    return GR_OK;
}

gr_status gr_pass_amp(gr_graph *g, gr_dtype low)
{
    amp a = { .g = g, .low = low, .n_values = g->n_values };
    int n_nodes = g->n_nodes;
    gr_status st = amp_init(&a);

    for (int i = 0; i < n_nodes && st == GR_OK; i++)
        st = amp_node(&a, g->nodes[i]);
    if (st == GR_OK)
        st = widen_grads(&a);
    g->phase = GR_PHASE_FORWARD;
    gr_free(a.cast);
    gr_free(a.wide);
    gr_free(a.was_f32);
    return st;
}
