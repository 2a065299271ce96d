/* Checked size arithmetic. Any thread. */
#include "base/size.h"

gr_status gr_size_mul(size_t *out, size_t a, size_t b)
{
    if (__builtin_mul_overflow(a, b, out))
        return gr_fail(GR_ERR_ARG, "%zu times %zu is more than a size can hold", a, b);
    return GR_OK;
}

gr_status gr_size_add(size_t *out, size_t a, size_t b)
{
    if (__builtin_add_overflow(a, b, out))
        return gr_fail(GR_ERR_ARG, "%zu plus %zu is more than a size can hold", a, b);
    return GR_OK;
}
