/*
 * CRC-32 with the polynomial of zip, reflected. Eight bytes per turn: table[k][b] is the
 * remainder of byte b followed by k zero bytes, so the bytes of a word are looked up
 * independently and joined. (base/crc32c.c is another polynomial, which SSE4.2 computes.)
 * Any thread: the tables are filled once, on first use.
 */
#include "ckpt/zip.h"

#include <pthread.h>

#define POLYNOMIAL 0xedb88320u /* bits in reflected order */

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
        for (uint32_t b = 0; b < 256; b++)
            table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 0xffu];
}

uint32_t gr_crc32(uint32_t crc, const void *src, size_t n_bytes)
{
    const unsigned char *p = src;

    pthread_once(&table_once, fill_table);
    crc = ~crc;
    for (; n_bytes >= 8; n_bytes -= 8, p += 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                              (uint32_t)p[3] << 24);

        crc = table[7][low & 0xffu] ^ table[6][(low >> 8) & 0xffu] ^ table[5][(low >> 16) & 0xffu] ^
              table[4][low >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^
              table[0][p[7]];
    }
    for (; n_bytes > 0; n_bytes--)
        crc = (crc >> 8) ^ table[0][(crc ^ *p++) & 0xffu];
    return ~crc;
}
