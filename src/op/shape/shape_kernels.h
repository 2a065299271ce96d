/* The CPU kernels of transpose. */
#ifndef GR_OP_SHAPE_KERNELS_H
#define GR_OP_SHAPE_KERNELS_H

#include "op/shape/shape.h"

gr_status gr_transpose_ref_run(const gr_launch *l) GR_MUST_CHECK;

#endif
