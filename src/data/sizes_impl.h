/* What the two files of sizes share. */
#ifndef GR_DATA_SIZES_IMPL_H
#define GR_DATA_SIZES_IMPL_H

#include "data/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Each sample's kind, when the sizes are there. */
void gr_sizes_assign(gr_sizes *s);

#ifdef __cplusplus
}
#endif

#endif
