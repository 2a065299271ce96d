/* Rotary by AVX-512; the loops are in rotary_part_body.h. */
#include "op/rotary/rotary_kernels.h"
#include "op/vec_avx512_body.h"

#define vec_swap(x) _mm512_permute_ps(x, 0xb1)

#include "op/rotary/rotary_part_body.h"

const gr_rotary_isa gr_rotary_avx512 = { .halves = part_halves, .interleaved = part_interleaved };
