/* Softmax cross-entropy by AVX2; the loops are in xent_row_body.h. */
#include "op/vec_avx2_body.h"
#include "op/xent/xent_kernels.h"

#include "op/xent/xent_row_body.h"

const gr_xent_isa gr_xent_avx2 = { .lse = row_lse, .grad = row_grad };
