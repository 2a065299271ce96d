/*
 * What is done with numbers that have been drawn; the including file brings op/map/vf_*_body.h
 * and its own fill(). Plain loops, which compilers turn into vector code.
 */

static void drop(float *restrict y, const float *restrict x, const uint16_t *restrict number,
                 uint32_t below, float scale, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float kept = x[i] * scale;

        y[i] = number[i] < below ? 0 : kept;
    }
}

static void uniform(float *restrict y, const uint32_t *restrict number, int shift,
                    const gr_random_span *span, int64_t n)
{
    const float unit = span->unit, from = span->from, most = span->most;

    for (int64_t i = 0; i < n; i++) {
        float x = (float)(int32_t)(number[i] >> shift) * unit + from;

        y[i] = x < most ? x : most;
    }
}

/* The angle is a number of 24 bits, a part of a full turn: what is left over whole quarters
 * is exact. */
static void normal(float *y, const uint32_t *number, float mean, float std, int64_t n)
{
    for (int64_t i = 0; i + 32 <= n; i += 32)
        for (int64_t j = i; j < i + 16; j += WIDTH) {
            vu first, second;
            vi quarter;
            vf r, angle, a, b;

            memcpy(&first, number + j, sizeof(first));
            memcpy(&second, number + j + 16, sizeof(second));
            r = __builtin_convertvector((vi)(first >> 8) + 1, vf) * splat(0x1p-24f);
            r = VSQRT(splat(-2) * vec_log(r)) * splat(std);
            quarter = ((vi)(second >> 8) + (1 << 21)) >> 22;
            angle = __builtin_convertvector((vi)(second >> 8) - (quarter << 22), vf);
            angle = angle * splat(0x1.921fb6p-22f); /* 2 pi / 2^24 */
            a = FMA(r, sine_part(angle, quarter + 1), splat(mean));
            b = FMA(r, sine_part(angle, quarter), splat(mean));
            memcpy(y + j, &a, sizeof(a));
            memcpy(y + j + 16, &b, sizeof(b));
        }
}
