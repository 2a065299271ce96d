/*
 * Resizing, as Pillow does it for 8-bit images: a triangle filter as wide as two pixels of the
 * coarser side; rows first, rounded to 8 bits, then columns. Weights are computed in double
 * and rounded to 22 bits of fraction. A side that keeps its size is left alone.
 */
#include "data/augment/augment_impl.h"

#include "data/augment/rows.h"

#include <math.h>
#include <string.h>

/* The triangle's reach on either side of the centre, in input pixels. */
static double reach(int in, int out)
{
    double scale = (double)in / out;

    return scale > 1 ? scale : 1;
}

static int most_taps(int in, int out)
{
    return (int)ceil(reach(in, out)) * 2 + 1;
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* ---- tables ---- */

typedef struct table {
    int32_t *first, *n, *weight;
    int stride;
} table;

static size_t table_bytes(int in, int out, int count)
{
    return (size_t)count * (size_t)(2 + most_taps(in, out)) * sizeof(int32_t);
}

static table lay_out(void *mem, int in, int out, int count)
{
    table t = { .first = mem, .stride = most_taps(in, out) };

    t.n = t.first + count;
    t.weight = t.n + count;
    return t;
}

static void fill_weights(int32_t *k, int n, double centre, int first, double width)
{
    double sum = 0, shrink = 1 / width;

    for (int j = 0; j < n; j++)
        sum += triangle((j + first - centre + 0.5) * shrink);
    for (int j = 0; j < n; j++)
        k[j] = (int32_t)(0.5 + triangle((j + first - centre + 0.5) * shrink) * (1 / sum) *
                                   (1 << GR_TAP_BITS));
}

/* Output pixels from, from + 1, ... of a side that goes from `in` to `out` pixels. `base` is
 * what their first input pixels are counted from. */
static void fill_table(table *t, int in, int out, int from, int count, int base)
{
    double scale = (double)in / out, width = reach(in, out);

    for (int i = 0; i < count; i++) {
        double centre = (from + i + 0.5) * scale;
        int lo = (int)(centre - width + 0.5), hi = (int)(centre + width + 0.5);

        lo = centre - width + 0.5 < 0 ? 0 : lo;
        hi = hi > in ? in : hi;
        t->first[i] = lo - base;
        t->n[i] = hi - lo;
        fill_weights(t->weight + (size_t)i * (size_t)t->stride, hi - lo, centre, lo, width);
    }
}

/* ---- areas ---- */

static void side_need(int *first, int *count, int in, int out, int from, int n)
{
    double scale = (double)in / out, width = reach(in, out) + 1;

    gr_area_clip(first, count, (int64_t)floor((from + 0.5) * scale - width),
                 (int64_t)ceil((from + n - 0.5) * scale + width), in);
}

gr_area gr_augment_resize_need(const gr_augment_step *t, gr_area out)
{
    gr_area a;

    side_need(&a.y, &a.h, t->in_h, t->out_h, out.y, out.h);
    side_need(&a.x, &a.w, t->in_w, t->out_w, out.x, out.w);
    return a;
}

/* ---- two passes ---- */

/* Rows of `src` that columns will need, each as wide as `dst`. */
static gr_status pass_across(const gr_augment_step *t, const gr_part *src, const gr_part *dst,
                             gr_part *mid, gr_augment_scratch *s)
{
    const gr_rows *rows = gr_rows_best();
    int n = dst->at.w, base = src->at.x;
    table w;
    gr_taps taps;
    void *mem = gr_augment_room(s, table_bytes(t->in_w, t->out_w, n));

    if (!mem)
        return GR_ERR_NOMEM;
    GR_TRY(gr_image_reserve(&s->rows, mid->at.h, mid->at.w, src->channels));
    mid->px = s->rows.px;
    mid->pitch = (int64_t)mid->at.w * mid->channels;
    w = lay_out(mem, t->in_w, t->out_w, n);
    fill_table(&w, t->in_w, t->out_w, dst->at.x, n, base);
    taps = (gr_taps){ w.first, w.n, w.weight, w.stride };
    for (int y = mid->at.y; y < mid->at.y + mid->at.h; y++)
        rows->across(gr_part_at(mid, y, mid->at.x), gr_part_at(src, y, base), n, src->channels,
                     &taps, src->at.w);
    return GR_OK;
}

static gr_status pass_down(const gr_augment_step *t, const gr_part *src, const gr_part *dst,
                           gr_augment_scratch *s)
{
    const gr_rows *rows = gr_rows_best();
    int n_bytes = dst->at.w * dst->channels;
    table w;
    void *mem = gr_augment_room(s, table_bytes(t->in_h, t->out_h, dst->at.h));

    if (!mem)
        return GR_ERR_NOMEM;
    w = lay_out(mem, t->in_h, t->out_h, dst->at.h);
    fill_table(&w, t->in_h, t->out_h, dst->at.y, dst->at.h, 0);
    for (int i = 0; i < dst->at.h; i++)
        rows->down(gr_part_at(dst, dst->at.y + i, dst->at.x),
                   gr_part_at(src, w.first[i], dst->at.x), n_bytes, src->pitch,
                   w.weight + (size_t)i * (size_t)w.stride, w.n[i]);
    return GR_OK;
}

static void copy_rows(const gr_part *src, const gr_part *dst)
{
    for (int y = dst->at.y; y < dst->at.y + dst->at.h; y++)
        memcpy(gr_part_at(dst, y, dst->at.x), gr_part_at(src, y, dst->at.x),
               (size_t)dst->at.w * (size_t)dst->channels);
}

gr_status gr_augment_resize(const gr_augment_step *t, const gr_part *src, const gr_part *dst,
                            gr_augment_scratch *s)
{
    gr_area need = gr_augment_resize_need(t, dst->at);
    gr_part mid = { .at = { need.y, dst->at.x, need.h, dst->at.w }, .channels = src->channels };

    if (t->in_h == t->out_h)
        mid.at = dst->at;
    if (t->in_w != t->out_w)
        GR_TRY(pass_across(t, src, dst, &mid, s));
    else
        mid = *src;
    if (t->in_h != t->out_h)
        return pass_down(t, &mid, dst, s);
    copy_rows(&mid, dst);
    return GR_OK;
}

/* ---- nearest ---- */

static int nearest(int in, int out, int i)
{
    int at = (int)((i + 0.5) * ((double)in / out));

    return at < in ? at : in - 1;
}

static void pick_row(uint8_t *restrict dst, const uint8_t *restrict src, const int32_t *from, int n,
                     int channels)
{
    if (channels == 1) {
        for (int x = 0; x < n; x++)
            dst[x] = src[from[x]];
        return;
    }
    for (int x = 0; x < n; x++)
        for (int c = 0; c < channels; c++)
            *dst++ = src[from[x] * channels + c];
}

gr_status gr_augment_resize_nearest(const gr_augment_step *t, const gr_part *src,
                                    const gr_part *dst, gr_augment_scratch *s)
{
    gr_area a = dst->at;
    size_t row = (size_t)a.w * (size_t)dst->channels;
    int32_t *from = gr_augment_room(s, (size_t)a.w * sizeof(*from));
    int before = -1; /* the input row of the output row before */

    if (!from)
        return GR_ERR_NOMEM;
    for (int x = 0; x < a.w; x++)
        from[x] = nearest(t->in_w, t->out_w, a.x + x) - src->at.x;
    for (int y = a.y; y < a.y + a.h; y++) {
        int from_y = nearest(t->in_h, t->out_h, y);
        uint8_t *out = gr_part_at(dst, y, a.x);

        if (from_y == before)
            memcpy(out, out - dst->pitch, row);
        else
            pick_row(out, gr_part_at(src, from_y, src->at.x), from, a.w, dst->channels);
        before = from_y;
    }
    return GR_OK;
}
