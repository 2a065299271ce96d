/* The CPU kernels of convolution. */
#ifndef GR_OP_CONV_KERNELS_H
#define GR_OP_CONV_KERNELS_H

#include "op/conv/conv.h"

gr_status gr_conv_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_conv_data_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_conv_weight_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* Where a convolution is a product of matrices (conv_product.c). */
const char *gr_conv_product_reject(const gr_node *n);
gr_status gr_conv_product_prepare(gr_prepare *p) GR_MUST_CHECK;
size_t gr_conv_product_workspace(const gr_node *n, const void *data);
gr_status gr_conv_product_run(const gr_launch *l) GR_MUST_CHECK;
void gr_conv_product_release(void *data);

#endif
