/* Pixels as a PNG file in memory. */
#ifndef GR_TRACK_PNG_H
#define GR_TRACK_PNG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 8 bits a channel, rows from the top without gaps, `channels` of a pixel side by side. */
typedef struct gr_pixels {
    const uint8_t *data;
    int width, height;
    int channels; /* 1 grey, 3 RGB, 4 RGBA */
} gr_pixels;

/* Can it be encoded? 1, 3 or 4 channels, sides of 1 to 16384. */
bool gr_png_fits(const gr_pixels *p);
/* Appends the file's bytes. Other sizes or channels are GR_ERR_ARG. Any thread. */
gr_status gr_png_encode(const gr_pixels *p, gr_text *out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
