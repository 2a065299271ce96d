/*
 * Normalisation: builders that add nodes to a graph. See graph.h for failures, lifetimes and
 * threads. Channels are the last dimension everywhere.
 *
 * x is f32, f64, bf16 or f16, and so is the result; statistics and arithmetic are f32 (f64
 * for f64). Weights and biases are [c], and may be NULL: then they are 1 and 0. Results and
 * gradients do not depend on the number of threads.
 */
#ifndef GRADUS_NORM_H
#define GRADUS_NORM_H

#include "gradus/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* (x - mean) / sqrt(var + eps) * weight + bias over the last dimension of x [.., c], with the
 * biased variance: torch.nn.functional.layer_norm. eps > 0. */
#define gr_layer_norm(g, x, weight, bias, eps) gr_layer_norm_at(GR_HERE, g, x, weight, bias, eps)
GR_API gr_value *gr_layer_norm_at(const char *site, gr_graph *g, gr_value *x, gr_value *weight,
                                  gr_value *bias, double eps);

/* x / sqrt(mean(x^2) + eps) * weight over the last dimension: torch's rms_norm. eps > 0. */
#define gr_rms_norm(g, x, weight, eps) gr_rms_norm_at(GR_HERE, g, x, weight, eps, false)
/* x / max(sqrt(mean(x^2)), eps) * weight: the norm is clamped. Where it is, the divisor is a
 * constant for the gradient, too. */
#define gr_rms_norm_clamped(g, x, weight, eps) gr_rms_norm_at(GR_HERE, g, x, weight, eps, true)
GR_API gr_value *gr_rms_norm_at(const char *site, gr_graph *g, gr_value *x, gr_value *weight,
                                double eps, bool clamped);

/* x [n, .., c]: each sample's channels in n_groups groups of neighbours, normalised over a
 * group and all places, then weight and bias per channel: torch's group_norm, channels
 * last. n_groups divides c. */
#define gr_group_norm(g, x, n_groups, weight, bias, eps) \
    gr_group_norm_at(GR_HERE, g, x, n_groups, weight, bias, eps)
GR_API gr_value *gr_group_norm_at(const char *site, gr_graph *g, gr_value *x, int64_t n_groups,
                                  gr_value *weight, gr_value *bias, double eps);

typedef struct gr_batch_norm_args {
    gr_value *weight, *bias;              /* [c], or NULL */
    gr_value *running_mean, *running_var; /* f32 buffers [c]; or both NULL: never used */
    gr_value *num_batches_tracked;        /* i64 buffer [], or NULL */
    double momentum;                      /* of the new statistics in the running ones */
    double eps;
    bool frozen; /* normalise with the running statistics in training, too; leave them alone */
} gr_batch_norm_args;

#define GR_BATCH_NORM_INIT           \
    {                                \
        .momentum = 0.1, .eps = 1e-5 \
    }

/*
 * Batch normalisation of x [.., c] over all dimensions but the last: [n, c], [n, l, c] or
 * [n, h, w, c]; torch's batch_norm, channels last. In training: by the batch's mean and
 * biased variance, and the running buffers are assigned
 *     running = (1 - momentum) running + momentum batch    (unbiased variance)
 * at the end of the run (once per graph). Needs more than one value per channel. In
 * evaluation, and frozen: by the running statistics. Without running buffers: by the batch's
 * statistics in evaluation, too.
 */
#define gr_batch_norm(g, x, ...) gr_batch_norm_at(GR_HERE, g, x, __VA_ARGS__)
GR_API gr_value *gr_batch_norm_at(const char *site, gr_graph *g, gr_value *x,
                                  const gr_batch_norm_args *args);

#ifdef __cplusplus
}
#endif

#endif
