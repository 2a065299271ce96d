/* Tile products whose left or right rows lie apart in memory: convolution's. */
#ifndef GR_OP_CONV_AMX_H
#define GR_OP_CONV_AMX_H

#include "gradus/tensor.h"

/* One side of a step: bytes from row to row of a tile, from part to part, from the first
 * tile to the second, and how many tiles there are. */
typedef struct gr_conv_side {
    int64_t row, part, half;
    int tiles;
} gr_conv_side;

/* sums = sum over outer o and the inner i of a list of left (l + o l_outer + l_at[i], or
 * i l_inner when l_at is NULL) times right (r + o r_outer + i r_inner): up to 32 x 32, 32
 * floats from row to row. */
typedef struct gr_conv_tiles {
    const char *l, *r;
    const int64_t *l_at;
    const int *list; /* n_inner of them */
    int64_t l_outer, l_inner, r_outer, r_inner;
    int64_t n_outer, n_inner;
    gr_conv_side l_side, r_side;
    float *sums;
} gr_conv_tiles;

void gr_conv_tiles_run(const gr_conv_tiles *t, bool low);

#endif
