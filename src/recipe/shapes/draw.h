/* Drawn shapes: an endless, labelled data set that is computed instead of stored. */
#ifndef GR_RECIPE_SHAPES_DRAW_H
#define GR_RECIPE_SHAPES_DRAW_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_SHAPES_SIDE    28
#define GR_SHAPES_PIXELS  784 /* GR_SHAPES_SIDE squared */
#define GR_SHAPES_CLASSES 10

/* "circle", "ring", ... for 0 <= label < GR_SHAPES_CLASSES. */
const char *gr_shapes_name(int label);

/* Where a shape lies: its middle and radius in pixels, its rotation. */
typedef struct gr_shapes_pose {
    float middle_x, middle_y, radius;
    float cos, sin;
} gr_shapes_pose;

/* row[x]: the share of pixel x of row y that the shape covers, 0 <= x < n. Nothing lies
 * further than 1.2 radii from the middle. */
void gr_shapes_row(int label, const gr_shapes_pose *pose, int y, int n, float *row);

/* Draws sample `index` of the stream `key`: GR_SHAPES_PIXELS values around 0, and
 * returns its label. Every part of the picture is a function of (key, index). */
int gr_shapes_draw(uint64_t key, uint64_t index, float *pixels);

#ifdef __cplusplus
}
#endif

#endif
