/* The CPU kernels of max pooling. */
#ifndef GR_OP_POOL_KERNELS_H
#define GR_OP_POOL_KERNELS_H

#include "op/pool/pool.h"

/* What prepare() leaves: which places a place of the result looks at, by axis. */
typedef struct gr_pool_plan {
    gr_taps *rows, *cols;
} gr_pool_plan;

gr_status gr_max_pool_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_max_pool_grad_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* One row of results of one image: `src` is where the image begins. Rows are taps of the
 * vertical axis; addresses are src + (row * width + col) * channels. */
typedef struct gr_pool_row {
    const void *src; /* x, or dy */
    const uint8_t *which_in;
    void *out;
    uint8_t *which_out;
    gr_dtype type;
    int64_t width, channels; /* of src */
    int64_t kernel_w;
    const gr_tap *row; /* of this row of results */
    int64_t n_rows;
    const gr_taps *cols;
} gr_pool_row;

typedef struct gr_pool_isa {
    void (*max)(const gr_pool_row *r);
    void (*grad)(const gr_pool_row *r);
} gr_pool_isa;

extern const gr_pool_isa gr_pool_avx512, gr_pool_avx2;

#endif
