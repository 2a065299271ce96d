/*
 * PNG through libpng's row interface: its simplified one loses palette indices and grey values
 * of few bits.
 *
 * (1) The library reports failures by a long jump to decode_guarded() or encode_guarded(), which
 *     have no locals that change; what must be freed hangs on the job.
 * (2) Chunks that pixels do not depend on (profiles, texts, gamma) are skipped unparsed.
 * (3) A small file cannot claim a large image: deflate packs 1032 to 1 at most.
 *
 * Any thread.
 */
#include "data/codec.h"

#include "base/alloc.h"
#include "base/outfile.h"

#include <png.h>
#include <stdio.h>
#include <string.h>

#define LEAD_BYTES 8

typedef struct png_job {
    png_structp png;
    png_infop info;
    const uint8_t *src; /* what is left to read */
    size_t n_left, n_bytes;
    const gr_decode *how;
    gr_image *image;
    uint8_t *row; /* owned: a row of 16-bit labels */
    gr_text *out; /* encoding */
    bool labels;
    char reason[160];
} png_job;

static void on_error(png_structp png, png_const_charp message)
{
    png_job *j = (png_job *)png_get_error_ptr(png);

    snprintf(j->reason, sizeof(j->reason), "%s", message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png; /* about chunks that pixels do not depend on */
    (void)message;
}

static void read_bytes(png_structp png, png_bytep dst, size_t n)
{
    png_job *j = (png_job *)png_get_io_ptr(png);

    if (n > j->n_left)
        png_error(png, "the file is cut short");
    memcpy(dst, j->src, n);
    j->src += n;
    j->n_left -= n;
}

/* Head, then sizes checked; nothing of the image's size is allocated yet. */
static gr_status read_head(png_job *j)
{
    static const png_byte skipped[] = "iCCP\0tEXt\0zTXt\0iTXt\0gAMA\0cHRM\0sRGB\0eXIf\0hIST\0pHYs\0"
                                      "sBIT\0sPLT\0tIME\0bKGD\0oFFs\0pCAL\0sCAL";
    uint64_t least;

    png_set_keep_unknown_chunks(j->png, PNG_HANDLE_CHUNK_NEVER, skipped,
                                (int)(sizeof(skipped) / 5));
    png_set_read_fn(j->png, j, read_bytes);
    png_read_info(j->png, j->info);
    GR_TRY(gr_image_plausible(png_get_image_height(j->png, j->info),
                              png_get_image_width(j->png, j->info)));
    least = (uint64_t)png_get_rowbytes(j->png, j->info) * png_get_image_height(j->png, j->info);
    if (least / 1040 > j->n_bytes)
        return gr_fail(GR_ERR_FORMAT, "%u x %u pixels cannot be in %zu bytes",
                       png_get_image_width(j->png, j->info), png_get_image_height(j->png, j->info),
                       j->n_bytes);
    return GR_OK;
}

/* What the library shall make of the stored samples: bytes, at least. */
static void set_pixels(png_job *j)
{
    int type = png_get_color_type(j->png, j->info), depth = png_get_bit_depth(j->png, j->info);

    if (j->how->as == GR_IMAGE_LABELS) {
        png_set_packing(j->png); /* one sample a byte, not stretched */
        if (type & PNG_COLOR_MASK_ALPHA)
            png_set_strip_alpha(j->png);
        return;
    }
    if (depth == 16)
        png_set_strip_16(j->png);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(j->png);
    if (type == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(j->png);
    if (j->how->as != GR_IMAGE_STORED)
        png_set_strip_alpha(j->png);
    else if (type == PNG_COLOR_TYPE_PALETTE && png_get_valid(j->png, j->info, PNG_INFO_tRNS))
        png_set_tRNS_to_alpha(j->png);
    if (j->how->as == GR_IMAGE_RGB)
        png_set_gray_to_rgb(j->png);
}

/* 16-bit samples to labels: a value that no byte holds is an error. */
static gr_status narrow_row(png_job *j, uint8_t *dst, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (j->row[2 * i] != 0)
            return gr_fail(GR_ERR_FORMAT, "a label of %u: labels are 0 to 255",
                           j->row[2 * i] * 256u + j->row[2 * i + 1]);
        dst[i] = j->row[2 * i + 1];
    }
    return GR_OK;
}

static gr_status read_rows(png_job *j)
{
    gr_image *img = j->image;
    size_t n = (size_t)img->width * (size_t)img->channels;
    int n_passes = png_set_interlace_handling(j->png);

    png_read_update_info(j->png, j->info);
    if (png_get_rowbytes(j->png, j->info) != n)
        return gr_fail(GR_ERR_FORMAT, "rows of %zu bytes, expected %zu",
                       png_get_rowbytes(j->png, j->info), n);
    for (int pass = 0; pass < n_passes; pass++)
        for (int y = 0; y < img->height; y++)
            png_read_row(j->png, img->px + (size_t)y * n, NULL);
    return GR_OK;
}

/* Interlaced images come in several passes over all rows, which 16 bits have no room for. */
static gr_status read_wide_labels(png_job *j)
{
    gr_image *img = j->image;
    size_t n = (size_t)img->width * (size_t)img->channels;

    if (png_get_interlace_type(j->png, j->info) != PNG_INTERLACE_NONE)
        return gr_fail(GR_ERR_FORMAT, "interlaced labels of 16 bits");
    png_read_update_info(j->png, j->info);
    j->row = gr_malloc(n * 2);
    if (!j->row)
        return GR_ERR_NOMEM;
    for (int y = 0; y < img->height; y++) {
        png_read_row(j->png, j->row, NULL);
        GR_TRY(narrow_row(j, img->px + (size_t)y * n, n));
    }
    return GR_OK;
}

/* Three equal channels of labels become one. */
static gr_status merge_labels(gr_image *img)
{
    size_t n = (size_t)img->height * (size_t)img->width;
    uint8_t *px = img->px;

    if (img->channels == 1)
        return GR_OK;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = px + 3 * i;

        if (p[0] != p[1] || p[0] != p[2])
            return gr_fail(GR_ERR_FORMAT,
                           "a colour (%d, %d, %d) at row %zu, column %zu where labels are "
                           "expected: store them as a palette or grey PNG",
                           p[0], p[1], p[2], i / (size_t)img->width, i % (size_t)img->width);
        px[i] = p[0];
    }
    img->channels = 1;
    return GR_OK;
}

