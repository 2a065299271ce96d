/* Arithmetic of counts, which kernels' plans are made of. */
#ifndef GR_OP_COUNT_H
#define GR_OP_COUNT_H

#include <stdint.h>

static inline int64_t gr_min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t gr_max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* n / by, rounded up; n >= 0, by > 0. */
static inline int64_t gr_div_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

#endif
