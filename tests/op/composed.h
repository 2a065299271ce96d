/*
 * What is made of several nodes, against PyTorch: the driver takes single nodes only. Values and
 * gradients of the whole, by the best kernels and by the references, on one thread and on two.
 */
#ifndef TESTS_OP_COMPOSED_H
#define TESTS_OP_COMPOSED_H

#include "op/driver.h"

typedef gr_value *composed_fn(gr_graph *g, gr_value *const *src);

typedef struct composed_case {
    const char *name; /* of a record */
    composed_fn *build;
    int n_src, n_grads; /* the first n_grads sources have a gradient */
    int64_t n_summed;   /* terms behind one number */
} composed_case;

/* Records of these names in tests/golden/<family>.txt; ends the test where they differ. */
void composed_check(const char *family, const composed_case *cases, int n);

#endif
