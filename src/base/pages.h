/*
 * Mappings that begin where a large page may. The first touch of a page costs more than most
 * kernels spend on it, and with small ones every new 4 KiB is looked up: memory that is used from
 * end to end asks for large pages, 512 times fewer.
 */
#ifndef GR_BASE_PAGES_H
#define GR_BASE_PAGES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_PAGE_BYTES       ((size_t)4096)
#define GR_LARGE_PAGE_BYTES ((size_t)2 << 20)

/* n_bytes of private memory, zeros, with mmap()'s protection; given back with munmap(). NULL:
 * errno says why. Advice for large pages is the caller's. */
void *gr_pages_map(size_t n_bytes, int protection);

#ifdef __cplusplus
}
#endif

#endif
