/*
 * The collective operators, kernels called by hand as the executor would: two ranks as
 * threads, two gradients in one bucket.
 */
#include "check.h"
#include "comm/world.h"
#include "op/collective/collective.h"

/* An operator without kernels, to have gradients to reduce. */
static gr_status source_infer(gr_node *n)
{
    n->out[0].shape = GR_SHAPE(3);
    n->out[0].dtype = GR_F32;
    n->out[0].space = GR_SPACE_EXCHANGE;
    return GR_OK;
}

static const gr_op source = { .name = "source", .n_out = 1, .infer = source_infer };

static gr_status run_node(const gr_node *n)
{
    gr_launch l = { .node = n };
    const gr_kernel *k = gr_kernel_pick(NULL, n, NULL);

    GR_CHECK(k != NULL);
    return k->run(&l);
}

static gr_status rank(gr_pg *pg, void *arg)
{
    gr_coll c = { .label = "bucket 0", .n_elem = 32, .dtype = GR_F32, .op = GR_REDUCE_AVG };
    gr_value *grads[2], *reduced[2];
    gr_text text = GR_TEXT_INIT;
    gr_graph *g;
    void *base;

    (void)arg;
    GR_CHECK_OK(gr_graph_create(&g, NULL, true, NULL, 0));
    for (int i = 0; i < 2; i++) {
        grads[i] = gr_graph_add_value(g, &(gr_build){ .op = &source, .site = "test" });
        GR_CHECK(grads[i] != NULL);
        grads[i]->offset = (size_t)i * 64;
    }
    GR_CHECK_OK(gr_allreduce_nodes(g, pg, &c, grads, 2, reduced));
    GR_CHECK_EQ(g->n_nodes, 4);
    GR_CHECK_EQ(g->nodes[2]->out[0].space, GR_SPACE_NONE);
    GR_CHECK(reduced[1]->alias == grads[1] && gr_shape_equal(&reduced[1]->shape, &grads[1]->shape));
    g->nodes[2]->op->print(g->nodes[2], &text);
    GR_CHECK_STR(gr_text_str(&text), " 'bucket 0' 32 f32 at 0");
    gr_text_fini(&text);

    GR_TRY(gr_pg_exchange(pg, NULL, 128, &base));
    for (int i = 0; i < 3; i++) {
        ((float *)base)[i] = (float)(i + pg->rank);
        ((float *)base)[16 + i] = (float)(10 * pg->rank);
    }
    GR_TRY(run_node(g->nodes[2]));
    GR_TRY(run_node(g->nodes[3]));
    for (int i = 0; i < 3; i++) {
        GR_CHECK(((float *)base)[i] == (float)i + 0.5f);
        GR_CHECK(((float *)base)[16 + i] == 5.0f);
    }

    /* A gradient that would not be reduced is refused, and so is another type. */
    grads[1]->offset = 128;
    GR_CHECK(gr_kernel_pick(NULL, g->nodes[2], NULL) == NULL);
    c.dtype = GR_F64;
    GR_CHECK_FAILS(gr_allreduce_nodes(g, pg, &c, grads, 2, reduced), GR_ERR_ARG,
                   "'bucket 0' reduces f64, but gradient 0 is f32");
    gr_graph_destroy(g);
    return GR_OK;
}

int main(void)
{
    world_run(2, rank, NULL);
    return 0;
}
