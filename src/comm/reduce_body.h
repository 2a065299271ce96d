/*
 * The reduction kernels, written once. The reduce_nofma*.c files include this after
 * defining REDUCE_SET (the name of their table), REDUCE_NAME, widen_f16() and
 * narrow_f16(); otherwise they differ only in the instruction set they are compiled for.
 *
 * Work goes in blocks: a block's accumulators stay in the first-level cache, and its
 * length is a constant, so that compilers turn the plain loops into vector code. Those
 * files are compiled with -ffp-contract=off: a fused multiply-add would round once where
 * the law (reduce.h) rounds twice.
 */
#ifndef GR_COMM_REDUCE_BODY_H
#define GR_COMM_REDUCE_BODY_H

#include "comm/reduce.h"

#include <stdint.h>
#include <string.h>

#define BLOCK     256
#define SUB_BLOCK 16

/* Calls `block` for [first, first + n_elem): constant lengths, then a short rest. */
#define FOR_BLOCKS(block)                              \
    do {                                               \
        size_t at = first, end = first + n_elem;       \
        for (; end - at >= BLOCK; at += BLOCK)         \
            block(part, n_parts, at, BLOCK, s);        \
        for (; end - at >= SUB_BLOCK; at += SUB_BLOCK) \
            block(part, n_parts, at, SUB_BLOCK, s);    \
        if (at < end)                                  \
            block(part, n_parts, at, end - at, s);     \
    } while (0)

#define DEFINE_ENTRY(name, type)                                                                \
    static void name(void *const *part, int n_parts, size_t first, size_t n_elem, double scale) \
    {                                                                                           \
        type s = (type)scale;                                                                   \
                                                                                                \
        FOR_BLOCKS(name##_block);                                                               \
    }

#define BLOCK_ARGS(type) void *const *part, int n_parts, size_t at, size_t n, type s
#define INLINE           static inline __attribute__((always_inline))

/* IN makes a term of an element and COMBINE joins two terms. They stand in statements of
 * their own: compilers that fuse do so within an expression. */
#define DEFINE_REDUCE(name, type, IN, COMBINE)                   \
    INLINE void name##_block(BLOCK_ARGS(type))                   \
    {                                                            \
        type acc[BLOCK];                                         \
        const type *x = (const type *)part[0] + at;              \
                                                                 \
        (void)s;                                                 \
        for (size_t i = 0; i < n; i++)                           \
            acc[i] = IN(x[i], s);                                \
        for (int r = 1; r < n_parts; r++) {                      \
            x = (const type *)part[r] + at;                      \
            for (size_t i = 0; i < n; i++) {                     \
                type term = IN(x[i], s);                         \
                                                                 \
                acc[i] = COMBINE(acc[i], term);                  \
            }                                                    \
        }                                                        \
        for (int r = 0; r < n_parts; r++)                        \
            memcpy((type *)part[r] + at, acc, n * sizeof(type)); \
    }                                                            \
    DEFINE_ENTRY(name, type)

/* The same for 16-bit floats, combined in f32. */
#define DEFINE_REDUCE_HALF(name, widen, narrow, IN, COMBINE)             \
    INLINE void name##_block(BLOCK_ARGS(float))                          \
    {                                                                    \
        float acc[BLOCK], x[BLOCK];                                      \
        uint16_t out[BLOCK];                                             \
                                                                         \
        (void)s;                                                         \
        widen(acc, (const uint16_t *)part[0] + at, n);                   \
        for (size_t i = 0; i < n; i++)                                   \
            acc[i] = IN(acc[i], s);                                      \
        for (int r = 1; r < n_parts; r++) {                              \
            widen(x, (const uint16_t *)part[r] + at, n);                 \
            for (size_t i = 0; i < n; i++) {                             \
                float term = IN(x[i], s);                                \
                                                                         \
                acc[i] = COMBINE(acc[i], term);                          \
            }                                                            \
        }                                                                \
        narrow(out, acc, n);                                             \
        for (int r = 0; r < n_parts; r++)                                \
            memcpy((uint16_t *)part[r] + at, out, n * sizeof(uint16_t)); \
    }                                                                    \
    DEFINE_ENTRY(name, float)

INLINE void widen_bf16(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u = (uint32_t)src[i] << 16;

        memcpy(dst + i, &u, sizeof(u));
    }
}

