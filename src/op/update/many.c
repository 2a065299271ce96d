/* The rule of many_updates: each part keeps the rule of its own operator. */
#include "op/update/many.h"

#include "op/update/update.h"

bool gr_many_takes(const gr_op *op)
{
    return op == &gr_op_sgd || op == &gr_op_adamw || op == &gr_op_ema;
}

gr_node gr_many_node(const gr_node *n, const gr_many_part *p)
{
    gr_node part = *n;

    part.op = p->op;
    part.attr = p->attr;
    part.src = n->src + p->src;
    part.n_src = p->n_src;
    part.out = n->out + p->out;
    part.n_out = p->n_out;
    return part;
}

static gr_status many_infer(gr_node *n)
{
    const gr_many_attr *a = (const gr_many_attr *)n->attr;

    GR_BUG_IF(a->n_parts < 1);
    for (int i = 0; i < a->n_parts; i++) {
        gr_node part = gr_many_node(n, &a->part[i]);

        GR_BUG_IF(!gr_many_takes(part.op));
        GR_BUG_IF(a->part[i].src + part.n_src > n->n_src || a->part[i].out + part.n_out > n->n_out);
        GR_TRY(gr_wrap(part.op->infer(&part), "update %d (%s)", i, part.op->name));
    }
    return GR_OK;
}

static void many_print(const gr_node *n, gr_text *out)
{
    const gr_many_attr *a = (const gr_many_attr *)n->attr;

    gr_text_addf(out, " %d", a->n_parts);
    if (a->rows.pg)
        gr_text_addf(out, " rows of '%s':", a->rows.coll.label);
    for (int i = 0; i < a->n_parts; i++) {
        gr_node part = gr_many_node(n, &a->part[i]);

        gr_text_addf(out, "%s %s", i > 0 ? "," : "", part.op->name);
        if (part.op->print)
            part.op->print(&part, out);
    }
}

const gr_op gr_op_many_updates = {
    .name = "many_updates",
    .n_src = GR_ANY_COUNT,
    .n_out = GR_ANY_COUNT,
    .amp = GR_AMP_KEEP,
    .infer = many_infer,
    .print = many_print,
    .kernels = gr_many_updates_cpu,
};

gr_node *gr_many_add(gr_graph *g, gr_node *const *parts, int n_parts,
                     const gr_collective_attr *rows)
{
    gr_many_part *list = (gr_many_part *)gr_arena_array(g->arena, (size_t)n_parts, sizeof(*list));
    gr_many_attr attr = { .n_parts = n_parts, .part = list };
    gr_build b = { .op = &gr_op_many_updates,
                   .site = n_parts > 0 ? parts[0]->site : "updates",
                   .attr = &attr,
                   .attr_bytes = sizeof(attr) };
    gr_value **src;

    if (rows)
        attr.rows = *rows;
    for (int i = 0; i < n_parts && list; i++) {
        list[i] = (gr_many_part){ .op = parts[i]->op, .attr = parts[i]->attr };
        list[i].src = b.n_src;
        list[i].out = b.n_out;
        b.n_src += list[i].n_src = parts[i]->n_src;
        b.n_out += list[i].n_out = parts[i]->n_out;
    }
    src = (gr_value **)gr_arena_array(g->arena, (size_t)b.n_src, sizeof(*src));
    if (!list || !src) {
        gr_graph_stick(g, GR_ERR_NOMEM);
        return NULL;
    }
    for (int i = 0; i < n_parts; i++)
        for (int s = 0; s < parts[i]->n_src; s++)
            src[list[i].src + s] = parts[i]->src[s];
    b.src = src;
    return gr_graph_add(g, &b);
}