static int channels_of(const png_job *j)
{
    int type = png_get_color_type(j->png, j->info);
    bool alpha =
        j->how->as == GR_IMAGE_STORED &&
        ((type & PNG_COLOR_MASK_ALPHA) != 0 ||
         (type == PNG_COLOR_TYPE_PALETTE && png_get_valid(j->png, j->info, PNG_INFO_tRNS)));

    if (j->how->as == GR_IMAGE_RGB)
        return 3;
    if (j->how->as == GR_IMAGE_LABELS && type == PNG_COLOR_TYPE_PALETTE)
        return 1;
    return ((type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1) + (alpha ? 1 : 0);
}

static gr_status decode_steps(png_job *j)
{
    bool wide;

    GR_TRY(read_head(j));
    wide = j->how->as == GR_IMAGE_LABELS && png_get_bit_depth(j->png, j->info) == 16;
    GR_TRY(gr_image_reserve(j->image, (int)png_get_image_height(j->png, j->info),
                            (int)png_get_image_width(j->png, j->info), channels_of(j)));
    set_pixels(j);
    GR_TRY(wide ? read_wide_labels(j) : read_rows(j));
    if (j->how->as == GR_IMAGE_LABELS)
        return merge_labels(j->image);
    if (j->how->as == GR_IMAGE_GRAY)
        gr_image_to_gray(j->image);
    return GR_OK;
}

static gr_status head_steps(png_job *j)
{
    GR_TRY(read_head(j));
    j->image->height = (int)png_get_image_height(j->png, j->info);
    j->image->width = (int)png_get_image_width(j->png, j->info);
    return GR_OK;
}

static gr_status decode_guarded(png_job *j, gr_status (*steps)(png_job *))
{
    if (setjmp(png_jmpbuf(j->png)))
        return gr_fail(GR_ERR_FORMAT, "%s", j->reason);
    return steps(j);
}

bool gr_png_is(const void *src, size_t n_bytes)
{
    return n_bytes >= LEAD_BYTES && memcmp(src, "\x89PNG\r\n\x1a\n", LEAD_BYTES) == 0;
}

static gr_status decode(png_job *j, gr_status (*steps)(png_job *))
{
    gr_status st = GR_OK;

    j->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, j, on_error, on_warning);
    j->info = j->png ? png_create_info_struct(j->png) : NULL;
    if (!j->info)
        st = gr_fail(GR_ERR_NOMEM, "no memory to decode a PNG");
    if (st == GR_OK)
        st = decode_guarded(j, steps);
    png_destroy_read_struct(&j->png, &j->info, NULL);
    gr_free(j->row);
    return st;
}

