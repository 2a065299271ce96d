/*
 * How many threads a rank may keep busy, and how many bytes it may have on their way. Where the
 * ranks of a machine have several cores each, a group has lanes (lanes.h); where calls cannot be
 * cut up, a sender (sender.c). Never both by themselves: each thread has a core, or is not there.
 */
#include "comm/lanes.h"
#include "comm/tcp/mesh.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define USUAL_LANES  4           /* more are for whoever asks */
#define FLIGHT_BYTES (2 << 20)   /* to all ranks together, over each stream */
#define LEAST_BUFFER (256 << 10) /* to one of them */

/* -1: no wish. */
static gr_status read_sender(int *wants_sender)
{
    const char *text = getenv("GR_TCP_SENDER");

    *wants_sender = -1;
    if (!text || !*text)
        return GR_OK;
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return gr_fail(GR_ERR_ARG, "GR_TCP_SENDER is '%.40s'; it must be 0 or 1", text);
    *wants_sender = text[0] == '1';
    return GR_OK;
}

/* 0: no wish. */
static gr_status read_lanes(int32_t *n_lanes)
{
    const char *text = getenv("GR_TCP_LANES");
    char *end;
    long n;

    *n_lanes = 0;
    if (!text || !*text)
        return GR_OK;
    n = strtol(text, &end, 10);
    if (*end != '\0' || n < 1 || n > GR_MAX_LANES)
        return gr_fail(GR_ERR_ARG, "GR_TCP_LANES is '%.40s'; it must be 1 to %d", text,
                       GR_MAX_LANES);
    *n_lanes = (int32_t)n;
    return GR_OK;
}

gr_status mesh_read_wishes(int *wants_sender, int32_t *n_lanes)
{
    GR_TRY(read_sender(wants_sender));
    return read_lanes(n_lanes);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static bool is_one_machine(const mesh *m, int a, int b)
{
    const mesh_card *x = &m->peers[a].card, *y = &m->peers[b].card;

    return x->machine[0] ? strcmp(x->machine, y->machine) == 0 : strcmp(x->host, y->host) == 0;
}

/* Cores for each rank of a rank's machine. Ranks that are bound have theirs together. */
static int cores_each(const mesh *m, int rank)
{
    cpu_set_t all = m->peers[rank].card.cores;
    int n = 1;

    for (int r = 0; r < m->wire.size; r++)
        if (r != rank && is_one_machine(m, rank, r)) {
            CPU_OR(&all, &all, &m->peers[r].card.cores);
            n++;
        }
    return CPU_COUNT(&all) / n;
}

/* Every thread needs a core; a rank that is bound to few has no more, whatever the others have. */
static int threads_of(const mesh *m, int rank)
{
    return least(cores_each(m, rank), CPU_COUNT(&m->peers[rank].card.cores));
}

/* As many as every rank has cores for. Only calls with patience know them. */
static int lane_count(const mesh *m, const gr_meet *meet)
{
    int wish = m->peers[0].card.n_lanes, n = wish > 0 ? wish : USUAL_LANES;

    if (!m->wire.has_patience || meet->is_lane || (!wish && m->wire.size > MESH_FEW_RANKS))
        return 1;
    for (int r = 0; r < m->wire.size && !wish; r++)
        n = least(n, threads_of(m, r));
    n = meet->most_lanes > 0 ? least(n, meet->most_lanes) : n;
    return n < 1 ? 1 : n;
}

/* Where there are lanes, a sender would be one thread too many. */
void mesh_share_cores(mesh *m, const gr_meet *meet)
{
    int wish = m->peers[0].card.n_lanes;

    m->wire.may_spin = cores_each(m, m->wire.rank) >= (wish > 1 ? wish : 1);
    m->wire.n_lanes = lane_count(m, meet);
    if (m->wants_sender < 0)
        m->wants_sender =
            threads_of(m, m->wire.rank) >= 2 && m->wire.n_lanes == 1 && !meet->is_lane;
}

/* What is on its way inside a machine is to stay in the caches. Two ranks alone, and networks, may
 * have what the system gives them. */
void mesh_limit_buffers(mesh *m)
{
    int n_bytes = FLIGHT_BYTES / m->wire.size;

    n_bytes = n_bytes < LEAST_BUFFER ? LEAST_BUFFER : n_bytes;
    for (int r = 0; r < m->wire.size && m->wire.size > 2; r++)
        for (int i = 0; i < m->n_streams && r != m->wire.rank && mesh_is_near(m, r); i++)
            if (m->peers[r].streams[i].fd >= 0) /* a wish; it is never refused */
                (void)setsockopt(m->peers[r].streams[i].fd, SOL_SOCKET, SO_SNDBUF, &n_bytes,
                                 sizeof(n_bytes));
}
