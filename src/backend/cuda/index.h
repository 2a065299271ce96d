/*
 * Addresses in kernels: division by numbers that are known when the plan is made, and walks
 * through tensors of any strides. Plain C, so that the host's tests see the same code.
 *
 * A quotient is the upper half of a product:  n / d = (high(n * mul) + n) >> shift,  with
 * shift = ceil(log2 d) and mul = floor(2^w * (2^shift - d) / d) + 1, for words of w bits. It is
 * exact for all n below 2^(w - 1), where the sum does not overflow.
 */
#ifndef GR_BACKEND_CUDA_INDEX_H
#define GR_BACKEND_CUDA_INDEX_H

#include "base/both.h"
#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_INDEX_SETS 3

typedef struct gr_divider {
    int64_t n;
    uint64_t mul;
    uint32_t mul32; /* of 32-bit words; for n below 2^31 */
    uint32_t shift;
} gr_divider;

__extension__ typedef unsigned __int128 gr_u128;

/* n >= 1. */
static inline gr_divider gr_divider_of(int64_t n)
{
    gr_divider d = { n, 0, 0, 0 };
    uint64_t rest;

    while (d.shift < 63 && ((uint64_t)1 << d.shift) < (uint64_t)n)
        d.shift++;
    rest = ((uint64_t)1 << d.shift) - (uint64_t)n;
    d.mul = (uint64_t)(((gr_u128)rest << 64) / (uint64_t)n) + 1;
    if (n < (int64_t)1 << 31)
        d.mul32 = (uint32_t)((rest << 32) / (uint64_t)n + 1);
    return d;
}

/* i / d->n for i >= 0. */
GR_BOTH int64_t gr_divide(const gr_divider *d, int64_t i)
{
    uint64_t n = (uint64_t)i;
#ifdef __CUDA_ARCH__
    uint64_t high = __umul64hi(n, d->mul);
#else
    uint64_t high = (uint64_t)((gr_u128)n * d->mul >> 64);
#endif

    return (int64_t)((high + n) >> d->shift);
}

/* The same for i and d->n below 2^31: a quarter of the instructions. */
GR_BOTH uint32_t gr_divide32(const gr_divider *d, uint32_t i)
{
    return ((uint32_t)((uint64_t)i * d->mul32 >> 32) + i) >> d->shift;
}

/*
 * From the number of an element, counted with the last dimension innermost, to its place in up
 * to GR_INDEX_SETS tensors, each with strides of its own (in elements; 0: broadcast). Kernels
 * take it as a `const __grid_constant__` parameter.
 */
typedef struct gr_index {
    int n_dims; /* at least 1 */
    int n_sets;
    int64_t count;
    gr_divider dim[GR_MAX_DIMS]; /* outermost first */
    int64_t stride[GR_INDEX_SETS][GR_MAX_DIMS];
} gr_index;

/* Without dimensions so far: one element, at 0. */
static inline gr_index gr_index_of(int n_sets)
{
    gr_index x;

    x.n_dims = 1;
    x.n_sets = n_sets;
    x.count = 1;
    for (int d = 0; d < GR_MAX_DIMS; d++) {
        x.dim[d] = gr_divider_of(1);
        for (int s = 0; s < GR_INDEX_SETS; s++)
            x.stride[s][d] = 0;
    }
    return x;
}

/* Adds a dimension inside those that are there, with its stride in each set. One that continues
 * the last in every set is joined to it, and one of size 1 left out, so that what is usual has
 * one or two. At most GR_MAX_DIMS. */
static inline void gr_index_add(gr_index *x, int64_t size, const int64_t *stride)
{
    int last = x->n_dims - 1;
    bool joins = true, is_first = x->n_dims == 1 && x->dim[0].n == 1;

    if (size == 1)
        return;
    x->count *= size;
    for (int s = 0; s < x->n_sets; s++)
        joins = joins && x->stride[s][last] == stride[s] * size;
    if (size == 0) /* nothing is walked: any divisor will do */
        return;
    if (joins && !is_first)
        x->dim[last] = gr_divider_of(x->dim[last].n * size);
    else
        x->dim[last = is_first ? 0 : x->n_dims++] = gr_divider_of(size);
    for (int s = 0; s < x->n_sets; s++)
        x->stride[s][last] = stride[s];
}

/* The place of element i, 0 <= i < count, in a set. */
GR_BOTH int64_t gr_index_at(const gr_index *x, int set, int64_t i)
{
    int64_t at = 0;

    for (int d = x->n_dims - 1; d > 0; d--) {
        int64_t q = gr_divide(&x->dim[d], i);

        at += (i - q * x->dim[d].n) * x->stride[set][d];
        i = q;
    }
    return at + i * x->stride[set][0];
}

/* The same in all sets at once: the divisions are made once. */
GR_BOTH void gr_index_all(const gr_index *x, int64_t i, int64_t at[GR_INDEX_SETS])
{
    for (int s = 0; s < GR_INDEX_SETS; s++)
        at[s] = 0;
    for (int d = x->n_dims - 1; d >= 0; d--) {
        int64_t q = d > 0 ? gr_divide(&x->dim[d], i) : 0;

        for (int s = 0; s < GR_INDEX_SETS; s++)
            at[s] += (i - q * x->dim[d].n) * x->stride[s][d];
        i = q;
    }
}

/* Whether gr_index_at32() may be used: counts and places below 2^31. */
static inline bool gr_index_is_small(const gr_index *x)
{
    const int64_t most = ((int64_t)1 << 31) - 1;
    bool small = x->count <= most;

    for (int s = 0; s < x->n_sets; s++) {
        int64_t lo = 0, hi = 0;

        for (int d = 0; d < x->n_dims; d++) {
            int64_t span = (x->dim[d].n - 1) * x->stride[s][d];

            *(span < 0 ? &lo : &hi) += span;
        }
        small = small && hi <= most && lo >= -most;
    }
    return small;
}

GR_BOTH int32_t gr_index_at32(const gr_index *x, int set, uint32_t i)
{
    int32_t at = 0;

    for (int d = x->n_dims - 1; d > 0; d--) {
        uint32_t q = gr_divide32(&x->dim[d], i);

        at += (int32_t)(i - q * (uint32_t)x->dim[d].n) * (int32_t)x->stride[set][d];
        i = q;
    }
    return at + (int32_t)i * (int32_t)x->stride[set][0];
}

#ifdef __cplusplus
}
#endif

#endif
