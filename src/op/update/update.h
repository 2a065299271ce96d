/*
 * What happens to gradients after the backward pass. All of them leave state alone when
 * the control value says skip. Types: f32 gradients, parameters and moments; i64 counts.
 *
 *   accumulate    grad -> the same, summed over micro-steps, in the exchange space:
 *                 out = grad when scalars.micro is 0, else out += grad.
 *   accumulate_scaled  grad, factor [] -> the same of grad times factor
 *   grad_control  [scale,] grad... -> control, f32 [4] = { factor, skip, norm, scale }
 *                 norm: global L2 norm of grad / scale, an ordered sum of sums over
 *                 blocks of GR_NORM_BLOCK elements, in double. skip: 1 when it is not
 *                 finite. factor: what gradients are multiplied with in the update:
 *                 min(1, max_norm / (norm + 1e-6)) / scale (1 / scale without clipping).
 *   count_step    step, skipped [, control] -> step + 1, or skipped + 1. i64 scalars.
 *   scale_update  scale, good, control -> scale, good: halves after a skip, doubles after
 *                 2000 good steps in a row (PyTorch's GradScaler). f32 and i64 scalars.
 *   sgd           param, grad [, control] [, momentum buffer] [, copy] -> param, buffer [, copy]
 *   adamw         param, grad, step [, control], exp_avg, exp_avg_sq [, copy] -> param, both
 *                 moments [, copy]; step is count_step's output: the number of this update, from
 *                 1. With `l2` it is Adam.
 *                 The copy of both is the new parameter in bf16 or f16.
 *   ema           average, param, step [, control] -> average: average * decay + param *
 *                 (1 - decay), in the first update param itself. Reads the updated param.
 * Outputs alias the variables they replace. lr comes from the step scalars.
 *
 * With has_part an update takes a part of the parameter only: grad is a row of numbers in which
 * the part's begin at grad_at. Moments and averages have just its elements then, in one dimension
 * (ZeRO), or are whole as well, in memory that ranks share (in_whole).
 */
#ifndef GR_OP_UPDATE_UPDATE_H
#define GR_OP_UPDATE_UPDATE_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_NORM_BLOCK 8192

enum { GR_CONTROL_FACTOR, GR_CONTROL_SKIP, GR_CONTROL_NORM, GR_CONTROL_SCALE, GR_CONTROL_COUNT };

typedef struct gr_control_attr {
    double max_norm; /* 0: no clipping */
    bool has_scale;  /* the first source is the loss scale */
} gr_control_attr;

typedef struct gr_count_attr {
    bool has_control;
} gr_count_attr;

/* Elements [of.first, of.first + of.n) of a parameter; their gradients begin at element grad_at
 * of the value that is the update's source. */
typedef struct gr_update_part {
    gr_stretch of;
    int64_t grad_at;
    bool in_whole; /* moments and averages are whole, too, and have the part in the same place */
} gr_update_part;

/* What is a parameter's own, whatever the optimiser. */
typedef struct gr_update_attr {
    double lr_scale;     /* times the step's learning rate */
    double weight_decay; /* sgd and l2: added to the gradient, times param */
    double clip_value;   /* gradients are cut to +-this, after control's factor; 0: not */
    bool has_control;
    bool has_copy; /* the last source and the last output; whole, as the parameter is */
    bool has_part;
    gr_update_part part;
} gr_update_attr;

typedef struct gr_sgd_attr {
    gr_update_attr of;
    double momentum; /* 0: no buffer among sources and outputs */
    bool nesterov;
} gr_sgd_attr;

typedef struct gr_adamw_attr {
    gr_update_attr of;
    double beta1, beta2, eps;
    bool l2;
} gr_adamw_attr;

typedef struct gr_ema_attr {
    double decay;
    bool has_control;
    bool has_part;
    gr_update_part part; /* grad_at does not count: the parameter takes the gradient's place */
} gr_ema_attr;

extern const gr_op gr_op_accumulate, gr_op_accumulate_scaled, gr_op_grad_control, gr_op_count_step,
    gr_op_scale_update, gr_op_sgd, gr_op_adamw, gr_op_ema;
extern const gr_kernel gr_accumulate_cpu[], gr_accumulate_scaled_cpu[], gr_grad_control_cpu[],
    gr_count_step_cpu[], gr_scale_update_cpu[], gr_sgd_cpu[], gr_adamw_cpu[], gr_ema_cpu[];

#ifdef __cplusplus
}
#endif

#endif
