/*
 * Max pooling of one row of results, over channels by vectors: included once per
 * instruction set, which brings `vec` and
 *   codes_of(p, m)          lanes of u8 numbers at p as codes
 *   codes_put(p, m, i)      the reverse
 *   codes_is(i, code)       mask of lanes equal to code
 *   codes_keep(m, code, i)  code where m, else i
 *   beats(x, best)          mask of lanes where x is greater, or NaN
 */
#include "gradus/tensor.h"

/* A stretch of channels of one pixel of results. */
INLINE void max_span(const gr_pool_row *r, int64_t col, int64_t c, mask m, gr_dtype t)
{
    const size_t bytes = t == GR_F32 ? 4 : 2;
    const gr_tap *from = r->cols->tap + r->cols->first[col];
    const int64_t n_cols = r->cols->first[col + 1] - r->cols->first[col];
    const int64_t at = col * r->channels + c;
    const bool is_empty = r->n_rows == 0 || n_cols == 0; /* dilated over padding only */
    const int first = is_empty ? 0 : r->row[0].code * (int)r->kernel_w + from[0].code;
    vec best = vec_set(-INFINITY);
    codes which = codes_set(first);

    for (int64_t i = 0; i < r->n_rows; i++)
        for (int64_t j = 0; j < n_cols; j++) {
            const int64_t pixel = r->row[i].at * r->width + from[j].at;
            const char *p = (const char *)r->src + (size_t)(pixel * r->channels + c) * bytes;
            const vec x = vec_widen_masked(p, t, m);
            const mask wins = beats(x, best);

            best = vec_keep(wins, x, best);
            which = codes_keep(wins, r->row[i].code * (int)r->kernel_w + from[j].code, which);
        }
    vec_narrow_masked((char *)r->out + (size_t)at * bytes, t, m, best);
    codes_put(r->which_out + at, m, which);
}

INLINE void grad_span(const gr_pool_row *r, int64_t col, int64_t c, mask m, gr_dtype t)
{
    const size_t bytes = t == GR_F32 ? 4 : 2;
    const gr_tap *from = r->cols->tap + r->cols->first[col];
    const int64_t n_cols = r->cols->first[col + 1] - r->cols->first[col];
    vec sum = vec_set(0);

    for (int64_t i = 0; i < r->n_rows; i++)
        for (int64_t j = 0; j < n_cols; j++) {
            const int64_t pixel = r->row[i].at * r->width + from[j].at;
            const int64_t at = pixel * r->channels + c;
            const int code = r->row[i].code * (int)r->kernel_w + from[j].code;
            const vec dy = vec_widen_masked((const char *)r->src + (size_t)at * bytes, t, m);

            sum = vec_add(sum,
                          vec_keep(codes_is(codes_of(r->which_in + at, m), code), dy, vec_set(0)));
        }
    vec_narrow_masked((char *)r->out + (size_t)(col * r->channels + c) * bytes, t, m, sum);
}

/* `t` is a constant in each call, so that no loop asks for the type. */
#define ROW(span, t)                                      \
    for (int64_t col = 0; col < r->cols->n; col++) {      \
        int64_t c = 0;                                    \
                                                          \
        for (; c + LANES <= r->channels; c += LANES)      \
            span(r, col, c, MASK_ALL, t);                 \
        if (c < r->channels)                              \
            span(r, col, c, mask_of(r->channels - c), t); \
    }

static void row_max(const gr_pool_row *r)
{
    if (r->type == GR_F32)
        ROW(max_span, GR_F32)
    else if (r->type == GR_BF16)
        ROW(max_span, GR_BF16)
    else
        ROW(max_span, GR_F16)
}

static void row_grad(const gr_pool_row *r)
{
    if (r->type == GR_F32)
        ROW(grad_span, GR_F32)
    else if (r->type == GR_BF16)
        ROW(grad_span, GR_BF16)
    else
        ROW(grad_span, GR_F16)
}
