/*
 * Collectives on the GPU. The group does the work; what differs is whether it can be part
 * of a recorded step: "captured" takes groups that can, "host" the others, and cuts the
 * recording there.
 */
#include "op/collective/collective.h"

#include "op/module_cuda.h"

static const char *capture_reject(const gr_node *n)
{
    const gr_collective_attr *at = (const gr_collective_attr *)n->attr;

    return at->pg->ops->can_capture ? NULL : "the group needs the host in each collective";
}

static gr_status start_run(const gr_launch *l)
{
    const gr_collective_attr *at = (const gr_collective_attr *)l->node->attr;

    return gr_pg_start(at->pg, &at->coll, l->stream);
}

static gr_status finish_run(const gr_launch *l)
{
    const gr_collective_attr *at = (const gr_collective_attr *)l->node->attr;

    return gr_pg_finish(at->pg, &at->coll, l->stream);
}

/* clang-format off */
#define KERNELS(table, fn) \
    const gr_kernel table[] = { \
        { .name = "captured", .reject = capture_reject, .prepare = NULL, .workspace = NULL, \
          .run = fn, .release = NULL, .no_capture = false, .in_place = false }, \
        { .name = "host", .reject = NULL, .prepare = NULL, .workspace = NULL, \
          .run = fn, .release = NULL, .no_capture = true, .in_place = false }, \
        {}, \
    }
/* clang-format on */

KERNELS(gr_allreduce_start_cuda, start_run);
KERNELS(gr_allreduce_finish_cuda, finish_run);
