/* All operators, in one plain array: for the test driver, the docs and plug-ins. */
#ifndef GR_OP_REGISTRY_H
#define GR_OP_REGISTRY_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const gr_op *const gr_op_registry[]; /* NULL ends it */
const gr_op *gr_op_find(const char *name);  /* NULL: none */

#ifdef __cplusplus
}
#endif

#endif
