/* Test data and its sums. */
#include "comm/fill.h"

#include "base/half.h"
#include "check.h"
#include "comm/reduce.h"

static double element(int rank, size_t i, unsigned seed)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u + seed * 97u;

    x ^= x >> 13;
    x *= 0x5bd1e995u;
    x ^= x >> 15;
    return (double)(x % 2001) / 1000.0 - 1.0 + 0.0001 * (double)(x % 7);
}

void fill_vector(void *mem, gr_dtype t, size_t n, int rank, unsigned seed)
{
    for (size_t i = 0; i < n; i++) {
        double v = element(rank, i, seed);
        int k = 1 + (int)(v * 3 + 3) % 5;

        switch ((int)t) {
        case GR_F32: ((float *)mem)[i] = (float)v; break;
        case GR_F64: ((double *)mem)[i] = v; break;
        case GR_BF16: ((uint16_t *)mem)[i] = gr_f32_to_bf16((float)v); break;
        case GR_F16: ((uint16_t *)mem)[i] = gr_f32_to_f16((float)v); break;
        case GR_I32: ((int32_t *)mem)[i] = k; break;
        case GR_I64: ((int64_t *)mem)[i] = k; break;
        default: ((uint8_t *)mem)[i] = (uint8_t)k; break;
        }
    }
}

void fill_expected(void *mem, const fill_sum *s, size_t first, size_t n)
{
    size_t elem_bytes = gr_dtype_bytes(s->dtype), n_bytes = (first + n) * elem_bytes;
    char *all = (char *)malloc((size_t)s->n_ranks * (n_bytes + 1));
    const void **src = (const void **)malloc((size_t)s->n_ranks * sizeof(*src));
    void *dst = mem;
    gr_fold f = { .src = src,
                  .n_src = s->n_ranks,
                  .dst = &dst,
                  .n_dst = 1,
                  .n_elem = n,
                  .scale = gr_reduce_scale(s->op, s->n_ranks) };

    for (int r = 0; r < s->n_ranks; r++) {
        char *one = all + (size_t)r * n_bytes;

        fill_vector(one, s->dtype, first + n, r, s->seed);
        src[r] = one + first * elem_bytes;
    }
    if (n > 0)
        gr_reduce_scalar.fold[s->dtype][s->op](&f);
    free((void *)src);
    free(all);
}
