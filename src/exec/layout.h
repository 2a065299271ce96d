/*
 * The memory plan: where in the step arena each value lies.
 *
 * Two things whose lives touch never share a byte; others may. A life is a stretch of
 * places in the running order, both ends included: a source that dies in a node and an
 * output born in it are both alive there; unless the kernel may write over that source,
 * and then they are one. What a node on another stream touches, workspace included, is
 * alive from the place where the node forks off to where it joins (streams.h).
 */
#ifndef GR_EXEC_LAYOUT_H
#define GR_EXEC_LAYOUT_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Something with a size and a life, and the place it is given. */
typedef struct gr_extent {
    size_t n_bytes; /* a multiple of the layout's align, never 0 */
    int first, last;
    size_t offset;
} gr_extent;

typedef struct gr_layout {
    gr_extent *extents;
    int n_extents;
    int *of_value;      /* by id of a root value: its extent; -1 outside the arena */
    int *of_work;       /* by place in the order: extent of the workspace; -1: none */
    size_t n_bytes;     /* of the arena */
    size_t least_bytes; /* the most that is alive at once: no plan can do with less */
    size_t sum_bytes;   /* if nothing shared memory */
} gr_layout;

/* The nodes of `g` in running order and the workspace each needs. Arrays are by place. */
typedef struct gr_layout_input {
    const gr_graph *g;
    gr_node *const *order;
    const size_t *work_bytes;
    const bool *in_place; /* its kernel may write over a source; NULL: none does */
    const int *until;     /* what it touches is in use up to there; NULL: to its own place */
    size_t align;         /* of every offset: a power of two */
} gr_layout_input;

/* Everything in `out` is from `arena`. GR_ERR_ARG when sizes overflow. */
gr_status gr_layout_make(gr_arena *arena, const gr_layout_input *in, gr_layout *out) GR_MUST_CHECK;

/* The second half: sizes and lives are given, offsets and sums come out. */
gr_status gr_layout_place(gr_layout *l) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
