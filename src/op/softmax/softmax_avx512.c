/* Softmax by AVX-512; the loops are in softmax_body.h. */
#include "op/softmax/softmax_kernels.h"
#include "op/unroll_body.h"
#include "op/vec_avx512_body.h"

#include "op/softmax/softmax_body.h"

const gr_softmax_isa gr_softmax_avx512 = SOFTMAX_ISA;
