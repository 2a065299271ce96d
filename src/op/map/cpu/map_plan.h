/*
 * A map node made ready for the tiled kernels: loops chosen, dimensions joined, every
 * register given a place.
 *
 * The result is walked as one line of `total` elements, in tiles. A register of a tile is
 * one of
 *   direct   the source's or the result's own memory, where type and layout allow
 *   slot     a stretch of the workspace, small enough that all of them stay in L1
 * Dimensions over which all sources step evenly are joined, so that a source either runs
 * along with the result for its whole length (FLAT), holds one element (ONE), or is
 * broadcast: then rows of the innermost joined dimension are contiguous in it, or one
 * element each.
 *
 * Wide rows: tiles end with the row, so a broadcast row is read where it lies. Narrow
 * rows: a tile holds many, and a broadcast source is spread out into a slot; when its
 * pattern repeats with the tile, once for all tiles.
 *
 * Fixed after prepare; any number of threads may run it.
 */
#ifndef GR_OP_MAP_MAP_PLAN_H
#define GR_OP_MAP_MAP_PLAN_H

#include "op/map/map_impl.h"

#define GR_MAP_SLOT_BYTES 4096
#define GR_MAP_WIDE_ROW   256
#define GR_MAP_LONG_TILE  16384 /* elements, where no slot is used */
#define GR_MAP_NO_SLOT    (-1)

typedef enum gr_map_layout { GR_MAP_FLAT, GR_MAP_ONE, GR_MAP_ROWS } gr_map_layout;

typedef struct gr_map_src {
    gr_map_layout layout;
    size_t elem_bytes;
    gr_map_convert *load;        /* NULL: already in the compute type */
    int slot;                    /* GR_MAP_NO_SLOT: always direct */
    int64_t stride[GR_MAX_DIMS]; /* in elements, per joined dimension */
    bool repeats;                /* narrow rows: every full tile holds the same */
} gr_map_src;

typedef struct gr_map_step {
    gr_map_loop *loop;
    int dst;    /* register */
    int arg[3]; /* registers; -1 for unused */
} gr_map_step;

typedef struct gr_map_const {
    int slot;
    double value;
} gr_map_const;

typedef struct gr_map_plan {
    int type;          /* GR_MAP_F32, GR_MAP_F64, GR_MAP_I64 */
    size_t elem_bytes; /* of the compute type */
    int n_dims;        /* joined */
    int64_t dim[GR_MAX_DIMS];
    int64_t total, row, tile; /* elements */
    bool is_wide;
    bool is_cast; /* one flat source, converted right into the output */
    int n_src, n_steps, n_consts, n_slots;
    gr_map_src src[GR_MAP_MAX_SRC];
    gr_map_step step[GR_MAP_MAX_INSTR];
    gr_map_const constant[GR_MAP_MAX_INSTR];
    int slot_of[GR_MAP_MAX_SRC + GR_MAP_MAX_INSTR]; /* by register, GR_MAP_NO_SLOT: none */
    int result;                                     /* register that is stored */
    gr_map_convert *store; /* NULL: the result register lies in the output itself */
    size_t out_bytes;      /* of one element of the output */
    int n_threads;
} gr_map_plan;

gr_status gr_map_plan_create(gr_map_plan **out, const gr_node *n, const gr_map_isa *isa,
                             int n_threads) GR_MUST_CHECK;

#endif
