/*
 * The learning curves of a run, kept in memory and drawn as PNG files on demand. A curve holds
 * at most some thousand points: when it is full, every second one goes, and from then on only
 * every second one comes. One thread at a time.
 */
#ifndef GR_TRACK_CURVES_H
#define GR_TRACK_CURVES_H

#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_curves gr_curves;

gr_status gr_curves_create(gr_curves **out) GR_MUST_CHECK;
void gr_curves_destroy(gr_curves *c); /* NULL is fine */
gr_status gr_curves_add(gr_curves *c, int64_t step, const char *name, double value) GR_MUST_CHECK;

/*
 * One file for each group of names: "train_loss" and "val_loss" are lines of loss.png. A plain
 * "loss" is a third one, or, where there is a "train_loss", that of single steps in step_loss.png.
 * The y axis is logarithmic when all values are above 0 and span a factor of 1000. Files are
 * replaced whole; the folder is made.
 */
gr_status gr_curves_draw(const gr_curves *c, const char *folder) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
