/*
 * The loops of rows.h, compiled by each file that includes this. Before, the file defines ROWS,
 * the name of its table, and what three channels are worked on with:
 *
 *     mix_taps(dst, src, k, n)   one pixel from n neighbours with weights k
 *     mix_four(dst, up, low, fx, fy)   one pixel from two pairs of neighbours
 *
 * These may write one byte behind a pixel, which the next pixel overwrites, and read up to
 * SLACK pixels behind the last neighbour. The last pixels of a row are done without them.
 */
#include <string.h>

static inline uint8_t clip(int32_t v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* ---- resize ---- */

static void across_plain(uint8_t *dst, const uint8_t *src, int from, int n, int channels,
                         const gr_taps *t)
{
    for (int x = from; x < n; x++) {
        const int32_t *k = t->weight + (int64_t)x * t->stride;
        const uint8_t *s = src + (int64_t)t->first[x] * channels;

        for (int c = 0; c < channels; c++) {
            int32_t sum = 1 << (GR_TAP_BITS - 1);

            for (int j = 0; j < t->n[x]; j++)
                sum += k[j] * s[j * channels + c];
            dst[(int64_t)x * channels + c] = clip(sum >> GR_TAP_BITS);
        }
    }
}

static void across_3(uint8_t *restrict dst, const uint8_t *restrict src, int n, const gr_taps *t,
                     int n_src)
{
    const int32_t *first = t->first, *count = t->n, *k = t->weight;
    int stride = t->stride, x = 0;

    for (; x < n - 1 && first[x] + count[x] + SLACK <= n_src; x++, k += stride)
        mix_taps(dst + 3 * (int64_t)x, src + 3 * (int64_t)first[x], k, count[x]);
    across_plain(dst, src, x, n, 3, t);
}

static void rows_across(uint8_t *dst, const uint8_t *src, int n, int channels, const gr_taps *t,
                        int n_src)
{
    if (channels == 3)
        across_3(dst, src, n, t, n_src);
    else
        across_plain(dst, src, 0, n, channels, t);
}

static void down_2(uint8_t *restrict dst, const uint8_t *a, const uint8_t *b, int n, int32_t ka,
                   int32_t kb)
{
    for (int i = 0; i < n; i++)
        dst[i] = clip((a[i] * ka + b[i] * kb + (1 << (GR_TAP_BITS - 1))) >> GR_TAP_BITS);
}

static void down_3(uint8_t *restrict dst, const uint8_t *a, int64_t pitch, int n, const int32_t *k)
{
    const uint8_t *b = a + pitch, *c = b + pitch;
    int32_t ka = k[0], kb = k[1], kc = k[2];

    for (int i = 0; i < n; i++)
        dst[i] =
            clip((a[i] * ka + b[i] * kb + c[i] * kc + (1 << (GR_TAP_BITS - 1))) >> GR_TAP_BITS);
}

#define STRIP 512 /* bytes whose sums stay in the first cache */

static void down_any(uint8_t *restrict dst, const uint8_t *src, int64_t pitch, int n,
                     const int32_t *k, int n_taps)
{
    int32_t sum[STRIP];

    for (int i = 0; i < n; i++)
        sum[i] = 1 << (GR_TAP_BITS - 1);
    for (int j = 0; j < n_taps; j++)
        for (int i = 0; i < n; i++)
            sum[i] += k[j] * src[j * pitch + i];
    for (int i = 0; i < n; i++)
        dst[i] = clip(sum[i] >> GR_TAP_BITS);
}

static void rows_down(uint8_t *dst, const uint8_t *src, int n, int64_t pitch, const int32_t *weight,
                      int n_taps)
{
    if (n_taps == 2) {
        down_2(dst, src, src + pitch, n, weight[0], weight[1]);
    } else if (n_taps == 3) {
        down_3(dst, src, pitch, n, weight);
    } else {
        for (int i = 0; i < n; i += STRIP)
            down_any(dst + i, src + i, pitch, n - i < STRIP ? n - i : STRIP, weight, n_taps);
    }
}

/* ---- rotation ---- */

#define MIX_ONE (1 << GR_MIX_BITS)

static inline int32_t fraction(int64_t at)
{
    return (int32_t)((uint64_t)at >> (32 - GR_MIX_BITS)) & (MIX_ONE - 1);
}

static inline int held(int64_t at, int last)
{
    return at < 0 ? 0 : at > last ? last : (int)at;
}

/* Neighbours outside the image are its border pixels. */
static void rotate_one(uint8_t *dst, const gr_walk *w, const gr_plane *p)
{
    int64_t y = w->y >> 32, x = w->x >> 32;
    const uint8_t *up = p->px + held(y, p->last_y) * p->pitch;
    const uint8_t *low = p->px + held(y + 1, p->last_y) * p->pitch;
    int64_t left = (int64_t)held(x, p->last_x) * p->channels;
    int64_t right = (int64_t)held(x + 1, p->last_x) * p->channels;
    int32_t fy = fraction(w->y), fx = fraction(w->x);

    for (int c = 0; c < p->channels; c++) {
        int32_t a = up[left + c] * (MIX_ONE - fx) + up[right + c] * fx;
        int32_t b = low[left + c] * (MIX_ONE - fx) + low[right + c] * fx;

        dst[c] = (uint8_t)((a * (MIX_ONE - fy) + b * fy + (1 << (2 * GR_MIX_BITS - 1))) >>
                           (2 * GR_MIX_BITS));
    }
}

static inline void mix_four_grey(uint8_t *dst, const uint8_t *up, const uint8_t *low, int32_t fx,
                                 int32_t fy)
{
    int32_t a = up[0] * (MIX_ONE - fx) + up[1] * fx, b = low[0] * (MIX_ONE - fx) + low[1] * fx;

    dst[0] = (uint8_t)((a * (MIX_ONE - fy) + b * fy + (1 << (2 * GR_MIX_BITS - 1))) >>
                       (2 * GR_MIX_BITS));
}

static void rows_rotate(uint8_t *dst, int n, gr_walk w, const gr_plane *plane)
{
    const gr_plane p = *plane; /* no store can change it: the loop keeps it in registers */
    uint64_t inner_y = p.last_y > 0 ? (uint64_t)p.last_y : 0;
    uint64_t inner_x = p.last_x > SLACK ? (uint64_t)(p.last_x - SLACK) : 0;

    for (int i = 0; i < n; i++) {
        uint64_t y = (uint64_t)(w.y >> 32), x = (uint64_t)(w.x >> 32);

        bool inside = y < inner_y && x < inner_x && i < n - 1;
        const uint8_t *up = p.px + (int64_t)(inside ? y : 0) * p.pitch;

        if (inside && p.channels == 3)
            mix_four(dst, up + 3 * x, up + p.pitch + 3 * x, fraction(w.x), fraction(w.y));
        else if (inside && p.channels == 1)
            mix_four_grey(dst, up + x, up + p.pitch + x, fraction(w.x), fraction(w.y));
        else
            rotate_one(dst, &w, &p);
        dst += p.channels;
        w.y += w.dy;
        w.x += w.dx;
    }
}

/* ---- blur ---- */

/* `n_taps` is odd and the weights are symmetric: pairs share one multiplication. Called with a
 * number that is known when it is compiled, the inner loop is unrolled. */
static inline void blur_across(uint16_t *restrict dst, const uint8_t *restrict src, int n, int step,
                               const uint32_t *weight, int n_taps)
{
    const uint8_t *last = src + (int64_t)(n_taps - 1) * step;
    int half = n_taps / 2;

    for (int i = 0; i < n; i++) {
        uint32_t sum = (1u << 7) + weight[half] * src[i + half * step];

        for (int j = 0; j < half; j++)
            sum += weight[j] * (uint32_t)(src[i + j * step] + last[i - j * step]);
        dst[i] = (uint16_t)(sum >> 8);
    }
}

static inline void blur_down(uint8_t *restrict dst, const uint16_t *const *src, int n,
                             const uint32_t *weight, int n_taps)
{
    int half = n_taps / 2;

    for (int i = 0; i < n; i++) {
        uint32_t sum = (1u << 23) + weight[half] * src[half][i];

        for (int j = 0; j < half; j++)
            sum += weight[j] * (uint32_t)(src[j][i] + src[n_taps - 1 - j][i]);
        dst[i] = (uint8_t)(sum >> 24);
    }
}

static void rows_blur_across(uint16_t *dst, const uint8_t *src, int n, int step,
                             const uint32_t *weight, int n_taps)
{
    if (n_taps == 3)
        blur_across(dst, src, n, step, weight, 3);
    else if (n_taps == 5)
        blur_across(dst, src, n, step, weight, 5);
    else if (n_taps == 7)
        blur_across(dst, src, n, step, weight, 7);
    else
        blur_across(dst, src, n, step, weight, n_taps);
}

static void rows_blur_down(uint8_t *dst, const uint16_t *const *src, int n, const uint32_t *weight,
                           int n_taps)
{
    if (n_taps == 3)
        blur_down(dst, src, n, weight, 3);
    else if (n_taps == 5)
        blur_down(dst, src, n, weight, 5);
    else if (n_taps == 7)
        blur_down(dst, src, n, weight, 7);
    else
        blur_down(dst, src, n, weight, n_taps);
}

const gr_rows ROWS = {
    .across = rows_across,
    .down = rows_down,
    .rotate = rows_rotate,
    .blur_across = rows_blur_across,
    .blur_down = rows_blur_down,
};
