/* Stretches of 16-bit floats to f32 and back, for the tiles of AVX2 and AVX-512; included after
 * their vectors (vec_avx2_body.h, vec_avx512_body.h). */
#ifndef GR_OP_MATMUL_HALF_BODY_H
#define GR_OP_MATMUL_HALF_BODY_H

static void widen(float *dst, const void *src, gr_dtype t, int64_t n)
{
    const char *from = src;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        vec_store(dst + i, vec_widen(from + 2 * i, t));
    if (i < n)
        vec_store_masked(dst + i, mask_of(n - i),
                         vec_widen_masked(from + 2 * i, t, mask_of(n - i)));
}

static void narrow(void *dst, const float *src, gr_dtype t, int64_t n)
{
    char *to = dst;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        vec_narrow(to + 2 * i, t, vec_load(src + i));
    if (i < n)
        vec_narrow_masked(to + 2 * i, t, mask_of(n - i), vec_load_masked(src + i, mask_of(n - i)));
}

#endif
