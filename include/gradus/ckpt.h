/*
 * Checkpoints: a snapshot as a safetensors file, readable by every safetensors reader, or
 * as one of PyTorch's (.pt, .pth), readable by torch.load(path, weights_only=True). Text
 * entries go to "__metadata__"; checksums guard every byte that counts.
 *
 * PyTorch's own files are read too, the zip kind and the older one, and nothing in them is ever
 * executed: tensors and plain containers become tensors and texts, and a file that holds
 * anything else is refused with the name of what that is. docs/formats.md has the rules.
 */
#ifndef GRADUS_CKPT_H
#define GRADUS_CKPT_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes aside, syncs, renames: `path` is the old file or the new one, never half. The
 * format goes by the suffix: ".pt" and ".pth" are PyTorch's, all others safetensors.
 * GR_ERR_ARG for what the format cannot hold, GR_ERR_IO. Any thread; not collective. */
GR_API gr_status gr_ckpt_write(const char *path, const gr_snapshot *snap) GR_MUST_CHECK;
/* Reads either, by content and not by name. Refuses truncated and corrupted files with
 * GR_ERR_FORMAT and the path. A safetensors file from another writer, without our checksum,
 * is read too. Of PyTorch's files, nested keys are joined with '.' ("model.fc.weight",
 * "optimizer.state.0.exp_avg"), and numbers and strings become texts; the file is mapped
 * and must not be cut meanwhile. Caller owns *out. Any thread; not collective. */
GR_API gr_status gr_ckpt_read(const char *path, gr_snapshot **out) GR_MUST_CHECK;

/*
 * The model out of a checkpoint of any making, as a new snapshot (a copy): what begins with
 * `part` ("state_dict.", or "" for all), without it and without the prefixes "module." and
 * "_orig_mod." of wrappers. `part` NULL looks for "model_state_dict.", "state_dict." and
 * "model.", each taken only if everything beside it is known as a trainer's state (names
 * that begin with optim, ema, sched, scaler ...), and takes all when there is none. A model
 * whose parameters are all called "model.*" needs part "". GR_ERR_ARG when nothing begins
 * so, or when two tensors would get one name. Caller owns *out. Any thread.
 */
GR_API gr_status gr_ckpt_strip(const gr_snapshot *snap, const char *part,
                               gr_snapshot **out) GR_MUST_CHECK;

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
