/*
 * layer_norm and rms_norm by vectors; the including file brings op/vec_*_body.h and
 * op/unroll_body.h. A row is read from memory once and is in the first cache afterwards:
 *
 *   forward   the sum; distances from the mean and their squares, which also corrects what the
 *             first mean was rounded by; the result
 *   backward  the two sums of q = dy w; then dx, dw and db in one sweep
 *
 * Four sums side by side, so that no addition waits for the one before.
 */

#define N_SUMS 4

INLINE int64_t bytes_of(const gr_dtype t)
{
    return t == GR_F32 ? 4 : 2;
}

INLINE float join_sums(const vec y[N_SUMS])
{
    return vec_across_add(vec_add(vec_add(y[0], y[1]), vec_add(y[2], y[3])));
}

INLINE float sum_of(const char *x, int64_t n, const gr_dtype t)
{
    vec y[N_SUMS] = { vec_set(0), vec_set(0), vec_set(0), vec_set(0) };
    int64_t c = 0;

    for (; c + N_SUMS * LANES <= n; c += N_SUMS * LANES)
        GR_UNROLL
    for (int i = 0; i < N_SUMS; i++)
        y[i] = vec_add(y[i], vec_widen(x + (c + i * LANES) * bytes_of(t), t));
    for (; c + LANES <= n; c += LANES)
        y[0] = vec_add(y[0], vec_widen(x + c * bytes_of(t), t));
    if (c < n)
        y[1] = vec_add(y[1], vec_widen_masked(x + c * bytes_of(t), t, mask_of(n - c)));
    return join_sums(y);
}

typedef struct spread {
    float sum, squares; /* of distances */
} spread;

INLINE spread spread_of(const char *x, int64_t n, float mean, const gr_dtype t)
{
    vec s[N_SUMS] = { vec_set(0), vec_set(0), vec_set(0), vec_set(0) };
    vec q[N_SUMS] = { vec_set(0), vec_set(0), vec_set(0), vec_set(0) };
    const vec m = vec_set(mean);
    int64_t c = 0;

    for (; c + N_SUMS * LANES <= n; c += N_SUMS * LANES)
        GR_UNROLL
    for (int i = 0; i < N_SUMS; i++) {
        const vec d = vec_sub(vec_widen(x + (c + i * LANES) * bytes_of(t), t), m);

        s[i] = vec_add(s[i], d);
        q[i] = vec_fma(d, d, q[i]);
    }
    for (; c + LANES <= n; c += LANES) {
        const vec d = vec_sub(vec_widen(x + c * bytes_of(t), t), m);

        s[0] = vec_add(s[0], d);
        q[0] = vec_fma(d, d, q[0]);
    }
    if (c < n) {
        const mask rest = mask_of(n - c);
        const vec d =
            vec_keep(rest, vec_sub(vec_widen_masked(x + c * bytes_of(t), t, rest), m), vec_set(0));

        s[1] = vec_add(s[1], d);
        q[1] = vec_fma(d, d, q[1]);
    }
    return (spread){ join_sums(s), join_sums(q) };
}

/* Mean and 1 / deviation of row r, stored. */
INLINE void row_stats(const gr_norm_rows *k, int64_t r, const gr_dtype t, float *mean, float *rstd)
{
    const char *x = k->x + r * k->c * bytes_of(t);
    const float n = k->c > 0 ? (float)k->c : 1;
    spread s;
    float var;

    *mean = k->mean ? sum_of(x, k->c, t) / n : 0;
    s = spread_of(x, k->c, *mean, t);
    if (k->mean) {
        const float off = s.sum / n;

        *mean += off == off ? off : 0; /* infinite numbers: the mean says so, off is NaN */
        k->mean[r] = *mean;
        var = s.squares / n - off * off;
        var = var < 0 ? 0 : var;
    } else {
        var = s.squares / n;
    }
    if (k->clamped)
        *rstd = sqrtf(var) < k->eps ? 1 / k->eps : 1 / sqrtf(var);
    else
        *rstd = 1 / sqrtf(var + k->eps);
    k->rstd[r] = *rstd;
}

INLINE vec norm_of(vec x, vec mean, vec rstd, vec w, vec b)
{
    return vec_fma(vec_mul(vec_sub(x, mean), rstd), w, b);
}

INLINE void forward_row(const gr_norm_rows *k, int64_t r, const gr_dtype t, const gr_dtype to)
{
    const char *x = k->x + r * k->c * bytes_of(t);
    char *y = k->out + r * k->c * bytes_of(to);
    float mean, rstd;
    vec vm, vr;
    int64_t c = 0;

    row_stats(k, r, t, &mean, &rstd);
    vm = vec_set(mean);
    vr = vec_set(rstd);
    for (; c + LANES <= k->c; c += LANES)
        vec_narrow(y + c * bytes_of(to), to,
                   norm_of(vec_widen(x + c * bytes_of(t), t), vm, vr, vec_load(k->weight + c),
                           vec_load(k->bias + c)));
    if (c < k->c) {
        const mask m = mask_of(k->c - c);

        vec_narrow_masked(y + c * bytes_of(to), to, m,
                          norm_of(vec_widen_masked(x + c * bytes_of(t), t, m), vm, vr,
                                  vec_load_masked(k->weight + c, m),
                                  vec_load_masked(k->bias + c, m)));
    }
}

/* ---- backward ---- */

typedef struct row_terms {
    float mean, rstd;
    float q, qx; /* means of q and q xhat */
} row_terms;

