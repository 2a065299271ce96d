/*
 * Thin planes, such as three channels that become planes or the reverse: numbers from n
 * rows woven together, or apart. Plain loops with n a constant, which the compiler makes
 * vectors of; included once per instruction set.
 */
#include "op/shape/strided.h"

/* The result's rows are n long and dense. */
#define WEAVE(type, n)                                \
    do {                                              \
        type *restrict dst = t->dst;                  \
        const type *src = t->src;                     \
        const int64_t from = t->src_step;             \
                                                      \
        for (int64_t r = 0; r < t->rows; r++)         \
            for (int k = 0; k < (n); k++)             \
                dst[r * (n) + k] = src[k * from + r]; \
    } while (0)

/* The result has n rows, the source's n neighbours are dense. */
#define UNWEAVE(type, n)                            \
    do {                                            \
        type *restrict dst = t->dst;                \
        const type *restrict src = t->src;          \
        const int64_t to = t->dst_step;             \
                                                    \
        for (int64_t c = 0; c < t->cols; c++)       \
            for (int k = 0; k < (n); k++)           \
                dst[k * to + c] = src[c * (n) + k]; \
    } while (0)

#define BY_WIDTH(what, type, n)    \
    switch (n) {                   \
    case 2: what(type, 2); break;  \
    case 3: what(type, 3); break;  \
    default: what(type, 4); break; \
    }

static void weave_4(const gr_turn *t)
{
    BY_WIDTH(WEAVE, uint32_t, t->cols)
}

static void weave_2(const gr_turn *t)
{
    BY_WIDTH(WEAVE, uint16_t, t->cols)
}

static void unweave_4(const gr_turn *t)
{
    BY_WIDTH(UNWEAVE, uint32_t, t->rows)
}

static void unweave_2(const gr_turn *t)
{
    BY_WIDTH(UNWEAVE, uint16_t, t->rows)
}
