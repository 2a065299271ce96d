/* One part of a head by vectors; the including file brings op/vec_*_body.h and vec_swap(),
 * which changes neighbours. */

INLINE void halves_as(const gr_rotary_part *p, const gr_dtype t)
{
    const int64_t half = p->s / 2, bytes = t == GR_F32 ? 4 : 2;
    const char *x1 = p->x, *x2 = x1 + half * bytes;
    char *y1 = p->y, *y2 = y1 + half * bytes;

    for (int64_t i = 0; i < half; i += LANES) {
        const mask m = half - i < LANES ? mask_of(half - i) : MASK_ALL;
        const vec c = vec_load_masked(p->cos + i, m), s = vec_load_masked(p->sin + i, m);
        const vec a = vec_widen_masked(x1 + i * bytes, t, m);
        const vec b = vec_widen_masked(x2 + i * bytes, t, m);

        vec_narrow_masked(y1 + i * bytes, t, m, vec_sub(vec_mul(a, c), vec_mul(b, s)));
        vec_narrow_masked(y2 + i * bytes, t, m, vec_fma(b, c, vec_mul(a, s)));
    }
}

INLINE void interleaved_as(const gr_rotary_part *p, const gr_dtype t)
{
    const int64_t bytes = t == GR_F32 ? 4 : 2;
    const char *x = p->x;
    char *y = p->y;

    for (int64_t i = 0; i < p->s; i += LANES) {
        const mask m = p->s - i < LANES ? mask_of(p->s - i) : MASK_ALL;
        const vec c = vec_load_masked(p->cos + i, m), s = vec_load_masked(p->sin + i, m);
        const vec a = vec_widen_masked(x + i * bytes, t, m);

        vec_narrow_masked(y + i * bytes, t, m, vec_fma(a, c, vec_mul(vec_swap(a), s)));
    }
}

static void part_halves(const gr_rotary_part *p)
{
    if (p->type == GR_F32)
        halves_as(p, GR_F32);
    else if (p->type == GR_BF16)
        halves_as(p, GR_BF16);
    else
        halves_as(p, GR_F16);
}

static void part_interleaved(const gr_rotary_part *p)
{
    if (p->type == GR_F32)
        interleaved_as(p, GR_F32);
    else if (p->type == GR_BF16)
        interleaved_as(p, GR_BF16);
    else
        interleaved_as(p, GR_F16);
}
