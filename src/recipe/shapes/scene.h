/* Scenes: pictures of any size with several shapes, and masks that say which is where. */
#ifndef GR_RECIPE_SHAPES_SCENE_H
#define GR_RECIPE_SHAPES_SCENE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_SCENE_MAX_SIDE 1024

typedef struct gr_scene {
    int side;     /* of the picture, at most GR_SCENE_MAX_SIDE */
    int channels; /* 1: gray; 3: colours */
    int n_kinds;  /* the first kinds of shapes (draw.h) are drawn, equally often */
    int n_shapes; /* at most this many, apart from each other; 1: one, near the middle */
} gr_scene;

/* Draws sample `index` of the stream `key`: px [side, side, channels], and in mask [side,
 * side], unless NULL, 0 for paper and 1 + kind for a shape. Returns the kind of the first
 * shape. A function of its arguments alone; any thread. */
int gr_scene_draw(const gr_scene *scene, uint64_t key, uint64_t index, uint8_t *px, uint8_t *mask);

#ifdef __cplusplus
}
#endif

#endif
