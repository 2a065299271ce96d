/* Where uniform numbers lie: the same for every kernel, on the CPU and on GPUs. */
#ifndef GR_OP_RANDOM_SPAN_H
#define GR_OP_RANDOM_SPAN_H

#include "op/element.h"
#include "op/random/random.h"

#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many bits a uniform number has. */
static inline int gr_random_bits(gr_dtype t)
{
    return t == GR_BF16 ? 8 : t == GR_F16 ? 11 : 24;
}

static inline double gr_random_rounded(double x, gr_dtype t)
{
    double mem;

    gr_element_put_f64(&mem, t, 0, x);
    return gr_element_f64(&mem, t, 0);
}

/* The greatest that is given: below the range's end in the node's type, unless there is no
 * number in between. */
static inline double gr_random_most(const gr_random_attr *at)
{
    double back = (at->b - at->a) * ldexp(1, -gr_random_bits(at->dtype));
    double most = gr_random_rounded(at->b - back, at->dtype);

    for (; back > 0 && most >= at->b && most > at->a; back *= 2)
        most = gr_random_rounded(at->b - 2 * back, at->dtype);
    return most > at->a && most < at->b ? most : at->a;
}

#ifdef __cplusplus
}
#endif

#endif
