/* Probabilities as rows of floats, for the vector engine: scores become p where they lie, p
 * and ds of a group lie side by side. */

INLINE void rows_forward_as(const gr_flash_forward *w, const bool plain)
{
    const vec c = vec_set(w->in.c);
    vec top[N_VEC], sum[N_VEC];

    forward_top(w, plain);
    GR_UNROLL
    for (int g = 0; g < N_VEC; g++) {
        top[g] = vec_finite(vec_load(w->top + g * LANES));
        sum[g] = vec_load(w->sum + g * LANES);
    }
    for (int64_t r = 0; r < w->in.n_keys; r++) {
        GR_UNROLL
        for (int g = 0; g < N_VEC; g++) {
            const vec p = forward_p(w, r, g, c, top[g], plain);

            sum[g] = vec_add(sum[g], p);
            vec_store((float *)w->p + r * GR_FLASH_COLS + g * LANES, dropped(&w->in, r, g, p));
        }
    }
    GR_UNROLL
    for (int g = 0; g < N_VEC; g++)
        vec_store(w->sum + g * LANES, sum[g]);
}

static void rows_forward(const gr_flash_forward *w)
{
    if (is_plain(&w->in))
        rows_forward_as(w, true);
    else
        rows_forward_as(w, false);
}

/* A left side's lines are GROUP panels and a pad long (attention_flash_plan.c). */
#define LINE (GR_FLASH_GROUP * GR_FLASH_COLS + 16)

INLINE void rows_backward_as(const gr_flash_backward *w, const bool plain)
{
    for (int64_t r = 0; r < w->in.n_keys; r++) {
        GR_UNROLL
        for (int g = 0; g < N_VEC; g++) {
            const pair y = backward_of(w, r, g, plain);

            if (w->p)
                vec_store((float *)w->p + r * LINE + g * LANES, y.p);
            if (w->ds_left)
                vec_store((float *)w->ds_left + r * LINE + g * LANES, y.ds);
            if (w->ds)
                vec_store((float *)w->ds + r * GR_FLASH_COLS + g * LANES, y.ds);
            if (w->ds_plain)
                vec_store(w->ds_plain + r * GR_FLASH_COLS + g * LANES, y.ds);
        }
    }
}

static void rows_backward(const gr_flash_backward *w)
{
    for (int64_t r = w->in.n_keys; r < w->in.n_rows; r++) { /* keys that none of these sees */
        if (w->p)
            memset((float *)w->p + r * LINE, 0, GR_FLASH_COLS * sizeof(float));
        if (w->ds_left)
            memset((float *)w->ds_left + r * LINE, 0, GR_FLASH_COLS * sizeof(float));
    }
    if (is_plain(&w->in))
        rows_backward_as(w, true);
    else
        rows_backward_as(w, false);
}
