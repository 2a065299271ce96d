/* Sums of rows by AVX-512; the loops are in gather_sum_body.h. */
#include "op/gather/gather_kernels.h"
#include "op/unroll_body.h"
#include "op/vec_avx512_body.h"

#define BLOCK 16
#include "op/gather/gather_sum_body.h"

void gr_sum_rows_avx512(const gr_sum_rows *s, float *out)
{
    sum_rows(s, out);
}
