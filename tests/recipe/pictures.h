/* Pictures on disk for tests of `vision`, and runs on them. */
#ifndef GR_TESTS_RECIPE_PICTURES_H
#define GR_TESTS_RECIPE_PICTURES_H

#include "recipe/vision/vision.h"
#include "run.h"

#define PICTURE_SIDE 24 /* that an L has room in */

/* Where they are; below the folder that gr_test_scratch() makes, with which they go. */
extern char picture_root[512];
void pictures_begin(void);

/* A path below picture_root; valid until the next call but one. */
const char *picture_path(const char *fmt, ...) GR_PRINTF(1, 2);
/* The folders of a path, but not its last word. */
void picture_folders(const char *path);

/* A gray PNG whose pixel at (y, x) is at(y, x, k). */
typedef uint8_t picture_fn(int y, int x, int k);
void picture_write(const char *path, int height, int width, picture_fn *at, int k);
picture_fn picture_even;      /* k */
picture_fn picture_ink;       /* an L in white: no flip or turn leaves it as it is */
picture_fn picture_ink_class; /* the same with k */

extern const recipe_options vision_training;
/* A run of `vision` by a config. */
void vision_open(recipe_run *r, const recipe_options *o, const char *fmt, ...) GR_PRINTF(3, 4);
/* Loads one sample into the run's first place. */
gr_status vision_load(recipe_run *r, gr_split split, int64_t index, int64_t epoch);

#endif
