/* RGB pixels to draw on. Everything outside of it is cut off. One thread at a time. */
#ifndef GR_TRACK_CANVAS_H
#define GR_TRACK_CANVAS_H

#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_canvas {
    uint8_t *data; /* owned; rows from the top */
    int width, height;
} gr_canvas;

typedef struct gr_box {
    int left, top, right, bottom; /* the last two not included */
} gr_box;

/* Colours are 0xRRGGBB. */
gr_status gr_canvas_init(gr_canvas *c, int width, int height, uint32_t colour) GR_MUST_CHECK;
void gr_canvas_fini(gr_canvas *c);

void gr_canvas_fill(gr_canvas *c, gr_box b, uint32_t colour);
/* Smooth, 2 pixels wide, round ends, only inside of `clip`. */
void gr_canvas_line(gr_canvas *c, gr_box clip, const double from[2], const double to[2],
                    uint32_t colour);
/* `scale` pixels a dot; the top left corner is given. Returns the width in pixels. */
int gr_canvas_text(gr_canvas *c, int x, int y, int scale, uint32_t colour, const char *text);
int gr_canvas_text_width(int scale, const char *text);

#ifdef __cplusplus
}
#endif

#endif
