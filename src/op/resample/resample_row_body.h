/*
 * One row of a resampled image by vectors: first the rows of the source, whose elements
 * are neighbours whatever the channels, then the columns of their sum; or both at once,
 * where that is less work. Included once per instruction set.
 */
#include "gradus/tensor.h"

/* The elements [at, at + LANES) of the sum of rows. */
INLINE vec sum_rows(const gr_resample_row *r, int64_t at, mask m, gr_dtype t)
{
    const size_t bytes = t == GR_F32 ? 4 : 2;
    const int64_t row = r->width * r->channels;
    vec y = vec_set(0);

    for (int64_t i = 0; i < r->n_rows; i++) {
        const char *p = (const char *)r->src + (size_t)(r->row[i].at * row + at) * bytes;

        y = vec_fma(vec_set(r->row[i].w), vec_widen_masked(p, t, m), y);
    }
    return y;
}

INLINE void rows_pass(const gr_resample_row *r, gr_dtype t)
{
    const int64_t n = r->width * r->channels;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        vec_store(r->sum + i, sum_rows(r, i, MASK_ALL, t));
    if (i < n)
        vec_store_masked(r->sum + i, mask_of(n - i), sum_rows(r, i, mask_of(n - i), t));
}

/* A stretch of channels of one pixel. */
INLINE void sum_cols(const gr_resample_row *r, int64_t col, int64_t c, mask m, gr_dtype t)
{
    const size_t bytes = t == GR_F32 ? 4 : 2;
    const gr_tap *tap = r->cols->tap + r->cols->first[col];
    const gr_tap *end = r->cols->tap + r->cols->first[col + 1];
    vec y = vec_set(0);

    for (; tap < end; tap++)
        y = vec_fma(vec_set(tap->w), vec_load_masked(r->sum + tap->at * r->channels + c, m), y);
    vec_narrow_masked((char *)r->out + (size_t)(col * r->channels + c) * bytes, t, m, y);
}

INLINE void cols_pass(const gr_resample_row *r, gr_dtype t)
{
    for (int64_t col = 0; col < r->cols->n; col++) {
        int64_t c = 0;

        for (; c + LANES <= r->channels; c += LANES)
            sum_cols(r, col, c, MASK_ALL, t);
        if (c < r->channels)
            sum_cols(r, col, c, mask_of(r->channels - c), t);
    }
}

/* Rows and columns at once. */
INLINE void sum_both(const gr_resample_row *r, int64_t col, int64_t c, mask m, gr_dtype t)
{
    const size_t bytes = t == GR_F32 ? 4 : 2;
    const gr_tap *first = r->cols->tap + r->cols->first[col];
    const gr_tap *end = r->cols->tap + r->cols->first[col + 1];
    vec y = vec_set(0);

    for (int64_t i = 0; i < r->n_rows; i++)
        for (const gr_tap *tap = first; tap < end; tap++) {
            const int64_t at = (r->row[i].at * r->width + tap->at) * r->channels + c;

            y = vec_fma(vec_set(r->row[i].w * tap->w),
                        vec_widen_masked((const char *)r->src + (size_t)at * bytes, t, m), y);
        }
    vec_narrow_masked((char *)r->out + (size_t)(col * r->channels + c) * bytes, t, m, y);
}

INLINE void both_pass(const gr_resample_row *r, gr_dtype t)
{
    for (int64_t col = 0; col < r->cols->n; col++) {
        int64_t c = 0;

        for (; c + LANES <= r->channels; c += LANES)
            sum_both(r, col, c, MASK_ALL, t);
        if (c < r->channels)
            sum_both(r, col, c, mask_of(r->channels - c), t);
    }
}

/* Additions per channel: rows times taps at once, else rows times columns, and taps. */
INLINE void passes(const gr_resample_row *r, gr_dtype t)
{
    const int64_t n_taps = r->cols->first[r->cols->n];

    if (r->n_rows * n_taps <= r->n_rows * r->width + n_taps) {
        both_pass(r, t);
        return;
    }
    rows_pass(r, t);
    cols_pass(r, t);
}

/* The type is a constant in each call, so that no loop asks for it. */
static void resample_row(const gr_resample_row *r)
{
    if (r->type == GR_F32)
        passes(r, GR_F32);
    else if (r->type == GR_BF16)
        passes(r, GR_BF16);
    else
        passes(r, GR_F16);
}
