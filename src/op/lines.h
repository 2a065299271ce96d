/* Lines of the cache, for kernels that know early where they will write. */
#ifndef GR_OP_LINES_H
#define GR_OP_LINES_H

#include <stdint.h>

#define GR_LINE_BYTES 64

/* Asks for the memory from `at` on, to be written soon: the core goes on meanwhile. (Compilers make
 * a request to read of __builtin_prefetch() unless told that the processor is new; where there is
 * no prefetchw it does nothing.) */
static inline void gr_ask_for_lines(const void *at, int64_t n_bytes)
{
    for (int64_t i = 0; i < n_bytes; i += GR_LINE_BYTES)
        __asm__ volatile("prefetchw %0" ::"m"(((const char *)at)[i]));
}

#endif
