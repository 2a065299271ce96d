/*
 * The arithmetic of reductions: W buffers become their element-wise combination, each.
 *
 * The law: element i of every buffer becomes ((x0*s + x1*s) + x2*s) ..., in rank order,
 * each product and each sum rounded on its own (bf16 and f16: in f32, rounded once at the
 * end). So it does not matter who reduces which stretch, nor with which instructions.
 * For MAX and MIN a NaN on any rank wins. Integer sums wrap.
 */
#ifndef GR_COMM_REDUCE_H
#define GR_COMM_REDUCE_H

#include "gradus/comm.h"

#include <stdbool.h>

#define GR_REDUCE_COUNT 6

/* Elements [first, first + n_elem) of part[0..n_parts-1], in place on all parts. */
typedef void gr_reduce_fn(void *const *part, int n_parts, size_t first, size_t n_elem,
                          double scale);

/*
 * The general form: a sum may come in from outside and go on in its wide type (f32 for
 * bf16 and f16, else the type itself), so that a chain of ranks passes it along and every
 * element is still combined in rank order.
 */
typedef struct gr_fold {
    const void *prefix;     /* of lower ranks, wide; NULL: none */
    const void *const *src; /* the elements that follow, in order */
    int n_src;              /* 0 is fine with a prefix */
    void *const *dst;       /* all get the result; may be among src, or be prefix */
    int n_dst;
    bool is_wide; /* dst, too, is wide: more is to come */
    size_t first, n_elem;
    double scale; /* of each element of src */
} gr_fold;
typedef void gr_fold_fn(const gr_fold *f);

typedef struct gr_reduce_set {
    const char *name; /* "scalar", "avx2", "avx512" */
    gr_reduce_fn *fn[GR_DTYPE_COUNT][GR_REDUCE_COUNT];
    gr_fold_fn *fold[GR_DTYPE_COUNT][GR_REDUCE_COUNT];
} gr_reduce_set;

extern const gr_reduce_set gr_reduce_scalar, gr_reduce_avx2, gr_reduce_avx512;

/* The function for this machine; GR_ERR_ARG for a type or a combination without one. */
gr_status gr_reduce_pick(gr_reduce_fn **out, gr_dtype t, gr_reduce op) GR_MUST_CHECK;

gr_status gr_fold_pick(gr_fold_fn **out, gr_dtype t, gr_reduce op) GR_MUST_CHECK;
/* Bytes of an element while it is being summed up. */
size_t gr_fold_wide_bytes(gr_dtype t);

const char *gr_reduce_name(gr_reduce op); /* "sum" */

/* What each element is multiplied by before the sum. */
static inline double gr_reduce_scale(gr_reduce op, int n_ranks)
{
    return op == GR_REDUCE_AVG ? 1.0 / n_ranks : 1.0;
}

#endif
