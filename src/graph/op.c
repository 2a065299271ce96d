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

/* The kernel of that name if it takes the node, so that a test can force one; the
 * reference, which is last and takes everything, where there is no such kernel. */
static const gr_kernel *forced(const gr_kernel *list, const gr_node *n, const char *only)
{
    for (const gr_kernel *k = list; k->name; k++)
        if (strcmp(k->name, only) == 0 && (!k->reject || !k->reject(n)))
            return k;
    return last(list);
}

const gr_kernel *gr_kernel_pick(const gr_kernel_set *sets, const gr_node *n, const char *only)
{
    const gr_kernel *list = gr_kernel_list(sets, n->op);
    gr_text why = GR_TEXT_INIT;
    char text[GR_ERROR_TEXT / 2];

    if (list && only)
        return forced(list, n, only);
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
