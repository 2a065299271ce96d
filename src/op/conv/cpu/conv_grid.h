/*
 * A convolution as one long row of lines: what all fast kernels work on.
 *
 * The source is laid out anew, image after image and row after row, with so many zeros
 * between rows and between images that every tap is one constant distance:
 *
 *     source 3 x 4, taps one up and one left, one down and one right:
 *         a a a a 0  b b b b 0  c c c c 0  0 0 0 0 0  (next image)
 *         ^ line 0                         rows of zeros serve both their neighbours
 *
 *     result line q = sum over taps of source line (q + shift of the tap) times its weights
 *
 * A line is a pixel with its channels. Results that fall on the zeros between rows are
 * computed and dropped; so lines can be taken 14 or 32 at a time without a thought for
 * where rows end. With a stride the source is dealt out to planes (even and odd rows and
 * columns, for 2), in each of which a tap is a constant distance again. conv_data with a
 * stride is one such problem, a *grid*, for each of its own phases, with a stride of 1.
 *
 * Small images of a large batch are *interleaved*: `inner` images stand together, pixel by
 * pixel, so that zeros come in blocks, which are left out:
 *
 *         a a' a" .. (a of all images)  b b' b" ..
 *
 * With few channels (a network's first layer) the taps of a kernel row are *merged*: a line
 * holds all pixels under that row, which are neighbours in memory.
 */
#ifndef GR_OP_CONV_GRID_H
#define GR_OP_CONV_GRID_H

#include "op/conv/conv.h"

typedef struct gr_conv_tap {
    int64_t shift; /* lines */
    int64_t at;    /* element of the weight, within its [kh, kw] */
    int plane;
} gr_conv_tap;

typedef struct gr_conv_plane {
    int64_t row, col;   /* first source pixel */
    int64_t rows, cols; /* pixels that are used */
} gr_conv_plane;

typedef struct gr_conv_grid {
    int64_t n_images, inner;     /* inner divides n_images; 1: not interleaved */
    int64_t src_h, src_w, src_c; /* of a pixel: all channels */
    int64_t step[2];             /* source pixels from line to line, row to row */
    int64_t size[2];             /* result rows and columns */
    int64_t pitch[2];            /* rows from image to image, pixels from row to row */
    int64_t res_h, res_w, res_c; /* the whole result */
    int64_t res_step[2], res_at[2];
    int64_t lo, hi;  /* shifts of all taps lie in [lo, hi]; lo <= 0 <= hi */
    int64_t n_lines; /* up to the last that is a result */
    int64_t run;     /* channels of a line, per group */
    bool merged;     /* a line begins `left` pixels before its own */
    int64_t left;
    int n_planes, n_taps; /* no taps: the result is 0 */
    gr_conv_plane *planes;
    gr_conv_tap *taps;
} gr_conv_grid;

/* A convolution's grids: one, or one for each phase of a strided conv_data. */
typedef struct gr_conv_grids {
    int n;
    int64_t run;      /* channels of a line, per group: what a tap sums over */
    int64_t *run_at;  /* run of them: element of the weight, less tap and column */
    int64_t kernel;   /* taps of the whole kernel, which are neighbours in the weight */
    int64_t col_at;   /* elements of the weight from column to column */
    int64_t group_at; /* from group to group */
    int64_t cols;     /* channels of the result, per group */
    gr_conv_grid *grids;
} gr_conv_grids;

/* `merge`: channels per line are padded to a multiple of it, so merging may pay; 1: never.
 * For conv and conv_weight (is_data false) the source is x, for conv_data it is y. The
 * caller ends *o with gr_conv_grids_fini(), also after a failure. */
gr_status gr_conv_grids_init(gr_conv_grids *o, const gr_conv_dims *d, bool is_data,
                             int64_t merge) GR_MUST_CHECK;
void gr_conv_grids_fini(gr_conv_grids *o);

/* Consecutive lines of one plane: `n` lines, whose element i is element at + i of the
 * source, next ones `step` elements on. Only [from, to) of a line exists, the rest is 0;
 * from == to: the lines are zeros. */
typedef struct gr_conv_stretch {
    int64_t n, at, step;
    int64_t from, to;
} gr_conv_stretch;

/* The stretch that begins with `line` and ends before `end`. Merged lines that touch the
 * image's edge come one by one. */
gr_conv_stretch gr_conv_stretch_at(const gr_conv_grid *g, int plane, int64_t line, int64_t end);

/* Whether each of the lines [line, line + n) of a plane has anything but zeros. */
void gr_conv_mark_lines(const gr_conv_grid *g, int plane, int64_t line, int64_t n, uint8_t *mark);

/* Element of the result where each of the lines [line, line + n) goes; -1: nowhere. */
void gr_conv_results_at(const gr_conv_grid *g, int64_t line, int64_t n, int64_t *at);

#endif
