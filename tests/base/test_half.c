/* bf16 and f16: all 65536 patterns there and back, and rounding against exact arithmetic. */
#include "base/half.h"
#include "check.h"

static uint32_t bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

static float float_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

/* An f16 by its definition, in double, where all of them are exact. */
static double f16_value(uint16_t h)
{
    int exponent = (h >> 10) & 31;
    int fraction = h & 1023;
    double v = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);

    if (exponent == 31)
        v = fraction ? (double)NAN : (double)INFINITY;
    return (h & 0x8000) ? -v : v;
}

static void round_trips(void)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = gr_f16_to_f32((uint16_t)h);
        float b = gr_bf16_to_f32((uint16_t)h);

        GR_CHECK_EQ(bits_of(b), h << 16);
        if (isnan(b))
            GR_CHECK(isnan(gr_bf16_to_f32(gr_f32_to_bf16(b))));
        else
            GR_CHECK_EQ(gr_f32_to_bf16(b), h);
        if (isnan(f)) {
            GR_CHECK(isnan(f16_value((uint16_t)h)) && (h & 0x3ff) && (h & 0x7c00) == 0x7c00);
            GR_CHECK(isnan(gr_f16_to_f32(gr_f32_to_f16(f))));
            continue;
        }
        GR_CHECK_EQ(gr_f32_to_f16(f), h);
        GR_CHECK_EQ(bits_of(f), bits_of((float)f16_value((uint16_t)h)));
    }
}

/* Between neighbours lo and hi (patterns, both positive): below the middle goes down,
 * above it up, and the middle itself to the even one. */
static void check_between(uint16_t (*narrow)(float), double lo, double hi, uint16_t h)
{
    float middle = (float)((lo + hi) / 2); /* exact: one more bit than the narrow type */

    GR_CHECK_EQ(narrow(nextafterf(middle, 0.0f)), h);
    GR_CHECK_EQ(narrow(middle), h + (h & 1));
    GR_CHECK_EQ(narrow(nextafterf(middle, INFINITY)), h + 1);
    GR_CHECK_EQ(narrow(-middle), 0x8000 | (h + (h & 1)));
}

static void rounding(void)
{
    for (uint16_t h = 0; h < 0x7bff; h++)
        check_between(gr_f32_to_f16, f16_value(h), f16_value((uint16_t)(h + 1)), h);
    for (uint16_t h = 0x0080; h < 0x7f7f; h++)
        check_between(gr_f32_to_bf16, (double)gr_bf16_to_f32(h),
                      (double)gr_bf16_to_f32((uint16_t)(h + 1)), h);
}

static void edges(void)
{
    GR_CHECK_EQ(gr_f32_to_f16(65504.0f), 0x7bff);
    GR_CHECK_EQ(gr_f32_to_f16(65519.996f), 0x7bff);
    GR_CHECK_EQ(gr_f32_to_f16(65520.0f), 0x7c00);
    GR_CHECK_EQ(gr_f32_to_f16(1e30f), 0x7c00);
    GR_CHECK_EQ(gr_f32_to_f16(-INFINITY), 0xfc00);
    GR_CHECK_EQ(gr_f32_to_f16(0x1p-25f), 0);
    GR_CHECK_EQ(gr_f32_to_f16(0x1.000002p-25f), 1);
    GR_CHECK_EQ(gr_f32_to_f16(-0x1p-30f), 0x8000);
    GR_CHECK_EQ(gr_f32_to_f16(0x1p-149f), 0);
    GR_CHECK_EQ(gr_f32_to_bf16(1.0f), 0x3f80);
    GR_CHECK_EQ(gr_f32_to_bf16(float_of(0x7f7fffff)), 0x7f80); /* largest f32 */
    GR_CHECK_EQ(gr_f32_to_bf16(float_of(0x00008001)), 0x0001);
    /* NaNs whose upper half alone would read as infinity. */
    GR_CHECK(isnan(gr_bf16_to_f32(gr_f32_to_bf16(float_of(0x7f800001)))));
    GR_CHECK(isnan(gr_bf16_to_f32(gr_f32_to_bf16(float_of(0xffffffff)))));
    GR_CHECK(isnan(gr_f16_to_f32(gr_f32_to_f16(float_of(0x7f800001)))));
    GR_CHECK(isnan(gr_f16_to_f32(gr_f32_to_f16(float_of(0xffffffff)))));
}

int main(void)
{
    round_trips();
    rounding();
    edges();
    return 0;
}
