/*
 * The place of the greatest element by vectors; the including file brings op/vec_*_body.h. The
 * least is the greatest negative, which is exact.
 *
 *   rows     first the greatest, then the first lane that is equal to it (or NaN, as it is); a
 *            line is in the cache by then
 *   columns  a vector of lines: the greatest so far and its place, lane by lane. Places are
 *            counted in f32, exact up to 2^24: longer dimensions are declined
 */

INLINE int64_t bytes_of(const gr_dtype t)
{
    return t == GR_F32 ? 4 : 2;
}

INLINE vec element_at(const gr_arg_lines *k, const char *p, mask m, const gr_dtype t)
{
    const vec x = vec_widen_masked(p, t, m);

    return k->is_min ? vec_sub(vec_set(-0.0f), x) : x;
}

INLINE mask lanes_at(const gr_arg_lines *k, int64_t i)
{
    return k->n - i < LANES ? mask_of(k->n - i) : MASK_ALL;
}

INLINE int64_t row_place(const gr_arg_lines *k, const char *src, const gr_dtype t)
{
    vec y = vec_set(-INFINITY), top;
    float most;

    for (int64_t i = 0; i < k->n; i += LANES) {
        const mask m = lanes_at(k, i);

        y = vec_max(y, vec_keep(m, element_at(k, src + i * bytes_of(t), m, t), vec_set(-INFINITY)));
    }
    most = vec_across_max(y);
    top = vec_set(most);
    for (int64_t i = 0; i < k->n; i += LANES) {
        const mask m = lanes_at(k, i);
        const vec x = element_at(k, src + i * bytes_of(t), m, t);
        /* Where the greatest is NaN, 0 marks a NaN: any other number is equal to itself. */
        const vec hit = most == most ? vec_keep(mask_equal(x, top), vec_set(0), vec_set(1))
                                     : vec_keep(mask_equal(x, x), vec_set(1), vec_set(0));
        const int64_t lane = mask_first(mask_equal(vec_keep(m, hit, vec_set(1)), vec_set(0)));

        if (lane < LANES)
            return i + lane;
    }
    return 0;
}

INLINE void rows_as(const gr_arg_lines *k, const gr_dtype t)
{
    for (int64_t i = 0; i < k->count; i++)
        k->index[i] = row_place(k, k->src + i * k->n * bytes_of(t), t);
}

INLINE void columns_as(const gr_arg_lines *k, const gr_dtype t)
{
    const mask m = k->count < LANES ? mask_of(k->count) : MASK_ALL;
    vec best = element_at(k, k->src, m, t), place = vec_set(0);
    float lane[LANES];

    for (int64_t i = 1; i < k->n; i++) {
        const vec x = element_at(k, k->src + i * k->step * bytes_of(t), m, t);
        const mask better = mask_beats(x, best);

        best = vec_keep(better, x, best);
        place = vec_keep(better, vec_set((float)i), place);
    }
    vec_store(lane, place);
    for (int64_t i = 0; i < k->count; i++)
        k->index[i] = (int64_t)lane[i];
}

static void rows(const gr_arg_lines *k)
{
    if (k->type == GR_F32)
        rows_as(k, GR_F32);
    else
        rows_as(k, k->type);
}

static void columns(const gr_arg_lines *k)
{
    if (k->type == GR_F32)
        columns_as(k, GR_F32);
    else
        columns_as(k, k->type);
}
