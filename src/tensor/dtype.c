/* Element types: one table made from GR_DTYPE_MAP. Any thread. */
#include "gradus/tensor.h"

static const struct {
    const char *name;
    size_t bytes;
    bool is_float;
} info[GR_DTYPE_COUNT] = {
#define X(id, name, st_name, bytes, is_float) { name, bytes, is_float },
    GR_DTYPE_MAP(X)
#undef X
};

/* Callers hand over any number; what it is for is checked, and refused, where it is used. */
static bool is_known(gr_dtype t)
{
    return (unsigned)t < GR_DTYPE_COUNT;
}

const char *gr_dtype_name(gr_dtype t)
{
    return is_known(t) ? info[t].name : "no type";
}

size_t gr_dtype_bytes(gr_dtype t)
{
    return is_known(t) ? info[t].bytes : 0;
}

bool gr_dtype_is_float(gr_dtype t)
{
    return is_known(t) && info[t].is_float;
}
