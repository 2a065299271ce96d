/* conv_weight with AVX2: conv_fold_vec_body.h. */
#define TILE gr_matmul_tile_avx2
#include "op/conv/cpu/conv_fold_vec_body.h"

const gr_fold_isa gr_fold_isa_avx2 = {
    .rows = 6,
    .line_unit = GR_FOLD_UNIT,
    .ahead = -1,
    .y_bytes = y_bytes,
    .copy = copy,
    .pack_y = pack_y,
    .begin = nothing,
    .end = nothing,
    .block = block,
    .transpose = transpose,
    .widen = widen,
    .narrow = narrow,
};
