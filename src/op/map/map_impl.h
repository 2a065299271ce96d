/* What the files of map share: its gradient rule, conversions that C leaves undefined,
 * and the table of vector loops that an instruction set provides. */
#ifndef GR_OP_MAP_MAP_IMPL_H
#define GR_OP_MAP_MAP_IMPL_H

#include "op/map/program.h"

gr_status gr_map_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src);

gr_status gr_map_ref_run(const gr_launch *l);

/* The wider of two types; f32 for f16 with bf16. */
gr_dtype gr_map_promote(gr_dtype a, gr_dtype b);
/* Stretches *to by `s`. False when a dimension differs and neither is 1. */
bool gr_map_broadcast(gr_shape *to, const gr_shape *s);

/* Cut towards 0; what is out of range goes to its end, NaN to 0. */
static inline int64_t gr_map_cut(double x, double lo, double hi)
{
    if (!(x == x))
        return 0;
    if (x <= lo)
        return (int64_t)lo;
    /* 2^63 - 1 is no double: the end of i64 is given as 2^63. */
    if (x >= hi)
        return hi >= 0x1p63 ? INT64_MAX : (int64_t)hi;
    return (int64_t)x;
}

#define GR_MAP_CUT_I64(x) gr_map_cut(x, -0x1p63, 0x1p63)
#define GR_MAP_CUT_I32(x) ((int32_t)gr_map_cut(x, INT32_MIN, INT32_MAX))
#define GR_MAP_CUT_U8(x)  ((uint8_t)gr_map_cut(x, 0, 255))

/* ---- vector loops ---- */

/* Compute types, as indices of the tables below. */
enum { GR_MAP_F32, GR_MAP_F64, GR_MAP_I64, GR_MAP_N_TYPES };

/* dst[i] = fn(a[i], b[i], c[i]) for i < n, all of the compute type; unused ones are NULL.
 * An element's result does not depend on where it stands, so cuts do not show. */
typedef void gr_map_loop(void *dst, const void *a, const void *b, const void *c, int64_t n);
/* dst[i] = src[i] in another type. */
typedef void gr_map_convert(void *dst, const void *src, int64_t n);

typedef struct gr_map_isa {
    gr_map_loop *loop[GR_MAP_N_TYPES][GR_FN_COUNT];
    gr_map_loop *fast[GR_FN_COUNT]; /* f32: taken instead of loop[GR_MAP_F32] where set */
    gr_map_loop *add_relu;          /* f32: relu(a + b), the end of a dense layer */
    gr_map_convert *load[GR_MAP_N_TYPES][GR_DTYPE_COUNT];  /* to the compute type; NULL: is it */
    gr_map_convert *store[GR_MAP_N_TYPES][GR_DTYPE_COUNT]; /* from the compute type */
} gr_map_isa;

extern const gr_map_isa gr_map_avx2, gr_map_avx512;

#endif
