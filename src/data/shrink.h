/* Images made smaller once and for all, before they are stored. */
#ifndef GR_DATA_SHRINK_H
#define GR_DATA_SHRINK_H

#include "gradus/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As Pillow's resize((width, height), BILINEAR), number for number: a triangle as wide as the
 * step between samples, so that nothing is skipped. `tmp` is memory of the caller's. */
gr_status gr_image_shrink(gr_image *out, const gr_image *in, int height, int width,
                          gr_image *tmp) GR_MUST_CHECK;
/* As Pillow's NEAREST: for labels. */
gr_status gr_image_pick(gr_image *out, const gr_image *in, int height, int width) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
