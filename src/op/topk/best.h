/*
 * The k best of a stream of keys, best first at the end. A key is one number: what decides
 * in the upper half (smaller is better), the place of the element in the lower half, so
 * that of equals the first one wins and every order is total.
 *
 * A heap with the worst key on top: a key that is no better costs one comparison.
 */
#ifndef GR_OP_TOPK_BEST_H
#define GR_OP_TOPK_BEST_H

#include <stdint.h>
#include <string.h>

#define GR_BEST_NONE UINT64_MAX /* worse than every key */

/* Bits of x such that smaller numbers give smaller bits; both zeros are equal, NaN is
 * greatest. */
static inline uint32_t gr_best_bits(float x)
{
    uint32_t u;

    x += 0.0f; /* -0 becomes 0 */
    memcpy(&u, &x, sizeof(u));
    if (x != x)
        return UINT32_MAX;
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

static inline uint64_t gr_best_key(uint32_t bits, int64_t at)
{
    return (uint64_t)bits << 32 | (uint32_t)at;
}

/* Lets heap[i] sink among the first n. */
static inline void gr_best_sink(uint64_t *heap, int64_t n, int64_t i)
{
    const uint64_t key = heap[i];

    for (;;) {
        int64_t child = 2 * i + 1;

        if (child + 1 < n && heap[child + 1] > heap[child])
            child++;
        if (child >= n || heap[child] <= key)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = key;
}

static inline void gr_best_start(uint64_t *heap, int64_t k)
{
    for (int64_t i = 0; i < k; i++)
        heap[i] = GR_BEST_NONE;
}

static inline void gr_best_push(uint64_t *heap, int64_t k, uint64_t key)
{
    if (key >= heap[0])
        return;
    heap[0] = key;
    gr_best_sink(heap, k, 0);
}

/* From a heap to a list in order. */
static inline void gr_best_sort(uint64_t *heap, int64_t k)
{
    for (int64_t n = k - 1; n > 0; n--) {
        uint64_t top = heap[0];

        heap[0] = heap[n];
        heap[n] = top;
        gr_best_sink(heap, n, 0);
    }
}

#endif
