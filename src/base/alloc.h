/*
 * Host memory. All rooms allocate through these, so that a test can count calls
 * (rule 20) and make the n-th one fail (rule 40). Freed with gr_free().
 */
#ifndef GR_BASE_ALLOC_H
#define GR_BASE_ALLOC_H

#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NULL when out of memory; the message is set. Size 0 gives a valid pointer. */
GR_API void *gr_malloc(size_t n_bytes);
GR_API void *gr_calloc(size_t n, size_t elem_bytes); /* zeroed; the product is checked */
GR_API void *gr_realloc(void *p, size_t n_bytes);
/* 64-byte aligned, for anything kernels touch; gr_free() frees it. */
GR_API void *gr_malloc_aligned(size_t n_bytes);
GR_API void gr_free(void *p);
GR_API char *gr_strdup(const char *s);

/* Calls of the allocating functions so far, all threads. */
long gr_alloc_count(void);
/* Of the calling thread alone: others may be busy with what the caller need not know of. */
long gr_alloc_count_mine(void);
/* The n-th allocation from now (0 = next) and all after it fail; -1 switches off. */
void gr_alloc_fail_after(long n);

/* Grows *items (elem_bytes each) so that it holds at least `need`; doubles. */
gr_status gr_grow(void **items, int *cap, int need, size_t elem_bytes) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
