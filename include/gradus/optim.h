/* Optimisers, by PyTorch's formulas. A plain value; copied by who takes it. */
#ifndef GRADUS_OPTIM_H
#define GRADUS_OPTIM_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_optim_kind { GR_OPTIM_SGD, GR_OPTIM_ADAMW } gr_optim_kind;

typedef struct gr_optim {
    gr_optim_kind kind;
    double momentum;          /* SGD */
    double beta1, beta2, eps; /* AdamW */
    double weight_decay;      /* SGD: added to the gradient; AdamW: decoupled */
} gr_optim;

#define GR_OPTIM_INIT                            \
    {                                            \
        GR_OPTIM_SGD, 0.0, 0.9, 0.999, 1e-8, 0.0 \
    }
#define GR_OPTIM_ADAMW_INIT                         \
    {                                               \
        GR_OPTIM_ADAMW, 0.0, 0.9, 0.999, 1e-8, 0.01 \
    }

#ifdef __cplusplus
}
#endif

#endif
