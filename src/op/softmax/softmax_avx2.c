/* Softmax by AVX2; the loops are in softmax_body.h. */
#include "op/softmax/softmax_kernels.h"
#include "op/unroll_body.h"
#include "op/vec_avx2_body.h"

#include "op/softmax/softmax_body.h"

const gr_softmax_isa gr_softmax_avx2 = SOFTMAX_ISA;
