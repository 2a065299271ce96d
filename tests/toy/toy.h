/*
 * An operator made for tests, with all that a family of operators can have: a rule, a
 * gradient, CPU and CUDA kernels, fusions, two variants of a kernel and one that declines
 * when it is prepared. CONTRIBUTING.md points here for what a new operator looks like.
 *
 *     y[i, j] = x[i, j] * w[j]        dx = dy * w        dw[j] = sum over i of dy[i, j] * x[i, j]
 *
 * Kernels, best first:
 *   picky      as fast, but declines an odd number of rows, and only prepare() can say so
 *   fast       two variants, "columns" and "rows", with the same bits; takes programs of a few
 *              functions on load of x and on the result, stored and reduced over rows
 *   reference  no fusion
 */
#ifndef GR_TESTS_TOY_TOY_H
#define GR_TESTS_TOY_TOY_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

gr_value *toy_at(const char *site, gr_graph *g, gr_value *x, gr_value *w);
#define toy(g, x, w) toy_at(GR_HERE, g, x, w)

extern const gr_op toy_op;
extern const gr_kernel toy_cpu[];
/* How often toy_cpu's "fast" was prepared as this variant. */
extern int toy_n_columns, toy_n_rows;

/* What the module of toy_cuda.cu exports as "toy_cuda_kernels". */
typedef const gr_kernel *toy_cuda_fn(void);

#ifdef __cplusplus
}
#endif

#endif
