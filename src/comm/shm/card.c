/* Messages about what ranks do: the cards in words. */
#include "comm/shm/shm.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

gr_status shm_mismatch(gr_shm *s, int peer, const shm_card *mine, const shm_card *theirs)
{
    gr_side a = { s->pg.rank, &mine->what, mine->label };
    gr_side b = { peer, &theirs->what, theirs->label };

    return gr_what_differ(&a, &b, s->pg.agreed_name);
}

const shm_card *shm_goal_card(const shm_rank *r, shm_goal_kind kind, uint64_t number)
{
    switch (kind) {
    case SHM_GOAL_ROUND: return &r->round[number % 2];
    case SHM_GOAL_DONE: return &r->coll[number % GR_MAX_COLLS];
    case SHM_GOAL_CALL: break;
    }
    return &r->call[number % SHM_CALLS];
}

void shm_describe_goal(gr_shm *s, const shm_goal *g, char *text, size_t n_bytes)
{
    const shm_card *card = shm_goal_card(&s->ranks[s->pg.rank], g->kind, g->number);

    gr_what_text(&card->what, card->label, text, n_bytes);
}

/* A stopped process is late, not dead; saying so spares a search. */
static bool is_stopped(int pid)
{
    char path[64], text[512], *end;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    end = strrchr(text, ')'); /* the name before it may contain anything */
    return end && end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
}

static void describe_state(const gr_shm *s, int rank, char *text, size_t n_bytes)
{
    if (!s->pids)
        snprintf(text, n_bytes, "busy outside collectives");
    else
        snprintf(text, n_bytes, "process %d, %s", s->pids[rank],
                 is_stopped(s->pids[rank]) ? "stopped by a signal"
                                           : "alive, busy or stopped outside collectives");
}

/* A rank that sleeps in a wait leaves its cards alone, so they can be read. It may wake
 * meanwhile; its card is then still one that it showed, and this is only a message. */
void shm_describe_peer(gr_shm *s, int rank, char *text, size_t n_bytes)
{
    shm_rank *r = &s->ranks[rank];
    uint32_t waits = atom32_get(&r->waits);
    uint64_t last = atom64_get(&r->last);
    char what[GR_WHAT_TEXT], state[80];
    const shm_card *card;

    if (atom32_get(&r->state) == SHM_EXPECTED) {
        snprintf(text, n_bytes, "rank %d (has not joined)", rank);
        return;
    }
    if (waits != 0) {
        card = shm_goal_card(r, (shm_goal_kind)((waits - 1) % 3), atom64_get(&r->waits_for));
        gr_what_text(&card->what, card->label, what, sizeof(what));
        if (s->pids && is_stopped(s->pids[rank]))
            snprintf(text, n_bytes,
                     "rank %d (process %d, stopped by a signal while it waits in %s)", rank,
                     s->pids[rank], what);
        else
            snprintf(text, n_bytes, "rank %d (it waits in %s)", rank, what);
        return;
    }
    card = shm_goal_card(r, (shm_goal_kind)(last % 4 % 3), last / 4);
    describe_state(s, rank, state, sizeof(state));
    if (atom64_get(&card->number) == 0)
        snprintf(text, n_bytes, "rank %d (%s; in no call yet)", rank, state);
    else
        snprintf(text, n_bytes, "rank %d (%s; last seen in %s)", rank, state,
                 gr_what_text(&card->what, card->label, what, sizeof(what)));
}
