/* Steps that only move pixels: padding and flips. */
#include "data/augment/augment_impl.h"

#include <string.h>

static void fill_pixels(uint8_t *dst, int64_t n, int channels, const uint8_t *fill)
{
    bool equal = true;

    for (int c = 1; c < channels; c++)
        equal = equal && fill[c] == fill[0];
    if (equal) {
        memset(dst, fill[0], (size_t)(n * channels));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(dst + i * channels, fill, (size_t)channels);
}

void gr_augment_pad(const gr_augment_step *t, const gr_part *src, const gr_part *dst,
                    const uint8_t *fill)
{
    int channels = src->channels;

    for (int y = dst->at.y; y < dst->at.y + dst->at.h; y++) {
        uint8_t *out = gr_part_at(dst, y, dst->at.x);
        int from_y = y + t->off_y;
        int64_t left = -((int64_t)dst->at.x + t->off_x), end = left + t->in_w;

        /* Columns [left, end) of the row exist in the input. */
        left = left < 0 ? 0 : left > dst->at.w ? dst->at.w : left;
        end = end > dst->at.w ? dst->at.w : end < left ? left : end;
        if (from_y < 0 || from_y >= t->in_h)
            left = end = 0;
        fill_pixels(out, left, channels, fill);
        fill_pixels(out + end * channels, dst->at.w - end, channels, fill);
        if (end > left)
            memcpy(out + left * channels,
                   gr_part_at(src, from_y, (int)(dst->at.x + left) + t->off_x),
                   (size_t)((end - left) * channels));
    }
}

static void mirror_row(uint8_t *dst, const uint8_t *src, int n, int channels)
{
    src += (int64_t)(n - 1) * channels;
    if (channels == 3) { /* spelt out: copies of a size that is not known are calls */
        for (int i = 0; i < n; i++, dst += 3, src -= 3) {
            dst[0] = src[0];
            dst[1] = src[1];
            dst[2] = src[2];
        }
        return;
    }
    for (int i = 0; i < n; i++, src -= channels)
        for (int c = 0; c < channels; c++)
            *dst++ = src[c];
}

void gr_augment_flip(const gr_augment_step *t, const gr_part *src, const gr_part *dst)
{
    gr_area a = dst->at;

    for (int y = a.y; y < a.y + a.h; y++) {
        uint8_t *out = gr_part_at(dst, y, a.x);

        if (t->kind == GR_AUG_VFLIP)
            memcpy(out, gr_part_at(src, t->in_h - 1 - y, a.x), (size_t)a.w * (size_t)src->channels);
        else
            mirror_row(out, gr_part_at(src, y, t->in_w - a.x - a.w), a.w, src->channels);
    }
}
