/* Which reduction kernel this machine takes. */
#include "comm/reduce.h"

#include "base/cpu.h"

const char *gr_reduce_name(gr_reduce op)
{
    static const char *const names[GR_REDUCE_COUNT] = { "sum", "average", "maximum", "minimum" };

    return (unsigned)op < GR_REDUCE_COUNT ? names[op] : "unknown";
}

gr_status gr_reduce_pick(gr_reduce_fn **out, gr_dtype t, gr_reduce op)
{
    const gr_reduce_set *set = &gr_reduce_scalar;

    if ((unsigned)t >= GR_DTYPE_COUNT || (unsigned)op >= GR_REDUCE_COUNT)
        return gr_fail(GR_ERR_ARG, "no such element type (%d) or reduction (%d)", (int)t, (int)op);
    if (gr_cpu_has_avx512())
        set = &gr_reduce_avx512;
    else if (gr_cpu_has_avx2())
        set = &gr_reduce_avx2;
    *out = set->fn[t][op];
    if (!*out)
        return gr_fail(GR_ERR_ARG, "the %s of %s elements is not defined", gr_reduce_name(op),
                       gr_dtype_name(t));
    return GR_OK;
}
