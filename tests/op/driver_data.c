/* Elements as doubles, random data, and tolerances. */
#include "op/driver_impl.h"

#include "base/half.h"

#include <float.h>
#include <math.h>

double driver_get(gr_dtype t, const void *mem, int64_t i)
{
    switch (t) {
    case GR_F32: return (double)((const float *)mem)[i];
    case GR_F64: return ((const double *)mem)[i];
    case GR_BF16: return (double)gr_bf16_to_f32(((const uint16_t *)mem)[i]);
    case GR_F16: return (double)gr_f16_to_f32(((const uint16_t *)mem)[i]);
    case GR_I32: return (double)((const int32_t *)mem)[i];
    case GR_I64: return (double)((const int64_t *)mem)[i];
    case GR_U8:
    case GR_BOOL: return (double)((const uint8_t *)mem)[i];
    case GR_DTYPE_COUNT: break;
    }
    GR_BUG_IF(true);
}

void driver_set(gr_dtype t, void *mem, int64_t i, double x)
{
    switch (t) {
    case GR_F32: ((float *)mem)[i] = (float)x; return;
    case GR_F64: ((double *)mem)[i] = x; return;
    case GR_BF16: ((uint16_t *)mem)[i] = gr_f32_to_bf16((float)x); return;
    case GR_F16: ((uint16_t *)mem)[i] = gr_f32_to_f16((float)x); return;
    case GR_I32: ((int32_t *)mem)[i] = (int32_t)x; return;
    case GR_I64: ((int64_t *)mem)[i] = (int64_t)x; return;
    case GR_U8:
    case GR_BOOL: ((uint8_t *)mem)[i] = (uint8_t)x; return;
    case GR_DTYPE_COUNT: break;
    }
    GR_BUG_IF(true);
}

/* SplitMix64: the i-th number of stream `seed`, in [0, 1). */
static double uniform(uint64_t seed, int64_t i)
{
    uint64_t z = (seed + (uint64_t)i + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void default_range(gr_dtype t, double *lo, double *hi)
{
    *lo = gr_dtype_is_float(t) ? -2 : t == GR_U8 || t == GR_BOOL ? 0 : -5;
    *hi = gr_dtype_is_float(t) ? 2 : t == GR_U8 ? 9 : t == GR_BOOL ? 1 : 5;
}

void driver_fill(const driver_src *s, gr_dtype t, uint64_t seed, bool special, void *mem)
{
    static const double odd[] = { HUGE_VAL, -HUGE_VAL, (double)NAN, 0.0,    -0.0,
                                  3e38,     -3e38,     1e-40,       -1e-40, 88.7,
                                  -88.0,    -103.5,    0x1p-126,    1.0,    -1.0 };
    int64_t n = gr_shape_count(&s->shape);
    double lo = s->lo, hi = s->hi;

    if (lo == 0 && hi == 0 && !s->has_range)
        default_range(t, &lo, &hi);
    for (int64_t i = 0; i < n; i++) {
        double u = uniform(seed, i);
        double x = lo + u * (hi - lo);

        if (!gr_dtype_is_float(t))
            x = lo + floor(u * (hi - lo + 1));
        else if (fabs(x) < s->away)
            x = copysign(s->away + fabs(x), hi <= 0 ? -1 : lo >= 0 ? 1 : x);
        if (special && gr_dtype_is_float(t) && i % 5 == 3)
            x = odd[(i / 5 + (int64_t)(seed % 7)) % DRIVER_COUNT(odd)];
        driver_set(t, mem, i, x);
    }
}

/* Half the distance of neighbours, relative to the number. */
static double epsilon(gr_dtype t)
{
    switch ((int)t) {
    case GR_F64: return 0x1p-53;
    case GR_BF16: return 0x1p-8;
    case GR_F16: return 0x1p-11;
    default: return 0x1p-24;
    }
}

/* Below this, results may differ: subnormals, f16's own steps. */
static double smallest(gr_dtype t)
{
    switch ((int)t) {
    case GR_F64: return DBL_MIN;
    case GR_F16: return 0x1p-24;
    default: return (double)FLT_MIN;
    }
}

double driver_tolerance(const driver_case *c, int64_t n_reduced, gr_dtype store, double want)
{
    double eps = store == GR_F64 ? 0x1p-53 : 0x1p-24;
    double n = n_reduced > 1 ? (double)n_reduced : 1;
    double scale = c->scale > 0 ? c->scale : n_reduced > 0 ? 1 : 0;
    double slack = c->slack > 0 ? c->slack : 1;
    double low = store == GR_BF16 || store == GR_F16 ? c->low_abs * epsilon(store) : 0;

    return low + slack * 4 * eps * sqrt(n) * fmax(fabs(want), sqrt(n) * scale) +
           2 * epsilon(store) * fabs(want) + smallest(store);
}
