/* On the host a collective is a call of its group: publish, and later wait. */
#include "op/collective/collective_cpu.h"

#include "op/collective/collective.h"

/* A gradient elsewhere would silently stay this rank's own. */
static const char *reject_start(const gr_node *n)
{
    const gr_coll *c = &((const gr_collective_attr *)n->attr)->coll;
    size_t end = c->offset + c->n_elem * gr_dtype_bytes(c->dtype);

    for (int i = 0; i < n->n_src; i++) {
        const gr_value *root = gr_value_root(n->src[i]);

        if (root->space != GR_SPACE_EXCHANGE)
            return "a gradient does not lie in the exchange space";
        if (root->offset < c->offset || root->offset + gr_value_bytes(n->src[i]) > end)
            return "a gradient lies outside the stretch that is reduced";
    }
    return NULL;
}

static gr_status run_start(const gr_launch *l)
{
    const gr_collective_attr *a = (const gr_collective_attr *)l->node->attr;

    return gr_pg_start(a->pg, &a->coll, l->stream);
}

static gr_status run_finish(const gr_launch *l)
{
    const gr_collective_attr *a = (const gr_collective_attr *)l->node->attr;

    return gr_pg_finish(a->pg, &a->coll, l->stream);
}

const gr_kernel gr_allreduce_start_cpu[] = {
    { .name = "reference", .reject = reject_start, .run = run_start },
    { .name = NULL },
};

const gr_kernel gr_meet_start_cpu[] = {
    { .name = "reference", .run = run_start },
    { .name = NULL },
};

const gr_kernel gr_allreduce_finish_cpu[] = {
    { .name = "reference", .run = run_finish },
    { .name = NULL },
};
