/*
 * Augmentation: a list of named operations with numbers, applied to an image and to the masks
 * that belong to it. One plan is made per sample, from its numbers in the run, and carried out
 * on the image and on every mask: they stay aligned whatever the list is. Nothing depends on
 * threads, ranks or what was loaded before.
 *
 * The operations, in any order; case does not matter, and '-' is '_'. p is a probability.
 *
 *   RESIZE [h, w] | [side]         to h x w; or the shorter side to `side`
 *   RANDOM_SCALE [lo, hi]          both sides by one factor
 *   RANDOM_CROP [h, w] | [side] | [h, w, pad]   (also CROP) somewhere inside; where the image is
 *                                  smaller it is padded on both sides. pad: may reach that far out
 *   CENTER_CROP [h, w] | [side]    the middle, padded alike
 *   RANDOM_RESIZED_CROP [h, w] | [side], then [.., area lo, hi], then [.., ratio lo, hi]
 *                                  a box of 0.08 to 1 of the area, width / height 3/4 to 4/3
 *   HFLIP [p]  VFLIP [p]           0.5 without a number; RANDOM_HORIZONTAL_FLIP, ..VERTICAL_..
 *   ROTATION [deg] | [lo, hi] | [lo, hi, p]     by -deg to deg, counter-clockwise
 *   GAUSSIAN_BLUR [k] | [k, sigma] | [k, lo, hi] | [k, lo, hi, p]   k x k, odd; image only;
 *                                  sigma 0.3 ((k - 1) / 2 - 1) + 0.8 without one
 *   COLOR_JITTER [brightness, contrast, saturation, hue]   image only; fewer numbers: 0
 *   INVERT [p]                     image only
 *   FILL [v] | [r, g, b]           what padding and rotation put into the image behind it; 0
 *   MASK_FILL [v]                  and into masks; 255, which losses ignore
 *   TO_TENSOR, CONVERT_IMAGE_DTYPE f32 values are 0 to 1; so they are without it
 *   PIL_TO_TENSOR                  f32 values are 0 to 255, unless one of those two stands too
 *   NORMALIZE [mean, std] | [means of the channels, stds of the channels]   last
 *
 * Images are scaled with a triangle filter that widens when it shrinks (antialiased bilinear):
 * bit for bit Pillow's BILINEAR, so torchvision's Resize of a PIL image (Pillow 13 may differ by
 * one where a height shrinks much more than its width). Rotation is bilinear, jitter and blur are
 * torchvision's up to a rounding. Masks take the nearest pixel, always.
 */
#ifndef GRADUS_AUGMENT_H
#define GRADUS_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradus/data.h"
#include "gradus/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_transform {
    const char *name;
    const double *numbers; /* NULL when there are none */
    int n_numbers;
} gr_transform;

typedef struct gr_augment gr_augment;

/*
 * `fixed` leaves chance out, for validation: random crops are centred, a random resized crop is
 * the largest centred box, and what is only random is not done. Nothing of `list` is kept.
 *
 * GR_ERR_ARG names the operation, its place in the list and what it takes. The caller owns *out.
 */
GR_API gr_status gr_augment_create(gr_augment **out, const gr_transform *list, int n,
                                   bool fixed) GR_MUST_CHECK;
GR_API void gr_augment_destroy(gr_augment *a); /* NULL is fine */

/* True if every result has one size, which is then in *height and *width. */
GR_API bool gr_augment_size(const gr_augment *a, int *height, int *width);

/* What chance depends on: equal keys, equal results. */
typedef struct gr_augment_key {
    uint64_t seed;
    int64_t epoch, index;
} gr_augment_key;

/*
 * Changes the image and its masks in place. Masks are of the image's size; else GR_ERR_ARG.
 * After a failure the pixels are undefined. Any number of threads at once. Memory is kept
 * and reused: equal sizes allocate once per thread.
 */
GR_API gr_status gr_augment_apply(const gr_augment *a, gr_augment_key key, gr_image *img,
                                  gr_image *const *masks, int n_masks) GR_MUST_CHECK;

/* Writes height x width x channels floats, scaled and normalised: what (x / 255 - mean) / std
 * gives in single precision. GR_ERR_ARG when NORMALIZE has numbers for other channels. */
GR_API gr_status gr_augment_to_f32(const gr_augment *a, const gr_image *img,
                                   float *out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
