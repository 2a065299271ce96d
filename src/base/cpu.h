/*
 * Which instruction sets kernels may use: what the processor and the system support,
 * capped by GR_CPU=amx|avx512_bf16|avx512|avx2|scalar in the environment (read once). Any
 * thread.
 */
#ifndef GR_BASE_CPU_H
#define GR_BASE_CPU_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

bool gr_cpu_has_avx2(void);        /* AVX2, FMA, F16C: what *_avx2.c files are built for */
bool gr_cpu_has_avx512(void);      /* also AVX-512 F, BW, DQ, VL */
bool gr_cpu_has_avx512_bf16(void); /* also AVX512_BF16 */

/* Also AMX tiles and bf16, tried out. The first call asks the system for the tile
 * registers on behalf of the whole process. */
bool gr_cpu_has_amx(void);

/* Cores this process may run on; at least 1. */
int gr_cpu_count(void);

#ifdef __cplusplus
}
#endif

#endif
