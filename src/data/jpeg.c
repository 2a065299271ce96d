/*
 * JPEG through libjpeg-turbo, with the settings that Pillow uses (exact integer DCT, smooth
 * upsampling of colours), so pixels are equal.
 *
 * (1) The library reports failures by a long jump. Only decode_guarded() and encode_guarded()
 *     set the target, have no locals that change, and everything they must free hangs on the job.
 * (2) The library goes on after damage and fills what is missing with grey. Here any warning
 *     that means lost pixels is a failure; those that do not (a few stray bytes, an odd
 *     version number) are ignored.
 * (3) A small file cannot claim a large image: a block of 8 x 8 pixels takes a bit at least,
 *     unless it is coded arithmetically. And a progressive file may not have more passes than
 *     anybody's encoder makes, because each goes over the whole image.
 *
 * Any thread.
 */
#include "data/codec.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#define MAX_SCANS 200
#define QUALITY   95

typedef struct jpeg_job {
    struct jpeg_error_mgr errors; /* first: the library hands back a pointer to it */
    struct jpeg_progress_mgr progress;
    struct jpeg_decompress_struct in;
    struct jpeg_compress_struct to;
    jmp_buf target;
    gr_status status;
    char reason[JMSG_LENGTH_MAX];
    const gr_decode *how;
    gr_image *image;
    unsigned char *made; /* encoding: from the library's malloc */
    unsigned long n_made;
} jpeg_job;

/* Does the message at hand hold this text? The numbers of messages are in a header that
 * uses functions which are banned here (base/banned.h); their texts have not changed in decades. */
static bool says(j_common_ptr c, const char *part)
{
    int code = c->err->msg_code;

    return code > 0 && code <= c->err->last_jpeg_message &&
           strstr(c->err->jpeg_message_table[code], part) != NULL;
}

static void on_error(j_common_ptr c)
{
    jpeg_job *j = (jpeg_job *)(void *)c->err;

    c->err->format_message(c, j->reason);
    j->status = says(c, "Insufficient memory") ? GR_ERR_NOMEM : GR_ERR_FORMAT;
    longjmp(j->target, 1);
}

static void on_message(j_common_ptr c, int level)
{
    if (level >= 0) /* traces */
        return;
    if (!says(c, "extraneous bytes") && !says(c, "Adobe color transform") &&
        !says(c, "JFIF revision"))
        on_error(c);
}

static void on_output(j_common_ptr c)
{
    (void)c; /* the library would print */
}

static void on_progress(j_common_ptr c)
{
    jpeg_job *j = (jpeg_job *)(void *)c->err;

    if (!c->is_decompressor || j->in.input_scan_number <= MAX_SCANS)
        return;
    snprintf(j->reason, sizeof(j->reason), "more than %d passes", MAX_SCANS);
    j->status = GR_ERR_FORMAT;
    longjmp(j->target, 1);
}

static void set_up_errors(jpeg_job *j)
{
    jpeg_std_error(&j->errors);
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    j->errors.output_message = on_output;
    j->progress.progress_monitor = on_progress;
}

/* The least of 1/8, 1/4, 1/2 and 1 that leaves the sides that were asked for. */
static unsigned scale_for(const jpeg_job *j)
{
    const gr_decode *how = j->how;

    if (how->min_height < 1 || how->min_width < 1)
        return 8;
    for (unsigned num = 1; num < 8; num *= 2)
        if ((j->in.image_height * num + 7) / 8 >= (unsigned)how->min_height &&
            (j->in.image_width * num + 7) / 8 >= (unsigned)how->min_width)
            return num;
    return 8;
}

static gr_status check_head(const jpeg_job *j, size_t n_bytes)
{
    uint64_t n_pixels = (uint64_t)j->in.image_height * j->in.image_width;

    GR_TRY(gr_image_plausible(j->in.image_height, j->in.image_width));
    if (!j->in.arith_code && n_pixels / 512 > n_bytes)
        return gr_fail(GR_ERR_FORMAT, "%u x %u pixels cannot be in %zu bytes", j->in.image_width,
                       j->in.image_height, n_bytes);
    if (j->how->as == GR_IMAGE_LABELS)
        return gr_fail(GR_ERR_FORMAT,
                       "a JPEG cannot hold labels, its values are not exact; use PNG");
    if (j->in.num_components != 1 && j->in.num_components != 3 && j->in.num_components != 4)
        return gr_fail(GR_ERR_FORMAT, "JPEG of %d components", j->in.num_components);
    return GR_OK;
}

static uint8_t times(unsigned a, unsigned b)
{
    unsigned t = a * b + 128; /* a * b / 255, rounded */

    return (uint8_t)(((t >> 8) + t) >> 8);
}

/* Four inks to RGB in place. Inks are stored inverted, as everybody does after Adobe. */
static void inks_to_rgb(gr_image *img)
{
    size_t n = (size_t)img->height * (size_t)img->width;

    for (size_t i = 0; i < n; i++) {
        const uint8_t *ink = img->px + i * 4;
        uint8_t light = ink[3], rgb[3];

        for (int k = 0; k < 3; k++)
            rgb[k] = (uint8_t)(light - times(255u - ink[k], light));
        memcpy(img->px + i * 3, rgb, 3);
    }
    img->channels = 3;
}

