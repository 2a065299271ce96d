/*
 * Dealing pieces out to the slices of a pool's job, for kernels whose cores may differ in
 * speed: a core that shares its units with a busy neighbour runs tile products at a third
 * of its speed, and cuts that are equal then all wait for it.
 *
 *     gr_deal_open(&d, n, grain, n_hands);               before gr_pool_run(.., n_hands)
 *     while (gr_deal_take(&d, slice, &lo, &hi)) ...      in each slice
 *
 * Every hand begins with a stretch of its own, the one gr_pool_cut() gives, and takes it
 * piece by piece from the front. When that is used up it gets the second half of the
 * longest stretch that another hand has left. So neighbours mostly stay together, and a
 * hand whose thread never comes is emptied by the others.
 *
 * What a piece is does not depend on timing, who gets it does: a piece must give the same
 * bits from whatever hand.
 */
#ifndef GR_BASE_DEAL_H
#define GR_BASE_DEAL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_DEAL_HANDS 128 /* most */

typedef struct gr_deal_hand {
    uint64_t left; /* pieces: end << 32 | first; atomic, by __atomic functions */
    char pad[56];  /* no two hands share a cache line */
} gr_deal_hand;

typedef struct gr_deal {
    int64_t n, grain; /* items; of a piece */
    int n_hands;
    gr_deal_hand hands[GR_DEAL_HANDS];
} gr_deal;

/* Hands for n_pieces and n_threads: at least 1, at most GR_DEAL_HANDS. */
int gr_deal_hands(int64_t n_pieces, int n_threads);

/* n items in pieces of `grain` (>= 1; a multiple of it when there are very many). By one
 * thread, before the hands are in use. */
void gr_deal_open(gr_deal *d, int64_t n, int64_t grain, int n_hands);

/* The next piece [*lo, *hi); false: nothing is left to take. One thread per hand. */
bool gr_deal_take(gr_deal *d, int hand, int64_t *lo, int64_t *hi);

/* Likewise, but only a piece that is the hand's already and begins at item `at`: for work
 * that is prepared while the piece before is under way. */
bool gr_deal_take_next(gr_deal *d, int hand, int64_t at, int64_t *hi);

#ifdef __cplusplus
}
#endif

#endif
