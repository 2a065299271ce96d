/*
 * CRC-32C (Castagnoli), reflected, as in iSCSI and TensorBoard's records. Two ways with equal
 * results: by tables, and the crc32 instruction of SSE4.2 where the processor has it.
 * Any thread: the tables are filled once, on first use.
 */
#include "base/crc.h"

#include "base/outfile.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u

static gr_crc_tables tables;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
    gr_crc_fill(&tables, POLYNOMIAL);
}

uint32_t gr_crc32c_table(uint32_t crc, const void *src, size_t n_bytes)
{
    pthread_once(&once, fill_tables);
    return gr_crc_run(&tables, crc, src, n_bytes);
}

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t with_sse42(uint32_t crc, const void *src,
                                                             size_t n_bytes)
{
    const unsigned char *p = (const unsigned char *)src;
    uint64_t wide = ~crc;

    for (; n_bytes >= 8; n_bytes -= 8, p += 8) {
        uint64_t word;

        memcpy(&word, p, sizeof(word));
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; n_bytes > 0; n_bytes--)
        crc = _mm_crc32_u8(crc, *p++);
    return ~crc;
}

uint32_t gr_crc32c(uint32_t crc, const void *src, size_t n_bytes)
{
    return __builtin_cpu_supports("sse4.2") ? with_sse42(crc, src, n_bytes)
                                            : gr_crc32c_table(crc, src, n_bytes);
}
#else
uint32_t gr_crc32c(uint32_t crc, const void *src, size_t n_bytes)
{
    return gr_crc32c_table(crc, src, n_bytes);
}
#endif
