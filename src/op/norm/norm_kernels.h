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

/* x [n, .., c] as samples of rows of channels; one sample unless statistics are per sample. */
typedef struct gr_channels {
    int64_t n_samples, n_rows, n_channels;
} gr_channels;

gr_channels gr_channels_of(const gr_node *n);

#ifdef __cplusplus
}
#endif

#endif
