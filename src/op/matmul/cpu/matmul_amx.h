/*
 * The AMX product: what its files share. matmul_amx.c has the drawing and the loops,
 * matmul_amx_plan.c the plan, matmul_pack_amx.c the way of operands into tiles,
 * matmul_tile_amx.c the tile products.
 *
 * A *line* is a row of the left or a column of the right operand. Lines are packed by
 * panels of 32, k by steps of 32: a step of a panel is, for each of its parts (three for
 * f32, one for bf16), one or two tiles of 16 lines. In a tile k and k + 16 of a line
 * share a 32-bit word; which two share it is free, as long as both sides agree, and with
 * these no neighbour in memory has to change places.
 */
#ifndef GR_OP_MATMUL_AMX_H
#define GR_OP_MATMUL_AMX_H

#include "op/epilogue.h"
#include "op/matmul/matmul.h"

/* 64 bits wide, because offsets are made of them. */
#define GR_AMX_LINES ((int64_t)32)   /* of a panel */
#define GR_AMX_K     ((int64_t)32)   /* of a step */
#define GR_AMX_TILE  ((int64_t)1024) /* bytes */

/* One operand, or a panel of it. */
typedef struct gr_amx_side {
    const void *src;
    int64_t step_line, step_k; /* elements between neighbours; one of the two is 1 */
    bool is_left;
    bool is_f32; /* else bf16 */
    bool scaled; /* bf16 times 2^24, which makes subnormals fit */
} gr_amx_side;

/* Tile rows are rows of memory, so packing is one pass over them. */
static inline bool gr_amx_is_plain(const gr_amx_side *s)
{
    return (s->step_k == 1) == s->is_left;
}

static inline int64_t gr_amx_step_bytes(bool is_f32, int n_tiles)
{
    return GR_AMX_TILE * n_tiles * (is_f32 ? 3 : 1);
}

static inline int gr_amx_tiles(int n_lines)
{
    return n_lines > 16 ? 2 : 1;
}

/* Packs lines 0..n_lines-1 of s, k in [k_from, n_k), k_from a multiple of GR_AMX_K; what
 * is missing in the last tiles becomes 0. False: AMX would take a number for another one
 * (it reads subnormals as 0; scaled ones may be too large), so the product must be done in
 * another way. */
bool gr_amx_pack(char *dst, const gr_amx_side *s, int n_lines, int64_t k_from, int64_t n_k);

/* Where a block of sums goes: row r of it to [r * ld] of y_f32 or y_bf16. */
typedef struct gr_amx_out {
    const float *c;   /* 32 rows of 32 floats */
    const float *add; /* NULL, or sums of earlier k, laid out like y */
    float *y_f32;     /* one of the two is NULL */
    uint16_t *y_bf16;
    int64_t ld;
    int rows, cols;
    float scale;
} gr_amx_out;

/* False when a number that was written is not finite. */
bool gr_amx_write(const gr_amx_out *o);

/*
 * Vector work that is done between tile products, which leave the vector ports idle:
 * packing the next panel of a plain side, writing the block before. Each step does so
 * many rows, a power of two, dealt out to its groups of four tile products.
 */
#define GR_AMX_GROUPS 6 /* of a step; one for bf16 */

typedef struct gr_amx_share {
    int per_step; /* rows; at most 16 to pack, 32 to write */
    int of_group[GR_AMX_GROUPS];
} gr_amx_share;

typedef struct gr_amx_feed {
    gr_amx_side side; /* of the next panel, 32 lines */
    char *dst;
    int64_t at, end; /* rows of tiles, 32 a step */
    gr_amx_share pack;
    gr_amx_out out;      /* a full block to y_f32 */
    int out_at, out_end; /* rows of it */
    gr_amx_share write;
    bool unfit; /* a number that AMX cannot do was met; sticks */
} gr_amx_feed;

typedef struct gr_amx_block {
    const char *l, *r;
    int tiles_l, tiles_r;
    bool stream_left;  /* the right side is in L1 and should stay there */
    bool stream_right; /* likewise the left side */
    int64_t n_steps;
    float *c; /* 32 x 32, 64-byte aligned */
    bool add; /* to what c holds */
} gr_amx_block;

/* c = l · r over all steps, or c += it; f is served on the way when the block is full. */
void gr_amx_block_f32(const gr_amx_block *b, gr_amx_feed *f);
void gr_amx_block_bf16(const gr_amx_block *b, gr_amx_feed *f);

/* Around the blocks of a thread: its tile registers. */
void gr_amx_begin(void);
void gr_amx_end(void);

typedef struct gr_amx_plan {
    gr_matmul_dims d;
    gr_amx_side left, right; /* src is NULL */
    int64_t n_left, n_right; /* lines */
    bool is_f32;             /* operands */
    gr_dtype type_y;
    bool turned;                /* left is b: blocks are parts of y transposed */
    bool hold_left;             /* the left side is held packed, panels of the right pass by */
    int64_t k_block;            /* of one pass */
    int64_t n_hold;             /* lines held at a time */
    int64_t n_blocks, n_panels; /* of a batch entry: blocks of held lines, panels that pass */
    int n_hands;
    size_t at_panels, at_c, slice_bytes; /* in a slice's workspace */
    size_t at_sums;                      /* f32 sums of a narrow y over several passes */
    size_t n_bytes;
    gr_epilogue_plan *epilogue; /* owned; NULL: none */
    size_t at_epilogue;         /* its scratch, one for each slice */
    void *other;                /* prepared for the kernel that takes over when a number is unfit */
} gr_amx_plan;

const char *gr_matmul_amx_reject(const gr_node *n);
gr_status gr_matmul_amx_prepare(gr_prepare *p) GR_MUST_CHECK;
size_t gr_matmul_amx_workspace(const gr_node *n, const void *data);
gr_status gr_matmul_amx_run(const gr_launch *l) GR_MUST_CHECK;
void gr_matmul_amx_release(void *data);

#endif
