/* Statistics and sums down channels by AVX2; the loops are in norm_columns_body.h. */
#include "op/norm/cpu/norm_kernels.h"
#include "op/unroll_body.h"
#include "op/vec_avx2_body.h"

#include "op/norm/cpu/norm_columns_body.h"

const gr_norm_columns_isa gr_norm_columns_avx2 = { .stats = stats, .sums = sums };
