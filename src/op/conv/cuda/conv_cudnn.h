/* Convolutions by cuDNN, for the lists of kernels. */
#ifndef GR_OP_CONV_CUDA_CONV_CUDNN_H
#define GR_OP_CONV_CUDA_CONV_CUDNN_H

#include "op/conv/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

const char *gr_conv_dnn_reject(const gr_node *n);
gr_status gr_conv_dnn_variants(const gr_prepare *pr, gr_text *out) GR_MUST_CHECK;
gr_status gr_conv_dnn_prepare(gr_prepare *pr) GR_MUST_CHECK;
size_t gr_conv_dnn_workspace(const gr_node *n, const void *data);
gr_status gr_conv_dnn_run(const gr_launch *l) GR_MUST_CHECK;
void gr_conv_dnn_release(void *data);

/* Weights in the order of channels last: [o, (ky, kx), i] from [o, i, (ky, kx)] and back, from one
 * floating type to another (filter_cuda.cu). */
typedef struct gr_conv_filter {
    int64_t o, i, taps;
    gr_dtype from, to;
} gr_conv_filter;

gr_status gr_conv_filter_last(const gr_conv_filter *f, void *out, const void *in,
                              void *stream) GR_MUST_CHECK;
gr_status gr_conv_filter_first(const gr_conv_filter *f, void *out, const void *in,
                               void *stream) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
