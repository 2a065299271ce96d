/* Vector loops of map for AVX2 with FMA and F16C. See map_loops.inc. Any thread. */
#include "op/map/cpu/vf_avx2_body.h"
#include "op/map/map_impl.h"

#include "base/half.h"

#include <string.h>
#include <tgmath.h>

#define ISA gr_map_avx2

#include "op/map/cpu/map_loops.inc"
