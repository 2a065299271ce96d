/* Matrix products on the GPU: what the files of the CUDA module share. */
#ifndef GR_OP_MATMUL_MATMUL_CUDA_H
#define GR_OP_MATMUL_MATMUL_CUDA_H

#include "op/matmul/matmul.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cuBLASLt's slots of gr_kernel. */
const char *gr_matmul_lt_reject(const gr_node *n);
gr_status gr_matmul_lt_variants(const gr_prepare *pr, gr_text *out) GR_MUST_CHECK;
gr_status gr_matmul_lt_prepare(gr_prepare *pr) GR_MUST_CHECK;
size_t gr_matmul_lt_workspace(const gr_node *n, const void *data);
gr_status gr_matmul_lt_run(const gr_launch *l) GR_MUST_CHECK;
void gr_matmul_lt_release(void *data);

#ifdef __cplusplus
}
#endif

#endif
