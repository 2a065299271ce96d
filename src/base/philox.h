/* Philox 4x32-10, the counter-based generator that serves inside a step. One text for the host
 * and for kernels on a GPU, so that both draw the same bits. */
#ifndef GR_BASE_PHILOX_H
#define GR_BASE_PHILOX_H

#include <stdint.h>

#include "base/both.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out = Philox4x32-10(counter, key). */
GR_BOTH void gr_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t x[4] = { counter[0], counter[1], counter[2], counter[3] };
    uint32_t k[2] = { key[0], key[1] };

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * x[0];
        uint64_t b = (uint64_t)0xcd9e8d57u * x[2];

        x[0] = (uint32_t)(b >> 32) ^ x[1] ^ k[0];
        x[1] = (uint32_t)b;
        x[2] = (uint32_t)(a >> 32) ^ x[3] ^ k[1];
        x[3] = (uint32_t)a;
        k[0] += 0x9e3779b9u;
        k[1] += 0xbb67ae85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = x[i];
}

#ifdef __cplusplus
}
#endif

#endif
