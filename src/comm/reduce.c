/* Which reduction kernel this machine takes. */
#include "comm/reduce.h"

#include "base/cpu.h"

const char *gr_reduce_name(gr_reduce op)
{
    static const char *const names[GR_REDUCE_COUNT] = { "sum",     "average", "maximum",
                                                        "minimum", "product", "bit-or" };

    return (unsigned)op < GR_REDUCE_COUNT ? names[op] : "unknown";
}

static gr_status check(gr_dtype t, gr_reduce op)
{
    if ((unsigned)t >= GR_DTYPE_COUNT || (unsigned)op >= GR_REDUCE_COUNT)
        return gr_fail(GR_ERR_ARG, "no such element type (%d) or reduction (%d)", (int)t, (int)op);
    if (!gr_reduce_scalar.fn[t][op])
        return gr_fail(GR_ERR_ARG, "the %s of %s elements is not defined", gr_reduce_name(op),
                       gr_dtype_name(t));
    return GR_OK;
}

static const gr_reduce_set *best_set(void)
{
    if (gr_cpu_has_avx512())
        return &gr_reduce_avx512;
    return gr_cpu_has_avx2() ? &gr_reduce_avx2 : &gr_reduce_scalar;
}

gr_status gr_reduce_pick(gr_reduce_fn **out, gr_dtype t, gr_reduce op)
{
    GR_TRY(check(t, op));
    *out = best_set()->fn[t][op];
    return GR_OK;
}

gr_status gr_fold_pick(gr_fold_fn **out, gr_dtype t, gr_reduce op)
{
    GR_TRY(check(t, op));
    *out = best_set()->fold[t][op];
    return GR_OK;
}

size_t gr_fold_wide_bytes(gr_dtype t)
{
    return t == GR_BF16 || t == GR_F16 ? sizeof(float) : gr_dtype_bytes(t);
}
