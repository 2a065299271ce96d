/* What the layers share: names, parameters with a default start, and shapes in messages. */
#ifndef GR_NN_LAYER_H
#define GR_NN_LAYER_H

#include "gradus/nn.h"
#include "graph/graph.h"

/* A call of a layer: where, into which graph, under which module name. */
typedef struct gr_layer {
    const char *site;
    gr_graph *g;
    const char *name;
} gr_layer;

/* "<module>.<suffix>" of that shape; `init` NULL: `otherwise`. */
gr_value *gr_layer_param(const gr_layer *l, const char *suffix, gr_shape shape, const gr_init *init,
                         gr_init otherwise);
gr_value *gr_layer_buffer(const gr_layer *l, const char *suffix, gr_dtype t, gr_shape shape,
                          double start);

/* False, and a failure that says which call it was: the layer has no name. */
bool gr_layer_has_name(const gr_layer *l, const char *kind);

/* The last dimension of x; 0, and a failure that names `kind` and the layer, when it has no name,
 * or x is NULL or has fewer than min_dims dimensions or an empty last one. */
int64_t gr_layer_channels(const gr_layer *l, const char *kind, const gr_value *x, int min_dims);

/* False, and a failure that says NHWC: x [n, ?, ?, ?] is fed to the graph, and as such it can only
 * be a picture whose channels come first. */
bool gr_layer_is_nhwc(const gr_layer *l, const char *kind, const gr_value *x);

/* The width d of tokens x [b, n, d] that `heads` divide; 0 and a failure when they are no such. */
int64_t gr_layer_tokens(const gr_layer *l, const char *kind, const gr_value *x, int64_t heads);

/* gr_linear() that starts xavier-uniform with a zero bias. */
gr_value *gr_layer_xavier_linear(const gr_layer *l, gr_value *x, int64_t n_out);

/* A layer inside this one: "<module>.<name>". */
gr_layer gr_layer_inside(const gr_layer *l, const char *name);

#endif
