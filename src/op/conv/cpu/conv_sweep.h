/*
 * conv and conv_data on lines (conv_grid.h): the loops, and what an instruction set brings.
 *
 *     for each grid, chunk of result lines, pass over the channels of a line:
 *         the chunk's source lines are packed, so that they stay in L2
 *         for each panel of result channels (its weights were packed beforehand):
 *             for each block of lines: sums over channels and taps, written out
 *
 * (1) An element's sum is made in the same order whatever the chunks and the cuts between
 *     threads: bits do not depend on the thread count.
 * (2) Taps that meet nothing but zeros in a block are left out, which changes no bit either.
 * (3) With one chunk of lines, weights are packed when their turn comes and used from L2.
 * (4) Threads are dealt panels of chunks (base/deal.h), all of a chunk before the next; who
 *     comes to another chunk packs its lines for itself.
 * (5) A kernel that meets numbers it cannot do (AMX, AVX512_BF16) says so, and the whole is done
 * again by another one.
 */
#ifndef GR_OP_CONV_SWEEP_H
#define GR_OP_CONV_SWEEP_H

#include "op/conv/cpu/conv_grid.h"

#define GR_CONV_COLS \
    ((int64_t)32) /* most columns of a panel, and floats from line to line of sums */

/* Where a chunk's source lines go: plane after plane, `n` lines each, beginning with `first`;
 * channels [run_lo, run_lo + run) of the group that begins with channel `channel`. */
typedef struct gr_conv_pack {
    const gr_conv_grid *grid;
    const void *src;
    gr_dtype type;
    bool low;
    int64_t channel, run_lo, run;
    int64_t first, n;
    char *dst;
} gr_conv_pack;

/* The weights of a panel: columns [col, col + n_cols) of a group, this pass's channels. */
typedef struct gr_conv_panel {
    const gr_conv_grids *grids;
    const gr_conv_grid *grid;
    const void *w; /* of the group: bf16 with `low`, else f32 */
    bool low;
    int64_t run_lo, run;
    int64_t col;
    int n_cols;
    char *dst;
} gr_conv_panel;

/* sums[line][col], GR_CONV_COLS floats from line to line. */
typedef struct gr_conv_block {
    const char *src; /* packed lines, at the first line of the block */
    const char *panel;
    const int64_t *tap_at; /* bytes from src to the tap's first line */
    const int *list;       /* n_listed taps; the others meet zeros only */
    int n_listed, n_taps;
    int64_t n_packed; /* lines of a plane */
    int64_t run;
    bool low;
    int n_lines, n_cols;
    float *sums; /* 64-byte aligned */
} gr_conv_block;

/* Where sums go: line i to element at[i] of y (< 0: nowhere). Sums of several passes wait
 * in y itself when it is f32, else in `kept`, cols_kept floats from line to line. */
typedef struct gr_conv_write {
    const float *sums;
    const int64_t *at;
    int n_lines, n_cols;
    void *y; /* of the panel's first column */
    gr_dtype type;
    float scale;
    bool add, last; /* there were passes before; this is the last one */
    float *kept;
    int64_t cols_kept;
} gr_conv_write;

/* What an instruction set brings. `low`: the operands are packed as bf16, which AMX and
 * AVX512_BF16 do; else as f32. */
typedef struct gr_conv_isa {
    int lines, cols; /* of a block at most */
    int run_unit;    /* channels of a line are padded to a multiple of this */
    float scale;     /* of sums of f32 */
    int64_t (*line_bytes)(bool low, int64_t run);                  /* all of a line */
    int64_t (*panel_bytes)(bool low, int64_t run, int64_t n_taps); /* all of a panel */
    /* Bytes from the start of the packed lines, `n` of each plane, to a line of a plane. */
    int64_t (*line_at)(bool low, int64_t run, int64_t n, int64_t plane, int64_t line);
    bool (*pack)(const gr_conv_pack *p); /* false: numbers that it cannot do */
    bool (*pack_panel)(const gr_conv_panel *p);
    void (*begin)(void); /* around a thread's blocks */
    void (*end)(void);
    void (*block)(const gr_conv_block *b);
    bool (*write)(const gr_conv_write *w); /* false: not finite */
    void (*widen)(float *dst, const void *src, gr_dtype t, int64_t n);
} gr_conv_isa;

extern const gr_conv_isa gr_conv_isa_amx, gr_conv_isa_avx512_bf16, gr_conv_isa_avx512,
    gr_conv_isa_avx2;

/* The kernel with this instruction set; `other` NULL, or the one that takes over. */
gr_status gr_conv_sweep_prepare(gr_prepare *p, const gr_conv_isa *isa,
                                const gr_conv_isa *other) GR_MUST_CHECK;
size_t gr_conv_sweep_workspace(const gr_node *n, const void *data);
gr_status gr_conv_sweep_run(const gr_launch *l) GR_MUST_CHECK;
void gr_conv_sweep_release(void *data);

#endif
