/*
 * Epilogues: a map program that an operator applies to its result while that is still in
 * the cache: bias, activation, residual, scale and shift.
 *
 *     %4 = matmul(%0, %1)   %6 = map(%4, %3) add(r0, r1) relu(r2)
 *     ─►  %6 = matmul(%0, %1, %3) then add(r0, r1) relu(r2)
 *
 * It is the simplest fusion (graph/fusion.h): nothing on load, one program, one stored
 * result. Here is what CPU kernels share that carry it out. The program's source 0 is the
 * operator's own result, in f32 and not rounded to a stored type.
 *
 * How a family takes one (op/matmul is the example):
 * (1) Its kernels set `takes` to gr_epilogue_takes.
 * (2) The reference computes its result as f32 into its workspace and calls
 *     gr_epilogue_ref().
 * (3) A fast kernel makes a gr_epilogue_plan in prepare(), asks for
 *     gr_epilogue_scratch_bytes() for each slice, calls gr_epilogue_begin() once per slice
 *     and gr_epilogue_rows() for each stretch of finished f32 results.
 */
#ifndef GR_OP_EPILOGUE_H
#define GR_OP_EPILOGUE_H

#include "graph/fusion.h"
#include "op/map/map_impl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* gr_kernel.takes of kernels that apply an epilogue and nothing else. */
const char *gr_epilogue_takes(const gr_node *n, const gr_fusion *f);

/* Which source of the node is the first that the program reads. */
static inline int gr_epilogue_first(const gr_node *n)
{
    return n->fusion ? n->fusion->end.first : n->n_src;
}

/* The type in which a reference hands the result to the program. */
static inline gr_dtype gr_epilogue_wide(const gr_node *n)
{
    return n->fusion->own[0].dtype == GR_F64 ? GR_F64 : GR_F32;
}

/* All of the result by the reference formulas; acc is of that type and the output's shape. */
gr_status gr_epilogue_ref(const gr_launch *l, const void *acc) GR_MUST_CHECK;

#define GR_EPILOGUE_TILE 1024 /* elements at a time: registers of a tile stay in L1 */

typedef struct gr_epilogue_plan gr_epilogue_plan;

/* isa: &gr_map_avx512 or &gr_map_avx2. The caller ends it with gr_free(). */
gr_status gr_epilogue_plan_create(gr_epilogue_plan **out, const gr_node *n,
                                  const gr_map_isa *isa) GR_MUST_CHECK;
/* Of one slice; a multiple of 64. 0 for NULL. */
size_t gr_epilogue_scratch_bytes(const gr_epilogue_plan *p);

/* One slice at work: any number of slices may run on one plan. */
typedef struct gr_epilogue_run {
    const gr_epilogue_plan *plan;
    void *const *src; /* the node's sources from gr_epilogue_first() on */
    char *out;        /* the node's output, from its element 0 */
    char *scratch;    /* 64-byte aligned */
} gr_epilogue_run;

/* Fills in the program's constants. */
void gr_epilogue_begin(const gr_epilogue_run *r);

/*
 * Rows of results: row i has `cols` elements from acc + i * acc_step on, which are the
 * elements at + i * step .. of the output. They may lie in the output itself, if that is
 * f32. A stretch of cols must not pass the end of the output's last dimension.
 */
typedef struct gr_epilogue_rows_args {
    const float *acc;
    int64_t acc_step, at, step, rows, cols;
} gr_epilogue_rows_args;

void gr_epilogue_rows(const gr_epilogue_run *r, const gr_epilogue_rows_args *a);

#ifdef __cplusplus
}
#endif

#endif
