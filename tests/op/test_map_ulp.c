/*
 * The vector functions of map against libm in f64: a few ulp off, over numbers spread
 * evenly over all bit patterns, so that every exponent and both signs come by. An argument
 * "all" takes every number there is, which takes minutes.
 *
 * Derivatives are sums that vanish somewhere: those are measured in ulp of 1.
 */
#include "check.h"
#include "op/map/map_impl.h"

#include "base/cpu.h"

#define CHUNK 4096

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double gelu(double x)
{
    return x * 0.5 * erfc(-x * 0.70710678118654752440);
}

static double tanh_arg(double x)
{
    return x * (1.5957691216057308 + 0.071354816272600248 * x * x);
}

static double gelu_tanh(double x)
{
    return x / (1 + exp(-tanh_arg(x)));
}

static double silu_slope(double x)
{
    return 1 / (1 + exp(-x)) * (1 + x / (1 + exp(x)));
}

static double gelu_slope(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440) + x * 0.39894228040143267794 * exp(-0.5 * x * x);
}

static double gelu_tanh_slope(double x)
{
    double slope = 1.5957691216057308 + 0.21406444881780075 * x * x;

    return 1 / (1 + exp(-tanh_arg(x))) * (1 + x * slope / (1 + exp(tanh_arg(x))));
}

static float float_of(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* The distance of `got` from `want` in units of the last place of want as an f32. */
static double ulps(float got, double want, double least)
{
    double unit = 0x1p-149;

    if (isnan(want))
        return isnan(got) ? 0 : HUGE_VAL;
    if (isinf((float)want))
        return got == (float)want ? 0 : HUGE_VAL;
    if (fabs(want) >= 0x1p-126 || least > 0)
        unit = ldexp(1, ilogb(fmax(fabs(want), least)) - 23);
    return fabs((double)got - want) / unit;
}

typedef struct function {
    gr_scalar_fn fn;
    double (*exact)(double);
    double limit;  /* ulp */
    bool is_slope; /* of two arguments, the first of which is 1 */
    double most;   /* arguments beyond it are left out; 0: none */
    double least;  /* results smaller than it are measured as if they were it */
} function;

static const function functions[] = {
    { GR_FN_EXP, exp, 2, false, 0, 0 },
    { GR_FN_LOG, log, 2, false, 0, 0 },
    { GR_FN_TANH, tanh, 2, false, 0, 0 },
    { GR_FN_SIGMOID, sigmoid, 2, false, 0, 0 },
    { GR_FN_LOG1P, log1p, 3, false, 0, 0 },
    { GR_FN_SOFTPLUS, softplus, 3, false, 0, 0 },
    { GR_FN_ERF, erf, 2, false, 0, 0 },
    { GR_FN_SIN, sin, 2, false, 0, 0 },
    { GR_FN_COS, cos, 2, false, 0, 0 },
    /* e^x is subnormal before the result is: that is where `least` begins. */
    { GR_FN_SILU, silu, 4, false, 0, 0x1p-118 },
    { GR_FN_GELU, gelu, 8, false, 0, 0x1p-118 },
    { GR_FN_SILU_GRAD, silu_slope, 3, true, 1e30, 1 },
    { GR_FN_GELU_GRAD, gelu_slope, 3, true, 1e18, 1 },
    /* x + k x^3 is rounded before e is raised to it: half an ulp of 80 shows. */
    { GR_FN_GELU_TANH, gelu_tanh, 200, false, 1e12, 0x1p-118 },
    { GR_FN_GELU_TANH_GRAD, gelu_tanh_slope, 4, true, 1e12, 1 },
};

static void check_value(const function *f, float x, float got, double *worst)
{
    double want = f->exact((double)x);
    double off = ulps(got, want, f->least);

    if (!(off <= f->limit)) {
        fprintf(stderr, "%s(%a) = %a, exactly %a: %g ulp off\n", gr_scalar_name(f->fn), (double)x,
                (double)got, want, off);
        exit(1);
    }
    *worst = off > *worst ? off : *worst;
}

static void check_function(const function *f, gr_map_loop *loop, uint32_t step)
{
    static float in[CHUNK], out[CHUNK], one[CHUNK];
    double worst = 0;
    uint64_t bits = 0;

    while (bits <= UINT32_MAX) {
        int64_t n = 0;

        for (; n < CHUNK - 3 && bits <= UINT32_MAX; bits += step) {
            float x = float_of((uint32_t)bits);

            one[n] = 1;
            if (f->most == 0 || fabs((double)x) < f->most)
                in[n++] = x;
        }
        loop(out, f->is_slope ? one : in, f->is_slope ? in : NULL, NULL, n);
        for (int64_t i = 0; i < n; i++)
            check_value(f, in[i], out[i], &worst);
    }
    printf("%s: at most %.3f ulp\n", gr_scalar_name(f->fn), worst);
}

static void check_isa(const gr_map_isa *isa, uint32_t step)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        check_function(&functions[i], isa->fast[functions[i].fn], step);
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
