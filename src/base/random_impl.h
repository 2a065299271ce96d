/* What the files of random numbers share. */
#ifndef GR_BASE_RANDOM_IMPL_H
#define GR_BASE_RANDOM_IMPL_H

#include "base/random.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 53 bits of a 64-bit draw, in [0, 1). */
double gr_mt_double(gr_mt19937 *r);
/* One of a pair by Box and Muller in double; the other waits in the generator. */
double gr_mt_normal_1(gr_mt19937 *r);

#ifdef __cplusplus
}
#endif

#endif
