/* Exact sums. */
#include "train/exact.h"

#include <math.h>

#define PART_BITS 52
#define PART_ONE  (INT64_C(1) << PART_BITS)
#define MOST      0x1p50             /* of one number */
#define MOST_SUM  (INT64_C(1) << 55) /* of one rank, so that those of 128 ranks still add up */

void gr_exact_add(gr_exact *s, double x)
{
    double whole = floor(x);

    if (!(fabs(x) < MOST)) {
        s->n_bad++;
        return;
    }
    s->part += (int64_t)nearbyint((x - whole) * (double)PART_ONE);
    s->whole += (int64_t)whole + (s->part >> PART_BITS);
    s->part &= PART_ONE - 1;
    if (s->whole >= MOST_SUM || s->whole <= -MOST_SUM)
        s->n_bad++;
}

double gr_exact_value(const gr_exact *s)
{
    if (s->n_bad > 0)
        return (double)NAN;
    return (double)(s->whole + (s->part >> PART_BITS)) +
           (double)(s->part & (PART_ONE - 1)) / (double)PART_ONE;
}
