/*
 * CRC-32C (Castagnoli), reflected, as in iSCSI and TensorBoard's records.
 *
 * Two ways with equal results: eight bytes per turn by tables, and the crc32 instruction
 * of SSE4.2 where the processor has it. table[k][b] is the remainder of byte b followed
 * by k zero bytes, so eight bytes of a word are looked up independently and joined.
 * Any thread: the tables are filled once, on first use.
 */
#include "base/crc32c.h"

#include "base/outfile.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* bits in reflected order */

static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;

        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1u) ? POLYNOMIAL : 0);
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t b = 0; b < 256; b++) {
            uint32_t before = table[k - 1][b];

            table[k][b] = (before >> 8) ^ table[0][before & 0xffu];
        }
}

static uint32_t add_byte(uint32_t crc, unsigned char byte)
{
    return (crc >> 8) ^ table[0][(crc ^ byte) & 0xffu];
}

uint32_t gr_crc32c_table(uint32_t crc, const void *src, size_t n_bytes)
{
    const unsigned char *p = (const unsigned char *)src;

    pthread_once(&table_once, fill_table);
    crc = ~crc;
    for (; n_bytes >= 8; n_bytes -= 8, p += 8) {
        /* Put together from bytes, so that the order of bytes in memory does not matter. */
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                              (uint32_t)p[3] << 24);

        crc = table[7][low & 0xffu] ^ table[6][(low >> 8) & 0xffu] ^ table[5][(low >> 16) & 0xffu] ^
              table[4][low >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^
              table[0][p[7]];
    }
    for (; n_bytes > 0; n_bytes--)
        crc = add_byte(crc, *p++);
    return ~crc;
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
