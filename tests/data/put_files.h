/* Files that tests of data make: images with pixels that are known by their place; and what all
 * tests of their readers do. */
#ifndef GR_TESTS_DATA_PUT_FILES_H
#define GR_TESTS_DATA_PUT_FILES_H

#include "gradus/data.h"

/* Folders on the way are made. Names may hold one %d. */
void data_put_bytes(const char *path, const void *bytes, size_t n_bytes);
void data_put_text(const char *path, const char *text);
/* A PNG whose bytes are data_pixel(seed, place). */
void data_put_image(const char *path, int height, int width, int channels, int seed);
/* Labels: a palette PNG. */
void data_put_mask(const char *path, int height, int width, int seed);
void data_put_jpeg(const char *path, int height, int width, int seed);

uint8_t data_pixel(int seed, int place);
/* Ends the test unless all pixels are those of `seed`. */
void data_check_image(const gr_image *img, int height, int width, int channels, int seed);

/* Opens what the gr_dataset_config says, reads the first image and closes: for lack of memory. */
gr_status data_open_and_read(void *config);

/* Removes a folder of the test's own scratch folder with all that is in it. */
void data_remove(const char *path);

/* The folder of real data, NULL when it is not here: $GR_DATA, or ../shared/data of the
 * sources. */
const char *data_real(void);

#endif
