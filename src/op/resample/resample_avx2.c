/* Resample by AVX2; the loops are in resample_row_body.h. */
#include "op/resample/resample_kernels.h"
#include "op/vec_avx2_body.h"

#include "op/resample/resample_row_body.h"

void gr_resample_avx2(const gr_resample_row *r)
{
    resample_row(r);
}
