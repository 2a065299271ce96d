/* How a CPU kernel reports an index out of range. */
#ifndef GR_OP_FAULT_H
#define GR_OP_FAULT_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first caller wins, from whatever thread; `row` is the element that held `value`,
 * which had to be in [0, limit). Kernels go on with something harmless. */
void gr_fault_set(const gr_launch *l, int64_t value, int64_t limit, int64_t row);

#ifdef __cplusplus
}
#endif

#endif
