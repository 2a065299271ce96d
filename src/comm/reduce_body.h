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

#define INLINE static inline __attribute__((always_inline))

/* Between two sources of a block. Without it GCC at -O3 joins their loops ("unroll and jam"),
 * and with three sources and more is four to six times as slow as one after the other. */
#define NEXT_SOURCE() __asm__ volatile("" ::: "memory")

/* Both forms of a reduction: whole blocks of constant length, then a short rest. The
 * form in place is the general one with parts that are source and target at once. */
#define DEFINE_ENTRIES(name, wide)                                                              \
    static void name##_fold(const gr_fold *f)                                                   \
    {                                                                                           \
        size_t at = f->first, end = f->first + f->n_elem;                                       \
        wide s = (wide)f->scale;                                                                \
                                                                                                \
        for (; end - at >= BLOCK; at += BLOCK)                                                  \
            name##_block(f, at, BLOCK, s);                                                      \
        for (; end - at >= SUB_BLOCK; at += SUB_BLOCK)                                          \
            name##_block(f, at, SUB_BLOCK, s);                                                  \
        if (at < end)                                                                           \
            name##_block(f, at, end - at, s);                                                   \
    }                                                                                           \
    static void name(void *const *part, int n_parts, size_t first, size_t n_elem, double scale) \
    {                                                                                           \
        const gr_fold f = { .src = (const void *const *)part,                                   \
                            .n_src = n_parts,                                                   \
                            .dst = part,                                                        \
                            .n_dst = n_parts,                                                   \
                            .first = first,                                                     \
                            .n_elem = n_elem,                                                   \
                            .scale = scale };                                                   \
                                                                                                \
        name##_fold(&f);                                                                        \
    }

/* IN makes a term of an element and COMBINE joins two terms. They stand in statements of
 * their own: compilers that fuse do so within an expression. */
#define DEFINE_REDUCE(name, type, IN, COMBINE)                              \
    INLINE void name##_block(const gr_fold *f, size_t at, size_t n, type s) \
    {                                                                       \
        type acc[BLOCK];                                                    \
        int r = 0;                                                          \
                                                                            \
        (void)s;                                                            \
        if (f->prefix) {                                                    \
            memcpy(acc, (const type *)f->prefix + at, n * sizeof(type));    \
        } else {                                                            \
            const type *x = (const type *)f->src[r++] + at;                 \
                                                                            \
            for (size_t i = 0; i < n; i++)                                  \
                acc[i] = IN(x[i], s);                                       \
        }                                                                   \
        for (; r < f->n_src; r++) {                                         \
            const type *x = (const type *)f->src[r] + at;                   \
                                                                            \
            NEXT_SOURCE();                                                  \
            for (size_t i = 0; i < n; i++) {                                \
                type term = IN(x[i], s);                                    \
                                                                            \
                acc[i] = COMBINE(acc[i], term);                             \
            }                                                               \
        }                                                                   \
        for (int d = 0; d < f->n_dst; d++)                                  \
            memcpy((type *)f->dst[d] + at, acc, n * sizeof(type));          \
    }                                                                       \
    DEFINE_ENTRIES(name, type)

/* The same for 16-bit floats, combined in f32. */
#define DEFINE_REDUCE_HALF(name, widen, narrow, IN, COMBINE)                   \
    INLINE void name##_block(const gr_fold *f, size_t at, size_t n, float s)   \
    {                                                                          \
        float acc[BLOCK], x[BLOCK];                                            \
        uint16_t out[BLOCK];                                                   \
        int r = 0;                                                             \
                                                                               \
        (void)s;                                                               \
        if (f->prefix) {                                                       \
            memcpy(acc, (const float *)f->prefix + at, n * sizeof(float));     \
        } else {                                                               \
            widen(acc, (const uint16_t *)f->src[r++] + at, n);                 \
            for (size_t i = 0; i < n; i++)                                     \
                acc[i] = IN(acc[i], s);                                        \
        }                                                                      \
        for (; r < f->n_src; r++) {                                            \
            NEXT_SOURCE();                                                     \
            widen(x, (const uint16_t *)f->src[r] + at, n);                     \
            for (size_t i = 0; i < n; i++) {                                   \
                float term = IN(x[i], s);                                      \
                                                                               \
                acc[i] = COMBINE(acc[i], term);                                \
            }                                                                  \
        }                                                                      \
        narrow(out, acc, n);                                                   \
        for (int d = 0; d < f->n_dst; d++)                                     \
            if (f->is_wide)                                                    \
                memcpy((float *)f->dst[d] + at, acc, n * sizeof(float));       \
            else                                                               \
                memcpy((uint16_t *)f->dst[d] + at, out, n * sizeof(uint16_t)); \
    }                                                                          \
    DEFINE_ENTRIES(name, float)

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
#define MUL(a, b)    ((a) * (b))
#define OR(a, b)     ((a) | (b))

