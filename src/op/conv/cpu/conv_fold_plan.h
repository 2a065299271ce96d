/* conv_weight on lines: what is fixed when the plan is made, shared by conv_fold*.c alone. */
#ifndef GR_OP_CONV_FOLD_PLAN_H
#define GR_OP_CONV_FOLD_PLAN_H

#include "op/conv/cpu/conv_fold.h"

#define GR_FOLD_SUM_STEP  32 /* floats from row to row of a block's own sums */
#define GR_FOLD_SUM_ELEMS ((int64_t)32 * GR_FOLD_SUM_STEP)

typedef struct gr_fold_plan {
    const gr_fold_isa *isa;
    gr_conv_dims d;
    gr_conv_grids g;
    const gr_conv_grid *grid; /* the only one */
    gr_dtype type_x, type_y, type_w;
    bool low;
    int64_t chunk, n_x; /* lines of y and of a plane of x in a chunk */
    int64_t n_chunks;
    int n_parts;     /* stretches of chunks with sums of their own, added at the end */
    bool alone;      /* a part is one thread's work, with buffers of its own */
    int64_t pad;     /* lines between what threads make of dense x: a thread's own last ones */
    int64_t n_dense; /* of a plane, with them */
    bool at_once;    /* the last chunk's sums go straight into the weight */
    int *lists;      /* owned; by chunk and tap: how many steps matter, then which */
    int64_t run, co; /* of a group; run padded to GR_FOLD_RUN */
    int64_t x_panels, y_panels;
    int64_t x_bytes, y_bytes; /* of a packed panel */
    size_t at_dense_x, at_dense_y, at_x, at_y, at_places, at_slices, slice_bytes;
    size_t team_bytes;          /* all these: of the threads that share a chunk */
    size_t at_sums, part_bytes; /* behind the teams' buffers */
    size_t n_bytes;
    struct gr_fold_plan *other;
} gr_fold_plan;

/* Every tap of the kernel has sums of its own, and they are few enough to be transposed. */
bool gr_fold_is_regular(const gr_fold_plan *f);

/* Of a tap in a chunk: how many steps matter, then which. */
int *gr_fold_list(const gr_fold_plan *f, int64_t chunk, int64_t tap);

#endif
