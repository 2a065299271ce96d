/*
 * Random numbers. mt19937 gives PyTorch's CPU streams (CONTRACTS: sampling and
 * initialisation); Philox 4x32-10 is counter-based and serves inside a step.
 */
#ifndef GR_BASE_RANDOM_H
#define GR_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

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

/* out = Philox4x32-10(counter, key). */
void gr_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

#ifdef __cplusplus
}
#endif

#endif
