/* Sums of rows by AVX2; the loops are in gather_sum_body.h. */
#include "op/gather/gather_kernels.h"
#include "op/unroll_body.h"
#include "op/vec_avx2_body.h"

#define BLOCK 8
#include "op/gather/gather_sum_body.h"

void gr_sum_rows_avx2(const gr_sum_rows *s, float *out)
{
    sum_rows(s, out);
}
