/* Depthwise convolution with AVX2: conv_depthwise_body.h. */
#include "op/vec_avx2_body.h"

#define NAME(x) gr_depthwise_avx2_##x
#include "op/conv/cpu/conv_depthwise_body.h"
