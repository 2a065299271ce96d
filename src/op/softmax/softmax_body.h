/*
 * Softmax by vectors; the including file brings op/vec_*_body.h and
 * op/unroll_body.h. A line is read from memory
 * once: it is in the cache when it is read again.
 *
 *   rows     along neighbours: lanes are elements of one line; short ones stay in registers
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

/* ---- rows ---- */

/* One line. */
typedef struct row {
    const char *src, *dy;
    char *out;
    int64_t n;
} row;

INLINE row row_at(const gr_softmax_lines *k, int64_t i, const types t)
{
    return (row){ k->src + i * k->n * bytes_of(t.src),
                  k->dy ? k->dy + i * k->n * bytes_of(t.dy) : NULL,
                  k->out + i * k->n * bytes_of(t.out), k->n };
}

INLINE mask lanes_at(const row *w, int64_t i)
{
    return w->n - i < LANES ? mask_of(w->n - i) : MASK_ALL;
}

/* Lane by lane the greatest, with -inf where there is nothing. */
INLINE vec row_rest(const row *w, int64_t i, const gr_dtype t)
{
    const mask m = mask_of(w->n - i);

    return vec_keep(m, vec_widen_masked(w->src + i * bytes_of(t), t, m), vec_set(-INFINITY));
}

INLINE float row_top(const row *w, const gr_dtype t)
{
    vec y[4] = { vec_set(-INFINITY), vec_set(-INFINITY), vec_set(-INFINITY), vec_set(-INFINITY) };
    int64_t i = 0;

    for (; i + 4 * LANES <= w->n; i += 4 * LANES)
        GR_UNROLL
    for (int v = 0; v < 4; v++)
        y[v] = vec_max(y[v], vec_widen(w->src + (i + v * LANES) * bytes_of(t), t));
    for (; i + LANES <= w->n; i += LANES)
        y[0] = vec_max(y[0], vec_widen(w->src + i * bytes_of(t), t));
    if (i < w->n)
        y[1] = vec_max(y[1], row_rest(w, i, t));
    return vec_across_max(vec_max(vec_max(y[0], y[1]), vec_max(y[2], y[3])));
}

/* Sum of exp(x - top); keeps the terms in out, which is f32 then. */
INLINE float row_sum(const row *w, float top, const gr_dtype t, const bool keep)
{
    const vec v = vec_set(top);
    vec sum[2] = { vec_set(0), vec_set(0) };
    int64_t i = 0;

    for (; i + 2 * LANES <= w->n; i += 2 * LANES)
        GR_UNROLL
    for (int u = 0; u < 2; u++) {
        const int64_t at = i + u * LANES;
        const vec e = vec_exp_below(vec_sub(vec_widen(w->src + at * bytes_of(t), t), v));

        sum[u] = vec_add(sum[u], e);
        if (keep)
            vec_store((float *)w->out + at, e);
    }
    for (; i < w->n; i += LANES) {
        const mask m = lanes_at(w, i);
        const vec x = vec_widen_masked(w->src + i * bytes_of(t), t, m);
        const vec e = vec_keep(m, vec_exp_below(vec_sub(x, v)), vec_set(0));

        sum[0] = vec_add(sum[0], e);
        if (keep)
            vec_store_masked((float *)w->out + i, m, e);
    }
    return vec_across_add(vec_add(sum[0], sum[1]));
}

INLINE void row_fill(const row *w, float value, const gr_dtype t)
{
    for (int64_t i = 0; i < w->n; i += LANES)
        vec_narrow_masked(w->out + i * bytes_of(t), t, lanes_at(w, i), vec_set(value));
}

INLINE void row_scale(const row *w, float factor)
{
    const vec f = vec_set(factor);
    float *y = (float *)w->out;
    int64_t i = 0;

    for (; i + LANES <= w->n; i += LANES)
        vec_store(y + i, vec_mul(vec_load(y + i), f));
    if (i < w->n) {
        const mask m = mask_of(w->n - i);

        vec_store_masked(y + i, m, vec_mul(vec_load_masked(y + i, m), f));
    }
}

/* out = exp(x - top) factor, or x - top. */
INLINE void row_apply(const row *w, float top, float factor, const types t, const bool is_log)
{
    const vec v = vec_set(top), f = vec_set(factor);

    for (int64_t i = 0; i < w->n; i += LANES) {
        const mask m = lanes_at(w, i);
        const vec d = vec_sub(vec_widen_masked(w->src + i * bytes_of(t.src), t.src, m), v);

        vec_narrow_masked(w->out + i * bytes_of(t.out), t.out, m,
                          is_log ? d : vec_mul(vec_exp_below(d), f));
    }
}

