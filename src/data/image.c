/*
 * Images in memory: room, conversions of channels, and decoding and reading by content. The
 * formats themselves are in jpeg.c and png.c.
 *
 * (1) No size from a file reaches an allocation before gr_image_plausible() has seen it.
 * (2) Conversions work in place where they shrink, so decoding reuses one piece of memory.
 *
 * Any thread; an image belongs to one at a time.
 */
#include "gradus/data.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "data/codec.h"

#include <string.h>

gr_status gr_image_plausible(int64_t height, int64_t width)
{
    if (height < 1 || width < 1 || height > GR_IMAGE_MAX_PIXELS ||
        width > GR_IMAGE_MAX_PIXELS / height)
        return gr_fail(GR_ERR_FORMAT,
                       "%lld x %lld pixels: an image has at least one and at most %lld",
                       (long long)width, (long long)height, (long long)GR_IMAGE_MAX_PIXELS);
    return GR_OK;
}

gr_status gr_image_reserve(gr_image *img, int height, int width, int channels)
{
    size_t n_bytes;

    if (gr_image_plausible(height, width) != GR_OK || channels < 1 || channels > 4)
        return gr_fail(GR_ERR_ARG, "there are no images of %d x %d pixels with %d channels", width,
                       height, channels);
    n_bytes = (size_t)height * (size_t)width * (size_t)channels; /* at most 2^30 */
    if (n_bytes > img->cap) {
        uint8_t *px = gr_malloc(n_bytes); /* what was there is not kept: no copying */

        if (!px)
            return GR_ERR_NOMEM;
        gr_free(img->px);
        img->px = px;
        img->cap = n_bytes;
    }
    img->height = height;
    img->width = width;
    img->channels = channels;
    return GR_OK;
}

gr_status gr_image_copy(gr_image *to, const gr_image *from)
{
    GR_TRY(gr_image_reserve(to, from->height, from->width, from->channels));
    memcpy(to->px, from->px, (size_t)from->height * (size_t)from->width * (size_t)from->channels);
    return GR_OK;
}

void gr_image_fini(gr_image *img)
{
    if (!img)
        return;
    gr_free(img->px);
    *img = (gr_image)GR_IMAGE_INIT;
}

void gr_image_to_gray(gr_image *img)
{
    size_t n = (size_t)img->height * (size_t)img->width, c = (size_t)img->channels;
    uint8_t *px = img->px;

    if (c == 1)
        return;
    if (c == 2) {
        gr_image_drop_alpha(img);
        return;
    }
    /* ITU-R 601 in 16 bits with rounding, as Pillow has it. */
    for (size_t i = 0; i < n; i++)
        px[i] = (uint8_t)((px[i * c] * 19595u + px[i * c + 1] * 38470u + px[i * c + 2] * 7471u +
                           0x8000u) >>
                          16);
    img->channels = 1;
}

void gr_image_drop_alpha(gr_image *img)
{
    size_t n = (size_t)img->height * (size_t)img->width, c = (size_t)img->channels;
    uint8_t *px = img->px;

    if (c != 2 && c != 4)
        return;
    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < c - 1; k++)
            px[i * (c - 1) + k] = px[i * c + k];
    img->channels--;
}

gr_status gr_image_spread_gray(gr_image *img)
{
    size_t n = (size_t)img->height * (size_t)img->width;

    if (img->channels != 1)
        return GR_OK;
    if (n * 3 > img->cap) {
        uint8_t *px = gr_realloc(img->px, n * 3);

        if (!px)
            return GR_ERR_NOMEM;
        img->px = px;
        img->cap = n * 3;
    }
    for (size_t i = n; i-- > 0;) /* from the end, where nothing is left to read */
        img->px[i * 3] = img->px[i * 3 + 1] = img->px[i * 3 + 2] = img->px[i];
    img->channels = 3;
    return GR_OK;
}

gr_status gr_image_decode(gr_image *out, const void *src, size_t n_bytes, const gr_decode *how)
{
    static const gr_decode plain = GR_DECODE_INIT;

    if (!out || (!src && n_bytes > 0))
        return gr_fail(GR_ERR_ARG, "image: out or its bytes are NULL");
    if (!how)
        how = &plain;
    if (gr_jpeg_is(src, n_bytes))
        return gr_jpeg_decode(out, src, n_bytes, how);
    if (gr_png_is(src, n_bytes))
        return gr_png_decode(out, src, n_bytes, how);
    if (n_bytes == 0)
        return gr_fail(GR_ERR_FORMAT, "the file is empty");
    return gr_fail(GR_ERR_FORMAT, "neither JPEG nor PNG (%zu bytes)", n_bytes);
}

gr_status gr_image_read(gr_image *out, const char *path, const gr_decode *how)
{
    char *bytes = NULL;
    size_t n_bytes = 0;
    gr_status st;

    if (!out || !path)
        return gr_fail(GR_ERR_ARG, "image: out or path is NULL");
    GR_TRY(gr_file_read(path, &bytes, &n_bytes));
    st = gr_image_decode(out, bytes, n_bytes, how);
    gr_free(bytes);
    return st == GR_OK ? GR_OK : gr_wrap(st, "image '%s'", path);
}
