/*
 * Statistics and sums down channels by vectors; the including file brings op/vec_*_body.h and
 * op/unroll_body.h. Some neighbouring vectors of channels at a time, with their sums in
 * registers. A stretch of rows is short enough for the first cache, so statistics may read it
 * twice: first the mean, then squared distances from it, which also tell what the mean was
 * rounded by.
 */

INLINE int64_t bytes_of(const gr_dtype t)
{
    return t == GR_F32 ? 4 : 2;
}

INLINE const char *x_at(const gr_norm_columns *k, int64_t row, int64_t c, const gr_dtype t)
{
    return k->x + (row * k->n_channels + c) * bytes_of(t);
}

INLINE const char *dy_at(const gr_norm_columns *k, int64_t row, int64_t c, const gr_dtype t)
{
    return k->dy + (row * k->n_channels + c) * bytes_of(t);
}

/* ---- statistics ---- */

#define MAX_N 4

/* Statistics of two parts joined: what the weights of the part that comes are. */
typedef struct shares {
    vec mean; /* n_b / (n_a + n_b) */
    vec m2;   /* n_a n_b / (n_a + n_b) */
} shares;

INLINE shares shares_of(int64_t n_a, int64_t n_b)
{
    const double all = (double)(n_a + n_b);

    return (shares){ vec_set((float)((double)n_b / all)),
                     vec_set((float)((double)n_a * (double)n_b / all)) };
}

typedef struct moments {
    vec mean, m2;
} moments;

INLINE moments join(moments a, moments b, const shares *s)
{
    const vec apart = vec_sub(b.mean, a.mean);

    return (moments){ vec_fma(apart, s->mean, a.mean),
                      vec_fma(vec_mul(apart, apart), s->m2, vec_add(a.m2, b.m2)) };
}

/* n vectors of channels, all of them whole. */
INLINE void stats_whole(const gr_norm_columns *k, gr_norm_moments *to, const int n, const int64_t c,
                        const gr_dtype t)
{
    const shares s = shares_of(to->n, k->n_rows);
    const vec factor = vec_set(1.0f / (float)k->n_rows);
    vec y[MAX_N], m[MAX_N], off[MAX_N];

    GR_UNROLL
    for (int i = 0; i < n; i++)
        y[i] = vec_set(0);
    for (int64_t r = 0; r < k->n_rows; r++)
        GR_UNROLL
    for (int i = 0; i < n; i++)
        y[i] = vec_add(y[i], vec_widen(x_at(k, r, c + i * LANES, t), t));
    GR_UNROLL
    for (int i = 0; i < n; i++) {
        m[i] = vec_mul(y[i], factor);
        y[i] = off[i] = vec_set(0);
    }
    for (int64_t r = 0; r < k->n_rows; r++)
        GR_UNROLL
    for (int i = 0; i < n; i++) {
        const vec d = vec_sub(vec_widen(x_at(k, r, c + i * LANES, t), t), m[i]);

        off[i] = vec_add(off[i], d);
        y[i] = vec_fma(d, d, y[i]);
    }
    GR_UNROLL
    for (int i = 0; i < n; i++) {
        const vec by = vec_mul(off[i], factor); /* what the mean was rounded by */
        moments b = { vec_add(m[i], by), vec_sub(y[i], vec_mul(off[i], by)) };

        if (to->n > 0)
            b = join(
                (moments){ vec_load(to->mean + c + i * LANES), vec_load(to->m2 + c + i * LANES) },
                b, &s);
        vec_store(to->mean + c + i * LANES, b.mean);
        vec_store(to->m2 + c + i * LANES, b.m2);
    }
}

INLINE void stats_rest(const gr_norm_columns *k, gr_norm_moments *to, const int64_t c,
                       const gr_dtype t)
{
    const shares s = shares_of(to->n, k->n_rows);
    const mask rest = mask_of(k->n_channels - c);
    const vec factor = vec_set(1.0f / (float)k->n_rows);
    vec y = vec_set(0), off = vec_set(0), m;
    moments b;

    for (int64_t r = 0; r < k->n_rows; r++)
        y = vec_add(y, vec_widen_masked(x_at(k, r, c, t), t, rest));
    m = vec_mul(y, factor);
    y = vec_set(0);
    for (int64_t r = 0; r < k->n_rows; r++) {
        const vec d = vec_sub(vec_widen_masked(x_at(k, r, c, t), t, rest), m);

        off = vec_add(off, d);
        y = vec_fma(d, d, y);
    }
    b.mean = vec_add(m, vec_mul(off, factor));
    b.m2 = vec_sub(y, vec_mul(off, vec_mul(off, factor)));
    if (to->n > 0)
        b = join(
            (moments){ vec_load_masked(to->mean + c, rest), vec_load_masked(to->m2 + c, rest) }, b,
            &s);
    vec_store_masked(to->mean + c, rest, b.mean);
    vec_store_masked(to->m2 + c, rest, b.m2);
}

