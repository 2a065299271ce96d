/*
 * Softmax cross-entropy per row.
 *   softmax_xent       logits [n, c], labels [n], (weight [c]) -> loss [n], lse [n]
 *   softmax_xent_grad  logits, labels, lse, d_loss [n], (weight [c]) -> d_logits [n, c]
 * lse is the log-sum-exp. loss and lse are f32, f64 for f64 logits, and so is the weight;
 * d_logits has the type of attr (default: the logits').
 */
#ifndef GR_OP_XENT_XENT_H
#define GR_OP_XENT_XENT_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_xent_attr {
    gr_dtype dtype; /* of the gradient */
    bool has_ignore;
    int64_t ignore;   /* rows of this label have no loss and no gradient */
    double smoothing; /* of the label, over all classes; in [0, 1] */
} gr_xent_attr;

extern const gr_op gr_op_softmax_xent, gr_op_softmax_xent_grad;
extern const gr_kernel gr_softmax_xent_cpu[], gr_softmax_xent_grad_cpu[];

/* The builder of all forms: attr.dtype is set by it. weight may be NULL. */
gr_value *gr_xent_add(const char *site, gr_graph *g, gr_value *logits, gr_value *labels,
                      gr_value *weight, gr_xent_attr attr);

#ifdef __cplusplus
}
#endif

#endif
