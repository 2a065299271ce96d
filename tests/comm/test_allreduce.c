/*
 * All-reduce over the grid of ranks, counts, types and operations: through the exchange
 * space (start and finish) and on arbitrary memory. Rank r's element i is a small integer,
 * so every sum is exact in every type and known in closed form. P1, P2.
 */
#include "base/half.h"
#include "check.h"
#include "comm/pg.h"
#include "comm/world.h"

static const int ranks[] = { 1, 2, 3, 4, 7 };
static const size_t counts[] = { 0, 1, 2, 10, 100, 10007 };
static const gr_dtype types[] = { GR_F32, GR_F64, GR_BF16, GR_F16, GR_I32, GR_I64, GR_U8 };
static const gr_reduce ops[] = { GR_REDUCE_SUM, GR_REDUCE_AVG, GR_REDUCE_MAX, GR_REDUCE_MIN };

static void put(void *mem, gr_dtype t, size_t i, double v)
{
    switch ((int)t) {
    case GR_F32: ((float *)mem)[i] = (float)v; break;
    case GR_F64: ((double *)mem)[i] = v; break;
    case GR_BF16: ((uint16_t *)mem)[i] = gr_f32_to_bf16((float)v); break;
    case GR_F16: ((uint16_t *)mem)[i] = gr_f32_to_f16((float)v); break;
    case GR_I32: ((int32_t *)mem)[i] = (int32_t)v; break;
    case GR_I64: ((int64_t *)mem)[i] = (int64_t)v; break;
    default: ((uint8_t *)mem)[i] = (uint8_t)(int)v; break;
    }
}

static double get(const void *mem, gr_dtype t, size_t i)
{
    switch ((int)t) {
    case GR_F32: return (double)((const float *)mem)[i];
    case GR_F64: return ((const double *)mem)[i];
    case GR_BF16: return (double)gr_bf16_to_f32(((const uint16_t *)mem)[i]);
    case GR_F16: return (double)gr_f16_to_f32(((const uint16_t *)mem)[i]);
    case GR_I32: return (double)((const int32_t *)mem)[i];
    case GR_I64: return (double)((const int64_t *)mem)[i];
    default: return (double)((const uint8_t *)mem)[i];
    }
}

/* Rank r holds r + 1 + i % 5 at element i. */
static double contribution(int r, size_t i)
{
    return r + 1 + (double)(i % 5);
}

static double expected(gr_reduce op, int n, size_t i)
{
    double sum = n * (n + 1) / 2.0 + n * (double)(i % 5);

    switch (op) {
    case GR_REDUCE_SUM: return sum;
    case GR_REDUCE_AVG: return sum / n;
    case GR_REDUCE_MAX: return contribution(n - 1, i);
    case GR_REDUCE_MIN:
    case GR_REDUCE_PROD:
    case GR_REDUCE_OR: break;
    }
    return contribution(0, i);
}

/* Sums of small integers are exact; a scaled term is rounded once, and so is each sum. */
static double tolerance(gr_dtype t, gr_reduce op, int n)
{
    double eps = t == GR_F64 ? 0x1p-53 : t == GR_BF16 ? 0x1p-9 : t == GR_F16 ? 0x1p-12 : 0x1p-24;

    return op == GR_REDUCE_AVG ? (n + 2) * eps * (n + 5) : 0;
}

static void fill(void *mem, gr_dtype t, size_t n, int rank)
{
    for (size_t i = 0; i < n; i++)
        put(mem, t, i, contribution(rank, i));
}

static void check_all(const void *mem, gr_dtype t, gr_reduce op, size_t n, int n_ranks)
{
    for (size_t i = 0; i < n; i++)
        GR_CHECK_NEAR(get(mem, t, i), expected(op, n_ranks, i), tolerance(t, op, n_ranks));
}

/* Equal bits on all ranks: everybody holds what rank 0 holds. */
static gr_status check_equal(gr_pg *pg, const void *mem, size_t n_bytes)
{
    size_t sizes[WORLD_MAX];
    char **all;

    GR_TRY(gr_pg_gather_bytes(pg, mem, n_bytes, &all, sizes));
    for (int r = 0; r < gr_pg_size(pg); r++) {
        GR_CHECK_EQ(sizes[r], n_bytes);
        GR_CHECK(memcmp(all[r], all[0], n_bytes) == 0);
    }
    free(all);
    return GR_OK;
}

static gr_status one_case(gr_pg *pg, char *base, char *mem, gr_dtype t, gr_reduce op)
{
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
        size_t n = counts[k], n_bytes = n * gr_dtype_bytes(t);
        gr_coll c = { .label = "grid", .offset = 128, .n_elem = n, .dtype = t, .op = op };

        fill(base + c.offset, t, n, pg->rank);
        fill(mem, t, n, pg->rank);
        GR_TRY(gr_pg_start(pg, &c, NULL));
        GR_TRY(gr_pg_finish(pg, &c, NULL));
        GR_TRY(gr_pg_allreduce(pg, (gr_vec){ mem, n, t }, op));
        check_all(mem, t, op, n, pg->size);
        GR_CHECK(memcmp(base + c.offset, mem, n_bytes) == 0);
        GR_TRY(check_equal(pg, mem, n_bytes));
    }
    return GR_OK;
}

static gr_status grid(gr_pg *pg, void *arg)
{
    size_t n_bytes = 128 + 10007 * sizeof(double);
    char *mem = (char *)malloc(n_bytes);
    void *base;

    (void)arg;
    GR_CHECK_OK(gr_pg_exchange(pg, NULL, n_bytes, &base));
    for (size_t i = 0; i < n_bytes; i++)
        GR_CHECK_EQ(((char *)base)[i], 0);
    GR_CHECK_OK(gr_pg_barrier(pg));
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
        for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++)
            if (ops[o] != GR_REDUCE_AVG || gr_dtype_is_float(types[t]))
                GR_CHECK_OK(one_case(pg, (char *)base, mem, types[t], ops[o]));
    free(mem);
    return GR_OK;
}

/* Many pieces through the staging slots; the sum is rounded in rank order everywhere. */
static gr_status large(gr_pg *pg, void *arg)
{
    size_t n = 300001;
    float *mem = (float *)malloc(n * sizeof(float));

    (void)arg;
    for (size_t i = 0; i < n; i++)
        mem[i] = 1.0f / (float)(1 + pg->rank + (int)(i % 97));
    GR_CHECK_OK(gr_pg_allreduce(pg, (gr_vec){ mem, n, GR_F32 }, GR_REDUCE_AVG));
    for (size_t i = 0; i < n; i++) {
        volatile float s = 1.0f / (float)pg->size, sum = 0.0f;

        for (int r = 0; r < pg->size; r++) {
            volatile float term = 1.0f / (float)(1 + r + (int)(i % 97)) * s;

            sum = r == 0 ? term : sum + term;
        }
        GR_CHECK(mem[i] == sum);
    }
    free(mem);
    return GR_OK;
}

static gr_status refuses(gr_pg *pg, void *arg)
{
    int32_t x = 1;

    (void)arg;
    return gr_pg_allreduce(pg, (gr_vec){ &x, 1, GR_I32 }, GR_REDUCE_AVG);
}

int main(void)
{
    gr_error e[2];

    for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++)
        world_run(ranks[r], grid, NULL);
    world_run(3, large, NULL);
    world_try(2, 5000, refuses, NULL, e);
    GR_CHECK_EQ(e[0].status, GR_ERR_ARG);
    GR_CHECK(strstr(e[0].text, "average of i32"));
    return 0;
}