INLINE float log_of(float x)
{
    float lane[LANES];

    vec_store(lane, vec_log(vec_set(x)));
    return lane[0];
}

/* Rows of one vector, or of two: they stay in registers. */
typedef struct short_rows {
    const char *src;
    char *out;
    int64_t n;
    mask m[2]; /* lanes of each vector */
} short_rows;

INLINE vec short_at(const short_rows *w, int64_t i, const int v, const gr_dtype t)
{
    return vec_widen_masked(w->src + (i * w->n + v * LANES) * bytes_of(t), t, w->m[v]);
}

INLINE void short_put(const short_rows *w, int64_t i, const int v, const gr_dtype t, vec x)
{
    vec_narrow_masked(w->out + (i * w->n + v * LANES) * bytes_of(t), t, w->m[v], x);
}

/* The greatest of row i, 0 where all are -inf; and exp(x - greatest) with its sum. */
INLINE float short_exp(const short_rows *w, int64_t i, vec e[2], float *sum, const gr_dtype t,
                       const bool is_two)
{
    const vec low = vec_set(-INFINITY), x0 = short_at(w, i, 0, t);
    const vec x1 = is_two ? short_at(w, i, 1, t) : low;
    vec y = vec_keep(w->m[0], x0, low);
    float top;

    if (is_two)
        y = vec_max(y, vec_keep(w->m[1], x1, low));
    top = vec_across_max(y);
    top = top == -INFINITY ? 0 : top;
    e[0] = vec_keep(w->m[0], vec_exp_below(vec_sub(x0, vec_set(top))), vec_set(0));
    if (is_two)
        e[1] = vec_keep(w->m[1], vec_exp_below(vec_sub(x1, vec_set(top))), vec_set(0));
    *sum = vec_across_add(is_two ? vec_add(e[0], e[1]) : e[0]);
    return top;
}

INLINE void short_softmax(const short_rows *w, int64_t count, const types t, const bool is_two)
{
    for (int64_t i = 0; i < count; i++) {
        float sum, factor;
        vec e[2];

        short_exp(w, i, e, &sum, t.src, is_two);
        factor = sum == 0 ? 0 : 1 / sum;
        short_put(w, i, 0, t.out, vec_mul(e[0], vec_set(factor)));
        if (is_two)
            short_put(w, i, 1, t.out, vec_mul(e[1], vec_set(factor)));
    }
}

/* By vectors of rows, so that their logarithms are one. */
INLINE void short_log(const short_rows *w, int64_t count, const types t, const bool is_two)
{
    for (int64_t first = 0; first < count; first += LANES) {
        const int64_t n = count - first < LANES ? count - first : LANES;
        float top[LANES], sum[LANES];
        vec e[2], s;

        vec_store(top, vec_set(0));
        vec_store(sum, vec_set(1));
        for (int64_t i = 0; i < n; i++)
            top[i] = short_exp(w, first + i, e, &sum[i], t.src, is_two);
        s = vec_load(sum); /* all -inf: nothing is taken off, and they stay */
        s = vec_keep(mask_equal(s, vec_set(0)), vec_set(1), s);
        vec_store(sum, vec_add(vec_load(top), vec_log(s)));
        for (int64_t i = 0; i < n; i++) {
            const vec lse = vec_set(sum[i]);

            short_put(w, first + i, 0, t.out, vec_sub(short_at(w, first + i, 0, t.src), lse));
            if (is_two)
                short_put(w, first + i, 1, t.out, vec_sub(short_at(w, first + i, 1, t.src), lse));
        }
    }
}

INLINE void short_as(const gr_softmax_lines *k, const types t, const bool is_log)
{
    const int64_t rest = k->n > LANES ? k->n - LANES : 0; /* in the second vector */
    const short_rows w = {
        k->src,
        k->out,
        k->n,
        { k->n < LANES ? mask_of(k->n) : MASK_ALL, rest < LANES ? mask_of(rest) : MASK_ALL },
    };

    if (k->n > LANES && is_log)
        short_log(&w, k->count, t, true);
    else if (k->n > LANES)
        short_softmax(&w, k->count, t, true);
    else if (is_log)
        short_log(&w, k->count, t, false);
    else
        short_softmax(&w, k->count, t, false);
}

