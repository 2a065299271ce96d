/* SHA-256 (FIPS 180-4), of a whole text at once. W&B names the files of a run by it. */
#ifndef GR_TRACK_SHA256_H
#define GR_TRACK_SHA256_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_SHA256_HEX 65 /* with the NUL */

void gr_sha256_hex(const void *src, size_t n, char out[GR_SHA256_HEX]);

#ifdef __cplusplus
}
#endif

#endif
