/*
 * The loops of rows.h, compiled by each file that includes this: ROWS names the table.
 *
 * Four channels are handled as one vector of four numbers; of three, the fourth lane is junk
 * that is not stored. Loads of four bytes stop one pixel before the end of the last row.
 */
#include "data/augment/rows.h"

#include <string.h>

typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef uint8_t u8x4 __attribute__((vector_size(4)));

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

static inline i32x4 load4(const uint8_t *p)
{
    u8x4 v;

    memcpy(&v, p, 4);
    return __builtin_convertvector(v, i32x4);
}

static void across_3(uint8_t *dst, const uint8_t *src, int n, const gr_taps *t, int n_src)
{
    int x = 0;

    /* The last store and the last load would touch a byte behind the row. */
    for (; x < n - 1 && t->first[x] + t->n[x] < n_src; x++) {
        const int32_t *k = t->weight + (int64_t)x * t->stride;
        const uint8_t *s = src + (int64_t)t->first[x] * 3;
        i32x4 sum = { 1 << (GR_TAP_BITS - 1), 1 << (GR_TAP_BITS - 1), 1 << (GR_TAP_BITS - 1), 0 };
        u8x4 out;

        for (int j = 0; j < t->n[x]; j++)
            sum += load4(s + 3 * j) * k[j];
        /* Weights are not negative and add up to 1, so a sum rounds to 255 at most. */
        out = __builtin_convertvector(sum >> GR_TAP_BITS, u8x4);
        memcpy(dst + 3 * (int64_t)x, &out, 4);
    }
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

#define MIX_BITS 11 /* of each of two weights: 8 + 11 + 11 fit in 31 bits */
#define MIX_ONE  (1 << MIX_BITS)

static inline int32_t fraction(int64_t at)
{
    return (int32_t)((uint64_t)at >> (32 - MIX_BITS)) & (MIX_ONE - 1);
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

        dst[c] =
            (uint8_t)((a * (MIX_ONE - fy) + b * fy + (1 << (2 * MIX_BITS - 1))) >> (2 * MIX_BITS));
    }
}

/* Three channels, all four neighbours there and a byte behind each. */
static inline void rotate_inner_3(uint8_t *dst, const gr_walk *w, const gr_plane *p)
{
    const uint8_t *up = p->px + (w->y >> 32) * p->pitch + (w->x >> 32) * 3, *low = up + p->pitch;
    int32_t fy = fraction(w->y), fx = fraction(w->x);
    i32x4 a = load4(up) * (MIX_ONE - fx) + load4(up + 3) * fx;
    i32x4 b = load4(low) * (MIX_ONE - fx) + load4(low + 3) * fx;
    u8x4 out = __builtin_convertvector(
        (a * (MIX_ONE - fy) + b * fy + (1 << (2 * MIX_BITS - 1))) >> (2 * MIX_BITS), u8x4);

    memcpy(dst, &out, 4);
}

static void rows_rotate(uint8_t *dst, int n, gr_walk w, const gr_plane *p)
{
    uint64_t inner_y = p->last_y > 0 ? (uint64_t)p->last_y : 0;
    uint64_t inner_x = p->last_x > 1 ? (uint64_t)p->last_x - 1 : 0;

    for (int i = 0; i < n; i++) {
        bool inside = (uint64_t)(w.y >> 32) < inner_y && (uint64_t)(w.x >> 32) < inner_x;

        if (p->channels == 3 && inside && i < n - 1)
            rotate_inner_3(dst, &w, p);
        else
            rotate_one(dst, &w, p);
        dst += p->channels;
        w.y += w.dy;
        w.x += w.dx;
    }
}

/* ---- blur ---- */

static void rows_blur_across(uint16_t *restrict dst, const uint8_t *restrict src, int n, int step,
                             const uint32_t *weight, int n_taps)
{
    uint32_t sum[STRIP];

    for (int from = 0; from < n; from += STRIP) {
        int m = n - from < STRIP ? n - from : STRIP;

        for (int i = 0; i < m; i++)
            sum[i] = 1u << 7;
        for (int j = 0; j < n_taps; j++) {
            const uint8_t *s = src + from + j * step;
            uint32_t k = weight[j];

            for (int i = 0; i < m; i++)
                sum[i] += k * s[i];
        }
        for (int i = 0; i < m; i++)
            dst[from + i] = (uint16_t)(sum[i] >> 8);
    }
}

static void rows_blur_down(uint8_t *restrict dst, const uint16_t *const *src, int n,
                           const uint32_t *weight, int n_taps)
{
    uint32_t sum[STRIP];

    for (int from = 0; from < n; from += STRIP) {
        int m = n - from < STRIP ? n - from : STRIP;

        for (int i = 0; i < m; i++)
            sum[i] = 1u << 23;
        for (int j = 0; j < n_taps; j++) {
            const uint16_t *s = src[j] + from;
            uint32_t k = weight[j];

            for (int i = 0; i < m; i++)
                sum[i] += k * s[i];
        }
        for (int i = 0; i < m; i++)
            dst[from + i] = (uint8_t)(sum[i] >> 24);
    }
}

const gr_rows ROWS = {
    .across = rows_across,
    .down = rows_down,
    .rotate = rows_rotate,
    .blur_across = rows_blur_across,
    .blur_down = rows_blur_down,
};
