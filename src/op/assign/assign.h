/*
 * assign: buffer, value -> the buffer's new value, written where the old one lies. What
 * gr_assign() adds. The value has the buffer's shape and type; bf16 and f16 are taken for
 * f32, since mixed precision may have made the value so.
 */
#ifndef GR_OP_ASSIGN_ASSIGN_H
#define GR_OP_ASSIGN_ASSIGN_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const gr_op gr_op_assign;
extern const gr_kernel gr_assign_cpu[];

#ifdef __cplusplus
}
#endif

#endif
