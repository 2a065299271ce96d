/* The CPU kernels of rotary. */
#ifndef GR_OP_ROTARY_KERNELS_H
#define GR_OP_ROTARY_KERNELS_H

#include "op/fault.h"
#include "op/rotary/rotary.h"

/* The position of token t (of b * n) on an axis; 0, and a fault, when it is out of range. */
static inline int64_t gr_rotary_position(const gr_launch *l, int64_t t, int axis)
{
    const gr_rotary_attr *at = (const gr_rotary_attr *)l->node->attr;
    const int64_t n = l->node->src[0]->shape.dim[1];
    int64_t i, pos;

    if (!at->has_positions)
        return t % n;
    i = l->node->src[1]->shape.n_dims == (at->axes == 2 ? 3 : 2) ? t : t % n;
    i = i * at->axes + axis;
    if (l->node->src[1]->dtype == GR_I64)
        pos = ((const int64_t *)l->src[1])[i];
    else
        pos = ((const int32_t *)l->src[1])[i];
    if (pos >= 0 && pos < at->max_position)
        return pos;
    gr_fault_set(l, pos, at->max_position, i);
    return 0;
}

/* The angle of pair i of a part of size s. */
double gr_rotary_angle(const gr_rotary_attr *at, int64_t pos, int64_t i, int64_t s);

gr_status gr_rotary_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* A part of a head: s numbers. Tables hold s / 2 numbers, interleaved s: each cosine twice,
 * each sine with its sign, so that y = x cos + swapped(x) sin. */
typedef struct gr_rotary_part {
    const void *x;
    void *y;
    gr_dtype type; /* f32, bf16, f16 */
    int64_t s;
    const float *cos, *sin;
} gr_rotary_part;

/* What an instruction set brings. */
typedef struct gr_rotary_isa {
    void (*halves)(const gr_rotary_part *p);
    void (*interleaved)(const gr_rotary_part *p);
} gr_rotary_isa;

extern const gr_rotary_isa gr_rotary_avx512, gr_rotary_avx2;

#endif
