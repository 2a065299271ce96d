/* Distances of knn by AVX-512. */
#include "op/knn/knn_kernels.h"

#include "op/knn/knn_span_body.h"

void gr_knn_avx512(const gr_knn_span *s, float *out)
{
    span(s, out);
}
