/*
 * Operators of normalisation. T is the type of statistics: f64 for f64 x, else f32.
 *
 * Along rows, one row of x [.., c] at a time:
 *   layer_norm       x [, weight] [, bias] -> y, mean T [..], rstd T [..]
 *   layer_norm_grad  x, dy, mean, rstd [, weight] -> dx, dw T [c], db T [c]
 *   rms_norm         x [, weight] -> y, rstd T [..]
 *   rms_norm_grad    x, dy, rstd [, weight] -> dx, dw T [c]
 * Gradients that nobody has (no weight, no bias) are empty tokens.
 *
 * Down channels, over all dimensions of x [n, .., c] but the last, or per sample (then the
 * first is kept, too, and results are [n, c]):
 *   batch_stats      x -> mean T, m2 T (sum of squared distances from the mean), count T []
 *   batch_norm       x, scale, shift, mean, rstd, count [, weight] [, bias] -> y
 *                    y = x * scale + shift; the rest is there for the gradient, which passes
 *                    through the statistics: mean, rstd, scale and shift get none
 *   batch_norm_sums  x, dy, mean, rstd [, scale, shift] -> sum of dy, sum of dy * xhat
 *                    gate: dy counts only where x * scale + shift > 0 (a relu behind it)
 *   channel_map      a map whose result has the type of its first source under mixed
 *                    precision, though vectors of f32 take part
 * batch_norm and channel_map carry a map's program and run its kernels. After amp the lower
 * pass makes plain map nodes of them, so that they fuse with what stands beside them.
 *
 * batch_stats and batch_norm_sums stand apart from what uses them, so that an exchange
 * between ranks can be put behind them (synchronised batch norm, sync.h).
 */
#ifndef GR_OP_NORM_NORM_H
#define GR_OP_NORM_NORM_H

#include "graph/op.h"
#include "op/map/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_row_norm_attr {
    double eps;
    bool clamped; /* rms_norm: divides by max(rms, eps) */
    bool has_weight, has_bias;
    gr_dtype dtype; /* of y, or dx */
} gr_row_norm_attr;

typedef struct gr_channel_attr {
    bool per_sample;
    bool gated; /* batch_norm_sums: the last two sources are scale and shift */
} gr_channel_attr;

typedef struct gr_batch_norm_attr {
    gr_program program; /* first: map's functions take it for their own */
    bool has_weight, has_bias;
    int64_t n_groups; /* 0: over the batch; else per sample, by groups of channels */
    const char *sync; /* the layer's name: statistics are those of all ranks; or NULL */
} gr_batch_norm_attr;

/* Places of batch_norm's sources; weight and bias follow. */
enum { GR_BN_X, GR_BN_SCALE, GR_BN_SHIFT, GR_BN_MEAN, GR_BN_RSTD, GR_BN_COUNT, GR_BN_N_FIXED };

/* Type of statistics over values of type t. */
static inline gr_dtype gr_norm_wide(gr_dtype t)
{
    return t == GR_F64 ? GR_F64 : GR_F32;
}

/* A channel_map node. */
gr_value *gr_channel_map_add(gr_graph *g, const char *site, gr_value *const *src,
                             const gr_program *p);

/* Adds an instruction to the program's end; returns its register. -1 for no argument. */
int16_t gr_program_push(gr_program *p, gr_scalar_fn fn, int a, int b, int c);
int16_t gr_program_push_const(gr_program *p, double k);

/* Makes plain map nodes of batch_norm and channel_map nodes. */
gr_status gr_norm_lower(gr_graph *g) GR_MUST_CHECK;
bool gr_norm_can_lower(const gr_graph *g);

extern const gr_op gr_op_layer_norm, gr_op_layer_norm_grad, gr_op_rms_norm, gr_op_rms_norm_grad,
    gr_op_batch_stats, gr_op_batch_norm, gr_op_batch_norm_sums, gr_op_channel_map;
extern const gr_kernel gr_layer_norm_cpu[], gr_layer_norm_grad_cpu[], gr_rms_norm_cpu[],
    gr_rms_norm_grad_cpu[], gr_batch_stats_cpu[], gr_batch_norm_sums_cpu[];

#ifdef __cplusplus
}
#endif

#endif
