/* Vector loops of map for AVX-512 (F, BW, DQ, VL). See map_loops.inc. Any thread. */
#include "op/map/cpu/vf_avx512_body.h"
#include "op/map/map_impl.h"

#include "base/half.h"

#include <string.h>
#include <tgmath.h>

#define ISA gr_map_avx512

#include "op/map/cpu/map_loops.inc"
