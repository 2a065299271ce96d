/* Depthwise convolution with AVX-512: conv_depthwise_body.h. */
#include "op/vec_avx512_body.h"

#define NAME(x) gr_depthwise_avx512_##x
#include "op/conv/cpu/conv_depthwise_body.h"
