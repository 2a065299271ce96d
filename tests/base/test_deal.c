/*
 * Dealing: every item is in exactly one piece, pieces are cut at multiples of the grain,
 * whoever takes them; a hand that nobody plays is emptied by the others, and what is
 * taken ahead follows what was taken before.
 */
#include "base/deal.h"
#include "base/pool.h"
#include "check.h"

#include <string.h>
#include <time.h>

#define N_MAX 2000

typedef struct table {
    gr_deal deal;
    int seen[N_MAX]; /* not atomic: TSan must see that no two hands get the same item */
    int slow;        /* this hand naps at each piece; -1: none */
    int absent;      /* this one takes nothing; -1: none */
} table;

static void see(table *t, int64_t lo, int64_t hi)
{
    GR_CHECK(lo % t->deal.grain == 0 && lo < hi && hi <= t->deal.n);
    GR_CHECK(hi == t->deal.n || hi - lo == t->deal.grain);
    for (int64_t i = lo; i < hi; i++)
        t->seen[i]++;
}

static void play(void *arg, int hand, int n_hands)
{
    struct timespec nap = { 0, 10000 };
    table *t = arg;
    int64_t lo, hi;

    GR_CHECK_EQ(n_hands, t->deal.n_hands);
    if (hand == t->absent)
        return;
    while (gr_deal_take(&t->deal, hand, &lo, &hi)) {
        see(t, lo, hi);
        while (hi % 3 != 0 && gr_deal_take_next(&t->deal, hand, hi, &hi)) {
            lo += t->deal.grain;
            see(t, lo, hi);
        }
        if (hand == t->slow)
            nanosleep(&nap, NULL);
    }
}

static void all_once(gr_pool *p, int64_t n, int64_t grain, int n_hands, int turn)
{
    static table t;

    memset(t.seen, 0, sizeof(t.seen));
    t.slow = turn % 2 == 0 ? n_hands / 2 : -1;
    t.absent = n_hands > 1 && turn % 3 == 1 ? 0 : -1;
    gr_deal_open(&t.deal, n, grain, n_hands);
    gr_pool_run(p, play, &t, n_hands);
    for (int64_t i = 0; i < N_MAX; i++)
        GR_CHECK_EQ(t.seen[i], i < n);
}

static void every_item_once(int n_threads)
{
    static const int64_t sizes[] = { 0, 1, 5, 64, 97, N_MAX };
    gr_pool *p;

    GR_CHECK_OK(gr_pool_create(&p, n_threads));
    for (int s = 0; s < 6; s++)
        for (int64_t grain = 1; grain < 40; grain += 1 + grain)
            for (int n_hands = 1; n_hands < 9; n_hands += 1 + n_hands / 3)
                for (int turn = 0; turn < 3; turn++)
                    all_once(p, sizes[s], grain, n_hands, turn);
    gr_pool_destroy(p);
}

/* One hand alone: its own stretch in order, then halves of the others' from their ends. */
static void order(void)
{
    static const int64_t want[] = { 0, 1, 2, 3, 6, 7, 5, 4 };
    static gr_deal d;
    int64_t lo, hi;

    gr_deal_open(&d, 8, 1, 2);
    for (int i = 0; i < 8; i++) {
        GR_CHECK(gr_deal_take(&d, 0, &lo, &hi));
        GR_CHECK_EQ(lo, want[i]);
        GR_CHECK_EQ(hi, want[i] + 1);
    }
    GR_CHECK(!gr_deal_take(&d, 0, &lo, &hi) && !gr_deal_take(&d, 1, &lo, &hi));
}

static void ahead(void)
{
    static gr_deal d;
    int64_t lo, hi;

    gr_deal_open(&d, 10, 3, 2); /* pieces 0-2 3-5, and 6-8 9 */
    GR_CHECK(gr_deal_take(&d, 0, &lo, &hi));
    GR_CHECK(!gr_deal_take_next(&d, 0, 6, &hi)); /* another one's */
    GR_CHECK(!gr_deal_take_next(&d, 0, 4, &hi)); /* no piece begins there */
    GR_CHECK(gr_deal_take_next(&d, 0, 3, &hi));
    GR_CHECK_EQ(hi, 6);
    GR_CHECK(!gr_deal_take_next(&d, 0, 6, &hi));
    GR_CHECK_EQ(hi, 6);
    GR_CHECK(gr_deal_take(&d, 1, &lo, &hi));
    GR_CHECK(gr_deal_take_next(&d, 1, 9, &hi));
    GR_CHECK_EQ(hi, 10);
}

static void many_items(void)
{
    static gr_deal d;
    int64_t lo, hi, n = (int64_t)1 << 40;

    gr_deal_open(&d, n, 3, 4);
    GR_CHECK(d.grain % 3 == 0 && n / d.grain <= INT32_MAX);
    GR_CHECK(gr_deal_take(&d, 3, &lo, &hi));
    GR_CHECK(lo % d.grain == 0 && hi == lo + d.grain && lo > n / 2);
}

int main(void)
{
    GR_CHECK_EQ(gr_deal_hands(0, 4), 1);
    GR_CHECK_EQ(gr_deal_hands(3, 4), 3);
    GR_CHECK_EQ(gr_deal_hands(100, 4), 4);
    GR_CHECK_EQ(gr_deal_hands(1000000, 4000), GR_DEAL_HANDS);
    GR_CHECK_EQ(gr_deal_hands(10, 0), 1);
    order();
    ahead();
    many_items();
    for (int n = 1; n <= 8; n *= 2)
        every_item_once(n);
    return 0;
}
