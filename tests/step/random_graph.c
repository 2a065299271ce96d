/*
 * Random graphs: which operators, in what order, and what becomes of the batch and the loss.
 *
 * (1) What is drawn depends on the seed and on shapes that do not depend on the batch: the
 *     batch goes through a front of its own and is summed before the others see it.
 * (2) Numbers stay near 1: arguments are brought into range first, sums are scaled, so that
 *     f16 stays finite and two ways to round stay close.
 */
#include "step/random_graph.h"

#include "step/maker.h"

static const struct op {
    const char *name;
    void (*add)(maker *m);
    int weight;
} ops[] = {
    { "map1", maker_op_map1, 3 },           { "map2", maker_op_map2, 4 },
    { "map3", maker_op_map3, 2 },           { "matmul", maker_op_matmul, 4 },
    { "reduce", maker_op_reduce, 2 },       { "softmax", maker_op_softmax, 2 },
    { "norm", maker_op_norm, 3 },           { "conv", maker_op_conv, 2 },
    { "image", maker_op_image, 2 },         { "join", maker_op_join, 2 },
    { "move", maker_op_move, 3 },           { "index", maker_op_index, 2 },
    { "attention", maker_op_attention, 2 }, { "random", maker_op_random, 2 },
    { "vector", maker_op_vector, 2 },       { "cast", maker_op_cast, 1 },
};
#define N_OPS ((int)(sizeof(ops) / sizeof(ops[0])))

int random_graph_n_ops(void)
{
    return N_OPS;
}

const char *random_graph_op_name(int i)
{
    return ops[i].name;
}

/* ---- the whole ---- */

static int draw_op(maker *m)
{
    for (;;) {
        int i = (int)maker_rnd(m, 0, N_OPS - 1);

        if (m->how->only >= 0)
            return m->how->only;
        if (maker_rnd(m, 1, 4) <= ops[i].weight)
            return i;
    }
}

/* What sees the batch: rows by themselves, then summed over the batch. */
static gr_value *front(maker *m, gr_value **loss)
{
    gr_graph *g = m->g;
    gr_value *x = gr_cast(g, gr_input(g, "x"), m->how->type);
    gr_value *h = gr_matmul(g, x, maker_leaf(m, GR_SHAPE(5, 7)));
    gr_cross_entropy_options o = GR_CROSS_ENTROPY_INIT;

    h = maker_finish(m, gr_mul_k(g, h, 0.3), true);
    if (maker_coin(m, 2))
        h = gr_layer_norm(g, h, NULL, maker_leaf(m, GR_SHAPE(7)), 0.05);
    if (maker_coin(m, 2))
        h = gr_dropout(g, h, 0.25);
    o.ignore_index = maker_coin(m, 2) ? 3 : -100;
    o.label_smoothing = maker_coin(m, 2) ? 0.1 : 0;
    *loss = gr_cross_entropy_mean(g, h, gr_input(g, "y"), &o);
    return gr_mul_k(g, gr_matmul_t(g, h, x, true, false), 0.05);
}

static gr_value *add_loss(maker *m, gr_value *sum, gr_value *v)
{
    gr_graph *g = m->g;
    int64_t n = maker_count_of(v);
    gr_value *each = gr_mul(g, v, maker_constant(m, gr_value_shape(v)));

    each = gr_cast(g, each, m->how->type == GR_F64 ? GR_F64 : GR_F32);
    each = gr_mul_k(g, gr_sum(g, each, GR_AXES_ALL, false), 1.0 / (double)(n ? n : 1));
    return gr_add(g, sum, each);
}

gr_status random_graph_trace(gr_graph *g, void *user)
{
    random_graph *how = user;
    maker m = { .g = g, .how = how, .state = how->seed * 0x9e3779b97f4a7c15u + 88172645463325252u };
    gr_value *loss;

    maker_rnd(&m, 0, 1);
    maker_rnd(&m, 0, 1);
    maker_push(&m, front(&m, &loss));
    maker_push(&m, maker_leaf(&m, GR_SHAPE(maker_size(&m), maker_size(&m))));
    if (how->large)
        maker_push(&m,
                   maker_leaf(&m, GR_SHAPE(maker_rnd(&m, 2, 4) * 32 + 1, maker_rnd(&m, 100, 200))));
    maker_push(&m, maker_leaf(&m, how->empty ? GR_SHAPE(maker_size(&m), 0)
                                             : GR_SHAPE(maker_rnd(&m, 1, 3), maker_size(&m), 4)));
    for (int i = 0; i < how->n_ops && gr_graph_status(g) == GR_OK; i++) {
        int op = draw_op(&m);
        char name[16], text[GR_SHAPE_TEXT];
        gr_shape s;

        snprintf(name, sizeof(name), "b%d", i / 2);
        if (i % 2 == 0)
            gr_block_begin(g, name);
        maker_note(&m, "  %s", ops[op].name);
        ops[op].add(&m);
        s = gr_value_shape(m.pool[m.n - 1]);
        maker_note(&m, " -> %s\n", gr_shape_text(&s, text, sizeof(text)));
        if (i % 2 == 1 || i == how->n_ops - 1)
            gr_block_end(g);
    }
    loss = gr_cast(g, loss, how->type == GR_F64 ? GR_F64 : GR_F32);
    for (int i = 0; i < m.n && gr_graph_status(g) == GR_OK; i++)
        loss = add_loss(&m, loss, m.pool[i]);
    gr_output(g, "last", m.pool[m.n - 1]);
    gr_loss(g, loss);
    return gr_graph_status(g);
}
