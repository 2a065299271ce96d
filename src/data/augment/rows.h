/*
 * Inner loops over rows of pixels, once for any processor and once for AVX2. All of them are
 * integer arithmetic, so both give the same bits.
 */
#ifndef GR_DATA_AUGMENT_ROWS_H
#define GR_DATA_AUGMENT_ROWS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_TAP_BITS 22 /* of the fraction of a weight, as in Pillow */
#define GR_MIX_BITS 11 /* of each of the two weights of a rotation: 8 + 11 + 11 fit in 31 bits */

/* Which pixels make an output pixel, along one side. */
typedef struct gr_taps {
    const int32_t *first, *n; /* of each output pixel, in the input */
    const int32_t *weight;    /* `stride` for each output pixel */
    int stride;
} gr_taps;

/* A row or column of a rotated image: where it lies in the source, in 1/2^32 pixels. */
typedef struct gr_walk {
    int64_t y, x, dy, dx;
} gr_walk;

/* Pixels y >= 0, x >= 0 up to the last, of a source in which a step down is `pitch` bytes. */
typedef struct gr_plane {
    const uint8_t *px; /* of place (0, 0) of the whole image, which need not exist */
    int64_t pitch;
    int last_y, last_x, channels;
} gr_plane;

typedef struct gr_rows {
    /* n output pixels of a row; `src` is pixel 0 of the row, which has n_src pixels. */
    void (*across)(uint8_t *dst, const uint8_t *src, int n, int channels, const gr_taps *t,
                   int n_src);
    /* One output row of n bytes from n_taps rows that are `pitch` bytes apart. */
    void (*down)(uint8_t *dst, const uint8_t *src, int n, int64_t pitch, const int32_t *weight,
                 int n_taps);
    /* n pixels along a walk that stays inside the plane. */
    void (*rotate)(uint8_t *dst, int n, gr_walk w, const gr_plane *p);
    /* dst[i] = sum of weight[j] src[i + j step]; n_taps is odd, weights have 16 bits, are
     * symmetric and add up to 2^16; dst keeps 8 bits of fraction. */
    void (*blur_across)(uint16_t *dst, const uint8_t *src, int n, int step, const uint32_t *weight,
                        int n_taps);
    /* The same down rows of such numbers; rounds. */
    void (*blur_down)(uint8_t *dst, const uint16_t *const *src, int n, const uint32_t *weight,
                      int n_taps);
} gr_rows;

extern const gr_rows gr_rows_any, gr_rows_avx2;
const gr_rows *gr_rows_best(void);

#ifdef __cplusplus
}
#endif

#endif
