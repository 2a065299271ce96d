/* Messages about what ranks do: the cards in words. */
#include "comm/shm/shm.h"

#include "comm/reduce.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_text[SHM_KIND_COUNT] = {
#define X(id, text) text,
    SHM_KIND_MAP(X)
#undef X
};

static const char *dtype_text(int32_t t)
{
    return (uint32_t)t < GR_DTYPE_COUNT ? gr_dtype_name((gr_dtype)t) : "unknown";
}

/* Cards come from other processes, so their numbers are not trusted. */
void shm_describe(const shm_what *what, const char *label, char *text, size_t n_bytes)
{
    const char *kind = (uint32_t)what->kind < SHM_KIND_COUNT ? kind_text[what->kind] : "unknown";
    unsigned long long n = what->n_elem;

    if (what->kind == SHM_REDUCE && label)
        snprintf(text, n_bytes, "%s %d '%.*s' (%s of %llu %s at byte %llu)", kind, (int)what->id,
                 SHM_LABEL, label, gr_reduce_name((gr_reduce)what->detail), n,
                 dtype_text(what->dtype), (unsigned long long)what->offset);
    else if (what->kind == SHM_REDUCE)
        snprintf(text, n_bytes, "%s (%s of %llu %s)", kind, gr_reduce_name((gr_reduce)what->detail),
                 n, dtype_text(what->dtype));
    else if (what->kind == SHM_BROADCAST)
        snprintf(text, n_bytes, "%s (%llu %s from rank %d)", kind, n, dtype_text(what->dtype),
                 (int)what->detail);
    else if (what->kind == SHM_EXCHANGE)
        snprintf(text, n_bytes, "%s (%llu bytes)", kind, n);
    else
        snprintf(text, n_bytes, "%s", kind);
}

/* The label of a collective's card; NULL for the card of a round. */
static const char *label_of(gr_shm *s, int rank, const shm_card *card)
{
    const shm_rank *r = &s->ranks[rank];

    if (card < r->coll || card >= r->coll + GR_MAX_COLLS)
        return NULL;
    return r->label[card - r->coll];
}

gr_status shm_mismatch(gr_shm *s, int peer, const shm_card *mine, const shm_card *theirs)
{
    char a[160], b[160];
    double here = mine->what.agreed, there = theirs->what.agreed;

    if (s->pg.agreed_name && memcmp(&here, &there, sizeof(here)) != 0)
        return gr_fail(GR_ERR_ARG, "ranks differ in %s: %.9g on rank %d, %.9g on rank %d",
                       s->pg.agreed_name, here, s->pg.rank, there, peer);
    shm_describe(&mine->what, label_of(s, s->pg.rank, mine), a, sizeof(a));
    shm_describe(&theirs->what, label_of(s, peer, theirs), b, sizeof(b));
    return gr_fail(GR_ERR_ARG, "ranks call different collectives: rank %d is in %s, rank %d in %s",
                   s->pg.rank, a, peer, b);
}

static const shm_card *goal_card(const shm_rank *r, shm_goal_kind kind, uint64_t number)
{
    return kind == SHM_GOAL_ROUND ? &r->round[number % 2] : &r->coll[number % GR_MAX_COLLS];
}

void shm_describe_goal(gr_shm *s, const shm_goal *g, char *text, size_t n_bytes)
{
    const shm_card *card = goal_card(&s->ranks[s->pg.rank], g->kind, g->number);

    shm_describe(&card->what, label_of(s, s->pg.rank, card), text, n_bytes);
}

/* A rank that sleeps in a wait leaves its cards alone, so they can be read. It may wake
 * meanwhile; its card is then still one that it showed, and this is only a message. */
void shm_describe_peer(gr_shm *s, int rank, char *text, size_t n_bytes)
{
    shm_rank *r = &s->ranks[rank];
    uint32_t waits = atom32_get(&r->waits);
    char what[160];
    const shm_card *card;

    if (atom32_get(&r->state) == SHM_EXPECTED) {
        snprintf(text, n_bytes, "rank %d (has not joined)", rank);
        return;
    }
    if (waits == 0) {
        snprintf(text, n_bytes, "rank %d (busy or stopped outside collectives)", rank);
        return;
    }
    card = goal_card(r, (shm_goal_kind)(waits - 1), atom64_get(&r->waits_for));
    shm_describe(&card->what, label_of(s, rank, card), what, sizeof(what));
    snprintf(text, n_bytes, "rank %d (it waits in %s)", rank, what);
}
