/* What the files about W&B's offline format share: see wandb.c for its bytes. */
#ifndef GR_TRACK_WANDB_IMPL_H
#define GR_TRACK_WANDB_IMPL_H

#include "base/status.h"
#include "base/text.h"
#include "track/keep.h"
#include "track/png.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_WANDB_BLOCK 32768
#define GR_WANDB_HEAD  7 /* bytes of a chunk's head, and of the file's */

/* wandb_cut.c: of the files of run `id` below <top>/wandb, what is not kept goes. */
gr_status gr_wandb_cut(const char *top, const char *id, const gr_keep *keep) GR_MUST_CHECK;

/* wandb_media.c: writes the picture; *path is its name within files/, *json what the row says. */
gr_status gr_wandb_media(const char *run_folder, const char *name, int64_t step, const gr_pixels *p,
                         gr_text *path, gr_text *json) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
