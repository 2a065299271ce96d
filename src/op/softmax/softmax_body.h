/*
 * Softmax by vectors; the including file brings op/vec_*_body.h. A line is read from memory
 * once: it is in the cache when it is read again.
 *
 *   row      along neighbours: lanes are elements of one line
 *   columns  lanes are lines side by side, a vector of them at a time
 *
 * The sum of exp is kept with the result: exp(x - top) is stored, then divided; results that
 * are narrower than f32 are computed twice instead.
 */
#include "op/vec_exp_body.h"

INLINE int64_t bytes_of(const gr_dtype t)
{
    return t == GR_F32 ? 4 : 2;
}

/* Types as constants where the loops are expanded: source, gradient, result. */
typedef struct types {
    gr_dtype src, dy, out;
} types;

/* ---- row ---- */

INLINE mask lanes_at(const gr_softmax_lines *k, int64_t i)
{
    return k->n - i < LANES ? mask_of(k->n - i) : MASK_ALL;
}

INLINE float row_top(const gr_softmax_lines *k, const gr_dtype t)
{
    vec y = vec_set(-INFINITY);
    int64_t i = 0;

    for (; i + LANES <= k->n; i += LANES)
        y = vec_max(y, vec_widen(k->src + i * bytes_of(t), t));
    if (i < k->n) {
        const mask m = mask_of(k->n - i);

        y = vec_max(
            y, vec_keep(m, vec_widen_masked(k->src + i * bytes_of(t), t, m), vec_set(-INFINITY)));
    }
    return vec_across_max(y);
}

/* Sum of exp(x - top); keeps the terms in out if that is f32. */
INLINE float row_sum(const gr_softmax_lines *k, float top, const gr_dtype t, const bool keep)
{
    const vec v = vec_set(top);
    vec sum = vec_set(0);
    int64_t i = 0;

    for (; i + LANES <= k->n; i += LANES) {
        const vec e = vec_exp(vec_sub(vec_widen(k->src + i * bytes_of(t), t), v));

        sum = vec_add(sum, e);
        if (keep)
            vec_store((float *)k->out + i, e);
    }
    if (i < k->n) {
        const mask m = mask_of(k->n - i);
        const vec x = vec_widen_masked(k->src + i * bytes_of(t), t, m);
        const vec e = vec_keep(m, vec_exp(vec_sub(x, v)), vec_set(0));

        sum = vec_add(sum, e);
        if (keep)
            vec_store_masked((float *)k->out + i, m, e);
    }
    return vec_across_add(sum);
}

INLINE void row_fill(const gr_softmax_lines *k, float value)
{
    for (int64_t i = 0; i < k->n; i += LANES)
        vec_narrow_masked(k->out + i * bytes_of(k->out_type), k->out_type, lanes_at(k, i),
                          vec_set(value));
}

INLINE void row_scale(const gr_softmax_lines *k, float factor)
{
    const vec f = vec_set(factor);
    float *y = (float *)k->out;
    int64_t i = 0;

    for (; i + LANES <= k->n; i += LANES)
        vec_store(y + i, vec_mul(vec_load(y + i), f));
    if (i < k->n) {
        const mask m = mask_of(k->n - i);

        vec_store_masked(y + i, m, vec_mul(vec_load_masked(y + i, m), f));
    }
}

/* out = exp(x - top) factor, or x - top. */
INLINE void row_apply(const gr_softmax_lines *k, float top, float factor, const types t,
                      const bool is_log)
{
    const vec v = vec_set(top), f = vec_set(factor);

    for (int64_t i = 0; i < k->n; i += LANES) {
        const mask m = lanes_at(k, i);
        const vec d = vec_sub(vec_widen_masked(k->src + i * bytes_of(t.src), t.src, m), v);

        vec_narrow_masked(k->out + i * bytes_of(t.out), t.out, m,
                          is_log ? d : vec_mul(vec_exp(d), f));
    }
}

