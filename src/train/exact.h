/*
 * Sums that come out the same however they are cut up: whole numbers of 2^-52, as those of mean.h,
 * for many numbers at a time. What is not finite, or too large for that, makes the sum NaN.
 */
#ifndef GR_TRAIN_EXACT_H
#define GR_TRAIN_EXACT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* whole + part / 2^52. Three whole numbers, so that sums of ranks are added as those. */
typedef struct gr_exact {
    int64_t whole, part, n_bad;
} gr_exact;

#define GR_EXACT_INTS 3

void gr_exact_add(gr_exact *s, double x);
/* `part` may be that of several sums. */
double gr_exact_value(const gr_exact *s);

#ifdef __cplusplus
}
#endif

#endif
