/*
 * Memory that all ranks see: one memfd, which each maps over a stretch of its own. It belongs to
 * those mappings and not to the group, whose part is done when all have it.
 */
#include "comm/shm/shm.h"

/* Rank 0's descriptor: that of this process for threads, else opened through /proc. */
static gr_status open_peer(gr_shm *s, shm_segment *m, size_t n_bytes)
{
    if (s->pg.rank == 0)
        return GR_OK;
    if (!s->world->is_threads)
        return shm_segment_open(m, s->world->owner_pid, s->head->common_fd, n_bytes,
                                SHM_LARGE_PAGES);
    *m = (shm_segment){ .n_bytes = n_bytes, .fd = s->head->common_fd, .pages = SHM_LARGE_PAGES };
    return GR_OK;
}

/* Round 1: rank 0 has made it. Round 2: everybody has mapped it, and its descriptor may go. */
static gr_status map_common(gr_shm *s, shm_segment *m, void *at, size_t n_bytes)
{
    gr_what what = { .kind = GR_WHAT_COMMON, .n_elem = n_bytes };
    shm_segment over = { .mem = at, .n_bytes = n_bytes, .fd = -1, .pages = SHM_LARGE_PAGES };

    if (s->pg.rank == 0) {
        GR_TRY(shm_segment_create(m, n_bytes, SHM_LARGE_PAGES));
        GR_TRY(shm_segment_populate(m, 0, n_bytes));
        s->head->common_fd = m->fd;
    }
    GR_TRY(shm_round(s, &what, NULL, 0));
    GR_TRY(open_peer(s, m, n_bytes));
    GR_TRY(shm_segment_map_over(m, at));
    GR_TRY(shm_segment_populate(&over, 0, n_bytes));
    return shm_round(s, &what, NULL, 0);
}

gr_status shm_common(gr_pg *pg, void *at, size_t n_bytes)
{
    gr_shm *s = (gr_shm *)pg;
    shm_segment m = SHM_SEGMENT_NONE;
    gr_status st = map_common(s, &m, at, n_bytes);

    if (s->world->is_threads && pg->rank != 0)
        m.fd = -1; /* rank 0's, which closes it */
    shm_segment_close(&m);
    return st;
}
