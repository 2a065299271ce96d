/* The CPU kernels of resample. */
#ifndef GR_OP_RESAMPLE_KERNELS_H
#define GR_OP_RESAMPLE_KERNELS_H

#include "op/resample/resample.h"

/* What prepare() leaves. */
typedef struct gr_resample_plan {
    gr_taps *rows, *cols;
    int n_threads;
} gr_resample_plan;

gr_status gr_resample_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* One row of the result of one image, in two passes: rows of the source are added into
 * `sum` (width * channels floats), then its columns into the result. */
typedef struct gr_resample_row {
    const void *src; /* the image */
    float *sum;
    void *out;
    gr_dtype type;
    int64_t width, channels; /* of src */
    const gr_tap *row;
    int64_t n_rows;
    const gr_taps *cols;
} gr_resample_row;

typedef void gr_resample_fn(const gr_resample_row *r);

extern gr_resample_fn gr_resample_avx512, gr_resample_avx2;

#endif
