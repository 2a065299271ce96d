/* Elements of any type for tests of collectives, and sums of them by the law. */
#ifndef GR_TESTS_COMM_FILL_H
#define GR_TESTS_COMM_FILL_H

#include "gradus/comm.h"

/* Element i of rank r is a fraction with rounding errors in every float type, different for
 * each (seed, rank, i); integers are small, so that products fit. */
void fill_vector(void *mem, gr_dtype t, size_t n, int rank, unsigned seed);

/* What all ranks' vectors of n elements become: combined in rank order by the scalar
 * kernels. [first, first + n) of what fill_vector() gives each of n_ranks. */
typedef struct fill_sum {
    gr_dtype dtype;
    gr_reduce op;
    int n_ranks;
    unsigned seed;
} fill_sum;
void fill_expected(void *mem, const fill_sum *s, size_t first, size_t n);

#endif
