/*
 * Vectors of f32 and functions of them, written once and compiled per instruction set. Included
 * by vf_avx2_body.h and vf_avx512_body.h, which define
 *   WIDTH                 f32 elements per vector
 *   FMA(a, b, c)          a * b + c, rounded once
 *   VMIN(a, b), VMAX      give b when one of them is NaN
 *   VSQRT(a)              rounded once
 *   VRCP(a)               1 / a, 1 ulp off at most; a is between 1 and 2^20
 *   VSCALE(a, n)          a * 2^n for whole n in [-252, 127], as a float
 *   ANY(m)                whether a lane of m is all ones
 *   SELECT(m, a, b)       m is all ones: a, all zeros: b; per element
 *   F16_LOAD(p), F16_STORE(p, v)   WIDTH halves from memory and to memory
 *
 * How far each is off is measured by tests/op/test_map_ulp.c. Polynomials are minimax fits.
 * Nothing traps, NaN goes through, and a lane's result does not depend on the others.
 */
#ifndef GR_OP_MAP_VF_BODY_H
#define GR_OP_MAP_VF_BODY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float vf __attribute__((vector_size(WIDTH * 4)));
typedef int32_t vi __attribute__((vector_size(WIDTH * 4)));
typedef uint32_t vu __attribute__((vector_size(WIDTH * 4))); /* may wrap, as NaN's bits do */

static inline vf splat(float x)
{
    return (vf){ 0 } + x;
}

/* 2^n as a float, -126 <= n <= 127. */
static inline vf power_of_2(vi n)
{
    return (vf)(((vu)n + 127) << 23);
}

/* x * 2^n for whole n, in two halves, each a normal number: the result is rounded once even
 * when it is subnormal. */
static inline vf scale_of(vf x, vf n)
{
    vi whole = __builtin_convertvector(n, vi);

    return x * power_of_2(whole >> 1) * power_of_2(whole - (whole >> 1));
}

/* A better guess r of 1 / d. */
static inline vf nearer(vf d, vf r)
{
    return FMA(FMA(-d, r, splat(1)), r, r);
}

/*
 * e^x for -104 <= x <= 89, or NaN: x = n ln2 + r with |r| <= ln2 / 2, and
 * e^r = 1 + r + r^2 P(r). 2^n is applied in two halves, each a normal number, so the
 * result is rounded once even when it is subnormal, and overflows to infinity.
 */
static inline vf exp_core(vf x)
{
    const vf magic = splat(0x1.8p23f); /* adding it rounds to a whole number */
    const vf ln2_lo = splat(-0x1.0bfbe8p-15f);
    vf z = FMA(x, splat(0x1.715476p+0f), magic);
    vf n = z - magic;
    vi ni = (vi)((vu)z - (vu)magic);
    vf hi = FMA(n, splat(-0x1.62ep-1f), x); /* exact */
    vf r = FMA(n, ln2_lo, hi);
    vf s = splat(1) + r;
    vf lost = r - (s - splat(1)) + FMA(n, ln2_lo, hi - r); /* by r and by s */
    vf p = splat(0x1.6dbc68p-10f);

    p = FMA(p, r, splat(0x1.124148p-7f));
    p = FMA(p, r, splat(0x1.555454p-5f));
    p = FMA(p, r, splat(0x1.555486p-3f));
    p = FMA(p, r, splat(0.5f));
    p = s + FMA(p, r * r, lost);
    return p * power_of_2(ni >> 1) * power_of_2(ni - (ni >> 1));
}

static inline vf vec_exp(vf x)
{
    return exp_core(VMAX(splat(-104), VMIN(splat(89), x)));
}

/*
 * x = 2^e m with m in [sqrt(1/2), sqrt(2)), f = m - 1, which is exact, and
 * log(1 + f) = f - f^2 / 2 + f^3 P(f). Subnormals are scaled up first.
 */
static inline vf vec_log(vf x)
{
    vi tiny = x < splat(0x1p-126f);
    vf s = SELECT(tiny, x * splat(0x1p23f), x);
    vi e = (vi)((vu)s - 0x3f3504f3) >> 23;
    vf f = (vf)((vu)s - ((vu)e << 23)) - splat(1);
    vf ef = __builtin_convertvector(e - (tiny & 23), vf);
    vf ff = f * f;
    vf p = splat(0x1.1457c4p-4f), y;

    p = FMA(p, f, splat(-0x1.de3c1cp-4f));
    p = FMA(p, f, splat(0x1.e6f062p-4f));
    p = FMA(p, f, splat(-0x1.fc2206p-4f));
    p = FMA(p, f, splat(0x1.233768p-3f));
    p = FMA(p, f, splat(-0x1.555c4ep-3f));
    p = FMA(p, f, splat(0x1.99a4b6p-3f));
    p = FMA(p, f, splat(-0x1.000006p-2f));
    p = FMA(p, f, splat(0x1.555548p-2f));
    y = FMA(ef, splat(0x1.0bfbe8p-15f), p * ff * f);
    y = FMA(splat(-0.5f), ff, y) + f;
    y = FMA(ef, splat(0x1.62ep-1f), y);
    y = SELECT(x == splat(INFINITY), x, y);
    y = SELECT(x == splat(0), splat(-INFINITY), y);
    return SELECT(x >= splat(0), y, splat(NAN));
}

