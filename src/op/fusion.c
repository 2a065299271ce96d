/* Making and printing fusions. */
#include "op/fusion.h"

#include "op/map/program.h"

const gr_fusion_rules gr_fusion_usual = { .apart = &gr_fusion_apart, .print = gr_fusion_print };

/* The operator's results as it will give them; its attribute changes with the first one's type. */
static gr_status make_own(gr_graph *g, const gr_node *like, gr_fusion *f, const void **attr)
{
    gr_value *own = gr_arena_array(g->arena, (size_t)like->n_out, sizeof(*own));
    gr_dtype t = like->out[0].dtype;
    gr_node n = *like;

    *attr = like->attr;
    if (!own)
        return GR_ERR_NOMEM;
    for (int i = 0; i < like->n_out; i++)
        own[i] = (gr_value){ .id = -1,
                             .index = i,
                             .space = GR_SPACE_ARENA,
                             .shape = like->out[i].shape,
                             .dtype = like->out[i].dtype };
    f->own = own;
    if ((t != GR_BF16 && t != GR_F16) || !like->op->retype)
        return GR_OK;
    *attr = like->op->retype(g, like, GR_F32);
    if (!*attr)
        return GR_ERR_NOMEM;
    n.attr = *attr;
    n.out = own;
    return like->op->infer(&n);
}

gr_fusion *gr_fusion_new(gr_graph *g, const gr_node *like, const void **attr)
{
    gr_fusion *f = gr_arena_new(g->arena, gr_fusion);
    gr_program *pass = gr_arena_new(g->arena, gr_program);

    if (!f || !pass || make_own(g, like, f, attr) != GR_OK)
        return NULL;
    f->rules = &gr_fusion_usual;
    f->n_own_src = like->n_src;
    f->n_own_out = like->n_out;
    *pass = (gr_program){ .shape = f->own[0].shape, .dtype = like->out[0].dtype, .n_src = 1 };
    f->end = (gr_fused_program){ .program = pass, .first = like->n_src };
    f->n_ends = 1;
    f->ends[0] = (gr_fused_end){ .fate = GR_FATE_STORE, .dtype = like->out[0].dtype };
    return f;
}

static void print_program(const gr_program *p, gr_text *out)
{
    gr_node n = { .op = &gr_op_map, .attr = p };

    gr_op_map.print(&n, out);
}

static void print_end(const gr_fused_end *e, gr_text *out)
{
    static const char *const names[] = { "", "sum of ", "mean of ", "m2 of " };

    gr_text_addf(out, "%sr%d", names[e->fate], e->reg);
    if (e->fate == GR_FATE_STORE)
        return;
    gr_text_add(out, " over");
    for (int d = 0; d < GR_MAX_DIMS; d++)
        if (e->axes >> d & 1)
            gr_text_addf(out, " %d", d);
}

void gr_fusion_print(const gr_node *n, gr_text *out)
{
    const gr_fusion *f = n->fusion;
    const gr_program *p = f->end.program;

    for (int s = 0; s < f->n_own_src; s++) {
        if (!gr_fusion_load(n, s))
            continue;
        gr_text_addf(out, " load %d", s);
        print_program(gr_fusion_load(n, s), out);
    }
    if (p->n_instr > 0) {
        gr_text_add(out, " then");
        print_program(p, out);
    }
    if (f->n_ends == 1 && f->ends[0].fate == GR_FATE_STORE &&
        f->ends[0].reg == p->n_src + p->n_instr - 1)
        return;
    for (int i = 0; i < f->n_ends; i++) {
        gr_text_add(out, i == 0 ? " gives " : ", ");
        print_end(&f->ends[i], out);
    }
}
