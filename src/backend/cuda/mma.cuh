/*
 * Tensor cores: products of 16 x 16 by 16 x 8 (m16n8k16) of bf16 or f16, summed in f32, and
 * what brings their operands there. A warp holds, with g = lane / 4 and t = lane % 4,
 *
 *   a[4]  of 16 x 16: rows g and g + 8 by turns; columns 2 t and 2 t + 1, in a[2], a[3] 8 further
 *   b[2]  of 16 x 8:  rows 2 t and 2 t + 1, in b[1] 8 further; column g
 *   c[4]  of 16 x 8:  row g, in c[2], c[3] g + 8; columns 2 t and 2 t + 1 by turns
 *
 * two elements to a register, the lower one in the lower half: what stands in two neighbouring c
 * is, rounded to 16 bits, an a.
 */
#ifndef GR_BACKEND_CUDA_MMA_CUH
#define GR_BACKEND_CUDA_MMA_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

static __device__ __forceinline__ uint32_t gr_mma_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* c += a b. */
static __device__ __forceinline__ void gr_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                              uint32_t b1, __nv_bfloat16)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
static __device__ __forceinline__ void gr_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                              uint32_t b1, __half)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8 x 8 matrices from shared memory, a register each: lanes 8 i .. 8 i + 7 say where the
 * rows of matrix i begin, at multiples of 16 bytes. Row g, columns 2 t and 2 t + 1. */
static __device__ __forceinline__ void gr_mma_load(uint32_t (&x)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(gr_mma_address(row))
                 : "memory");
}
/* The same, transposed: rows 2 t and 2 t + 1, column g. */
static __device__ __forceinline__ void gr_mma_load_turned(uint32_t (&x)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(gr_mma_address(row))
                 : "memory");
}

static __device__ __forceinline__ uint32_t gr_mma_pack(float lo, float hi, __nv_bfloat16)
{
    __nv_bfloat162 x = __floats2bfloat162_rn(lo, hi);

    return *(uint32_t *)&x;
}
static __device__ __forceinline__ uint32_t gr_mma_pack(float lo, float hi, __half)
{
    __half2 x = __floats2half2_rn(lo, hi);

    return *(uint32_t *)&x;
}

/* ---- powers ---- */

/* 2^x by the special function unit: two units in the last place, and 0 below 2^-126. */
static __device__ __forceinline__ float gr_power_of_2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* ---- copies that go on by themselves ---- */

/* 16 bytes to shared memory, or zeros; both addresses aligned. */
static __device__ __forceinline__ void gr_copy16(void *shared, const void *from, bool is_there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(gr_mma_address(shared)), "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
}
/* Ends a group of copies of this thread. */
static __device__ __forceinline__ void gr_copy_close()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits until all groups of this thread but the last N have arrived. */
template <int N> static __device__ __forceinline__ void gr_copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#endif
