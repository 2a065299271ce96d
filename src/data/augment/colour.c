/*
 * Steps that change colours in place: jitter and inversion. Formulas and roundings are those of
 * torchvision for 8-bit tensors: mixtures in single precision, cut to 0..255 and rounded down.
 */
#include "data/augment/augment_impl.h"

static uint8_t cut(float v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static uint8_t mixed(float ratio, float a, float b)
{
    return cut(ratio * a + (1 - ratio) * b);
}

static uint8_t gray(const uint8_t *p)
{
    return (uint8_t)(0.2989f * (float)p[0] + 0.587f * (float)p[1] + 0.114f * (float)p[2]);
}

/* The colours of a pixel: alpha is not one. */
static int colours(const gr_part *img)
{
    return img->channels >= 3 ? 3 : 1;
}

static void look_up(gr_part *img, const uint8_t *table)
{
    int n = colours(img);

    for (int y = 0; y < img->at.h; y++) {
        uint8_t *p = img->px + y * img->pitch;

        if (n == img->channels) {
            for (int i = 0; i < img->at.w * n; i++)
                p[i] = table[p[i]];
            continue;
        }
        for (int x = 0; x < img->at.w; x++, p += img->channels)
            for (int c = 0; c < n; c++)
                p[c] = table[p[c]];
    }
}

static void mix_with(gr_part *img, float ratio, float other)
{
    uint8_t table[256];

    for (int i = 0; i < 256; i++)
        table[i] = mixed(ratio, (float)i, other);
    look_up(img, table);
}

static float mean_gray(const gr_part *img)
{
    double sum = 0;

    for (int y = 0; y < img->at.h; y++) {
        const uint8_t *p = img->px + y * img->pitch;
        int64_t row = 0;

        for (int x = 0; x < img->at.w; x++, p += img->channels)
            row += colours(img) == 3 ? gray(p) : p[0];
        sum += (double)row;
    }
    return (float)(sum / ((double)img->at.h * img->at.w));
}

static void saturate(gr_part *img, float ratio)
{
    for (int y = 0; y < img->at.h; y++) {
        uint8_t *p = img->px + y * img->pitch;

        for (int x = 0; x < img->at.w; x++, p += img->channels) {
            float g = gray(p);

            for (int c = 0; c < 3; c++)
                p[c] = mixed(ratio, p[c], g);
        }
    }
}

/* ---- hue ---- */

/* Comparisons and casts instead of fminf(), floorf() and fmodf(): those are calls. */
static float largest(const float *v)
{
    float m = v[0] > v[1] ? v[0] : v[1];

    return m > v[2] ? m : v[2];
}

static float smallest(const float *v)
{
    float m = v[0] < v[1] ? v[0] : v[1];

    return m < v[2] ? m : v[2];
}

static float in_unit(float v)
{
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

/* Hue of a colour in [0, 1); `hi` is its largest part, `span` what the others differ by. */
static float hue_of(const float *v, float hi, float span)
{
    float r, g, b, h;

    if (span == 0)
        return 0;
    r = (hi - v[0]) / span;
    g = (hi - v[1]) / span;
    b = (hi - v[2]) / span;
    if (v[0] == hi)
        h = b - g;
    else
        h = v[1] == hi ? 2 + r - b : 4 + g - r;
    h = h / 6 + 1; /* above 0 */
    return h - (float)(int)h;
}

static void from_hsv(float *v, float h, float s, float hi)
{
    int i = (int)(h * 6); /* h is not negative */
    float f = h * 6 - (float)i;
    float p = in_unit(hi * (1 - s)), q = in_unit(hi * (1 - s * f));
    float t = in_unit(hi * (1 - s * (1 - f)));
    const float parts[6][3] = { { hi, t, p }, { q, hi, p }, { p, hi, t },
                                { p, q, hi }, { t, p, hi }, { hi, p, q } };
    int sector = i % 6;

    for (int c = 0; c < 3; c++)
        v[c] = parts[sector][c];
}

static void shift_hue(gr_part *img, float by)
{
    for (int y = 0; y < img->at.h; y++) {
        uint8_t *px = img->px + y * img->pitch;

        for (int x = 0; x < img->at.w; x++, px += img->channels) {
            float v[3] = { px[0] / 255.0f, px[1] / 255.0f, px[2] / 255.0f };
            float hi = largest(v), span = hi - smallest(v);
            float h = hue_of(v, hi, span) + by;

            h = h < 0 ? h + 1 : h >= 1 ? h - 1 : h; /* `by` is within half a turn */
            from_hsv(v, h, hi > 0 ? span / hi : 0, hi);
            for (int c = 0; c < 3; c++)
                px[c] = cut(v[c] * 255.999f);
        }
    }
}

static void jitter_one(const gr_augment_step *t, gr_part *img, int what)
{
    float v = (float)t->v[what];

    if (t->op->v[what] == 0 || (what >= 2 && colours(img) < 3))
        return; /* grey has neither saturation nor hue */
    if (what == 0)
        mix_with(img, v, 0);
    else if (what == 1)
        mix_with(img, v, mean_gray(img));
    else if (what == 2)
        saturate(img, v);
    else
        shift_hue(img, v);
}

void gr_augment_colour(const gr_augment_step *t, gr_part *img)
{
    uint8_t table[256];

    for (int i = 0; t->kind == GR_AUG_JITTER && i < 4; i++)
        jitter_one(t, img, t->order[i]);
    if (t->kind != GR_AUG_INVERT)
        return;
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(255 - i);
    look_up(img, table);
}
