/*
 * A file that is old or new, never half. Writes go to "<path>.tmp" and reach `path`
 * only in gr_outfile_commit(), which syncs file and folder. After a failed write,
 * later writes do nothing and commit reports it: callers check once, at the end.
 */
#ifndef GR_BASE_OUTFILE_H
#define GR_BASE_OUTFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_outfile gr_outfile;

gr_status gr_outfile_open(gr_outfile **out, const char *path) GR_MUST_CHECK;
void gr_outfile_write(gr_outfile *f, const void *src, size_t n_bytes);
/* Both end the file object. Commit unlinks the .tmp when it fails. */
gr_status gr_outfile_commit(gr_outfile *f) GR_MUST_CHECK;
void gr_outfile_discard(gr_outfile *f); /* NULL is fine */

/* open() for reading that never waits: a FIFO without a writer would hold the caller for ever, and
 * no signal of ours would end that. What is opened may be no regular file: fstat() tells. */
int gr_open_input(const char *path);
/* The whole of a file into memory from gr_malloc(); NUL follows the last byte. */
gr_status gr_file_read(const char *path, char **out, size_t *n_bytes) GR_MUST_CHECK;
/* Puts names that were made, changed or removed in the folder on the disk. */
gr_status gr_sync_folder(const char *folder) GR_MUST_CHECK;
/* mkdir -p */
gr_status gr_make_folders(const char *path) GR_MUST_CHECK;

/* CRC-32C (Castagnoli); start with crc 0, feed in pieces. */
uint32_t gr_crc32c(uint32_t crc, const void *src, size_t n_bytes);

#ifdef __cplusplus
}
#endif

#endif
