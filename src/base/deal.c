/*
 * Dealing. A hand's stretch is one word, so that its owner, who takes from the front, and
 * the others, who take from the back, cannot get the same piece. The word says all there
 * is to know: that it may have changed and changed back in between does no harm.
 *
 * Pieces on their way from one hand to another are in no hand for a moment; who looks
 * then goes home early, and the work is done by the one who carries them.
 */
#include "base/deal.h"

#include "base/pool.h"

#define MOST_PIECES ((int64_t)INT32_MAX)

static uint64_t stretch(uint32_t first, uint32_t end)
{
    return (uint64_t)end << 32 | first;
}

static uint32_t first_of(uint64_t left)
{
    return (uint32_t)left;
}

static uint32_t end_of(uint64_t left)
{
    return (uint32_t)(left >> 32);
}

static uint32_t length_of(uint64_t left)
{
    return end_of(left) - first_of(left);
}

static uint64_t look(const gr_deal *d, int hand)
{
    return __atomic_load_n(&d->hands[hand].left, __ATOMIC_ACQUIRE);
}

/* From what was seen to something else, unless it changed since; *seen is what it is then. */
static bool change(gr_deal *d, int hand, uint64_t *seen, uint64_t to)
{
    return __atomic_compare_exchange_n(&d->hands[hand].left, seen, to, true, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

int gr_deal_hands(int64_t n_pieces, int n_threads)
{
    int most = n_threads < GR_DEAL_HANDS ? n_threads : GR_DEAL_HANDS;

    if (n_pieces < most)
        most = (int)n_pieces;
    return most < 1 ? 1 : most;
}

void gr_deal_open(gr_deal *d, int64_t n, int64_t grain, int n_hands)
{
    while ((n - 1) / grain >= MOST_PIECES)
        grain *= 2;
    d->n = n;
    d->grain = grain;
    d->n_hands = n_hands;
    for (int i = 0; i < n_hands; i++) {
        int64_t lo, hi;

        gr_pool_cut(n / grain + (n % grain != 0), 1, i, n_hands, &lo, &hi);
        d->hands[i].left = stretch((uint32_t)lo, (uint32_t)hi);
    }
}

static void give_items(const gr_deal *d, uint32_t piece, int64_t *lo, int64_t *hi)
{
    *lo = (int64_t)piece * d->grain;
    *hi = d->n - *lo < d->grain ? d->n : *lo + d->grain;
}

/* The first piece of a hand's own, if `at` is -1 or that piece. */
static bool take_own(gr_deal *d, int hand, int64_t at, uint32_t *piece)
{
    uint64_t now = look(d, hand);

    while (length_of(now) > 0 && (at < 0 || first_of(now) == at)) {
        *piece = first_of(now);
        if (change(d, hand, &now, stretch(*piece + 1, end_of(now))))
            return true;
    }
    return false;
}

/* The hand that has most left; -1: none has any. */
static int richest(const gr_deal *d)
{
    uint32_t most = 0;
    int found = -1;

    for (int i = 0; i < d->n_hands; i++) {
        uint32_t n = length_of(look(d, i));

        if (n > most) {
            most = n;
            found = i;
        }
    }
    return found;
}

bool gr_deal_take(gr_deal *d, int hand, int64_t *lo, int64_t *hi)
{
    uint32_t piece = 0;
    int from;

    if (take_own(d, hand, -1, &piece)) {
        give_items(d, piece, lo, hi);
        return true;
    }
    while ((from = richest(d)) >= 0) {
        uint64_t now = look(d, from);
        uint32_t n = length_of(now), end = end_of(now);

        piece = end - (n + 1) / 2;
        if (n == 0 || !change(d, from, &now, stretch(first_of(now), piece)))
            continue;
        /* The hand is empty, and only its owner puts something into it. */
        __atomic_store_n(&d->hands[hand].left, stretch(piece + 1, end), __ATOMIC_RELEASE);
        give_items(d, piece, lo, hi);
        return true;
    }
    return false;
}

bool gr_deal_take_next(gr_deal *d, int hand, int64_t at, int64_t *hi)
{
    uint32_t piece = 0;
    int64_t lo;

    if (at % d->grain != 0 || !take_own(d, hand, at / d->grain, &piece))
        return false;
    give_items(d, piece, &lo, hi);
    return true;
}
