/*
 * Layers as graph builders. Parameters are named and initialised as the PyTorch module
 * of the same kind does, so checkpoints go both ways.
 */
#ifndef GRADUS_NN_H
#define GRADUS_NN_H

#include "gradus/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* torch.nn.Linear: x [.., k] -> x W^T + b [.., n_out]; "<name>.weight" [n_out, k] and
 * "<name>.bias" [n_out], both uniform in +-1/sqrt(k). */
#define gr_linear(g, name, x, n_out) gr_linear_at(GR_HERE, g, name, x, n_out)
GR_API gr_value *gr_linear_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                              int64_t n_out);

#ifdef __cplusplus
}
#endif

#endif
