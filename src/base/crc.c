/* Checksums by tables. */
#include "base/crc.h"

void gr_crc_fill(gr_crc_tables *t, uint32_t polynomial)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;

        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1u) ? polynomial : 0);
        t->by[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t b = 0; b < 256; b++)
            t->by[k][b] = (t->by[k - 1][b] >> 8) ^ t->by[0][t->by[k - 1][b] & 0xffu];
}

uint32_t gr_crc_run(const gr_crc_tables *t, uint32_t crc, const void *src, size_t n_bytes)
{
    const unsigned char *p = (const unsigned char *)src;

    crc = ~crc;
    for (; n_bytes >= 8; n_bytes -= 8, p += 8) {
        /* Put together from bytes, so that the order of bytes in memory does not matter. */
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                              (uint32_t)p[3] << 24);

        crc = t->by[7][low & 0xffu] ^ t->by[6][(low >> 8) & 0xffu] ^ t->by[5][(low >> 16) & 0xffu] ^
              t->by[4][low >> 24] ^ t->by[3][p[4]] ^ t->by[2][p[5]] ^ t->by[1][p[6]] ^
              t->by[0][p[7]];
    }
    for (; n_bytes > 0; n_bytes--)
        crc = (crc >> 8) ^ t->by[0][(crc ^ *p++) & 0xffu];
    return ~crc;
}
