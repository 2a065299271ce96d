/*
 * The k best of a stream of keys: smaller is better, and of equals the earlier one.
 *
 * Keys that are no better than the k-th so far are dropped as they come; the others are
 * kept in a buffer, and when that is full, each one's rank is counted against all others
 * and the best k stay. Nothing branches on a key, so random data costs what sorted data
 * costs. The loops are compiled once per instruction set (best_body.h).
 */
#ifndef GR_OP_TOPK_BEST_H
#define GR_OP_TOPK_BEST_H

#include "gradus/tensor.h"

#define GR_BEST_SPAN 128 /* keys that are offered at a time, at most */
#define GR_BEST_MORE 48  /* keys beyond k before the ranks are counted, less a vector */

typedef struct gr_best {
    int32_t *key, *key_2; /* room for all kept; for the best and one that is not */
    int32_t *at, *at_2;   /* places that belong to the keys */
    int64_t k, n;         /* wanted; kept now */
    int64_t limit;        /* keys from here on are dropped */
} gr_best;

/* A multiple of 16, so that vectors may read beyond what is kept. */
static inline int64_t gr_best_room(int64_t k)
{
    return (k + GR_BEST_MORE + 32) / 16 * 16;
}

static inline size_t gr_best_bytes(int64_t k)
{
    return (size_t)(4 * gr_best_room(k)) * sizeof(int32_t);
}

/* Begins; `mem` has gr_best_bytes(k). */
static inline void gr_best_start(gr_best *b, int64_t k, void *mem)
{
    b->k = k;
    b->n = 0;
    b->limit = (int64_t)INT32_MAX + 1;
    b->key = (int32_t *)mem;
    b->key_2 = b->key + gr_best_room(k);
    b->at = b->key_2 + gr_best_room(k);
    b->at_2 = b->at + gr_best_room(k);
}

typedef struct gr_best_isa {
    /* n <= GR_BEST_SPAN numbers of type t (f32, bf16, f16) as keys: smallest first, both
     * zeros equal, NaN greatest; turn -1: greatest first. */
    void (*keys)(int32_t *key, const void *x, gr_dtype t, int64_t n, int32_t turn);
    /* Offers n keys of places at, at + 1, ..; ok (may be NULL): only where it is not 0. */
    void (*take)(gr_best *b, const int32_t *key, const uint8_t *ok, int64_t at, int64_t n);
    /* Afterwards key[0..n) and at[0..n) are the best, n <= k, in order. */
    void (*finish)(gr_best *b);
} gr_best_isa;

extern const gr_best_isa gr_best_avx512, gr_best_avx2;

#endif
