/* Numbers for people. NaN has a sign, which x86 sets, printf shows and nothing means. */
#ifndef GR_BASE_NAN_H
#define GR_BASE_NAN_H

#include <math.h>

/* x; NaN as one that is printed as "nan", never "-nan". */
static inline double gr_plain_nan(double x)
{
    return isnan(x) ? (double)NAN : x;
}

#endif
