/*
 * The decoders of images on arbitrary bytes, in all ways to decode. They must not crash nor take
 * memory that the file cannot fill, and what comes out has the sizes that it says. PNG keeps a
 * checksum per chunk, which would stop nearly every mutation: it is made right first.
 */
#include "gradus/data.h"
#include "src/base/alloc.h"
#include "src/base/status.h"
#include "src/ckpt/zip.h"
#include "src/data/codec.h"
#include "src/data/mapped.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void put_be32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void mend_checksums(uint8_t *p, size_t n)
{
    for (size_t at = 8; at + 12 <= n;) {
        uint32_t len = gr_be32(p + at);

        if (len > n - at - 12)
            return;
        put_be32(p + at + 8 + len, gr_crc32(0, p + at + 4, (size_t)len + 4));
        at += (size_t)len + 12;
    }
}

/* In one of the ways, which the bytes themselves choose: a fuzzer then explores them too. */
static void decode(const uint8_t *data, size_t n_bytes)
{
    uint32_t way = gr_crc32(0, data, n_bytes);
    gr_decode how = { .as = (gr_image_as)(way & 3),
                      .min_height = way & 4 ? 8 : 0,
                      .min_width = way & 4 ? 8 : 0 };
    gr_image img = GR_IMAGE_INIT;
    gr_status st = gr_image_decode(&img, data, n_bytes, &how);
    unsigned sum = 0;

    GR_BUG_IF(st != GR_OK && gr_error_message()[0] == '\0');
    if (st == GR_OK) {
        int n = img.height * img.width * img.channels;

        GR_BUG_IF(how.as == GR_IMAGE_RGB && img.channels != 3);
        GR_BUG_IF((how.as == GR_IMAGE_GRAY || how.as == GR_IMAGE_LABELS) && img.channels != 1);
        for (int i = 0; i < n; i++)
            sum += img.px[i]; /* a sanitizer sees what is not there */
        GR_BUG_IF(sum > 255u * (unsigned)n);
        /* What decodes is never called broken by a look at it. */
        how.min_height = how.min_width = 0;
        GR_BUG_IF(gr_image_probe(&img, data, n_bytes, &how) != GR_OK);
        GR_BUG_IF(img.height < 1 || img.width < 1);
    } else {
        GR_IGNORE(gr_image_probe(&img, data, n_bytes, &how)); /* it must not crash */
    }
    gr_image_fini(&img);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    uint8_t *copy;

    decode(data, n_bytes);
    if (!gr_png_is(data, n_bytes))
        return 0;
    copy = gr_malloc(n_bytes);
    GR_BUG_IF(!copy);
    memcpy(copy, data, n_bytes);
    mend_checksums(copy, n_bytes);
    decode(copy, n_bytes);
    gr_free(copy);
    return 0;
}
