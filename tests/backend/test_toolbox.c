/*
 * The part of the CUDA toolbox that is plain C: quotients by multiplication and walks through
 * strided tensors, which kernels take every address from.
 */
#include "backend/cuda/index.h"
#include "base/random.h"
#include "check.h"

#include <string.h>

static gr_mt19937 rng;

static int64_t drawn(int bits)
{
    return (int64_t)(gr_mt_u64(&rng) >> (64 - bits));
}

static void check_quotient(const gr_divider *d, int64_t n)
{
    GR_CHECK(gr_divide(d, n) == n / d->n);
    if (n <= INT32_MAX && d->n <= INT32_MAX)
        GR_CHECK(gr_divide32(d, (uint32_t)n) == (uint32_t)(n / d->n));
}

/* Around multiples, where a quotient that is off by one shows. */
static void check_divisor(int64_t by)
{
    gr_divider d = gr_divider_of(by);
    static const int64_t fixed[] = { 0, 1, 2, INT32_MAX - 1, INT32_MAX, INT64_MAX - 1, INT64_MAX };

    GR_CHECK(d.n == by);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        check_quotient(&d, fixed[i]);
    for (int i = 0; i < 50; i++) {
        int64_t near = drawn(1 + i % 63) / by * by;

        check_quotient(&d, near);
        if (near > 0)
            check_quotient(&d, near - 1);
        if (near <= INT64_MAX - by)
            check_quotient(&d, near + by - 1);
    }
}

static void quotients(void)
{
    for (int64_t by = 1; by <= 3000; by++)
        check_divisor(by);
    for (int k = 1; k < 63; k++) {
        check_divisor((int64_t)1 << k);
        check_divisor(((int64_t)1 << k) - (k > 1));
        check_divisor(((int64_t)1 << k) + 1);
        check_divisor(1 + drawn(k));
    }
    check_divisor(INT32_MAX);
    check_divisor(INT64_MAX);
}

typedef struct tensor {
    int n_dims;
    int64_t dim[GR_MAX_DIMS], stride[GR_INDEX_SETS][GR_MAX_DIMS];
} tensor;

static gr_index index_of(const tensor *t, int n_sets)
{
    gr_index x = gr_index_of(n_sets);

    for (int d = 0; d < t->n_dims; d++) {
        int64_t stride[GR_INDEX_SETS];

        for (int s = 0; s < GR_INDEX_SETS; s++)
            stride[s] = t->stride[s][d];
        gr_index_add(&x, t->dim[d], stride);
    }
    return x;
}

static int64_t place(const tensor *t, int set, int64_t i)
{
    int64_t at = 0;

    for (int d = t->n_dims - 1; d >= 0; d--) {
        at += i % t->dim[d] * t->stride[set][d];
        i /= t->dim[d];
    }
    return at;
}

static void check_walk(const tensor *t)
{
    gr_index x = index_of(t, GR_INDEX_SETS);
    int64_t count = 1;

    for (int d = 0; d < t->n_dims; d++)
        count *= t->dim[d];
    GR_CHECK(x.count == count);
    GR_CHECK(gr_index_is_small(&x));
    for (int64_t i = 0; i < count; i++) {
        int64_t at[GR_INDEX_SETS];

        gr_index_all(&x, i, at);
        for (int s = 0; s < GR_INDEX_SETS; s++) {
            GR_CHECK(at[s] == place(t, s, i));
            GR_CHECK(gr_index_at(&x, s, i) == at[s]);
            GR_CHECK(gr_index_at32(&x, s, (uint32_t)i) == at[s]);
        }
    }
}

/* Random shapes with sizes 1, broadcasts, steps backwards, and neighbours that join. */
static void walks(void)
{
    for (int n = 0; n < 500; n++) {
        tensor t;
        int64_t step = 1;

        memset(&t, 0, sizeof(t));
        t.n_dims = (int)drawn(3) % (GR_MAX_DIMS + 1);
        for (int d = t.n_dims - 1; d >= 0; d--) {
            t.dim[d] = 1 + drawn(2);
            t.stride[0][d] = step;
            t.stride[1][d] = drawn(1) ? step : 0;
            t.stride[2][d] = drawn(5) - 16;
            step *= t.dim[d];
        }
        check_walk(&t);
    }
}

/* A dense tensor is one dimension, a bias two, and one of no elements counts none. */
static void joined(void)
{
    tensor dense = { 3, { 4, 5, 6 }, { { 30, 6, 1 }, { 30, 6, 1 } } };
    tensor bias = { 3, { 4, 5, 6 }, { { 30, 6, 1 }, { 0, 0, 1 } } };
    tensor none = { 3, { 4, 0, 6 }, { { 0, 6, 1 } } };
    tensor large = { 2, { 65536, 65536 }, { { 65536, 1 } } };
    gr_index x = index_of(&dense, 2);

    GR_CHECK(x.n_dims == 1 && x.dim[0].n == 120);
    x = index_of(&bias, 2);
    GR_CHECK(x.n_dims == 2 && x.dim[0].n == 20 && x.dim[1].n == 6);
    x = index_of(&none, 1);
    GR_CHECK(x.count == 0);
    x = index_of(&large, 1);
    GR_CHECK(!gr_index_is_small(&x));
    GR_CHECK(gr_index_at(&x, 0, (int64_t)65535 * 65536 + 7) == (int64_t)65535 * 65536 + 7);
}

int main(void)
{
    gr_mt_seed(&rng, 3);
    quotients();
    walks();
    joined();
    return 0;
}
