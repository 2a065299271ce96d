/* arg_reduce by AVX-512; the loops are in argmax_body.h. */
#include "op/argmax/argmax_kernels.h"
#include "op/vec_avx512_body.h"

#include "op/argmax/argmax_body.h"

const gr_arg_isa gr_arg_avx512 = { .rows = rows, .columns = columns };
