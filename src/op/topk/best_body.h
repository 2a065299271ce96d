/*
 * The loops of best.h: included once per instruction set, which brings LANES, ivec and
 *   count_lt(r, a, b)         r + 1 where a < b
 *   count_le(r, a, b)         r + 1 where a <= b
 *   count_before(r, a, b, j)  r + 1 where a < b, or a == b in a lane beyond j
 *   append(b, key, ok, at, n) keeps those of n <= LANES keys that are good enough
 */
#include "base/half.h"
#include "op/topk/best.h"

#include <string.h>

static inline int32_t key_of(float x, int32_t turn)
{
    int32_t u;

    x += 0.0f; /* -0 becomes 0 */
    memcpy(&u, &x, sizeof(u));
    u ^= (u >> 31) & 0x7fffffff;
    return (x != x ? INT32_MAX : u) ^ turn;
}

static void keys(int32_t *restrict key, const void *x, gr_dtype t, int64_t n, int32_t turn)
{
    const float *f = x;
    const uint16_t *h = x;

    if (t == GR_F32)
        for (int64_t i = 0; i < n; i++)
            key[i] = key_of(f[i], turn);
    else if (t == GR_BF16)
        for (int64_t i = 0; i < n; i++) {
            const uint32_t u = (uint32_t)h[i] << 16;
            float y;

            memcpy(&y, &u, sizeof(y));
            key[i] = key_of(y, turn);
        }
    else
        for (int64_t i = 0; i < n; i++)
            key[i] = key_of(gr_f16_to_f32(h[i]), turn);
}

/* Ranks of the keys [i, i + LANES) among n. */
static inline void rank_block(const int32_t *key, int64_t n, int64_t i, int32_t *rank)
{
    const ivec mine = ivec_load(key + i);
    ivec r = ivec_set(0);
    int64_t j = 0;

    for (; j < i; j++)
        r = count_le(r, ivec_set(key[j]), mine);
    for (; j < n && j < i + LANES; j++)
        r = count_before(r, ivec_set(key[j]), mine, (int)(j - i));
    for (; j < n; j++)
        r = count_lt(r, ivec_set(key[j]), mine);
    ivec_store(rank, r);
}

static void shrink(gr_best *b)
{
    const int32_t kept = (int32_t)(b->n < b->k ? b->n : b->k);

    for (int64_t i = 0; i < b->n; i += LANES) {
        int32_t rank[LANES];

        rank_block(b->key, b->n, i, rank);
        for (int64_t e = 0; e < LANES && i + e < b->n; e++) {
            const int32_t to = rank[e] < kept ? rank[e] : kept; /* the last one is dropped */

            b->key_2[to] = b->key[i + e];
            b->at_2[to] = b->at[i + e];
        }
    }
    memcpy(b->key, b->key_2, (size_t)kept * sizeof(b->key[0]));
    memcpy(b->at, b->at_2, (size_t)kept * sizeof(b->at[0]));
    b->n = kept;
    if (kept == b->k)
        b->limit = b->key[kept - 1];
}

static void take(gr_best *b, const int32_t *key, const uint8_t *ok, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) {
        append(b, key + i, ok ? ok + i : NULL, at + i, n - i < LANES ? n - i : LANES);
        if (b->n >= b->k + GR_BEST_MORE)
            shrink(b);
    }
}
