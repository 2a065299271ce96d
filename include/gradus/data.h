/*
 * Data: images, data sets of every supported format behind one type, token files, arrays.
 *
 * Nothing is read before it is asked for: folders are listed, flat files are mapped (shared
 * by all ranks of a host), images are decoded on demand. A missing or broken file is an
 * error with its path and the reason, never an image of zeros. A mapped file must not be
 * cut while it is open: the system would end the process.
 *
 * Opening, destroying: one thread. Everything that takes a const gr_dataset: any number of
 * threads at once. Nothing here is collective.
 */
#ifndef GRADUS_DATA_H
#define GRADUS_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradus/status.h"
#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Images ------------------------------------------------------------------------- */

/* 8 bits a channel, rows from the top without gaps, the channels of a pixel side by side.
 * Memory is kept between calls and grows only, so a loop of equal images allocates once. */
typedef struct gr_image {
    int height, width, channels;
    uint8_t *px; /* owned */
    size_t cap;  /* bytes that px has room for */
} gr_image;

#define GR_IMAGE_INIT    \
    {                    \
        0, 0, 0, NULL, 0 \
    }

/* More pixels than this are refused before any memory is taken. */
#define GR_IMAGE_MAX_PIXELS ((int64_t)1 << 28)

/* Sets the sizes and makes room; pixels are undefined. GR_ERR_ARG for sizes below 1, more
 * than 4 channels or over the limit; the image is as before then. */
GR_API gr_status gr_image_reserve(gr_image *img, int height, int width, int channels) GR_MUST_CHECK;
GR_API gr_status gr_image_copy(gr_image *to, const gr_image *from) GR_MUST_CHECK;
/* Frees the pixels; the image is empty and may be used again. NULL is fine. */
GR_API void gr_image_fini(gr_image *img);

/*
 * STORED: 1 grey, 2 grey with alpha, 3 RGB, 4 RGB with alpha, as the file has it; a palette
 *         is looked up.
 * GRAY:   1 channel, weighted 299:587:114.   RGB: 3 channels. Alpha is dropped.
 * LABELS: 1 channel of numbers: the index into a palette, or the grey value as stored, not
 *         stretched (a 1-bit mask gives 0 and 1). RGB counts if its three channels are equal;
 *         16 bits if no value is above 255. A JPEG is refused: its numbers are not exact.
 * 16 bits a channel become 8 by taking the upper byte. Pixels are those of Pillow's
 * Image.open(f).convert(...): no gamma, no colour profile, no turning by EXIF.
 */
typedef enum gr_image_as {
    GR_IMAGE_STORED,
    GR_IMAGE_GRAY,
    GR_IMAGE_RGB,
    GR_IMAGE_LABELS
} gr_image_as;

typedef struct gr_decode {
    gr_image_as as;
    /* A JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, which is several times as fast,
     * as long as it keeps at least so many pixels a side. 0: always whole. */
    int min_height, min_width;
} gr_decode;

#define GR_DECODE_INIT        \
    {                         \
        .as = GR_IMAGE_STORED \
    }

/* JPEG or PNG, by content. `how` NULL: GR_DECODE_INIT. GR_ERR_FORMAT for what is neither, cut
 * short, damaged, or larger than so few bytes can hold; *out is then undefined but may be
 * used again and must be ended. */
GR_API gr_status gr_image_decode(gr_image *out, const void *src, size_t n_bytes,
                                 const gr_decode *how) GR_MUST_CHECK;
/* The same from a file; also GR_ERR_IO. Messages begin with the path. */
GR_API gr_status gr_image_read(gr_image *out, const char *path, const gr_decode *how) GR_MUST_CHECK;

/* Writes a PNG aside and renames it. 1 channel is grey, 3 RGB, 4 RGB with alpha. */
GR_API gr_status gr_image_write(const char *path, const gr_image *img) GR_MUST_CHECK;
/* Writes labels (1 channel) as a palette PNG: read with GR_IMAGE_LABELS it gives the labels,
 * a viewer shows the colours of gr_label_colour(). */
GR_API gr_status gr_image_write_labels(const char *path, const gr_image *img) GR_MUST_CHECK;
/* The colour of a label, 0 to 255, in the PASCAL VOC map: 0 black, 1 dark red, 2 green ... */
GR_API void gr_label_colour(int label, uint8_t rgb[3]);

#ifdef __cplusplus
}
#endif

#endif
