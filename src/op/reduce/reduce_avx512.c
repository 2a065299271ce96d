/* Reductions by AVX-512; the loops are in reduce_span_body.h. */
#include "op/reduce/reduce_kernels.h"
#include "op/unroll_body.h"
#include "op/vec_avx512_body.h"

#define N_SUMS 16 /* vectors at a time down the rows */

#include "op/reduce/reduce_span_body.h"

const gr_span_isa gr_reduce_span_avx512 = { .down = down, .along = along };
