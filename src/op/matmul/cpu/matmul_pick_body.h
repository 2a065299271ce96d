/*
 * A tile's code for each number of rows, with them in registers, and the choice between them.
 * Files that have defined run_tile() and TILE_MAP, the numbers of rows, include it.
 */
#ifndef GR_OP_MATMUL_PICK_BODY_H
#define GR_OP_MATMUL_PICK_BODY_H

#include "op/matmul/cpu/matmul_kernels.h"

#define X(n)                                 \
    static void plain_##n(const gr_tile *t)  \
    {                                        \
        run_tile(t, n, false);               \
    }                                        \
    static void packed_##n(const gr_tile *t) \
    {                                        \
        run_tile(t, n, true);                \
    }
TILE_MAP(X)
#undef X

typedef void tile_fn(const gr_tile *t);

static inline tile_fn *pick_tile(const gr_tile *t)
{
    static tile_fn *const table[][2] = {
#define X(n) [n] = { plain_##n, packed_##n },
        TILE_MAP(X)
#undef X
    };

    return table[t->rows][t->s_packed];
}

#endif
