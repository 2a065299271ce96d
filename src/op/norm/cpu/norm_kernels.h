/* The CPU kernels of normalisation. */
#ifndef GR_OP_NORM_KERNELS_H
#define GR_OP_NORM_KERNELS_H

#include "op/norm/norm.h"

#ifdef __cplusplus
extern "C" {
#endif

gr_status gr_row_norm_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_row_norm_grad_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_batch_stats_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_batch_norm_sums_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* Rows of layer_norm or rms_norm; x, dy, y and dx are f32, bf16 or f16. */
typedef struct gr_norm_rows {
    const char *x, *dy;
    char *out; /* y, or dx */
    gr_dtype x_type, dy_type, out_type;
    const float *weight, *bias; /* ones and zeros where there are none */
    float *mean;                /* one per row; NULL: rms_norm */
    float *rstd;
    int64_t n, c;
    float eps;
    bool clamped;
} gr_norm_rows;

/* What an instruction set brings along rows, for rows [lo, hi). */
typedef struct gr_norm_rows_isa {
    /* Writes out, mean and rstd. */
    void (*forward)(const gr_norm_rows *k, int64_t lo, int64_t hi);
    /* Writes out; adds to dw and db. */
    void (*backward)(const gr_norm_rows *k, int64_t lo, int64_t hi, float *dw, float *db);
} gr_norm_rows_isa;

extern const gr_norm_rows_isa gr_norm_rows_avx512, gr_norm_rows_avx2;

/* A stretch of rows of channels; x and dy are f32, bf16 or f16. */
typedef struct gr_norm_columns {
    const char *x, *dy;
    gr_dtype x_type, dy_type;
    int64_t n_rows, n_channels;
    const float *mean, *scale, *shift; /* of the sums; scale NULL: no gate */
} gr_norm_columns;

/* Statistics so far: of n rows. */
typedef struct gr_norm_moments {
    int64_t n;
    float *mean, *m2; /* undefined while n is 0 */
} gr_norm_moments;

typedef struct gr_norm_sums {
    float *sum, *dot; /* of each channel */
} gr_norm_sums;

/* What an instruction set brings down channels. */
typedef struct gr_norm_columns_isa {
    /* Joins the statistics of these rows, which are read twice, to *to. */
    void (*stats)(const gr_norm_columns *k, gr_norm_moments *to);
    /* Adds dy and dy (x - mean) to *to. */
    void (*sums)(const gr_norm_columns *k, const gr_norm_sums *to);
} gr_norm_columns_isa;

extern const gr_norm_columns_isa gr_norm_columns_avx512, gr_norm_columns_avx2;

/* x [n, .., c] as samples of rows of channels; one sample unless statistics are per sample. */
typedef struct gr_channels {
    int64_t n_samples, n_rows, n_channels;
} gr_channels;

gr_channels gr_channels_of(const gr_node *n);

#ifdef __cplusplus
}
#endif

#endif
