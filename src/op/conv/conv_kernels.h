/* The CPU kernels of convolution. */
#ifndef GR_OP_CONV_KERNELS_H
#define GR_OP_CONV_KERNELS_H

#include "op/conv/conv.h"

gr_status gr_conv_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_conv_data_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_conv_weight_ref_run(const gr_launch *l) GR_MUST_CHECK;

#endif
