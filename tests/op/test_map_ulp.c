/*
 * The vector functions of map against libm in f64: at most 2 ulp off, over numbers spread
 * evenly over all bit patterns, so that every exponent and both signs come by. An argument
 * "all" takes every number there is, which takes minutes.
 */
#include "check.h"
#include "op/map/map_impl.h"

#include "base/cpu.h"

#define CHUNK 4096

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static float float_of(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* The distance of `got` from `want` in units of the last place of want as an f32. */
static double ulps(float got, double want)
{
    double unit = 0x1p-149;

    if (isnan(want))
        return isnan(got) ? 0 : HUGE_VAL;
    if (isinf((float)want))
        return got == (float)want ? 0 : HUGE_VAL;
    if (fabs(want) >= 0x1p-126)
        unit = ldexp(1, ilogb(want) - 23);
    return fabs((double)got - want) / unit;
}

static void check_function(const char *name, gr_map_loop *loop, double (*exact)(double),
                           uint32_t step)
{
    static float in[CHUNK], out[CHUNK];
    double worst = 0;
    uint64_t bits = 0;

    while (bits <= UINT32_MAX) {
        int64_t n = 0;

        for (; n < CHUNK - 3 && bits <= UINT32_MAX; bits += step)
            in[n++] = float_of((uint32_t)bits);
        loop(out, in, NULL, NULL, n);
        for (int64_t i = 0; i < n; i++) {
            double off = ulps(out[i], exact((double)in[i]));

            if (!(off <= 2)) {
                fprintf(stderr, "%s(%a) = %a, exactly %a: %g ulp off\n", name, (double)in[i],
                        (double)out[i], exact((double)in[i]), off);
                exit(1);
            }
            worst = off > worst ? off : worst;
        }
    }
    printf("%s: at most %.3f ulp\n", name, worst);
}

static void check_isa(const gr_map_isa *isa, uint32_t step)
{
    check_function("exp", isa->fast[GR_FN_EXP], exp, step);
    check_function("log", isa->fast[GR_FN_LOG], log, step);
    check_function("tanh", isa->fast[GR_FN_TANH], tanh, step);
    check_function("sigmoid", isa->fast[GR_FN_SIGMOID], sigmoid, step);
}

int main(int argc, char **argv)
{
    uint32_t step = argc > 1 && strcmp(argv[1], "all") == 0 ? 1 : 4099;

    if (gr_cpu_has_avx2())
        check_isa(&gr_map_avx2, step);
    if (gr_cpu_has_avx512())
        check_isa(&gr_map_avx512, step);
    return 0;
}
