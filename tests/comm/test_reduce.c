/*
 * The reduction kernels: every instruction set gives the bits of the scalar one, and that
 * one rounds each product and each sum on its own (a fused multiply-add would not).
 */
#include "base/cpu.h"
#include "base/half.h"
#include "base/random.h"
#include "check.h"
#include "comm/reduce.h"

#define MAX_PARTS 7
#define N_ELEM    1300 /* full blocks, small blocks and a rest */
#define PAD       8

static const gr_reduce_set *const sets[] = { &gr_reduce_scalar, &gr_reduce_avx2,
                                             &gr_reduce_avx512 };

static bool can_run(const gr_reduce_set *s)
{
    return s == &gr_reduce_scalar ||
           (s == &gr_reduce_avx2 ? gr_cpu_has_avx2() : gr_cpu_has_avx512());
}

/* Numbers of both signs, and among floats infinities and subnormals. All infinities are
 * positive: which NaN comes of adding two of them is the compiler's choice. */
static void fill(void *mem, gr_dtype t, size_t n, gr_mt19937 *r)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t u = gr_mt_u64(r);
        float f = (float)((double)(int64_t)u * 0x1p-60);

        if (u % 50 == 0)
            f = u & 64 ? INFINITY : 1e-40f;
        switch ((int)t) {
        case GR_F32: ((float *)mem)[i] = f; break;
        case GR_F64: ((double *)mem)[i] = (double)f * 1.0000000001; break;
        case GR_BF16: ((uint16_t *)mem)[i] = gr_f32_to_bf16(f); break;
        case GR_F16: ((uint16_t *)mem)[i] = gr_f32_to_f16(f); break;
        default: memcpy((char *)mem + i * gr_dtype_bytes(t), &u, gr_dtype_bytes(t));
        }
    }
}

static void run(const gr_reduce_set *set, gr_dtype t, gr_reduce op, char **parts, int n_parts)
{
    set->fn[t][op]((void *const *)parts, n_parts, PAD, N_ELEM, gr_reduce_scale(op, n_parts));
}

static void test_sets(gr_dtype t, gr_reduce op, int n_parts, gr_mt19937 *r)
{
    size_t n = N_ELEM + 2 * PAD, n_bytes = n * gr_dtype_bytes(t);
    char *in[MAX_PARTS], *want[MAX_PARTS], *got[MAX_PARTS];

    for (int p = 0; p < n_parts; p++) {
        in[p] = (char *)malloc(3 * n_bytes);
        want[p] = in[p] + n_bytes;
        got[p] = want[p] + n_bytes;
        fill(in[p], t, n, r);
        memcpy(want[p], in[p], n_bytes);
    }
    run(&gr_reduce_scalar, t, op, want, n_parts);
    for (size_t s = 1; s < 3; s++) {
        if (!can_run(sets[s]))
            continue;
        for (int p = 0; p < n_parts; p++)
            memcpy(got[p], in[p], n_bytes);
        run(sets[s], t, op, got, n_parts);
        for (int p = 0; p < n_parts; p++) /* the elements around the stretch too */
            GR_CHECK(memcmp(want[p], got[p], n_bytes) == 0);
    }
    for (int p = 0; p < n_parts; p++)
        free(in[p]);
}

static void test_rounding(void)
{
    /* 1/3 in f32 times 3 rounds to 1; fused, the rest of the product would survive. */
    float third = 1.0f / 3.0f;

    for (size_t s = 0; s < 3; s++)
        for (size_t n = 1; n <= 300; n += 23) {
            float a[300], b[300], c[300];
            float *parts[3] = { a, b, c };

            if (!can_run(sets[s]))
                continue;
            for (size_t i = 0; i < n; i++) {
                a[i] = -3.0f;
                b[i] = 3.0f;
                c[i] = 1e-9f;
            }
            sets[s]->fn[GR_F32][GR_REDUCE_AVG]((void *const *)parts, 3, 0, n, 1.0 / 3.0);
            for (size_t i = 0; i < n; i++) {
                volatile float term = 1e-9f * third;

                GR_CHECK(a[i] == term && b[i] == term && c[i] == term);
            }
        }
}

static void test_nan(void)
{
    for (size_t s = 0; s < 3; s++)
        for (int where = 0; where < 3; where++) {
            float a[40], b[40], c[40];
            float *parts[3] = { a, b, c };

            if (!can_run(sets[s]))
                continue;
            for (int i = 0; i < 40; i++)
                a[i] = b[i] = c[i] = (float)i;
            parts[where][7] = NAN;
            sets[s]->fn[GR_F32][GR_REDUCE_MAX]((void *const *)parts, 3, 0, 40, 1.0);
            GR_CHECK(isnan(a[7]) && isnan(b[7]) && isnan(c[7]) && c[8] == 8.0f);
        }
}

int main(void)
{
    gr_mt19937 r;
    gr_reduce_fn *fn;

    gr_mt_seed(&r, 1);
    for (int t = 0; t < GR_DTYPE_COUNT; t++)
        for (int op = 0; op < GR_REDUCE_COUNT; op++) {
            if (!gr_reduce_scalar.fn[t][op]) {
                GR_CHECK_FAILS(gr_reduce_pick(&fn, (gr_dtype)t, (gr_reduce)op), GR_ERR_ARG,
                               "is not defined");
                continue;
            }
            GR_CHECK_OK(gr_reduce_pick(&fn, (gr_dtype)t, (gr_reduce)op));
            for (int n = 1; n <= MAX_PARTS; n += 2)
                test_sets((gr_dtype)t, (gr_reduce)op, n, &r);
        }
    test_rounding();
    test_nan();
    GR_CHECK_FAILS(gr_reduce_pick(&fn, (gr_dtype)99, GR_REDUCE_SUM), GR_ERR_ARG, "99");
    return 0;
}
