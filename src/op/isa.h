/* What kernels for an instruction set say where it is missing: reject functions to share. */
#ifndef GR_OP_ISA_H
#define GR_OP_ISA_H

#include "base/cpu.h"
#include "graph/op.h"

static inline const char *gr_no_avx2(const gr_node *n)
{
    (void)n;
    return gr_cpu_has_avx2() ? NULL : "this CPU has no AVX2, or GR_CPU forbids it";
}

static inline const char *gr_no_avx512(const gr_node *n)
{
    (void)n;
    return gr_cpu_has_avx512() ? NULL : "this CPU has no AVX-512, or GR_CPU forbids it";
}

/* The same of kernels that compute in f32. */
static inline const char *gr_no_avx2_or_f64(const gr_node *n)
{
    return n->src[0]->dtype == GR_F64 ? "only f32, bf16 and f16" : gr_no_avx2(n);
}

static inline const char *gr_no_avx512_or_f64(const gr_node *n)
{
    return n->src[0]->dtype == GR_F64 ? "only f32, bf16 and f16" : gr_no_avx512(n);
}

#endif
