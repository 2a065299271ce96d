/* Depthwise convolution: what conv_depthwise_body.h gives for each instruction set. */
#ifndef GR_OP_CONV_DEPTHWISE_H
#define GR_OP_CONV_DEPTHWISE_H

#include "op/conv/conv.h"
#include "op/element.h"

gr_status gr_depthwise_avx512_sweep(const gr_launch *l) GR_MUST_CHECK; /* conv, conv_data */
gr_status gr_depthwise_avx512_fold(const gr_launch *l) GR_MUST_CHECK;  /* conv_weight */
gr_status gr_depthwise_avx2_sweep(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_depthwise_avx2_fold(const gr_launch *l) GR_MUST_CHECK;

#endif
