/*
 * The reference kernel of map: one element after the other, each index computed anew, the
 * table's formulas as they stand, in the compute type. It is the law for the other
 * kernels, so it is plain rather than fast; the build keeps compilers from contracting
 * its arithmetic.
 *
 * Rounding to a stored type is to nearest even; f64 goes to f16 and bf16 by way of f32.
 * Floating numbers become integers by gr_map_cut(), integers smaller ones by wrapping,
 * and everything but 0 becomes true.
 */
#include "op/map/map_impl.h"

#include "base/half.h"

#include <tgmath.h>

/* The place in a source of element i of the result. */
static int64_t source_index(const gr_shape *out, const gr_shape *src, int64_t i)
{
    int64_t at = 0, stride = 1;

    for (int d = 1; d <= out->n_dims; d++) {
        int64_t dim = out->dim[out->n_dims - d];
        int64_t have = d <= src->n_dims ? src->dim[src->n_dims - d] : 1;

        if (have != 1)
            at += i % dim * stride;
        stride *= have;
        i /= dim;
    }
    return at;
}

static void store_f64(gr_dtype t, void *mem, int64_t i, double x)
{
    switch (t) {
    case GR_F32: ((float *)mem)[i] = (float)x; return;
    case GR_F64: ((double *)mem)[i] = x; return;
    case GR_BF16: ((uint16_t *)mem)[i] = gr_f32_to_bf16((float)x); return;
    case GR_F16: ((uint16_t *)mem)[i] = gr_f32_to_f16((float)x); return;
    case GR_I32: ((int32_t *)mem)[i] = GR_MAP_CUT_I32(x); return;
    case GR_I64: ((int64_t *)mem)[i] = GR_MAP_CUT_I64(x); return;
    case GR_U8: ((uint8_t *)mem)[i] = GR_MAP_CUT_U8(x); return;
    case GR_BOOL: ((uint8_t *)mem)[i] = x != 0; return;
    case GR_DTYPE_COUNT: break;
    }
    GR_BUG_IF(true);
}

/* Every f32 is an f64, so nothing is rounded on this way. */
static void store_f32(gr_dtype t, void *mem, int64_t i, float x)
{
    store_f64(t, mem, i, (double)x);
}

static void store_i64(gr_dtype t, void *mem, int64_t i, int64_t x)
{
    switch (t) {
    case GR_I32: ((int32_t *)mem)[i] = (int32_t)x; return;
    case GR_I64: ((int64_t *)mem)[i] = x; return;
    case GR_U8: ((uint8_t *)mem)[i] = (uint8_t)x; return;
    case GR_BOOL: ((uint8_t *)mem)[i] = x != 0; return;
    case GR_F32:
    case GR_F64:
    case GR_BF16:
    case GR_F16:
    case GR_DTYPE_COUNT: break;
    }
    GR_BUG_IF(true); /* with a floating result the compute type is floating */
}

#define CASE_FLOAT CASE_TAKEN
#define CASE_INT   CASE_REFUSED
#define T          float
#define NAME(x)    x##_f32
#include "op/map/cpu/map_ref.inc"
#undef NAME
#undef T

#define T       double
#define NAME(x) x##_f64
#include "op/map/cpu/map_ref.inc"
#undef NAME
#undef T
#undef CASE_FLOAT
#undef CASE_INT

#define CASE_FLOAT CASE_REFUSED
#define CASE_INT   CASE_TAKEN
#define T          int64_t
#define NAME(x)    x##_i64
#include "op/map/cpu/map_ref.inc"
#undef NAME
#undef T

gr_status gr_map_ref_run(const gr_launch *l)
{
    switch ((int)gr_map_compute_dtype(l->node)) {
    case GR_F32: run_f32(l); break;
    case GR_F64: run_f64(l); break;
    default: run_i64(l); break;
    }
    return GR_OK;
}
