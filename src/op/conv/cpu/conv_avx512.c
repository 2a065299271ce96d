/* Convolution on lines with AVX-512: conv_vec_body.h. */
#include "op/vec_avx512_body.h"

#define TILE gr_matmul_tile_avx512
#include "op/conv/cpu/conv_vec_body.h"

const gr_conv_isa gr_conv_isa_avx512 = {
    .lines = 14,
    .cols = 32,
    .run_unit = 1,
    .scale = 1,
    .line_bytes = line_bytes,
    .panel_bytes = panel_bytes,
    .line_at = line_at,
    .pack = pack,
    .pack_panel = pack_panel,
    .begin = nothing,
    .end = nothing,
    .block = block,
    .write = write_lines,
    .widen = widen,
};
