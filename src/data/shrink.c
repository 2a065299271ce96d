/*
 * Resizing in two passes, columns first. Weights are whole numbers of 22 bits, so the result does
 * not depend on the machine. Pillow computes the same, which the golden files hold.
 */
#include "data/shrink.h"

#include "base/alloc.h"

#include <math.h>

#define BITS 22

typedef struct weights {
    int *first, *n; /* where each sample's inputs begin, and how many there are */
    int32_t *w;     /* `most` for each sample */
    int most;
    void *mem; /* owned: all of the above */
} weights;

/* Fills one sample's row of weights: a triangle around its middle, its sum is 1. */
static void fill_row(weights *t, int i, double scale, int n_in)
{
    double wide = scale < 1 ? 1 : scale, middle = (i + 0.5) * scale, sum = 0;
    int lo = (int)(middle - wide + 0.5), hi = (int)(middle + wide + 0.5);
    int32_t *w = t->w + (size_t)i * (size_t)t->most;

    lo = lo < 0 ? 0 : lo;
    hi = hi > n_in ? n_in : hi;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < hi - lo; k++) {
            double x = fabs((k + lo - middle + 0.5) * (1.0 / wide)), v = x < 1 ? 1 - x : 0;

            if (pass == 0)
                sum += v;
            else
                w[k] = (int32_t)(0.5 + (sum != 0 ? v / sum : v) * (1 << BITS));
        }
    t->first[i] = lo;
    t->n[i] = hi - lo;
}

static gr_status make_weights(weights *t, int n_in, int n_out)
{
    double scale = (double)n_in / n_out, wide = scale < 1 ? 1 : scale;

    t->most = (int)ceil(wide) * 2 + 1;
    t->mem = gr_calloc((size_t)n_out * ((size_t)t->most + 2), sizeof(int32_t));
    if (!t->mem)
        return GR_ERR_NOMEM;
    t->first = (int *)t->mem;
    t->n = t->first + n_out;
    t->w = t->n + n_out;
    for (int i = 0; i < n_out; i++)
        fill_row(t, i, scale, n_in);
    return GR_OK;
}

static uint8_t clipped(int32_t sum)
{
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* out[i] of n_out * c values from in[], whose samples are `step` values apart. */
static void weigh(uint8_t *out, const uint8_t *in, const weights *t, int i, size_t step, int n)
{
    const int32_t *w = t->w + (size_t)i * (size_t)t->most;
    const uint8_t *from = in + (size_t)t->first[i] * step;

    for (int c = 0; c < n; c++) {
        int32_t sum = 1 << (BITS - 1);

        for (int k = 0; k < t->n[i]; k++)
            sum += w[k] * from[(size_t)k * step + (size_t)c];
        out[c] = clipped(sum);
    }
}

static gr_status shrink(gr_image *out, const gr_image *in, gr_image *tmp, weights *across,
                        weights *down)
{
    size_t c = (size_t)in->channels, from = (size_t)in->width * c, to = (size_t)out->width * c;

    GR_TRY(make_weights(across, in->width, out->width));
    GR_TRY(make_weights(down, in->height, out->height));
    GR_TRY(gr_image_reserve(tmp, in->height, out->width, in->channels));
    for (int y = 0; y < in->height; y++)
        for (int x = 0; x < out->width; x++)
            weigh(tmp->px + (size_t)y * to + (size_t)x * c, in->px + (size_t)y * from, across, x, c,
                  in->channels);
    for (int y = 0; y < out->height; y++)
        weigh(out->px + (size_t)y * to, tmp->px, down, y, to, (int)to);
    return GR_OK;
}

gr_status gr_image_shrink(gr_image *out, const gr_image *in, int height, int width, gr_image *tmp)
{
    weights across = { 0 }, down = { 0 };
    gr_status st = gr_image_reserve(out, height, width, in->channels);

    if (st == GR_OK)
        st = shrink(out, in, tmp, &across, &down);
    gr_free(across.mem);
    gr_free(down.mem);
    return st;
}

gr_status gr_image_pick(gr_image *out, const gr_image *in, int height, int width)
{
    double sx = (double)in->width / width, sy = (double)in->height / height;
    size_t c = (size_t)in->channels;

    GR_TRY(gr_image_reserve(out, height, width, in->channels));
    for (int y = 0; y < height; y++) {
        const uint8_t *row = in->px + (size_t)((y + 0.5) * sy) * (size_t)in->width * c;
        uint8_t *to = out->px + (size_t)y * (size_t)width * c;

        for (int x = 0; x < width; x++)
            for (size_t k = 0; k < c; k++)
                to[(size_t)x * c + k] = row[(size_t)((x + 0.5) * sx) * c + k];
    }
    return GR_OK;
}
