/*
 * Random numbers. mt19937 gives PyTorch's CPU streams (CONTRACTS: sampling and
 * initialisation); Philox (base/philox.h) is counter-based and serves inside a step.
 */
#ifndef GR_BASE_RANDOM_H
#define GR_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/philox.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_mt19937 {
    uint32_t state[624];
    int next;
    double normal_cached; /* second half of the small-count Box-Muller pair */
    int has_normal;
} gr_mt19937;

void gr_mt_seed(gr_mt19937 *r, uint64_t seed); /* the low 32 bits enter the state */
uint32_t gr_mt_u32(gr_mt19937 *r);
uint64_t gr_mt_u64(gr_mt19937 *r);

/* As torch.Tensor.uniform_ and normal_ fill a contiguous f32 tensor. */
void gr_mt_uniform_f32(gr_mt19937 *r, float *dst, size_t n, float from, float to);
void gr_mt_normal_f32(gr_mt19937 *r, float *dst, size_t n, float mean, float std);
/* As torch.randperm(n). */
void gr_mt_randperm(gr_mt19937 *r, int64_t *dst, int64_t n);

/* As uniform_ and normal_ fill a contiguous f64 tensor. */
void gr_mt_uniform_f64(gr_mt19937 *r, double *dst, size_t n, double from, double to);
void gr_mt_normal_f64(gr_mt19937 *r, double *dst, size_t n, double mean, double std);
/* As torch.randint(from, to): 64 bits a number from a range of 2^28 on. from < to. */
void gr_mt_randint(gr_mt19937 *r, int64_t *dst, size_t n, int64_t from, int64_t to);
/* As Tensor.bernoulli_(p): 0 and 1. */
void gr_mt_bernoulli(gr_mt19937 *r, uint8_t *dst, size_t n, double p);
/* As torch.multinomial(weights, n, replacement=True) of f64 weights, which WeightedRandomSampler
 * calls: n places among n_weights. Weights are not negative, and one is not 0; else
 * GR_ERR_ARG. */
gr_status gr_mt_multinomial(gr_mt19937 *r, int64_t *dst, size_t n, const double *weight,
                            size_t n_weights) GR_MUST_CHECK;

typedef struct gr_mt_cut {
    double mean, std, lo, hi;
} gr_mt_cut;

/* As torch.nn.init.trunc_normal_ (PyTorch 2.15) of an f32 tensor: normal numbers, all of them
 * drawn again for those outside [lo, hi] until none is; where less than 3 in 10 would lie
 * inside, uniform ones that are taken by chance. GR_ERR_ARG when nothing is inside. */
gr_status gr_mt_trunc_normal_f32(gr_mt19937 *r, float *dst, size_t n,
                                 const gr_mt_cut *cut) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
