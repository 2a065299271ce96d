/*
 * Rotary positions: pairs of numbers of a head are turned by an angle that grows with the
 * token's position.
 *   rotary  x [b, n, h, d] [, positions] -> y of the same shape and type
 */
#ifndef GR_OP_ROTARY_ROTARY_H
#define GR_OP_ROTARY_ROTARY_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_rotary_attr {
    double base;
    int axes;         /* 1 or 2 */
    bool interleaved; /* pairs (2i, 2i + 1), else (i, i + s / 2) of a part of size s */
    bool inverse;     /* turn back */
    bool has_positions;
    int64_t heads;        /* that are turned; the rest is handed on */
    int64_t max_position; /* positions are in [0, this) */
} gr_rotary_attr;

extern const gr_op gr_op_rotary;
extern const gr_kernel gr_rotary_cpu[];

#ifdef __cplusplus
}
#endif

#endif
