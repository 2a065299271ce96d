/* Checked size arithmetic: products of user-given numbers go through these. */
#ifndef GR_BASE_SIZE_H
#define GR_BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

gr_status gr_size_mul(size_t *out, size_t a, size_t b) GR_MUST_CHECK; /* GR_ERR_ARG */
gr_status gr_size_add(size_t *out, size_t a, size_t b) GR_MUST_CHECK;

/* Rounds up to a multiple of `to`, a power of two. The caller knows it fits. */
static inline size_t gr_round_up(size_t n, size_t to)
{
    return (n + to - 1) & ~(to - 1);
}

#ifdef __cplusplus
}
#endif

#endif
