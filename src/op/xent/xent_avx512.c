/* Softmax cross-entropy by AVX-512; the loops are in xent_row_body.h. */
#include "op/vec_avx512_body.h"
#include "op/xent/xent_kernels.h"

#include "op/xent/xent_row_body.h"

const gr_xent_isa gr_xent_avx512 = { .lse = row_lse, .grad = row_grad };