/* Sums of q = dy w and of q (x - mean). */
INLINE void q_sums(const gr_norm_rows *k, const char *x, const char *dy, row_terms *w,
                   const gr_dtype t, const gr_dtype td)
{
    vec s[2] = { vec_set(0), vec_set(0) }, d[2] = { vec_set(0), vec_set(0) };
    const vec m = vec_set(w->mean);
    int64_t c = 0;

    for (; c + 2 * LANES <= k->c; c += 2 * LANES)
        GR_UNROLL
    for (int i = 0; i < 2; i++) {
        const int64_t at = c + i * LANES;
        const vec q = vec_mul(vec_widen(dy + at * bytes_of(td), td), vec_load(k->weight + at));

        s[i] = vec_add(s[i], q);
        d[i] = vec_fma(q, vec_sub(vec_widen(x + at * bytes_of(t), t), m), d[i]);
    }
    for (; c < k->c; c += LANES) {
        const mask r = k->c - c < LANES ? mask_of(k->c - c) : MASK_ALL;
        const vec q = vec_mul(vec_widen_masked(dy + c * bytes_of(td), td, r),
                              vec_load_masked(k->weight + c, r));

        s[0] = vec_add(s[0], q);
        d[0] = vec_fma(q, vec_sub(vec_widen_masked(x + c * bytes_of(t), t, r), m), d[0]);
    }
    w->q = vec_across_add(vec_add(s[0], s[1]));
    w->qx = vec_across_add(vec_add(d[0], d[1]));
}

INLINE row_terms terms_of(const gr_norm_rows *k, int64_t r, const gr_dtype t, const gr_dtype td)
{
    row_terms w = { .mean = k->mean ? k->mean[r] : 0, .rstd = k->rstd[r] };

    q_sums(k, k->x + r * k->c * bytes_of(t), k->dy + r * k->c * bytes_of(td), &w, t, td);
    w.q = k->mean ? w.q / (float)k->c : 0;
    w.qx = w.qx * w.rstd / (float)k->c;
    if (k->clamped && w.rstd >= 1 / k->eps)
        w.qx = 0; /* the clamp holds: rstd is a constant */
    return w;
}

typedef struct at_place {
    vec x, dy, w, mean, rstd, q, qx;
} at_place;

INLINE vec xhat_at(const at_place *p)
{
    return vec_mul(vec_sub(p->x, p->mean), p->rstd);
}

/* rstd (dy w - q - xhat qx) */
INLINE vec dx_at(const at_place *p, vec xhat)
{
    const vec inner = vec_sub(vec_mul(p->dy, p->w), vec_fma(xhat, p->qx, p->q));

    return vec_mul(inner, p->rstd);
}

INLINE void backward_row(const gr_norm_rows *k, int64_t r, float *dw, float *db, const gr_dtype t,
                         const gr_dtype td)
{
    const gr_dtype to = k->out_type == t ? t : k->out_type;
    const char *x = k->x + r * k->c * bytes_of(t), *dy = k->dy + r * k->c * bytes_of(td);
    char *dx = k->out + r * k->c * bytes_of(to);
    const row_terms w = terms_of(k, r, t, td);
    at_place p = {
        .mean = vec_set(w.mean), .rstd = vec_set(w.rstd), .q = vec_set(w.q), .qx = vec_set(w.qx)
    };
    int64_t c = 0;

    for (; c + LANES <= k->c; c += LANES) {
        vec xhat;

        p.x = vec_widen(x + c * bytes_of(t), t);
        p.dy = vec_widen(dy + c * bytes_of(td), td);
        p.w = vec_load(k->weight + c);
        xhat = xhat_at(&p);
        vec_narrow(dx + c * bytes_of(to), to, dx_at(&p, xhat));
        vec_store(dw + c, vec_fma(p.dy, xhat, vec_load(dw + c)));
        vec_store(db + c, vec_add(p.dy, vec_load(db + c)));
    }
    if (c < k->c) {
        const mask m = mask_of(k->c - c);
        vec xhat;

        p.x = vec_widen_masked(x + c * bytes_of(t), t, m);
        p.dy = vec_widen_masked(dy + c * bytes_of(td), td, m);
        p.w = vec_load_masked(k->weight + c, m);
        xhat = xhat_at(&p);
        vec_narrow_masked(dx + c * bytes_of(to), to, m, dx_at(&p, xhat));
        vec_store_masked(dw + c, m, vec_fma(p.dy, xhat, vec_load_masked(dw + c, m)));
        vec_store_masked(db + c, m, vec_add(p.dy, vec_load_masked(db + c, m)));
    }
}

/* The usual types as constants; others as they come. */
static void forward(const gr_norm_rows *k, int64_t lo, int64_t hi)
{
    for (int64_t r = lo; r < hi; r++) {
        if (k->x_type == GR_F32 && k->out_type == GR_F32)
            forward_row(k, r, GR_F32, GR_F32);
        else if (k->x_type == GR_BF16 && k->out_type == GR_BF16)
            forward_row(k, r, GR_BF16, GR_BF16);
        else
            forward_row(k, r, k->x_type, k->out_type);
    }
}

static void backward(const gr_norm_rows *k, int64_t lo, int64_t hi, float *dw, float *db)
{
    for (int64_t r = lo; r < hi; r++) {
        if (k->x_type == GR_F32 && k->dy_type == GR_F32)
            backward_row(k, r, dw, db, GR_F32, GR_F32);
        else if (k->x_type == GR_BF16 && k->dy_type == GR_BF16)
            backward_row(k, r, dw, db, GR_BF16, GR_BF16);
        else
            backward_row(k, r, dw, db, k->x_type, k->dy_type);
    }
}
