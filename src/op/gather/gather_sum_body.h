/*
 * The sum of some rows by vectors, a block of columns at a time in registers: included once
 * per instruction set, with BLOCK vectors in a block.
 */
#include "gradus/tensor.h"

/* n_vecs vectors from column c on; the last one is masked. */
INLINE void sum_block(const gr_sum_rows *s, float *out, int64_t c, int n_vecs, mask m, gr_dtype t)
{
    const size_t bytes = t == GR_F32 ? 4 : 2;
    vec y[BLOCK];

    GR_UNROLL
    for (int v = 0; v < n_vecs; v++)
        y[v] = vec_set(0);
    for (int64_t i = 0; i < s->n; i++) {
        const char *p = (const char *)s->rows + (size_t)(s->order[i] * s->cols + c) * bytes;

        GR_UNROLL
        for (int v = 0; v < n_vecs - 1; v++)
            y[v] = vec_add(y[v], vec_widen(p + (size_t)(v * LANES) * bytes, t));
        y[n_vecs - 1] = vec_add(y[n_vecs - 1],
                                vec_widen_masked(p + (size_t)((n_vecs - 1) * LANES) * bytes, t, m));
    }
    GR_UNROLL
    for (int v = 0; v < n_vecs - 1; v++)
        vec_store(out + c + v * LANES, y[v]);
    vec_store_masked(out + c + (n_vecs - 1) * LANES, m, y[n_vecs - 1]);
}

INLINE void sum_type(const gr_sum_rows *s, float *out, gr_dtype t)
{
    int64_t c = 0;

    for (; c + BLOCK * LANES <= s->cols; c += BLOCK * LANES)
        sum_block(s, out, c, BLOCK, MASK_ALL, t);
    for (; c + 4 * LANES <= s->cols; c += 4 * LANES)
        sum_block(s, out, c, 4, MASK_ALL, t);
    for (; c + LANES <= s->cols; c += LANES)
        sum_block(s, out, c, 1, MASK_ALL, t);
    if (c < s->cols)
        sum_block(s, out, c, 1, mask_of(s->cols - c), t);
}

static void sum_rows(const gr_sum_rows *s, float *out)
{
    if (s->type == GR_F32)
        sum_type(s, out, GR_F32);
    else if (s->type == GR_BF16)
        sum_type(s, out, GR_BF16);
    else
        sum_type(s, out, GR_F16);
}
