/* Resample by AVX-512; the loops are in resample_row_body.h. */
#include "op/resample/resample_kernels.h"
#include "op/vec_avx512_body.h"

#include "op/resample/resample_row_body.h"

void gr_resample_avx512(const gr_resample_row *r)
{
    resample_row(r);
}