INLINE void stats_as(const gr_norm_columns *k, gr_norm_moments *to, const gr_dtype t)
{
    int64_t c = 0;

    for (; c + MAX_N * LANES <= k->n_channels; c += MAX_N * LANES)
        stats_whole(k, to, MAX_N, c, t);
    for (; c + LANES <= k->n_channels; c += LANES)
        stats_whole(k, to, 1, c, t);
    if (c < k->n_channels)
        stats_rest(k, to, c, t);
    to->n += k->n_rows;
}

static void stats(const gr_norm_columns *k, gr_norm_moments *to)
{
    if (k->n_rows == 0)
        return;
    if (k->x_type == GR_F32)
        stats_as(k, to, GR_F32);
    else if (k->x_type == GR_BF16)
        stats_as(k, to, GR_BF16);
    else
        stats_as(k, to, GR_F16);
}

/* ---- sums ---- */

#define SUMS_N 2

typedef struct gate {
    vec scale, shift;
} gate;

INLINE vec gated_by(vec x, vec dy, const gate *g, const bool has_gate)
{
    if (!has_gate)
        return dy;
    /* As the map in front of the relu computes it: two roundings. */
    return vec_keep(mask_above_0(vec_add(vec_mul(x, g->scale), g->shift)), dy, vec_set(0));
}

INLINE void sums_whole(const gr_norm_columns *k, const gr_norm_sums *to, const int n, int64_t c,
                       const gr_dtype t, const gr_dtype td, const bool has_gate)
{
    vec s[SUMS_N], d[SUMS_N], m[SUMS_N];
    gate g[SUMS_N];

    GR_UNROLL
    for (int i = 0; i < n; i++) {
        s[i] = vec_load(to->sum + c + i * LANES);
        d[i] = vec_load(to->dot + c + i * LANES);
        m[i] = vec_load(k->mean + c + i * LANES);
        g[i].scale = has_gate ? vec_load(k->scale + c + i * LANES) : vec_set(0);
        g[i].shift = has_gate ? vec_load(k->shift + c + i * LANES) : vec_set(0);
    }
    for (int64_t r = 0; r < k->n_rows; r++)
        GR_UNROLL
    for (int i = 0; i < n; i++) {
        const vec x = vec_widen(x_at(k, r, c + i * LANES, t), t);
        const vec dy = gated_by(x, vec_widen(dy_at(k, r, c + i * LANES, td), td), &g[i], has_gate);

        s[i] = vec_add(s[i], dy);
        d[i] = vec_fma(dy, vec_sub(x, m[i]), d[i]);
    }
    GR_UNROLL
    for (int i = 0; i < n; i++) {
        vec_store(to->sum + c + i * LANES, s[i]);
        vec_store(to->dot + c + i * LANES, d[i]);
    }
}

INLINE void sums_rest(const gr_norm_columns *k, const gr_norm_sums *to, int64_t c, const gr_dtype t,
                      const gr_dtype td, const bool has_gate)
{
    const mask rest = mask_of(k->n_channels - c);
    const vec m = vec_load_masked(k->mean + c, rest);
    vec s = vec_load_masked(to->sum + c, rest), d = vec_load_masked(to->dot + c, rest);
    gate g = { vec_set(0), vec_set(0) };

    if (has_gate) {
        g.scale = vec_load_masked(k->scale + c, rest);
        g.shift = vec_load_masked(k->shift + c, rest);
    }
    for (int64_t r = 0; r < k->n_rows; r++) {
        const vec x = vec_widen_masked(x_at(k, r, c, t), t, rest);
        const vec dy = gated_by(x, vec_widen_masked(dy_at(k, r, c, td), td, rest), &g, has_gate);

        s = vec_add(s, dy);
        d = vec_fma(dy, vec_sub(x, m), d);
    }
    vec_store_masked(to->sum + c, rest, s);
    vec_store_masked(to->dot + c, rest, d);
}

INLINE void sums_as(const gr_norm_columns *k, const gr_norm_sums *to, const gr_dtype t,
                    const gr_dtype td, const bool has_gate)
{
    int64_t c = 0;

    for (; c + SUMS_N * LANES <= k->n_channels; c += SUMS_N * LANES)
        sums_whole(k, to, SUMS_N, c, t, td, has_gate);
    for (; c + LANES <= k->n_channels; c += LANES)
        sums_whole(k, to, 1, c, t, td, has_gate);
    if (c < k->n_channels)
        sums_rest(k, to, c, t, td, has_gate);
}

INLINE void sums_of_types(const gr_norm_columns *k, const gr_norm_sums *to, const gr_dtype t,
                          const gr_dtype td)
{
    if (k->scale)
        sums_as(k, to, t, td, true);
    else
        sums_as(k, to, t, td, false);
}

static void sums(const gr_norm_columns *k, const gr_norm_sums *to)
{
    if (k->x_type == GR_F32 && k->dy_type == GR_F32)
        sums_of_types(k, to, GR_F32, GR_F32);
    else if (k->x_type == GR_BF16 && k->dy_type == GR_BF16)
        sums_of_types(k, to, GR_BF16, GR_BF16);
    else
        sums_of_types(k, to, k->x_type, k->dy_type);
}
