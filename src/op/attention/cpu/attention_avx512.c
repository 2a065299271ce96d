/* Attention by AVX-512: rows of 32 queries are two vectors. */
#include "op/attention/cpu/attention_flash.h"
#include "op/attention/cpu/attention_isa_avx512_body.h"

#include "op/attention/cpu/attention_soft_body.h"

#include <string.h>

#include "op/attention/cpu/attention_rows_body.h"

static const gr_flash_soft soft = {
    .forward = rows_forward,
    .backward = rows_backward,
    .finish = soft_finish,
    .dots = soft_dots,
    .drop = soft_drop,
};

const gr_flash_engine gr_flash_avx512 = {
    .soft = &soft,
    .soft_bf16 = &soft,
    .tile = &gr_matmul_tile_avx512,
    .pad = 1,
    .begin = gr_flash_nothing,
    .end = gr_flash_nothing,
    .left_rows = gr_flash_left_rows,
    .left_cols = gr_flash_left_cols,
    .right_rows = gr_flash_right_rows,
    .right_cols = gr_flash_right_cols,
    .product = gr_flash_multiply,
};
