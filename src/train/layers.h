/* A model layer by layer, as a table for people. */
#ifndef GR_TRAIN_LAYERS_H
#define GR_TRAIN_LAYERS_H

#include "base/text.h"
#include "graph/graph.h"
#include "graph/vars.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One row for each layer (the name of its parameters without the last part): parameters,
 * how many of them are frozen, buffers, and the forward arithmetic of one sample; then the
 * sums. `g` is a planned training graph of `batch` samples.
 */
gr_status gr_layers_text(const gr_graph *g, const gr_vars *vars, int64_t batch,
                         gr_text *out) GR_MUST_CHECK;

/* "1.82 G", "345 M", "12": a count with three digits. */
void gr_layers_count(double n, gr_text *out);

#ifdef __cplusplus
}
#endif

#endif
