/* A file in memory without reading it: mapped, shared by all processes of the host. */
#ifndef GR_DATA_MAPPED_H
#define GR_DATA_MAPPED_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_mapped {
    const uint8_t *mem; /* NULL before opening, and of an empty file */
    size_t n_bytes;
    void *unpacked; /* owned: instead of a map, the content of a .gz file */
} gr_mapped;

/* GR_ERR_IO with path and reason. The file may be closed, replaced or removed afterwards, but
 * not cut. */
gr_status gr_mapped_open(gr_mapped *m, const char *path) GR_MUST_CHECK;
/* The same; a file that begins like gzip is unpacked into memory instead, up to
 * GR_UNPACKED_MAX bytes. GR_ERR_FORMAT when it is damaged. */
#define GR_UNPACKED_MAX ((size_t)4 << 30)
gr_status gr_mapped_open_packed(gr_mapped *m, const char *path) GR_MUST_CHECK;
void gr_mapped_close(gr_mapped *m); /* of a zeroed one too */

/* gzip's content into memory from gr_malloc(). GR_ERR_FORMAT when damaged, cut short or larger
 * than `limit`. */
gr_status gr_gunzip(const void *src, size_t n_bytes, size_t limit, uint8_t **out,
                    size_t *n_out) GR_MUST_CHECK;

/* Little-endian and big-endian numbers at any place. */
static inline uint32_t gr_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t gr_le64(const uint8_t *p)
{
    return (uint64_t)gr_le32(p) | (uint64_t)gr_le32(p + 4) << 32;
}

static inline uint32_t gr_be32(const uint8_t *p)
{
    return (uint32_t)p[3] | (uint32_t)p[2] << 8 | (uint32_t)p[1] << 16 | (uint32_t)p[0] << 24;
}

#ifdef __cplusplus
}
#endif

#endif