INLINE float row_lse_of(const row *w, const gr_dtype t)
{
    const float top = row_top(w, t);

    return top == -INFINITY ? top : top + log_of(row_sum(w, top, t, false));
}

INLINE void long_row(const row *w, const types t, const bool is_log)
{
    const float top = row_top(w, t.src);

    if (top == -INFINITY)
        row_fill(w, is_log ? -INFINITY : 0, t.out);
    else if (is_log)
        row_apply(w, top + log_of(row_sum(w, top, t.src, false)), 1, t, true);
    else if (t.out == GR_F32)
        row_scale(w, 1 / row_sum(w, top, t.src, true));
    else
        row_apply(w, top, 1 / row_sum(w, top, t.src, false), t, false);
}

INLINE void rows_as(const gr_softmax_lines *k, const types t, const bool is_log)
{
    if (k->n > 0 && k->n <= 2 * LANES) {
        short_as(k, t, is_log);
        return;
    }
    for (int64_t i = 0; i < k->count; i++) {
        const row w = row_at(k, i, t);

        long_row(&w, t, is_log);
    }
}

typedef struct pair {
    vec y, dy;
} pair;

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

INLINE pair pair_at(const row *w, int64_t i, const types t, mask m)
{
    return (pair){ vec_widen_masked(w->src + i * bytes_of(t.src), t.src, m),
                   vec_widen_masked(w->dy + i * bytes_of(t.dy), t.dy, m) };
}

INLINE void row_grad(const row *w, const types t, const bool is_log)
{
    vec sum = vec_set(0);

    for (int64_t i = 0; i < w->n; i += LANES)
        sum = vec_add(sum, term_of(pair_at(w, i, t, lanes_at(w, i)), is_log));
    sum = vec_set(vec_across_add(sum));
    for (int64_t i = 0; i < w->n; i += LANES) {
        const mask m = lanes_at(w, i);

        vec_narrow_masked(w->out + i * bytes_of(t.out), t.out, m,
                          dx_of(pair_at(w, i, t, m), sum, is_log));
    }
}

INLINE void rows_grad_as(const gr_softmax_lines *k, const types t, const bool is_log)
{
    for (int64_t i = 0; i < k->count; i++) {
        const row w = row_at(k, i, t);

        row_grad(&w, t, is_log);
    }
}

/* ---- columns: a vector of lines, m its lanes ---- */

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
    return k->count < LANES ? mask_of(k->count) : MASK_ALL;
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
        const vec e = vec_exp_below(vec_sub(column_at(k, i, t, m), w.top));

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
            e = vec_exp_below(vec_sub(column_at(k, i, t.src, m), w.top));
        column_put(k, i, t.out, m, vec_mul(e, factor));
    }
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
    const row w = { k->src, k->dy, k->out, k->n };
    vec sum = vec_set(0);

    for (int64_t i = 0; i < k->n; i++)
        sum = vec_add(sum, term_of(pair_at(&w, i * k->step, t, m), is_log));
    for (int64_t i = 0; i < k->n; i++)
        column_put(k, i, t.out, m, dx_of(pair_at(&w, i * k->step, t, m), sum, is_log));
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

BY_TYPES(rows_softmax, rows_as, AND(false))
BY_TYPES(rows_log, rows_as, AND(true))
BY_TYPES(rows_grad, rows_grad_as, AND(false))
BY_TYPES(rows_log_grad, rows_grad_as, AND(true))
BY_TYPES(columns_softmax, columns_softmax_as, )
BY_TYPES(columns_log, columns_log_as, )
BY_TYPES(columns_grad, columns_grad_as, AND(false))
BY_TYPES(columns_log_grad, columns_grad_as, AND(true))

static void rows_lse(const gr_softmax_lines *k)
{
    for (int64_t i = 0; i < k->count; i++) {
        const row w = { .src = k->src + i * k->n * bytes_of(k->src_type), .n = k->n };

        ((float *)k->out)[i] = row_lse_of(&w, k->src_type);
    }
}

static void columns_lse(const gr_softmax_lines *k)
{
    columns_lse_as(k, k->src_type);
}

#define SOFTMAX_ISA                                                                             \
    {                                                                                           \
        .softmax = { rows_softmax, columns_softmax }, .log_softmax = { rows_log, columns_log }, \
        .lse = { rows_lse, columns_lse }, .softmax_grad = { rows_grad, columns_grad },          \
        .log_softmax_grad = {                                                                   \
            rows_log_grad,                                                                      \
            columns_log_grad                                                                    \
        }                                                                                       \
    }
