/* What tests of augmentation share: an image that is known by its formula, pipelines that must come
 * about, the list of a training, and a number that tells results apart. */
#ifndef GR_TESTS_DATA_AUGMENTED_H
#define GR_TESTS_DATA_AUGMENTED_H

#include "gradus/augment.h"

#define DATA_DRAWN_H 23
#define DATA_DRAWN_W 31

/* The drawn image: the same formula as in tests/golden/make_augment.py. The caller ends it. */
gr_image data_drawn(int channels);

/* Ends the test when the list is refused. The caller destroys it. */
gr_augment *data_augment_made(const gr_transform *list, int n, bool fixed);

/* Every kind of chance that moves pixels; results are 40 x 44. */
#define DATA_N_TRAINING 5
extern const gr_transform data_training[DATA_N_TRAINING];

/* Of the drawn image in three channels after `a`, as `key` draws. */
uint64_t data_augment_hash(const gr_augment *a, gr_augment_key key);

#endif
