/* The CPU kernels of attention. */
#ifndef GR_OP_ATTENTION_KERNELS_H
#define GR_OP_ATTENTION_KERNELS_H

#include "op/attention/attention.h"

size_t gr_attention_ref_workspace(const gr_node *n, const void *data);
gr_status gr_attention_ref_run(const gr_launch *l) GR_MUST_CHECK;
size_t gr_attention_grad_ref_workspace(const gr_node *n, const void *data);
gr_status gr_attention_grad_ref_run(const gr_launch *l) GR_MUST_CHECK;

#endif
