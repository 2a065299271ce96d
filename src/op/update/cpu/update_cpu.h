/* What the CPU kernels of the update share: loops per instruction set, and their terms. */
#ifndef GR_OP_UPDATE_UPDATE_CPU_H
#define GR_OP_UPDATE_UPDATE_CPU_H

#include "op/update/update.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Terms of one update, the same for every element. */
typedef struct gr_sgd_terms {
    float lr, momentum, weight_decay, factor;
    float clip; /* INFINITY: none */
    bool nesterov;
} gr_sgd_terms;

typedef struct gr_adamw_terms {
    float beta2;
    float rest1, rest2; /* 1 - beta, from double: 1.0f - 0.999f is off by 5e-5 of itself */
    float decay;        /* 1 - lr * weight_decay; Adam: 1 */
    float l2;           /* Adam: weight_decay; else 0 */
    float step_size;    /* lr / (1 - beta1^t) */
    float root_factor;  /* 1 / sqrt(1 - beta2^t) */
    float eps, factor;
    float clip; /* INFINITY: none */
} gr_adamw_terms;

/*
 * The loops, once per instruction set from update_loops.inc.
 * sum_squares: in double, in 16 interleaved lanes added up in order, so that every
 * instruction set gives the same bits (the square of an f32 is exact in double).
 */
typedef struct gr_update_loops {
    void (*accumulate)(float *sum, const float *grad, size_t n);
    double (*sum_squares)(const float *grad, size_t n);
    void (*sgd)(float *param, const float *grad, float *buffer, size_t n, const gr_sgd_terms *t);
    void (*adamw)(float *param, const float *grad, float *m, float *v, size_t n,
                  const gr_adamw_terms *t);
    void (*ema)(float *average, const float *param, size_t n, float rest);
} gr_update_loops;

extern const gr_update_loops gr_update_ref, gr_update_avx2, gr_update_avx512;

#define GR_UPDATE_GRAIN ((size_t)4096) /* elements: where work is cut; a page of each array */
/* Elements that go through several loops before the next: they stay in the first-level cache, and
 * all arrays are read at once, each by short stretches. Whole grains take half as long again. */
#define GR_UPDATE_BLOCK ((size_t)512)

/* One parameter's update with its terms computed, ready for any stretch of elements that
 * begins at a multiple of the block: in whatever stretches, the bits are the same. Run by
 * gr_update_run(). */
typedef struct gr_update_job gr_update_job;
struct gr_update_job {
    void (*range)(const gr_update_job *j, size_t first, size_t n);
    const gr_update_loops *loops;
    float *dst, *state[2];
    const float *grad;
    size_t n;
    uint16_t *copy; /* of dst, made by `narrow`; or NULL */
    void (*narrow)(uint16_t *copy, const float *dst, size_t n);
    gr_sgd_terms sgd;
    gr_adamw_terms adamw;
    float ema_rest; /* 1 - decay */
};

/* Elements [first, first + n) and their copies. */
void gr_update_run(const gr_update_job *j, size_t first, size_t n);
/* The same with gradients from elsewhere: grad[0] is that of element `first`. */
void gr_update_run_from(const gr_update_job *j, size_t first, size_t n, const float *grad);

/* Fills *j from a node's sources; false when control says that the step is skipped. */
typedef bool gr_update_begin(const gr_launch *l, const gr_update_loops *loops, gr_update_job *j);

/* The control value from the sum of all squares of gradients that were scaled by `scale`. */
void gr_control_fill(const gr_control_attr *a, double sum, double scale, float *out);

/* Of an operator that updates one parameter (gr_many_takes). */
gr_update_begin *gr_update_begin_of(const gr_op *op);

/* A table of kernels from run_<op>(l, loops): avx512, avx2, reference. */
#define GR_UPDATE_KERNELS(op, table, work)                                                   \
    static gr_status op##_avx512(const gr_launch *l)                                         \
    {                                                                                        \
        return run_##op(l, &gr_update_avx512);                                               \
    }                                                                                        \
    static gr_status op##_avx2(const gr_launch *l)                                           \
    {                                                                                        \
        return run_##op(l, &gr_update_avx2);                                                 \
    }                                                                                        \
    static gr_status op##_reference(const gr_launch *l)                                      \
    {                                                                                        \
        return run_##op(l, &gr_update_ref);                                                  \
    }                                                                                        \
    const gr_kernel table[] = {                                                              \
        { .name = "avx512", .reject = gr_no_avx512, .workspace = work, .run = op##_avx512 }, \
        { .name = "avx2", .reject = gr_no_avx2, .workspace = work, .run = op##_avx2 },       \
        { .name = "reference", .workspace = work, .run = op##_reference },                   \
        { .name = NULL },                                                                    \
    }

#ifdef __cplusplus
}
#endif

#endif
