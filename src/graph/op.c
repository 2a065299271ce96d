/* Choosing a kernel: the first in the list that takes the node. */
#include "graph/op.h"

#include <string.h>

const gr_kernel *gr_kernel_list(const gr_kernel_set *sets, const gr_op *op)
{
    if (!sets)
        return op->kernels;
    for (; sets->op; sets++)
        if (strcmp(sets->op, op->name) == 0)
            return sets->kernels;
    return NULL;
}

static const gr_kernel *last(const gr_kernel *k)
{
    while (k->name && (k + 1)->name)
        k++;
    return k->name ? k : NULL;
}

const gr_kernel *gr_kernel_named(const gr_kernel_set *sets, const gr_node *n, const char *name)
{
    for (const gr_kernel *k = gr_kernel_list(sets, n->op); k && k->name; k++)
        if (strcmp(k->name, name) == 0 && (!k->reject || !k->reject(n)))
            return k;
    return NULL;
}

const gr_kernel *gr_kernel_pick(const gr_kernel_set *sets, const gr_node *n, const char *only)
{
    const gr_kernel *list = gr_kernel_list(sets, n->op);
    gr_text why = GR_TEXT_INIT;
    char text[GR_ERROR_TEXT / 2];

    /* So that a test can force one; the reference is last and takes everything. */
    if (list && only) {
        const gr_kernel *named = gr_kernel_named(sets, n, only);

        return named ? named : last(list);
    }
    for (const gr_kernel *k = list; k && k->name; k++) {
        const char *reason = k->reject ? k->reject(n) : NULL;

        if (!reason) {
            gr_text_fini(&why);
            return k;
        }
        gr_text_addf(&why, "; %s: %s", k->name, reason);
    }
    gr_node_describe(n, text, sizeof(text));
    gr_fail(GR_ERR_ARG, "%s: %s: no kernel takes it%s", n->site, text, gr_text_str(&why));
    gr_text_fini(&why);
    return NULL;
}
