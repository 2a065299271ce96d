/*
 * Rotation about the middle, as Pillow does it: output pixel (x, y) has its centre at
 *
 *     u = cos (x + 1/2 - w/2) - sin (y + 1/2 - h/2) + w/2
 *     v = sin (x + 1/2 - w/2) + cos (y + 1/2 - h/2) + h/2
 *
 * of the source (an angle counts counter-clockwise, and y points down). It is filled when (u, v)
 * is outside; else the image mixes the four pixels around it, and a mask takes the one it is in.
 */
#include "data/augment/augment_impl.h"

#include "data/augment/rows.h"

#include <math.h>
#include <string.h>

#define PI  3.14159265358979323846
#define ONE 4294967296.0 /* 2^32: places are in 1/2^32 pixels, so a row drifts by nothing */

typedef struct turn {
    double cos, sin, mid_y, mid_x;
} turn;

static turn turn_of(const gr_augment_step *t)
{
    double angle = t->v[0] * PI / 180;

    return (turn){ cos(angle), sin(angle), t->in_h / 2.0, t->in_w / 2.0 };
}

static double source_x(const turn *r, double y, double x)
{
    return r->cos * (x + 0.5 - r->mid_x) - r->sin * (y + 0.5 - r->mid_y) + r->mid_x;
}

static double source_y(const turn *r, double y, double x)
{
    return r->sin * (x + 0.5 - r->mid_x) + r->cos * (y + 0.5 - r->mid_y) + r->mid_y;
}

gr_area gr_augment_rotate_need(const gr_augment_step *t, gr_area out)
{
    turn r = turn_of(t);
    double lo_y = HUGE_VAL, hi_y = -HUGE_VAL, lo_x = HUGE_VAL, hi_x = -HUGE_VAL;
    gr_area a;

    for (int i = 0; i < 4; i++) {
        double y = out.y + (i & 1 ? out.h - 1 : 0), x = out.x + (i & 2 ? out.w - 1 : 0);
        double sy = source_y(&r, y, x), sx = source_x(&r, y, x);

        lo_y = fmin(lo_y, sy);
        hi_y = fmax(hi_y, sy);
        lo_x = fmin(lo_x, sx);
        hi_x = fmax(hi_x, sx);
    }
    gr_area_clip(&a.y, &a.h, (int64_t)floor(lo_y) - 2, (int64_t)ceil(hi_y) + 3, t->in_h);
    gr_area_clip(&a.x, &a.w, (int64_t)floor(lo_x) - 2, (int64_t)ceil(hi_x) + 3, t->in_w);
    return a;
}

/* ---- rows ---- */

/* The walk along output row y: where the centre of its pixel `x` lies. */
static gr_walk walk_of(const turn *r, int y, int x)
{
    return (gr_walk){ .y = (int64_t)floor(source_y(r, y, x) * ONE),
                      .x = (int64_t)floor(source_x(r, y, x) * ONE),
                      .dy = (int64_t)floor(r->sin * ONE + 0.5),
                      .dx = (int64_t)floor(r->cos * ONE + 0.5) };
}

/* Steps of `at += d` from the first to behind the last that are in [0, size). */
static void steps_inside(int64_t at, int64_t d, int size, int *from, int *to)
{
    int64_t end = (int64_t)size << 32;
    int64_t a, b; /* first step inside, first step outside again */

    if (d == 0) {
        if (at < 0 || at >= end)
            *to = *from;
        return;
    }
    if (d > 0) {
        a = at >= 0 ? 0 : (-at + d - 1) / d;
        b = at >= end ? 0 : (end - at + d - 1) / d;
    } else {
        a = at < end ? 0 : (at - end) / -d + 1;
        b = at < 0 ? 0 : at / -d + 1;
    }
    *from = a > *from ? (int)(a < *to ? a : *to) : *from;
    *to = b < *to ? (int)(b > *from ? b : *from) : *to;
}

static void fill_pixels(uint8_t *dst, int n, int channels, const uint8_t *fill)
{
    for (int i = 0; i < n; i++)
        memcpy(dst + (size_t)i * (size_t)channels, fill, (size_t)channels);
}

/* Fills what is outside; returns how many pixels are not, from *first on. */
static int fill_outside(const gr_augment_step *t, const gr_walk *w, uint8_t *dst, int n,
                        int channels, const uint8_t *fill, int *first)
{
    int from = 0, to = n;

    steps_inside(w->y, w->dy, t->in_h, &from, &to);
    steps_inside(w->x, w->dx, t->in_w, &from, &to);
    fill_pixels(dst, from, channels, fill);
    fill_pixels(dst + (size_t)to * (size_t)channels, n - to, channels, fill);
    *first = from;
    return to - from;
}

static void go(gr_walk *w, int64_t n)
{
    w->y += n * w->dy;
    w->x += n * w->dx;
}

void gr_augment_rotate(const gr_augment_step *t, const gr_part *src, const gr_part *dst)
{
    const gr_rows *rows = gr_rows_best();
    turn r = turn_of(t);
    gr_plane p = { .px = src->px, .channels = src->channels };
    int64_t half = (int64_t)1 << 31;

    /* The plane is what there is of the source; walks are counted from its corner. Only where
     * it ends with the image itself can a walk want a pixel behind its last. */
    p.pitch = src->pitch;
    p.last_y = src->at.h - 1;
    p.last_x = src->at.w - 1;
    for (int y = dst->at.y; y < dst->at.y + dst->at.h; y++) {
        gr_walk w = walk_of(&r, y, dst->at.x);
        uint8_t *out = gr_part_at(dst, y, dst->at.x);
        int first, n = fill_outside(t, &w, out, dst->at.w, p.channels, t->op->fill, &first);

        go(&w, first);
        w.y -= half + ((int64_t)src->at.y << 32);
        w.x -= half + ((int64_t)src->at.x << 32);
        rows->rotate(out + (size_t)first * (size_t)p.channels, n, w, &p);
    }
}

static void pick_along(uint8_t *restrict dst, int n, gr_walk w, const gr_part *src)
{
    const uint8_t *px = src->px;
    int64_t pitch = src->pitch;
    int channels = src->channels;

    w.y -= (int64_t)src->at.y << 32;
    w.x -= (int64_t)src->at.x << 32;
    for (int i = 0; i < n; i++, go(&w, 1)) {
        const uint8_t *p = px + (w.y >> 32) * pitch + (w.x >> 32) * channels;

        for (int c = 0; c < channels; c++)
            *dst++ = p[c];
    }
}

void gr_augment_rotate_nearest(const gr_augment_step *t, const gr_part *src, const gr_part *dst)
{
    turn r = turn_of(t);
    uint8_t fill[4];

    memset(fill, t->op->mask_fill, sizeof(fill));
    for (int y = dst->at.y; y < dst->at.y + dst->at.h; y++) {
        gr_walk w = walk_of(&r, y, dst->at.x);
        uint8_t *out = gr_part_at(dst, y, dst->at.x);
        int first, n = fill_outside(t, &w, out, dst->at.w, src->channels, fill, &first);

        go(&w, first);
        pick_along(out + (size_t)first * (size_t)src->channels, n, w, src);
    }
}
