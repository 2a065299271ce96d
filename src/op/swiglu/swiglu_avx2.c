/* swiglu by vectors; the loops are in swiglu_body.h. */
#include "op/map/cpu/vf_avx2_body.h"
#include "op/swiglu/swiglu.h"

#include "op/swiglu/swiglu_body.h"

const gr_swiglu_isa gr_swiglu_avx2 = { .gate = gate, .grad = grad };