DEFINE_REDUCE(sum_f32, float, SCALED, ADD)
DEFINE_REDUCE(max_f32, float, PLAIN, MAXF)
DEFINE_REDUCE(min_f32, float, PLAIN, MINF)
DEFINE_REDUCE(prod_f32, float, PLAIN, MUL)
DEFINE_REDUCE(sum_f64, double, SCALED, ADD)
DEFINE_REDUCE(max_f64, double, PLAIN, MAXF)
DEFINE_REDUCE(min_f64, double, PLAIN, MINF)
DEFINE_REDUCE(prod_f64, double, PLAIN, MUL)
DEFINE_REDUCE_HALF(sum_bf16, widen_bf16, narrow_bf16, SCALED, ADD)
DEFINE_REDUCE_HALF(max_bf16, widen_bf16, narrow_bf16, PLAIN, MAXF)
DEFINE_REDUCE_HALF(min_bf16, widen_bf16, narrow_bf16, PLAIN, MINF)
DEFINE_REDUCE_HALF(prod_bf16, widen_bf16, narrow_bf16, PLAIN, MUL)
DEFINE_REDUCE_HALF(sum_f16, widen_f16, narrow_f16, SCALED, ADD)
DEFINE_REDUCE_HALF(max_f16, widen_f16, narrow_f16, PLAIN, MAXF)
DEFINE_REDUCE_HALF(min_f16, widen_f16, narrow_f16, PLAIN, MINF)
DEFINE_REDUCE_HALF(prod_f16, widen_f16, narrow_f16, PLAIN, MUL)
/* Sums of integers are unsigned: they wrap without being undefined. */
DEFINE_REDUCE(sum_i32, uint32_t, PLAIN, ADD)
DEFINE_REDUCE(max_i32, int32_t, PLAIN, MAXI)
DEFINE_REDUCE(min_i32, int32_t, PLAIN, MINI)
DEFINE_REDUCE(prod_i32, uint32_t, PLAIN, MUL)
DEFINE_REDUCE(or_i32, uint32_t, PLAIN, OR)
DEFINE_REDUCE(sum_i64, uint64_t, PLAIN, ADD)
DEFINE_REDUCE(max_i64, int64_t, PLAIN, MAXI)
DEFINE_REDUCE(min_i64, int64_t, PLAIN, MINI)
DEFINE_REDUCE(prod_i64, uint64_t, PLAIN, MUL)
DEFINE_REDUCE(or_i64, uint64_t, PLAIN, OR)
#define ADD_U8(a, b) ((uint8_t)((a) + (b)))
DEFINE_REDUCE(sum_u8, uint8_t, PLAIN, ADD_U8)
DEFINE_REDUCE(max_u8, uint8_t, PLAIN, MAXI)
DEFINE_REDUCE(min_u8, uint8_t, PLAIN, MINI)
#define MUL_U8(a, b) ((uint8_t)((a) * (b)))
#define OR_U8(a, b)  ((uint8_t)((a) | (b)))
DEFINE_REDUCE(prod_u8, uint8_t, PLAIN, MUL_U8)
DEFINE_REDUCE(or_u8, uint8_t, PLAIN, OR_U8)

/* SUM, AVG, MAX, MIN, PROD, OR; there is no average of integers and no bit-or of floats. */
#define ROW_FLOAT(t, form)                                                               \
    {                                                                                    \
        sum_##t##form, sum_##t##form, max_##t##form, min_##t##form, prod_##t##form, NULL \
    }
#define ROW_INTEGER(t, form)                                                            \
    {                                                                                   \
        sum_##t##form, NULL, max_##t##form, min_##t##form, prod_##t##form, or_##t##form \
    }
#define ROWS(form)                                                            \
    {                                                                         \
        [GR_F32] = ROW_FLOAT(f32, form), [GR_F64] = ROW_FLOAT(f64, form),     \
        [GR_BF16] = ROW_FLOAT(bf16, form), [GR_F16] = ROW_FLOAT(f16, form),   \
        [GR_I32] = ROW_INTEGER(i32, form), [GR_I64] = ROW_INTEGER(i64, form), \
        [GR_U8] = ROW_INTEGER(u8, form),                                      \
    }

const gr_reduce_set REDUCE_SET = { .name = REDUCE_NAME, .fn = ROWS(), .fold = ROWS(_fold) };

#endif
