/*
 * Checkpoints: a snapshot as a safetensors file, readable by every safetensors reader.
 * Text entries go to "__metadata__", with a checksum over the whole file.
 */
#ifndef GRADUS_CKPT_H
#define GRADUS_CKPT_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes aside, syncs, renames: `path` is the old file or the new one, never half. */
GR_API gr_status gr_ckpt_write(const char *path, const gr_snapshot *snap) GR_MUST_CHECK;
/* Refuses truncated and corrupted files with GR_ERR_FORMAT and the path. A file from
 * another writer, without our checksum, is read too. Caller owns *out. */
GR_API gr_status gr_ckpt_read(const char *path, gr_snapshot **out) GR_MUST_CHECK;

/*
 * A folder of checkpoints "step-00000120.safetensors". Save writes one and then removes
 * the oldest beyond `keep` (0: all are kept); call it on rank 0 only. Load takes the
 * newest that is whole: a damaged one is named in *note (from malloc, NULL when there is
 * nothing to say) and the one before it is tried. GR_ERR_IO when there is none.
 */
GR_API gr_status gr_ckpt_save(const char *folder, int64_t step, const gr_snapshot *snap,
                              int keep) GR_MUST_CHECK;
GR_API gr_status gr_ckpt_load(const char *folder, gr_snapshot **out, int64_t *step,
                              char **note) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
