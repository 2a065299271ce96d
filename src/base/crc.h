/*
 * CRC-32 of any polynomial by tables, eight bytes per turn: by[k][b] is the remainder of byte b
 * followed by k zero bytes, so the bytes of a word are looked up independently and joined.
 */
#ifndef GR_BASE_CRC_H
#define GR_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_crc_tables {
    uint32_t by[8][256];
} gr_crc_tables;

/* `polynomial` in reflected order. */
void gr_crc_fill(gr_crc_tables *t, uint32_t polynomial);
/* Start with crc 0, feed in pieces. */
uint32_t gr_crc_run(const gr_crc_tables *t, uint32_t crc, const void *src, size_t n_bytes);

/* gr_crc32c() (base/outfile.h) without special instructions, by name for its test. */
uint32_t gr_crc32c_table(uint32_t crc, const void *src, size_t n_bytes);

#ifdef __cplusplus
}
#endif

#endif
