/*
 * A cache of bytes on disk that programs of one user share: what was worth computing once, found
 * again by its key. Nothing depends on it: what cannot be read is not there, what cannot be
 * written is not kept, and neither is a failure.
 *
 * An entry is written aside and renamed, so that a reader meets a whole one or none. It holds its
 * key and checksums; a damaged, cut or foreign entry counts as absent. After each write the
 * oldest entries (by their last use) are removed until the rest fits the limit.
 *
 * The folder: GR_CACHE, else $XDG_CACHE_HOME/gradus, else ~/.cache/gradus. GR_CACHE=off, and no
 * home, are no cache.
 *
 * Any thread, any number of processes.
 */
#ifndef GR_BASE_FILECACHE_H
#define GR_BASE_FILECACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_filecache gr_filecache;

/* The cache of things of one kind, which names its folder; entries of max_bytes together. Reads
 * the environment. *out is NULL where there is none. GR_ERR_NOMEM. */
GR_API gr_status gr_filecache_open(gr_filecache **out, const char *kind,
                                   size_t max_bytes) GR_MUST_CHECK;
GR_API void gr_filecache_close(gr_filecache *c);

/* For both: c may be NULL, the key is text of any length. */

/* What was put under the key, in memory from gr_malloc(); false: nothing is there. */
GR_API bool gr_filecache_get(const gr_filecache *c, const char *key, char **mem, size_t *n_bytes);
GR_API void gr_filecache_put(const gr_filecache *c, const char *key, const void *mem,
                             size_t n_bytes);

/* Its folder; for messages and tests. */
GR_API const char *gr_filecache_folder(const gr_filecache *c);

#ifdef __cplusplus
}
#endif

#endif
