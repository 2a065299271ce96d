/* Element types: one table made from GR_DTYPE_MAP. Any thread. */
#include "gradus/tensor.h"

#include "base/status.h"

static const struct {
    const char *name;
    size_t bytes;
    bool is_float;
} info[GR_DTYPE_COUNT] = {
#define X(id, name, st_name, bytes, is_float) { name, bytes, is_float },
    GR_DTYPE_MAP(X)
#undef X
};

const char *gr_dtype_name(gr_dtype t)
{
    GR_BUG_IF((unsigned)t >= GR_DTYPE_COUNT);
    return info[t].name;
}

size_t gr_dtype_bytes(gr_dtype t)
{
    GR_BUG_IF((unsigned)t >= GR_DTYPE_COUNT);
    return info[t].bytes;
}

bool gr_dtype_is_float(gr_dtype t)
{
    GR_BUG_IF((unsigned)t >= GR_DTYPE_COUNT);
    return info[t].is_float;
}
