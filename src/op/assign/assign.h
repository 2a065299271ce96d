/*
 * Writing to buffers.
 *
 *   assign  buffer, value [, control [, held]] -> the buffer's new value, written where the old
 *           one lies. What gr_assign() adds. The value has the buffer's shape and type; bf16 and
 *           f16 are taken for f32, since mixed precision may have made the value so. When the
 *           control value (op/update/update.h) says skip, the buffer keeps what it has, or gets
 *           back what is held of it.
 *   hold    held, buffer -> held: what the buffer has before the first micro-step of an update,
 *           so that it can be undone.
 */
#ifndef GR_OP_ASSIGN_ASSIGN_H
#define GR_OP_ASSIGN_ASSIGN_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const gr_op gr_op_assign, gr_op_hold;
extern const gr_kernel gr_assign_cpu[], gr_hold_cpu[];

#ifdef __cplusplus
}
#endif

#endif
