/* A font of 5 by 7 dots for the labels of plots: ASCII; everything else is a box. */
#ifndef GR_TRACK_FONT_H
#define GR_TRACK_FONT_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_FONT_WIDTH   5
#define GR_FONT_HEIGHT  7
#define GR_FONT_ADVANCE 6

/* Is the dot in this column and row, from the top left, part of the character? */
bool gr_font_dot(char c, int column, int row);

#ifdef __cplusplus
}
#endif

#endif
