/*
 * Gaussian blur: k x k pixels, the image mirrored at its border without repeating the border
 * pixel, as torchvision and OpenCV do. Across rows first, keeping 8 bits of fraction; the
 * weights have 16 bits and add up to one exactly, so an even area stays what it is.
 */
#include "data/augment/augment_impl.h"

#include "base/size.h"
#include "data/augment/rows.h"

#include <math.h>
#include <string.h>

#define ONE      65536
#define MAX_TAPS GR_AUGMENT_MAX_KERNEL

typedef struct blur {
    int k, r; /* taps, and how far they reach */
    uint32_t weight[MAX_TAPS];
    gr_area need;   /* rows and columns around the result, mirrored where they do not exist */
    uint8_t *line;  /* one row with its mirrored ends */
    uint16_t *ring; /* k blurred rows; row y lies at y mod k */
} blur;

static void set_weights(blur *b, double sigma)
{
    double sum = 0, w[MAX_TAPS] = { 0 };
    uint32_t total = 0;

    for (int i = 0; i < b->k; i++) {
        double x = (i - b->r) / sigma;

        w[i] = exp(-0.5 * x * x);
        sum += w[i];
    }
    for (int i = 0; i < b->k; i++) {
        b->weight[i] = (uint32_t)(w[i] / sum * ONE + 0.5);
        total += b->weight[i];
    }
    b->weight[b->r] += ONE - total; /* unsigned: wraps back when the rest is negative */
}

/* Place i of a side with n pixels, mirrored until it exists. */
static int mirrored(int i, int n)
{
    if (n == 1)
        return 0;
    while (i < 0 || i >= n)
        i = i < 0 ? -i : 2 * (n - 1) - i;
    return i;
}

static void fill_line(const blur *b, const gr_augment_step *t, const gr_part *src, int y)
{
    int channels = src->channels, lo = b->need.x, hi = b->need.x + b->need.w;
    int from = lo < 0 ? 0 : lo, to = hi > t->in_w ? t->in_w : hi;

    for (int x = lo; x < hi; x++) {
        if (x == from && to > from) { /* what exists goes in one piece */
            memcpy(b->line + (size_t)(x - lo) * (size_t)channels, gr_part_at(src, y, from),
                   (size_t)(to - from) * (size_t)channels);
            x = to - 1;
            continue;
        }
        memcpy(b->line + (size_t)(x - lo) * (size_t)channels,
               gr_part_at(src, y, mirrored(x, t->in_w)), (size_t)channels);
    }
}

static gr_status make_room(blur *b, int row, int channels, gr_augment_scratch *s)
{
    size_t line = gr_round_up((size_t)b->need.w * (size_t)channels, 64);
    size_t ring = (size_t)b->k * (size_t)row * sizeof(uint16_t);
    char *mem = gr_augment_room(s, line + ring);

    if (!mem)
        return GR_ERR_NOMEM;
    b->line = (uint8_t *)mem;
    b->ring = (uint16_t *)(void *)(mem + line);
    return GR_OK;
}

static uint16_t *ring_row(const blur *b, int y, int row)
{
    int at = (y - b->need.y) % b->k;

    return b->ring + (size_t)at * (size_t)row;
}

gr_status gr_augment_blur(const gr_augment_step *t, const gr_part *src, const gr_part *dst,
                          gr_augment_scratch *s)
{
    const gr_rows *rows = gr_rows_best();
    int row = dst->at.w * dst->channels;
    blur b = { .k = (int)t->op->v[0] };

    b.r = b.k / 2;
    b.need =
        (gr_area){ dst->at.y - b.r, dst->at.x - b.r, dst->at.h + 2 * b.r, dst->at.w + 2 * b.r };
    set_weights(&b, t->v[0]);
    GR_TRY(make_room(&b, row, src->channels, s));
    for (int y = b.need.y; y < b.need.y + b.need.h; y++) {
        const uint16_t *window[MAX_TAPS];

        fill_line(&b, t, src, mirrored(y, t->in_h));
        rows->blur_across(ring_row(&b, y, row), b.line, row, src->channels, b.weight, b.k);
        if (y < dst->at.y + b.r)
            continue;
        for (int j = 0; j < b.k; j++)
            window[j] = ring_row(&b, y - 2 * b.r + j, row);
        rows->blur_down(gr_part_at(dst, y - b.r, dst->at.x), window, row, b.weight, b.k);
    }
    return GR_OK;
}
