/* Optimisers, by PyTorch's formulas. A plain value; copied by who takes it. */
#ifndef GRADUS_OPTIM_H
#define GRADUS_OPTIM_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_optim_kind { GR_OPTIM_SGD, GR_OPTIM_ADAMW, GR_OPTIM_ADAM } gr_optim_kind;

/* Parameters that are treated apart. A parameter belongs to the first group that matches. A pattern
 * that no parameter matches is an error when the step is traced. */
typedef struct gr_param_group {
    const char *match;   /* names as the shell matches files, with '|' between several:
                            "backbone.*|*.bias" */
    double lr_scale;     /* times the learning rate */
    double weight_decay; /* instead of the optimiser's */
    const char *where;   /* it was asked for, for messages; NULL: in the program */
} gr_param_group;

typedef struct gr_optim {
    gr_optim_kind kind;
    double momentum;          /* SGD */
    double beta1, beta2, eps; /* Adam, AdamW */
    double weight_decay;      /* SGD, Adam: added to the gradient; AdamW: decoupled */
    bool nesterov;            /* SGD, with momentum */
    bool decay_all;           /* decay norms and biases, too: parameters of one dimension or
                                 none; PyTorch's default */
    const gr_param_group *groups;
    int n_groups;
} gr_optim;

#define GR_OPTIM_INIT                                               \
    {                                                               \
        GR_OPTIM_SGD, 0.0, 0.9, 0.999, 1e-8, 0.0, false, true, 0, 0 \
    }
#define GR_OPTIM_ADAMW_INIT                                            \
    {                                                                  \
        GR_OPTIM_ADAMW, 0.0, 0.9, 0.999, 1e-8, 0.01, false, true, 0, 0 \
    }
#define GR_OPTIM_ADAM_INIT                                           \
    {                                                                \
        GR_OPTIM_ADAM, 0.0, 0.9, 0.999, 1e-8, 0.0, false, true, 0, 0 \
    }

#ifdef __cplusplus
}
#endif

#endif