static inline vf vec_abs(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

/* Near 0: x + x^3 P(x^2). Else 1 - 2 / (e^(2|x|) + 1), which is 1 from 9.1 on. */
static inline vf vec_tanh(vf x)
{
    vf a = vec_abs(x);
    vf xx = x * x;
    vf p = splat(0x1.0df40ep-9f);
    vf far = splat(1) - splat(2) / (exp_core(splat(2) * VMIN(splat(10), a)) + splat(1));

    p = FMA(p, xx, splat(-0x1.08f326p-7f));
    p = FMA(p, xx, splat(0x1.62eee6p-6f));
    p = FMA(p, xx, splat(-0x1.b9e042p-5f));
    p = FMA(p, xx, splat(0x1.11101ep-3f));
    p = FMA(p, xx, splat(-0x1.555552p-2f));
    far = (vf)((vi)far | ((vi)x & INT32_MIN));
    return SELECT(a < splat(0.625f), FMA(p, xx * x, x), far);
}

/* With e = e^-|x|: 1 / (1 + e) for x >= 0, e / (1 + e) below; neither overflows. The
 * quotient is corrected by what it and the sum 1 + e lost. */
static inline vf vec_sigmoid(vf x)
{
    vf e = exp_core(VMAX(splat(-104), -vec_abs(x)));
    vf num = SELECT(x < splat(0), e, splat(1));
    vf d = splat(1) + e, inv = splat(1) / d;
    vf lost = e - (d - splat(1));
    vf q = num * inv;

    return FMA(FMA(-q, d, num) - q * lost, inv, q);
}

/* e^x for -104 <= x <= 88, or NaN: as exp_core(), 1 ulp worse and shorter. */
static inline vf exp_short(vf x)
{
    const vf magic = splat(0x1.8p23f);
    vf z = FMA(x, splat(0x1.715476p+0f), magic);
    vf n = z - magic;
    vf r = FMA(n, splat(-0x1.0bfbe8p-15f), FMA(n, splat(-0x1.62ep-1f), x));
    vf p = splat(0x1.6a23c8p-10f);

    p = FMA(p, r, splat(0x1.123a2p-7f));
    p = FMA(p, r, splat(0x1.5558f4p-5f));
    p = FMA(p, r, splat(0x1.555492p-3f));
    p = FMA(p, r, splat(0x1.fffffcp-2f));
    p = FMA(p, r * r, r) + splat(1);
    return VSCALE(p, n);
}

/* sigmoid(x) as num / (1 + e), and its complement. */
typedef struct halves {
    vf s, rest; /* sigmoid(x), 1 - sigmoid(x) */
} halves;

static inline halves sigmoid_halves(vf x)
{
    vf e = exp_short(VMAX(splat(-104), -vec_abs(x)));
    vf inv = VRCP(splat(1) + e);
    vi below = x < splat(0);

    return (halves){ SELECT(below, e, splat(1)) * inv, SELECT(below, splat(1), e) * inv };
}

static inline vf vec_silu(vf x)
{
    return x * sigmoid_halves(x).s;
}

static inline vf vec_silu_grad(vf g, vf x)
{
    halves h = sigmoid_halves(x);

    return g * (h.s * FMA(x, h.rest, splat(1)));
}

/* gelu by tanh is x sigmoid(x (c + k x^2)). */
#define TANH_C splat(1.5957691216057308f)
#define TANH_K splat(0.071354816272600248f)

static inline vf vec_gelu_tanh(vf x)
{
    return x * sigmoid_halves(x * FMA(x * x, TANH_K, TANH_C)).s;
}

static inline vf vec_gelu_tanh_grad(vf g, vf x)
{
    vf xx = x * x;
    halves h = sigmoid_halves(x * FMA(xx, TANH_K, TANH_C));
    vf slope = FMA(xx, splat(0.21406444881780075f), TANH_C);

    return g * (h.s * FMA(x * slope, h.rest, splat(1)));
}

/*
 * The tail of the normal distribution: q = erfc(t / sqrt 2) / 2 = E R for t >= 0, where
 * E = e^(-t^2 / 2) and R is smooth: w P(w) with w = 1 / (1 + 0.35 t). What t^2 loses by
 * rounding is put back, or it would show in E.
 */
typedef struct tail {
    vf q, e;
} tail;

static inline tail normal_tail(vf t)
{
    vf bounded = VMIN(splat(15), t); /* q is 0 from 14.5 on */
    vf square = bounded * bounded;
    vf lost = FMA(bounded, bounded, -square);
    vf e = exp_short(VMAX(splat(-104), splat(-0.5f) * square));
    vf w = VRCP(FMA(bounded, splat(0x1.666666p-2f), splat(1)));
    vf p = splat(-0x1.ddbe9ap-6f);

    e = FMA(e, splat(-0.5f) * lost, e);
    p = FMA(p, w, splat(0x1.26fd3p-3f));
    p = FMA(p, w, splat(-0x1.05fe6cp-2f));
    p = FMA(p, w, splat(0x1.465256p-3f));
    p = FMA(p, w, splat(-0x1.7c82e2p-6f));
    p = FMA(p, w, splat(0x1.b05d7ap-4f));
    p = FMA(p, w, splat(0x1.eac83ap-4f));
    p = FMA(p, w, splat(0x1.1e70dep-3f));
    p = FMA(p, w, splat(0x1.1df1c4p-3f));
    return (tail){ p * w * e, e };
}

static inline vf vec_gelu(vf x)
{
    vf q = normal_tail(vec_abs(x)).q;

    return x * SELECT(x < splat(0), q, splat(1) - q);
}

static inline vf vec_gelu_grad(vf g, vf x)
{
    tail t = normal_tail(vec_abs(x));
    vf below = SELECT(x < splat(0), t.q, splat(1) - t.q);

    return g * FMA(x * splat(0.39894228040143268f), t.e, below);
}

/* x P(x^2) up to 0.9, then 1 - 2 q. */
static inline vf vec_erf(vf x)
{
    vf a = vec_abs(x), xx = x * x;
    vf far = FMA(splat(-2), normal_tail(a * splat(0x1.6a09e6p+0f)).q, splat(1));
    vf p = splat(0x1.651108p-14f);

    p = FMA(p, xx, splat(-0x1.aca3a8p-11f));
    p = FMA(p, xx, splat(0x1.550a48p-8f));
    p = FMA(p, xx, splat(-0x1.b81524p-6f));
    p = FMA(p, xx, splat(0x1.ce2e54p-4f));
    p = FMA(p, xx, splat(-0x1.812744p-2f));
    p = FMA(p, xx, splat(0.12837916709551256f)); /* the first coefficient, less 1 */
    far = (vf)((vi)far | ((vi)x & INT32_MIN));
    return SELECT(a < splat(0.9f), FMA(p, x, x), far);
}

/* log(u) and what the sum u = 1 + x lost; the latter is not a number at infinities and 0. */
static inline vf vec_log1p(vf x)
{
    vf u = splat(1) + x;
    vf lost = (x - (u - splat(1))) / u;

    return vec_log(u) + SELECT(vec_abs(lost) < splat(1), lost, splat(0));
}

static inline vf vec_softplus(vf x)
{
    vf e = exp_core(VMAX(splat(-104), -vec_abs(x)));

    return VMAX(splat(0), x) + vec_log1p(e);
}

/*
 * Sine and cosine: x = n pi/2 + r, |r| <= pi/4, pi/2 in three parts, each of which is
 * subtracted with one rounding. That holds up to TURNS; beyond it libm takes the lane.
 */
#define TURNS splat(100000)

/* sin(r + turn pi/2) for |r| <= pi/4. */
static inline vf sine_part(vf r, vi turn)
{
    vf rr = r * r;
    vf s = FMA(splat(0x1.6ccf5ep-19f), rr, splat(-0x1.a00f74p-13f));
    vf c = FMA(splat(0x1.99e86ap-16f), rr, splat(-0x1.6c0c28p-10f));

    s = FMA(s, rr, splat(0x1.111108p-7f));
    s = FMA(s, rr, splat(-0x1.555556p-3f));
    s = FMA(s, rr * r, r);
    c = FMA(c, rr, splat(0x1.55554ap-5f));
    c = FMA(FMA(c, rr, splat(-0.5f)), rr, splat(1));
    s = SELECT((turn << 31), c, s);
    return (vf)((vi)s ^ ((turn & 2) << 30));
}

static inline vf sine_of(vf x, int quarter)
{
    const vf magic = splat(0x1.8p23f);
    vf z = FMA(x, splat(0x1.45f306p-1f), magic);
    vf n = z - magic;
    vf r = FMA(n, splat(-0x1.921fb6p+0f), x);

    r = FMA(n, splat(0x1.777a5cp-25f), r);
    r = FMA(n, splat(0x1.ee59dap-50f), r);
    return sine_part(r, (vi)((vu)z - (vu)magic) + quarter);
}

static inline vf far_lanes(vf x, vf y, float (*libm)(float))
{
    float in[WIDTH], out[WIDTH];

    memcpy(in, &x, sizeof(in));
    memcpy(out, &y, sizeof(out));
    for (int i = 0; i < WIDTH; i++)
        if (!(fabsf(in[i]) <= TURNS[0]))
            out[i] = libm(in[i]);
    memcpy(&y, out, sizeof(y));
    return y;
}

static inline vf vec_sin(vf x)
{
    vf y = sine_of(x, 0);

    return ANY(~(vec_abs(x) <= TURNS)) ? far_lanes(x, y, sinf) : y;
}

static inline vf vec_cos(vf x)
{
    vf y = sine_of(x, 1);

    return ANY(~(vec_abs(x) <= TURNS)) ? far_lanes(x, y, cosf) : y;
}

#endif
