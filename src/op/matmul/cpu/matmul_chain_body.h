/*
 * f32 is summed in chains: so many products are added up one by one, then the chain's sum goes
 * to those before it. The error of one long chain grows with the root of its length: at 4608
 * terms, as ResNet's convolutions have, it is four times that of PyTorch.
 *
 * Chains are cut out here, around the tile, whose loop keeps its registers to itself.
 */
#ifndef GR_OP_MATMUL_CHAIN_BODY_H
#define GR_OP_MATMUL_CHAIN_BODY_H

#include "op/matmul/cpu/matmul_kernels.h"

#define CHAIN_PARTS 16

/* Runs the chains of t, one after the other. A part without k counts: its sums are 0. */
static inline void each_chain(const gr_tile *t, void (*run)(const gr_tile *))
{
    const gr_tile_part one = { .k = t->k }, *part = t->parts ? t->parts : &one;
    const gr_tile_part *const end = part + (t->parts ? t->n_parts : 1);
    const int64_t s_step = t->s_packed ? t->rows : 1;
    gr_tile_part parts[CHAIN_PARTS];
    gr_tile chain = *t;
    int64_t left = GR_TILE_CHAIN;

    chain.parts = parts;
    chain.n_parts = 0;
    for (; part < end; part++) {
        int64_t at = 0, k;

        do {
            k = part->k - at < left ? part->k - at : left;
            parts[chain.n_parts++] = (gr_tile_part){ .v_at = part->v_at + at * t->v_step,
                                                     .s_at = part->s_at + at * s_step,
                                                     .k = k };
            at += k;
            left -= k;
            if (left > 0 && chain.n_parts < CHAIN_PARTS && part + 1 < end)
                continue;
            run(&chain);
            chain.add = true;
            chain.n_parts = 0;
            left = GR_TILE_CHAIN;
        } while (at < part->k);
    }
}

#endif