/* As gr_f32_to_bf16(), without a branch and in sight of the vectoriser. */
INLINE void narrow_bf16(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u;

        memcpy(&u, src + i, sizeof(u));
        dst[i] = (u & 0x7fffffffu) > 0x7f800000u
                     ? (uint16_t)((u >> 16) | 0x0040u)
                     : (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
}

#define SCALED(x, s) ((x) * (s))
#define PLAIN(x, s)  (x)
#define ADD(a, b)    ((a) + (b))
#define MAXF(a, b)   ((b) > (a) || (b) != (b) ? (b) : (a)) /* a NaN in `a` stays: no */
#define MINF(a, b)   ((b) < (a) || (b) != (b) ? (b) : (a)) /* comparison is true with it */
#define MAXI(a, b)   ((b) > (a) ? (b) : (a))
#define MINI(a, b)   ((b) < (a) ? (b) : (a))

DEFINE_REDUCE(sum_f32, float, SCALED, ADD)
DEFINE_REDUCE(max_f32, float, PLAIN, MAXF)
DEFINE_REDUCE(min_f32, float, PLAIN, MINF)
DEFINE_REDUCE(sum_f64, double, SCALED, ADD)
DEFINE_REDUCE(max_f64, double, PLAIN, MAXF)
DEFINE_REDUCE(min_f64, double, PLAIN, MINF)
DEFINE_REDUCE_HALF(sum_bf16, widen_bf16, narrow_bf16, SCALED, ADD)
DEFINE_REDUCE_HALF(max_bf16, widen_bf16, narrow_bf16, PLAIN, MAXF)
DEFINE_REDUCE_HALF(min_bf16, widen_bf16, narrow_bf16, PLAIN, MINF)
DEFINE_REDUCE_HALF(sum_f16, widen_f16, narrow_f16, SCALED, ADD)
DEFINE_REDUCE_HALF(max_f16, widen_f16, narrow_f16, PLAIN, MAXF)
DEFINE_REDUCE_HALF(min_f16, widen_f16, narrow_f16, PLAIN, MINF)
/* Sums of integers are unsigned: they wrap without being undefined. */
DEFINE_REDUCE(sum_i32, uint32_t, PLAIN, ADD)
DEFINE_REDUCE(max_i32, int32_t, PLAIN, MAXI)
DEFINE_REDUCE(min_i32, int32_t, PLAIN, MINI)
DEFINE_REDUCE(sum_i64, uint64_t, PLAIN, ADD)
DEFINE_REDUCE(max_i64, int64_t, PLAIN, MAXI)
DEFINE_REDUCE(min_i64, int64_t, PLAIN, MINI)
#define ADD_U8(a, b) ((uint8_t)((a) + (b)))
DEFINE_REDUCE(sum_u8, uint8_t, PLAIN, ADD_U8)
DEFINE_REDUCE(max_u8, uint8_t, PLAIN, MAXI)
DEFINE_REDUCE(min_u8, uint8_t, PLAIN, MINI)

/* SUM, AVG, MAX, MIN; an average of integers is not defined. */
#define ROW_FLOAT(t)                       \
    {                                      \
        sum_##t, sum_##t, max_##t, min_##t \
    }
#define ROW_INTEGER(t)                  \
    {                                   \
        sum_##t, NULL, max_##t, min_##t \
    }

const gr_reduce_set REDUCE_SET = {
    .name = REDUCE_NAME,
    .fn = {
        [GR_F32] = ROW_FLOAT(f32),
        [GR_F64] = ROW_FLOAT(f64),
        [GR_BF16] = ROW_FLOAT(bf16),
        [GR_F16] = ROW_FLOAT(f16),
        [GR_I32] = ROW_INTEGER(i32),
        [GR_I64] = ROW_INTEGER(i64),
        [GR_U8] = ROW_INTEGER(u8),
    },
};

#endif
