/* The CPU kernels of normalisation. */
#ifndef GR_OP_NORM_KERNELS_H
#define GR_OP_NORM_KERNELS_H

#include "op/norm/norm.h"

gr_status gr_row_norm_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_row_norm_grad_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_batch_stats_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_batch_norm_sums_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* x [n, .., c] as samples of rows of channels; one sample unless statistics are per sample. */
typedef struct gr_channels {
    int64_t n_samples, n_rows, n_channels;
} gr_channels;

static inline gr_channels gr_channels_of(const gr_node *n)
{
    const gr_channel_attr *a = n->attr;
    const gr_shape *s = &n->src[0]->shape;
    gr_channels k = { .n_samples = 1, .n_rows = 1, .n_channels = s->dim[s->n_dims - 1] };

    for (int i = 0; i < s->n_dims - 1; i++) {
        if (i == 0 && a->per_sample)
            k.n_samples = s->dim[i];
        else
            k.n_rows *= s->dim[i];
    }
    return k;
}

#endif
