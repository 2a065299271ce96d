/* The two image formats, from and to memory. gradus/data.h says what pixels come out. */
#ifndef GR_DATA_CODEC_H
#define GR_DATA_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "gradus/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* By their first bytes. */
bool gr_jpeg_is(const void *src, size_t n_bytes);
bool gr_png_is(const void *src, size_t n_bytes);

gr_status gr_jpeg_decode(gr_image *out, const void *src, size_t n_bytes,
                         const gr_decode *how) GR_MUST_CHECK;
gr_status gr_png_decode(gr_image *out, const void *src, size_t n_bytes,
                        const gr_decode *how) GR_MUST_CHECK;

/* Only height and width of *out, from the first n_head of a file's n_bytes; GR_ERR_FORMAT also
 * when the head goes on behind them. Pixels are undefined then. */
gr_status gr_jpeg_head(gr_image *out, const void *head, size_t n_head, size_t n_bytes,
                       const gr_decode *how) GR_MUST_CHECK;
gr_status gr_png_head(gr_image *out, const void *head, size_t n_head, size_t n_bytes,
                      const gr_decode *how) GR_MUST_CHECK;

/* Appends the file. JPEG: 1 or 3 channels, quality 95 without thinned-out colours. PNG: 1 to 4
 * channels; `labels`: 1 channel, with the palette of gr_label_colour(). */
gr_status gr_jpeg_encode(const gr_image *img, gr_text *out) GR_MUST_CHECK;
gr_status gr_png_write(const gr_image *img, bool labels, gr_text *out) GR_MUST_CHECK;

/* Are sizes from a file's head acceptable? GR_ERR_FORMAT says them. */
gr_status gr_image_plausible(int64_t height, int64_t width) GR_MUST_CHECK;

/* In place, the rest of the image kept: 3 channels or more to grey; 2 or 4 to 1 or 3 by dropping
 * the last; 1 to 3. */
void gr_image_to_gray(gr_image *img);
void gr_image_drop_alpha(gr_image *img);
gr_status gr_image_spread_gray(gr_image *img) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
