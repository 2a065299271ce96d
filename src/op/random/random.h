/*
 * Random numbers inside a step.
 *   random   nothing, or keys i64 [samples] -> a value of attr's shape and type
 *   dropout  x -> x with elements, or whole samples, dropped; its gradient is itself, over
 *            the same stream
 */
#ifndef GR_OP_RANDOM_RANDOM_H
#define GR_OP_RANDOM_RANDOM_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_random_kind {
    GR_RANDOM_UNIFORM,
    GR_RANDOM_NORMAL,
    GR_RANDOM_BERNOULLI,
    GR_RANDOM_INT,
    GR_RANDOM_PERM
} gr_random_kind;

typedef struct gr_random_attr {
    gr_random_kind kind;
    gr_dtype dtype;
    gr_shape shape;
    double a, b;       /* from and to; mean and std; p */
    int64_t from;      /* INT */
    uint64_t range;    /* INT: to - from; BERNOULLI: numbers below it are 1, of 2^32 */
    int64_t n_samples; /* in the value; 0: it belongs to the whole batch */
    uint32_t stream;
} gr_random_attr;

typedef struct gr_dropout_attr {
    double p;
    uint32_t drop_below; /* numbers below it are dropped, of 2^16 */
    bool by_sample;
    int64_t n_samples;
    uint32_t stream;
} gr_dropout_attr;

extern const gr_op gr_op_random, gr_op_dropout;
extern const gr_kernel gr_random_cpu[], gr_dropout_cpu[];

#ifdef __cplusplus
}
#endif

#endif