INLINE void row_softmax_as(const gr_softmax_lines *k, const types t)
{
    const float top = row_top(k, t.src);
    const bool keep = t.out == GR_F32;

    if (top == -INFINITY) {
        row_fill(k, 0);
        return;
    }
    if (keep)
        row_scale(k, 1 / row_sum(k, top, t.src, true));
    else
        row_apply(k, top, 1 / row_sum(k, top, t.src, false), t, false);
}

INLINE float row_lse_as(const gr_softmax_lines *k, const gr_dtype t)
{
    const float top = row_top(k, t);

    return top == -INFINITY ? top : top + logf(row_sum(k, top, t, false));
}

INLINE void row_log_as(const gr_softmax_lines *k, const types t)
{
    const float lse = row_lse_as(k, t.src);

    if (lse == -INFINITY)
        row_fill(k, lse);
    else
        row_apply(k, lse, 1, t, true);
}

typedef struct pair {
    vec y, dy;
} pair;

INLINE pair pair_at(const gr_softmax_lines *k, int64_t i, const types t, mask m)
{
    return (pair){ vec_widen_masked(k->src + i * bytes_of(t.src), t.src, m),
                   vec_widen_masked(k->dy + i * bytes_of(t.dy), t.dy, m) };
}

INLINE vec term_of(pair p, const bool is_log)
{
    return is_log ? p.dy : vec_mul(p.y, p.dy);
}

INLINE vec dx_of(pair p, vec sum, const bool is_log)
{
    if (is_log)
        return vec_sub(p.dy, vec_mul(vec_exp(p.y), sum));
    return vec_mul(p.y, vec_sub(p.dy, sum));
}

INLINE void row_grad_as(const gr_softmax_lines *k, const types t, const bool is_log)
{
    vec sum = vec_set(0);

    for (int64_t i = 0; i < k->n; i += LANES)
        sum = vec_add(sum, term_of(pair_at(k, i, t, lanes_at(k, i)), is_log));
    sum = vec_set(vec_across_add(sum));
    for (int64_t i = 0; i < k->n; i += LANES) {
        const mask m = lanes_at(k, i);

        vec_narrow_masked(k->out + i * bytes_of(t.out), t.out, m,
                          dx_of(pair_at(k, i, t, m), sum, is_log));
    }
}

/* ---- columns: k->width is one vector at most, m its lanes ---- */

INLINE vec column_at(const gr_softmax_lines *k, int64_t i, const gr_dtype t, mask m)
{
    return vec_widen_masked(k->src + i * k->step * bytes_of(t), t, m);
}

INLINE void column_put(const gr_softmax_lines *k, int64_t i, const gr_dtype t, mask m, vec x)
{
    vec_narrow_masked(k->out + i * k->step * bytes_of(t), t, m, x);
}

INLINE mask all_lanes(const gr_softmax_lines *k)
{
    return k->width < LANES ? mask_of(k->width) : MASK_ALL;
}

/* Over each line: the greatest, and the sum of exp(x - greatest). Where all are -inf the
 * greatest is taken for 0, and the sum is 0. */
typedef struct columns {
    vec top, sum;
} columns;

INLINE columns columns_of(const gr_softmax_lines *k, const gr_dtype t, const bool keep)
{
    const mask m = all_lanes(k);
    columns w = { vec_set(-INFINITY), vec_set(0) };

    for (int64_t i = 0; i < k->n; i++)
        w.top = vec_max(w.top, column_at(k, i, t, m));
    w.top = vec_keep(mask_equal(w.top, vec_set(-INFINITY)), vec_set(0), w.top);
    for (int64_t i = 0; i < k->n; i++) {
        const vec e = vec_exp(vec_sub(column_at(k, i, t, m), w.top));

        w.sum = vec_add(w.sum, e);
        if (keep)
            column_put(k, i, GR_F32, m, e);
    }
    return w;
}

INLINE void columns_softmax_as(const gr_softmax_lines *k, const types t)
{
    const bool keep = t.out == GR_F32;
    const mask m = all_lanes(k);
    const columns w = columns_of(k, t.src, keep);
    const vec inverse = vec_div(vec_set(1), w.sum);
    const vec factor = vec_keep(mask_equal(w.sum, vec_set(0)), vec_set(0), inverse);

    for (int64_t i = 0; i < k->n; i++) {
        vec e;

        if (keep)
            e = vec_load_masked((const float *)k->out + i * k->step, m);
        else
            e = vec_exp(vec_sub(column_at(k, i, t.src, m), w.top));
        column_put(k, i, t.out, m, vec_mul(e, factor));
    }
}

