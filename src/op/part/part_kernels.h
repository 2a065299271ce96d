/* The reference kernels of concat, split, slice, pad and flip. */
#ifndef GR_OP_PART_KERNELS_H
#define GR_OP_PART_KERNELS_H

#include "op/part/part.h"

gr_status gr_concat_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_split_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_slice_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_pad_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_flip_ref_run(const gr_launch *l) GR_MUST_CHECK;

#endif
