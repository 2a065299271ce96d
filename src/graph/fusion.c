/* The parts of fusions that need no operator: the plain view, the shape rule, moving values. */
#include "graph/fusion.h"

#include "graph/op.h"

#include <string.h>

const gr_program *gr_fusion_load(const gr_node *n, int s)
{
    const gr_fusion *f = n->fusion;

    return f && f->load && s < f->n_own_src ? f->load[s].program : NULL;
}

void gr_fusion_plain(const gr_node *n, gr_plain *out)
{
    const gr_fusion *f = n->fusion;

    out->node = *n;
    out->node.fusion = NULL;
    if (!f)
        return;
    GR_BUG_IF(f->n_own_src > GR_FUSION_MAX_SRC || f->n_own_out > GR_FUSION_MAX_OUT);
    for (int s = 0; s < f->n_own_src; s++) {
        const gr_program *p = gr_fusion_load(n, s);

        out->src[s] = n->src[s];
        if (!p)
            continue;
        out->loaded[s] = (gr_value){ .id = -1, .shape = p->shape, .dtype = p->dtype };
        out->loaded[s].space = GR_SPACE_ARENA;
        out->src[s] = &out->loaded[s];
    }
    for (int i = 0; i < f->n_own_out; i++) {
        out->own[i] = f->own[i];
        out->own[i].id = -1;
        out->own[i].index = i;
        out->own[i].space = GR_SPACE_ARENA;
    }
    out->node.src = out->src;
    out->node.n_src = f->n_own_src;
    out->node.out = out->own;
    out->node.n_out = f->n_own_out;
}

/* ---- the shape rule ---- */

static bool broadcasts_to(const gr_shape *s, const gr_shape *to)
{
    if (s->n_dims > to->n_dims)
        return false;
    for (int i = 1; i <= s->n_dims; i++)
        if (s->dim[s->n_dims - i] != to->dim[to->n_dims - i] && s->dim[s->n_dims - i] != 1)
            return false;
    return true;
}

/* What a program reads beside the value that it is over. */
static gr_status check_more(const gr_node *n, const gr_fused_program *p, const char *what)
{
    char text[2][GR_SHAPE_TEXT];

    GR_BUG_IF(p->program->n_src < 1 || p->program->n_src > GR_MAP_MAX_SRC);
    if (p->first + p->program->n_src - 1 > n->n_src)
        return gr_fail(GR_ERR_ARG, "takes %d inputs, got %d", p->first + p->program->n_src - 1,
                       n->n_src);
    for (int i = 1; i < p->program->n_src; i++) {
        const gr_shape *s = &n->src[p->first + i - 1]->shape;

        if (!broadcasts_to(s, &p->program->shape))
            return gr_fail(GR_ERR_ARG, "shape %s does not broadcast to the %s's %s",
                           gr_shape_text(s, text[0], sizeof(text[0])), what,
                           gr_shape_text(&p->program->shape, text[1], sizeof(text[1])));
    }
    return GR_OK;
}

static gr_status check_loads(const gr_node *n)
{
    for (int s = 0; s < n->fusion->n_own_src; s++) {
        const gr_program *p = gr_fusion_load(n, s);

        if (!p)
            continue;
        if (!gr_shape_equal(&p->shape, &n->src[s]->shape))
            return gr_fail(GR_ERR_ARG, "the program on load of input %d has another shape", s);
        GR_TRY(check_more(n, &n->fusion->load[s], "input"));
    }
    return GR_OK;
}

/* The operator's own rule must give what the fusion was made over. */
static gr_status check_own(const gr_node *n)
{
    const gr_fusion *f = n->fusion;
    gr_plain plain;

    if (n->n_src < f->n_own_src)
        return gr_fail(GR_ERR_ARG, "takes %d inputs, got %d", f->n_own_src, n->n_src);
    gr_fusion_plain(n, &plain);
    GR_TRY(n->op->infer(&plain.node));
    for (int i = 0; i < f->n_own_out; i++)
        if (!gr_shape_equal(&plain.own[i].shape, &f->own[i].shape) ||
            plain.own[i].dtype != f->own[i].dtype || plain.own[i].alias)
            return gr_fail(GR_ERR_ARG, "its fusion is over a result %d of another shape or type",
                           i);
    return GR_OK;
}

static void infer_end(const gr_fusion *f, const gr_fused_end *e, gr_value *out)
{
    const gr_shape *s = &f->own[0].shape;

    GR_BUG_IF(e->reg != 0 && (e->reg < f->end.program->n_src ||
                              e->reg >= f->end.program->n_src + f->end.program->n_instr));
    GR_BUG_IF(e->fate == GR_FATE_STORE ? e->axes != 0 : e->dtype != GR_F32);
    out->dtype = e->dtype;
    out->shape = (gr_shape){ 0 };
    for (int d = 0; d < s->n_dims; d++) {
        bool reduced = e->axes >> d & 1;

        if (!reduced || e->keep)
            out->shape.dim[out->shape.n_dims++] = reduced ? 1 : s->dim[d];
    }
}

static gr_status infer_fused(gr_node *n)
{
    const gr_fusion *f = n->fusion;

    GR_BUG_IF(f->n_ends < 1 || f->n_ends > GR_FUSION_MAX_ENDS || !f->end.program);
    GR_BUG_IF(n->n_out != f->n_ends + f->n_own_out - 1);
    GR_TRY(check_loads(n));
    GR_TRY(check_own(n));
    if (!gr_shape_equal(&f->end.program->shape, &f->own[0].shape))
        return gr_fail(GR_ERR_ARG, "the program on its result has another shape");
    GR_TRY(check_more(n, &f->end, "result"));
    for (int i = 0; i < f->n_ends; i++)
        infer_end(f, &f->ends[i], &n->out[i]);
    for (int i = 1; i < f->n_own_out; i++) {
        n->out[f->n_ends + i - 1].shape = f->own[i].shape;
        n->out[f->n_ends + i - 1].dtype = f->own[i].dtype;
    }
    return GR_OK;
}

gr_status gr_node_infer(gr_node *n)
{
    return n->fusion ? infer_fused(n) : n->op->infer(n);
}

void gr_node_print_attr(const gr_node *n, gr_text *out)
{
    if (n->op->print)
        n->op->print(n, out);
    if (n->fusion)
        n->fusion->rules->print(n, out);
}

/* ---- moving ---- */

static void follow(gr_value **at, const gr_value *from, gr_value *to)
{
    if (*at == from)
        *at = to;
}

void gr_graph_move_value(gr_graph *g, gr_value *from, gr_value *to)
{
    gr_node *node = to->node;
    int index = to->index;

    *to = *from;
    to->node = node;
    to->index = index;
    g->values[from->id] = to;
    for (int i = 0; i < g->n_nodes; i++) {
        gr_node *n = g->nodes[i];

        for (int s = 0; s < n->n_src; s++)
            follow(&n->src[s], from, to);
        for (int o = 0; o < n->n_out; o++)
            follow(&n->out[o].alias, from, to);
    }
    for (int i = 0; i < g->n_outputs; i++)
        follow(&g->outputs[i].value, from, to);
    for (int i = 0; i < g->n_grads; i++)
        follow(&g->grads[i], from, to);
    follow(&g->loss, from, to);
    follow(&g->loss_count, from, to);
    follow(&g->grad_scale, from, to);
    follow(&g->control, from, to);
}
