/* The CPU kernels of arg_reduce and arg_scatter. */
#ifndef GR_OP_ARGMAX_KERNELS_H
#define GR_OP_ARGMAX_KERNELS_H

#include "op/argmax/argmax.h"

#ifdef __cplusplus
extern "C" {
#endif

gr_status gr_arg_reduce_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_arg_scatter_ref_run(const gr_launch *l) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
