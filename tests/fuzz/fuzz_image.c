/*
 * The decoders of images on arbitrary bytes, in every way to decode. They must not crash nor take
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

static void decode(const uint8_t *data, size_t n_bytes)
{
    gr_image img = GR_IMAGE_INIT;

    for (int as = GR_IMAGE_STORED; as <= GR_IMAGE_LABELS; as++)
        for (int least = 0; least <= 8; least += 8) {
            gr_decode how = { .as = (gr_image_as)as, .min_height = least, .min_width = least };
            gr_status st = gr_image_decode(&img, data, n_bytes, &how);
            unsigned sum = 0;

            GR_BUG_IF(st != GR_OK && gr_error_message()[0] == '\0');
            if (st != GR_OK)
                continue;
            GR_BUG_IF(as == GR_IMAGE_RGB && img.channels != 3);
            GR_BUG_IF((as == GR_IMAGE_GRAY || as == GR_IMAGE_LABELS) && img.channels != 1);
            for (int i = 0; i < img.height * img.width * img.channels; i++)
                sum += img.px[i]; /* a sanitizer sees what is not there */
            GR_BUG_IF(sum > 255u * (unsigned)(img.height * img.width * img.channels));
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