gr_status gr_png_decode(gr_image *out, const void *src, size_t n_bytes, const gr_decode *how)
{
    png_job j = {
        .src = (const uint8_t *)src, .n_left = n_bytes, .n_bytes = n_bytes, .how = how, .image = out
    };

    return decode(&j, decode_steps);
}

gr_status gr_png_head(gr_image *out, const void *head, size_t n_head, size_t n_bytes,
                      const gr_decode *how)
{
    png_job j = {
        .src = (const uint8_t *)head, .n_left = n_head, .n_bytes = n_bytes, .how = how, .image = out
    };

    return decode(&j, head_steps);
}

void gr_label_colour(int label, uint8_t rgb[3])
{
    unsigned c = (unsigned)label & 255;

    rgb[0] = rgb[1] = rgb[2] = 0;
    for (int bit = 7; c != 0; bit--, c >>= 3) /* three bits of the label a round, high bits first */
        for (int k = 0; k < 3; k++)
            rgb[k] |= (uint8_t)(((c >> k) & 1) << bit);
}

static void write_bytes(png_structp png, png_bytep src, size_t n)
{
    png_job *j = (png_job *)png_get_io_ptr(png);

    gr_text_addn(j->out, (const char *)src, n);
}

static void flush_bytes(png_structp png)
{
    (void)png; /* it lies in memory */
}

static void set_label_palette(png_job *j)
{
    png_color colours[256];

    for (int i = 0; i < 256; i++) {
        uint8_t rgb[3];

        gr_label_colour(i, rgb);
        colours[i] = (png_color){ .red = rgb[0], .green = rgb[1], .blue = rgb[2] };
    }
    png_set_PLTE(j->png, j->info, colours, 256);
}

static void encode_steps(png_job *j)
{
    static const int types[] = { PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA };
    const gr_image *img = j->image;

    png_set_write_fn(j->png, j, write_bytes, flush_bytes);
    png_set_IHDR(j->png, j->info, (png_uint_32)img->width, (png_uint_32)img->height, 8,
                 j->labels ? PNG_COLOR_TYPE_PALETTE : types[img->channels - 1], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (j->labels)
        set_label_palette(j);
    png_write_info(j->png, j->info);
    for (int y = 0; y < img->height; y++)
        png_write_row(j->png, img->px + (size_t)y * (size_t)img->width * (size_t)img->channels);
    png_write_end(j->png, NULL);
}

static gr_status encode_guarded(png_job *j)
{
    if (setjmp(png_jmpbuf(j->png)))
        return gr_fail(GR_ERR_ARG, "cannot encode a PNG: %s", j->reason);
    encode_steps(j);
    return gr_text_status(j->out);
}

gr_status gr_png_write(const gr_image *img, bool labels, gr_text *out)
{
    gr_image view = *img;
    png_job j = { .image = &view, .labels = labels, .out = out };
    gr_status st = GR_OK;

    if (!img->px || img->height < 1 || img->width < 1 || img->channels < 1 || img->channels > 4 ||
        (labels && img->channels != 1))
        return gr_fail(GR_ERR_ARG, "%d x %d pixels with %d channels cannot be a PNG%s", img->width,
                       img->height, img->channels, labels ? " of labels" : "");
    j.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &j, on_error, on_warning);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    if (!j.info)
        st = gr_fail(GR_ERR_NOMEM, "no memory to encode a PNG");
    if (st == GR_OK)
        st = encode_guarded(&j);
    png_destroy_write_struct(&j.png, &j.info);
    return st;
}

static gr_status write_file(const char *path, const gr_image *img, bool labels)
{
    gr_text bytes = GR_TEXT_INIT;
    gr_outfile *f = NULL;
    gr_status st;

    if (!path || !img)
        return gr_fail(GR_ERR_ARG, "image: path or the image to write is NULL");
    GR_TRY_GOTO(st, gr_png_write(img, labels, &bytes), end);
    GR_TRY_GOTO(st, gr_outfile_open(&f, path), end);
    gr_outfile_write(f, bytes.str, bytes.len);
    st = gr_outfile_commit(f);
end:
    gr_text_fini(&bytes);
    return st == GR_OK ? GR_OK : gr_wrap(st, "image '%s'", path);
}

gr_status gr_image_write(const char *path, const gr_image *img)
{
    return write_file(path, img, false);
}

gr_status gr_image_write_labels(const char *path, const gr_image *img)
{
    return write_file(path, img, true);
}
