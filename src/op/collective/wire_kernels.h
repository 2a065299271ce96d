/* The loops between f32 and 16 bits; [0] bf16, [1] f16. Round to nearest even, NaN stays. */
#ifndef GR_OP_COLLECTIVE_WIRE_KERNELS_H
#define GR_OP_COLLECTIVE_WIRE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

typedef struct gr_wire_loops {
    void (*pack[2])(uint16_t *dst, const float *src, size_t n);
    void (*unpack[2])(float *dst, const uint16_t *src, size_t n);
} gr_wire_loops;

extern const gr_wire_loops gr_wire_loops_avx2, gr_wire_loops_ref;

void gr_wire_bf16_pack_ref(uint16_t *dst, const float *src, size_t n);
void gr_wire_bf16_unpack_ref(float *dst, const uint16_t *src, size_t n);
void gr_wire_f16_pack_ref(uint16_t *dst, const float *src, size_t n);
void gr_wire_f16_unpack_ref(float *dst, const uint16_t *src, size_t n);

#endif
