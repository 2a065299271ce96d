/*
 * Copies between strided places: what transpose, slice, pad and flip have in common.
 * Elements are moved by their size, not their type.
 *
 * Dimensions that both sides step through as through one are joined first; what is left
 * is one of three cases:
 *
 *   rows     the last dimension is contiguous on both sides: rows are copied whole
 *   turned   it is contiguous in the result, another one in the source: the two span a
 *            plane, which is turned in tiles, so that every line fetched is used up
 *   single   neither: element by element
 *
 * A slice writes its own part of the result; nothing is added, so bits cannot depend on
 * threads.
 */
#ifndef GR_OP_SHAPE_STRIDED_H
#define GR_OP_SHAPE_STRIDED_H

#include "graph/op.h"

#define GR_STRIDED_SLICE_MIN ((size_t)32 << 10) /* bytes that are worth a thread */

/* A stretch of a turned plane: `rows` rows of the result, `cols` long, dst_step apart;
 * element (r, c) comes from src[c * src_step + r]. Steps are in elements. */
typedef struct gr_turn {
    void *dst;
    const void *src;
    int64_t dst_step, src_step;
    int64_t rows, cols;
} gr_turn;

typedef void gr_turn_fn(const gr_turn *t);

#define GR_TURN_ROWS 16 /* what the vector kernels take at most */

/* For elements of 2 and of 4 bytes. */
typedef struct gr_turn_isa {
    gr_turn_fn *tiles[2];   /* rows <= GR_TURN_ROWS */
    gr_turn_fn *weave[2];   /* 2 to 4 columns, which is also dst_step */
    gr_turn_fn *unweave[2]; /* 2 to 4 rows, which is also src_step */
} gr_turn_isa;

extern const gr_turn_isa gr_turn_avx512, gr_turn_avx2;

/* A dimension that is walked around the innermost part. */
typedef struct gr_walk {
    int64_t dim, from, to;
} gr_walk;

typedef struct gr_strided {
    /* Filled by the caller: the address of element 0 on both sides, and for each dimension
     * of the result, outermost first, its length and the elements between neighbours. */
    const char *src;
    char *dst;
    size_t elem_bytes;
    int n_dims;
    int64_t dim[GR_MAX_DIMS], from[GR_MAX_DIMS], to[GR_MAX_DIMS];

    /* Found by gr_strided_plan(). */
    int fast;         /* the dimension with from == 1; -1: none */
    int64_t strip;    /* rows of a turned plane in one unit; 0: it is not turned */
    int64_t piece;    /* elements of a row in one unit */
    gr_turn_fn *turn; /* for turned planes */
    int n_walks;      /* units are all places of the walks, the last one fastest */
    gr_walk walk[GR_MAX_DIMS];
    int64_t n_units;
} gr_strided;

/* Dense steps of a shape into `step`, in elements. */
void gr_strided_steps(const gr_shape *s, int64_t *step);
void gr_strided_plan(gr_strided *s);
/* One slice's share of a planned copy. */
void gr_strided_run(const gr_strided *s, int slice, int n_slices);

#endif
