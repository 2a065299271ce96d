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
/* In the name of a tensor for a ".pt": what stands before is the key of an inner dictionary.
 * Tensors of one stand one after the other. */
#define GR_SNAPSHOT_INNER "::"
/* Reads either, by content and not by name. Refuses truncated and corrupted files with
 * GR_ERR_FORMAT and the path. A safetensors file from another writer, without our checksum,
 * is read too. Of PyTorch's files, nested keys are joined with '.' ("model.fc.weight",
 * "optimizer.state.0.exp_avg"), and numbers and strings become texts; the file is mapped
 * and must not be cut meanwhile. Caller owns *out. Any thread; not collective. */
GR_API gr_status gr_ckpt_read(const char *path, gr_snapshot **out) GR_MUST_CHECK;

/* Only its texts, without the tensors: quick, from the header. Says nothing of the tensors'
 * bytes. As gr_ckpt_read() otherwise. */
GR_API gr_status gr_ckpt_peek(const char *path, gr_snapshot **out) GR_MUST_CHECK;

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
 * A folder of checkpoints:
 *
 *     last               the newest
 *     best_model         the best so far, by whoever saves
 *     checkpoint_epoch_<N>, checkpoint_step_<N>
 *
 * each with ".safetensors" or ".pt". Find takes what `pick` says; a damaged file is named in
 * *note (from malloc, NULL when there is nothing to say), and for GR_CKPT_LAST the next
 * newest is tried. GR_ERR_IO when there is none. Caller owns *out, and frees *path and
 * *note. Any thread; not collective.
 */
typedef enum gr_ckpt_pick {
    GR_CKPT_LAST, /* "last" if it is whole, else the whole one of the highest step */
    GR_CKPT_BEST
} gr_ckpt_pick;
GR_API gr_status gr_ckpt_find(const char *folder, gr_ckpt_pick pick, gr_snapshot **out, char **path,
                              char **note) GR_MUST_CHECK;
/* Files of these names in the folder, whole or not; 0 when there is no folder. */
GR_API int gr_ckpt_count(const char *folder);

/*
 * Writes checkpoints into such a folder by a thread of its own, one at a time:
 *
 *     GR_TRY(gr_ckpt_writer_begin(w, &snap));       its memory is that of the save before
 *     GR_TRY(gr_step_save_into(step, snap, GR_SAVE_ALL));
 *     gr_ckpt_writer_submit(w, &as);                returns at once
 *
 * Each file is written aside, synced and renamed, and the newest before it stays until then:
 * at any instant the folder holds the old whole one or the new. A failure (a full disk) is
 * returned by the next call; what was on the disk is whole. One thread uses a writer, and
 * one writer a folder.
 */
typedef struct gr_ckpt_writer gr_ckpt_writer;

enum { GR_CKPT_SAFETENSORS = 1, GR_CKPT_PT = 2 };

typedef struct gr_ckpt_writer_config {
    const char *folder; /* made if need be */
    unsigned formats;   /* of the above, or both; 0: safetensors */
    int keep;           /* numbered checkpoints that stay, by step; 0: all. best_model and last
                           do not count, and stay */
    int timeout_ms;     /* the longest wait for the disk; 0: 10 minutes */
    /* Called by the writer's thread before the files of a save: what a checkpoint stands for must
     * be on the disk before it is, and this may wait for that. NULL: nothing. */
    void (*before)(void *arg);
    void *arg;
} gr_ckpt_writer_config;

typedef struct gr_ckpt_as {
    int64_t epoch; /* also as checkpoint_epoch_<epoch>; negative: not */
    int64_t step;  /* also as checkpoint_step_<step>; negative: not */
    bool best;     /* also as best_model */
} gr_ckpt_as;

/* Removes what a killed writer left half written. Caller owns *out. */
GR_API gr_status gr_ckpt_writer_open(gr_ckpt_writer **out,
                                     const gr_ckpt_writer_config *c) GR_MUST_CHECK;
/* Lends the snapshot to fill, until submit; waits for the one under way. Texts and tensors
 * of the save before are still in it, to be set anew. GR_ERR_TIMEOUT. */
GR_API gr_status gr_ckpt_writer_begin(gr_ckpt_writer *w, gr_snapshot **snap) GR_MUST_CHECK;
/* Hands it to the thread: as `last`, and under the names that `as` says. */
GR_API void gr_ckpt_writer_submit(gr_ckpt_writer *w, const gr_ckpt_as *as);
/* Waits for at most `ms`: is everything on the disk, or failed? The failure of a save that has
 * ended is returned. 0 does not wait. */
GR_API gr_status gr_ckpt_writer_poll(gr_ckpt_writer *w, int ms, bool *idle) GR_MUST_CHECK;
/* Until everything submitted is on the disk. GR_ERR_TIMEOUT. */
GR_API gr_status gr_ckpt_writer_wait(gr_ckpt_writer *w) GR_MUST_CHECK;
/* Waits, and frees in any case (but for a thread that hangs in the disk). NULL is fine. */
GR_API gr_status gr_ckpt_writer_close(gr_ckpt_writer *w) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
