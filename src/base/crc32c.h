/* The portable half of gr_crc32c() (base/outfile.h), by name for its test. */
#ifndef GR_BASE_CRC32C_H
#define GR_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Equal to gr_crc32c() on every input, without special instructions. Any thread. */
uint32_t gr_crc32c_table(uint32_t crc, const void *src, size_t n_bytes);

#ifdef __cplusplus
}
#endif

#endif