INLINE vec vec_log(vec x)
{
    float lane[LANES];

    vec_store(lane, x);
    for (int i = 0; i < LANES; i++)
        lane[i] = logf(lane[i]);
    return vec_load(lane);
}

INLINE void columns_lse_as(const gr_softmax_lines *k, const gr_dtype t)
{
    const columns w = columns_of(k, t, false);

    vec_store_masked((float *)k->out, all_lanes(k), vec_add(w.top, vec_log(w.sum)));
}

INLINE void columns_log_as(const gr_softmax_lines *k, const types t)
{
    const mask m = all_lanes(k);
    const columns w = columns_of(k, t.src, false);
    const vec is_0 = vec_keep(mask_equal(w.sum, vec_set(0)), vec_set(1), w.sum);
    const vec lse = vec_add(w.top, vec_log(is_0)); /* all -inf: 0, and x stays what it is */

    for (int64_t i = 0; i < k->n; i++)
        column_put(k, i, t.out, m, vec_sub(column_at(k, i, t.src, m), lse));
}

INLINE void columns_grad_as(const gr_softmax_lines *k, const types t, const bool is_log)
{
    const mask m = all_lanes(k);
    vec sum = vec_set(0);

    for (int64_t i = 0; i < k->n; i++)
        sum = vec_add(sum, term_of(pair_at(k, i * k->step, t, m), is_log));
    for (int64_t i = 0; i < k->n; i++)
        column_put(k, i, t.out, m, dx_of(pair_at(k, i * k->step, t, m), sum, is_log));
}

/* ---- by types: f32 and bf16 throughout as constants, others as they come ---- */

INLINE types types_of(const gr_softmax_lines *k)
{
    return (types){ k->src_type, k->dy_type, k->out_type };
}

INLINE bool all_are(const gr_softmax_lines *k, const gr_dtype t)
{
    return k->src_type == t && k->out_type == t && (!k->dy || k->dy_type == t);
}

#define ALL(t) ((types){ t, t, t })
#define BY_TYPES(name, fn, ...)                 \
    static void name(const gr_softmax_lines *k) \
    {                                           \
        if (all_are(k, GR_F32))                 \
            fn(k, ALL(GR_F32) __VA_ARGS__);     \
        else if (all_are(k, GR_BF16))           \
            fn(k, ALL(GR_BF16) __VA_ARGS__);    \
        else                                    \
            fn(k, types_of(k) __VA_ARGS__);     \
    }
#define AND(x) , x

BY_TYPES(row_softmax, row_softmax_as, )
BY_TYPES(row_log, row_log_as, )
BY_TYPES(row_grad, row_grad_as, AND(false))
BY_TYPES(row_log_grad, row_grad_as, AND(true))
BY_TYPES(columns_softmax, columns_softmax_as, )
BY_TYPES(columns_log, columns_log_as, )
BY_TYPES(columns_grad, columns_grad_as, AND(false))
BY_TYPES(columns_log_grad, columns_grad_as, AND(true))

static void row_lse(const gr_softmax_lines *k)
{
    *(float *)k->out = k->src_type == GR_F32 ? row_lse_as(k, GR_F32) : row_lse_as(k, k->src_type);
}

static void columns_lse(const gr_softmax_lines *k)
{
    columns_lse_as(k, k->src_type);
}

#define SOFTMAX_ISA                                                                           \
    {                                                                                         \
        .softmax = { row_softmax, columns_softmax }, .log_softmax = { row_log, columns_log }, \
        .lse = { row_lse, columns_lse }, .softmax_grad = { row_grad, columns_grad },          \
        .log_softmax_grad = {                                                                 \
            row_log_grad,                                                                     \
            columns_log_grad                                                                  \
        }                                                                                     \
    }
