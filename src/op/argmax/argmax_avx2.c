/* arg_reduce by AVX2; the loops are in argmax_body.h. */
#include "op/argmax/argmax_kernels.h"
#include "op/vec_avx2_body.h"

#include "op/argmax/argmax_body.h"

const gr_arg_isa gr_arg_avx2 = { .rows = rows, .columns = columns };
