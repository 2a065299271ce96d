/* Stretches of lines for conv_weight with vectors: listed steps that follow each other. */
#ifndef GR_OP_CONV_STRETCH_BODY_H
#define GR_OP_CONV_STRETCH_BODY_H

#include "op/conv/cpu/conv_fold.h"
#include "op/matmul/cpu/matmul_kernels.h"

/* Lines of a step. Divides what images are interleaved by, or is a multiple: steps are all zeros
 * or none is. */
#define GR_FOLD_UNIT  8
#define GR_FOLD_PARTS 16 /* stretches whose sums stay in registers */

/* From the i-th listed step on; how many, at least one: without a step it is empty. x has x_step
 * words from line to line, and a word has so many lines. */
static inline int gr_fold_stretches(const gr_fold_block *b, int *i, int64_t x_step, int64_t word,
                                    gr_tile_part *parts)
{
    int n = 0;

    parts[0] = (gr_tile_part){ 0 };
    for (; *i < b->n_listed && n < GR_FOLD_PARTS; n++) {
        const int64_t line = (int64_t)b->list[*i] * GR_FOLD_UNIT;
        int steps = 1;

        while (*i + steps < b->n_listed && b->list[*i + steps] == b->list[*i] + steps)
            steps++;
        parts[n] =
            (gr_tile_part){ line * x_step, line * b->rows, (int64_t)steps * GR_FOLD_UNIT / word };
        *i += steps;
    }
    return n > 0 ? n : 1;
}

#endif
