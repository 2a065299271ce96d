/*
 * Sums and greatest elements by vectors, for any instruction set: the including file
 * brings op/vec_*_body.h and N_SUMS. Types and functions are constants where the loops are
 * expanded. Down rows, N_SUMS vectors are read at a time, so that a row is read in long
 * stretches and no addition waits for the one before.
 */

INLINE vec join(vec y, vec x, const bool is_max)
{
    return is_max ? vec_max(y, x) : vec_add(y, x);
}

INLINE const char *element(const gr_span *s, int64_t i)
{
    return (const char *)s->src + i * (s->type == GR_F32 ? 4 : 2);
}

/* n vectors, all of them whole. */
INLINE void down_whole(const gr_span *s, float *out, int64_t c, const int n, const gr_dtype t,
                       const bool is_max)
{
    vec y[N_SUMS];

    GR_UNROLL
    for (int i = 0; i < n; i++)
        y[i] = vec_load(out + c + i * LANES);
    for (int64_t r = 0; r < s->rows; r++) {
        const char *src = element(s, r * s->row_step + c);

        GR_UNROLL
        for (int i = 0; i < n; i++)
            y[i] = join(y[i], vec_widen(src + i * LANES * (t == GR_F32 ? 4 : 2), t), is_max);
    }
    GR_UNROLL
    for (int i = 0; i < n; i++)
        vec_store(out + c + i * LANES, y[i]);
}

INLINE void down_rest(const gr_span *s, float *out, int64_t c, const gr_dtype t, const bool is_max)
{
    const mask m = mask_of(s->cols - c);
    vec y = vec_load_masked(out + c, m);

    for (int64_t r = 0; r < s->rows; r++)
        y = join(y, vec_widen_masked(element(s, r * s->row_step + c), t, m), is_max);
    vec_store_masked(out + c, m, y);
}

INLINE void down_as(const gr_span *s, float *out, const gr_dtype t, const bool is_max)
{
    int64_t c = 0;

    for (; c + N_SUMS * LANES <= s->cols; c += N_SUMS * LANES)
        down_whole(s, out, c, N_SUMS, t, is_max);
    for (; c + 4 * LANES <= s->cols; c += 4 * LANES)
        down_whole(s, out, c, 4, t, is_max);
    for (; c + LANES <= s->cols; c += LANES)
        down_whole(s, out, c, 1, t, is_max);
    if (c < s->cols)
        down_rest(s, out, c, t, is_max);
}

INLINE float along_as(const gr_span *s, const gr_dtype t, const bool is_max)
{
    const vec none = is_max ? vec_set(-INFINITY) : vec_set(0);
    vec y[4] = { none, none, none, none };
    int64_t c = 0;

    for (; c + 4 * LANES <= s->cols; c += 4 * LANES)
        GR_UNROLL
    for (int i = 0; i < 4; i++)
        y[i] = join(y[i], vec_widen(element(s, c + i * LANES), t), is_max);
    for (; c + LANES <= s->cols; c += LANES)
        y[0] = join(y[0], vec_widen(element(s, c), t), is_max);
    if (c < s->cols) {
        const mask m = mask_of(s->cols - c);

        y[1] = join(y[1], vec_keep(m, vec_widen_masked(element(s, c), t, m), none), is_max);
    }
    y[0] = join(join(y[0], y[1], is_max), join(y[2], y[3], is_max), is_max);
    return is_max ? vec_across_max(y[0]) : vec_across_add(y[0]);
}

#define AS(fn, t) (s->is_max ? fn(t, true) : fn(t, false))

static void down(const gr_span *s, float *out)
{
#define DOWN(t, is_max) down_as(s, out, t, is_max)
    if (s->type == GR_F32)
        AS(DOWN, GR_F32);
    else if (s->type == GR_BF16)
        AS(DOWN, GR_BF16);
    else
        AS(DOWN, GR_F16);
#undef DOWN
}

static float along(const gr_span *s)
{
#define ALONG(t, is_max) along_as(s, t, is_max)
    if (s->type == GR_F32)
        return AS(ALONG, GR_F32);
    if (s->type == GR_BF16)
        return AS(ALONG, GR_BF16);
    return AS(ALONG, GR_F16);
#undef ALONG
}
