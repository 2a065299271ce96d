/* layer_norm and rms_norm by AVX2; the loops are in norm_rows_body.h. */
#include "op/norm/cpu/norm_kernels.h"
#include "op/unroll_body.h"
#include "op/vec_avx2_body.h"

#include "op/norm/cpu/norm_rows_body.h"

const gr_norm_rows_isa gr_norm_rows_avx2 = { .forward = forward, .backward = backward };
