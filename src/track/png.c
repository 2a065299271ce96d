/* PNG through libpng's simplified interface, which reports failures without long jumps. */
#include "track/png.h"

#include "base/alloc.h"

#include <png.h>

#define MAX_SIDE 16384 /* keeps every size below in an int */

static gr_status failed(png_image *image)
{
    gr_status st = gr_fail(GR_ERR_IO, "cannot encode a PNG image: %s", image->message);

    png_image_free(image);
    return st;
}

bool gr_png_fits(const gr_pixels *p)
{
    return p->width >= 1 && p->height >= 1 && p->width <= MAX_SIDE && p->height <= MAX_SIDE &&
           (p->channels == 1 || p->channels == 3 || p->channels == 4);
}

gr_status gr_png_encode(const gr_pixels *p, gr_text *out)
{
    png_image image = { .version = PNG_IMAGE_VERSION };
    png_alloc_size_t n_bytes = 0;
    char *bytes;
    gr_status st = GR_OK;

    if (!gr_png_fits(p))
        return gr_fail(GR_ERR_ARG, "an image of %d x %d pixels with %d channels cannot be a PNG",
                       p->width, p->height, p->channels);
    image.width = (png_uint_32)p->width;
    image.height = (png_uint_32)p->height;
    image.format = p->channels == 1   ? PNG_FORMAT_GRAY
                   : p->channels == 3 ? PNG_FORMAT_RGB
                                      : PNG_FORMAT_RGBA;
    /* The most it can be, so that the pixels are compressed once only. */
    n_bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    bytes = gr_malloc(n_bytes);
    if (!bytes)
        return GR_ERR_NOMEM;
    if (png_image_write_to_memory(&image, bytes, &n_bytes, 0, p->data, 0, NULL)) {
        gr_text_addn(out, bytes, n_bytes);
        st = gr_text_status(out);
    } else {
        st = failed(&image);
    }
    gr_free(bytes);
    return st;
}