static gr_status decode_steps(jpeg_job *j, const void *src, size_t n_bytes)
{
    gr_image *img = j->image;
    size_t stride;

    jpeg_create_decompress(&j->in);
    j->in.progress = &j->progress;
    jpeg_mem_src(&j->in, (const unsigned char *)src, (unsigned long)n_bytes);
    jpeg_read_header(&j->in, TRUE);
    GR_TRY(check_head(j, n_bytes));
    j->in.scale_num = scale_for(j);
    j->in.scale_denom = 8;
    j->in.out_color_space = j->in.num_components == 1   ? JCS_GRAYSCALE
                            : j->in.num_components == 3 ? JCS_RGB
                                                        : JCS_CMYK;
    jpeg_start_decompress(&j->in);
    GR_TRY(gr_image_reserve(img, (int)j->in.output_height, (int)j->in.output_width,
                            j->in.output_components));
    stride = (size_t)img->width * (size_t)img->channels;
    while (j->in.output_scanline < j->in.output_height) {
        JSAMPROW rows[4];
        unsigned n = j->in.output_height - j->in.output_scanline;

        n = n < 4 ? n : 4;
        for (unsigned k = 0; k < n; k++)
            rows[k] = img->px + (j->in.output_scanline + k) * stride;
        jpeg_read_scanlines(&j->in, rows, n);
    }
    jpeg_finish_decompress(&j->in);
    if (j->in.num_components == 4)
        inks_to_rgb(img);
    return GR_OK;
}

static gr_status decode_guarded(jpeg_job *j, const void *src, size_t n_bytes)
{
    if (setjmp(j->target))
        return gr_fail(j->status, "%s", j->reason);
    return decode_steps(j, src, n_bytes);
}

static gr_status head_guarded(jpeg_job *j, const void *head, size_t n_head, size_t n_bytes)
{
    if (setjmp(j->target))
        return gr_fail(j->status, "%s", j->reason);
    jpeg_create_decompress(&j->in);
    jpeg_mem_src(&j->in, (const unsigned char *)head, (unsigned long)n_head);
    jpeg_read_header(&j->in, TRUE);
    return check_head(j, n_bytes);
}

gr_status gr_jpeg_head(gr_image *out, const void *head, size_t n_head, size_t n_bytes,
                       const gr_decode *how)
{
    jpeg_job j = { .how = how };
    gr_status st;

    set_up_errors(&j);
    j.in.err = &j.errors;
    st = head_guarded(&j, head, n_head, n_bytes);
    if (st == GR_OK) {
        out->height = (int)j.in.image_height;
        out->width = (int)j.in.image_width;
    }
    jpeg_destroy_decompress(&j.in);
    return st;
}

bool gr_jpeg_is(const void *src, size_t n_bytes)
{
    return n_bytes >= 3 && memcmp(src, "\xff\xd8\xff", 3) == 0;
}

gr_status gr_jpeg_decode(gr_image *out, const void *src, size_t n_bytes, const gr_decode *how)
{
    jpeg_job j = { .how = how, .image = out };
    gr_status st;

    set_up_errors(&j);
    j.in.err = &j.errors;
    st = decode_guarded(&j, src, n_bytes);
    jpeg_destroy_decompress(&j.in);
    if (st != GR_OK)
        return st;
    if (how->as == GR_IMAGE_GRAY)
        gr_image_to_gray(out);
    return how->as == GR_IMAGE_RGB ? gr_image_spread_gray(out) : GR_OK;
}

static void encode_steps(jpeg_job *j)
{
    const gr_image *img = j->image;

    jpeg_create_compress(&j->to);
    jpeg_mem_dest(&j->to, &j->made, &j->n_made);
    j->to.image_width = (JDIMENSION)img->width;
    j->to.image_height = (JDIMENSION)img->height;
    j->to.input_components = img->channels;
    j->to.in_color_space = img->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&j->to);
    jpeg_set_quality(&j->to, QUALITY, TRUE);
    j->to.optimize_coding = TRUE;
    for (int k = 0; k < j->to.num_components; k++) /* colours at every pixel */
        j->to.comp_info[k].h_samp_factor = j->to.comp_info[k].v_samp_factor = 1;
    jpeg_start_compress(&j->to, TRUE);
    while (j->to.next_scanline < j->to.image_height) {
        JSAMPROW row =
            img->px + (size_t)j->to.next_scanline * (size_t)img->width * (size_t)img->channels;

        jpeg_write_scanlines(&j->to, &row, 1);
    }
    jpeg_finish_compress(&j->to);
}

static gr_status encode_guarded(jpeg_job *j)
{
    if (setjmp(j->target))
        return gr_fail(j->status, "cannot encode a JPEG: %s", j->reason);
    encode_steps(j);
    return GR_OK;
}

gr_status gr_jpeg_encode(const gr_image *img, gr_text *out)
{
    gr_image view = *img;
    jpeg_job j = { .image = &view };
    gr_status st;

    if ((img->channels != 1 && img->channels != 3) || img->width > JPEG_MAX_DIMENSION ||
        img->height > JPEG_MAX_DIMENSION)
        return gr_fail(GR_ERR_ARG, "%d x %d pixels with %d channels cannot be a JPEG", img->width,
                       img->height, img->channels);
    set_up_errors(&j);
    j.to.err = &j.errors;
    st = encode_guarded(&j);
    jpeg_destroy_compress(&j.to);
    if (st == GR_OK) {
        gr_text_addn(out, (const char *)j.made, j.n_made);
        st = gr_text_status(out);
    }
    free(j.made); /* the library's malloc */
    return st;
}
