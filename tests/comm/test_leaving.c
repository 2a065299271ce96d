/*
 * A rank may leave as soon as its own part of a call is done: what it has sent counts, though
 * the others have not looked at it yet. Whoever still owes something when it leaves is named.
 */
#include "check.h"
#include "comm/world.h"

#include <stdlib.h>
#include <string.h>

#define N_GROUPS 400
#define N_ELEM   3000 /* some pieces of a message */

/* Everybody's numbers to rank 0; the others leave at once. */
static gr_status give_and_leave(gr_pg *pg, void *arg)
{
    int me = gr_pg_rank(pg), w = gr_pg_size(pg);
    float *mine = malloc(N_ELEM * sizeof(float));
    float *all = malloc((size_t)w * N_ELEM * sizeof(float));
    gr_status st;

    (void)arg;
    for (int i = 0; i < N_ELEM; i++)
        mine[i] = (float)(me * N_ELEM + i);
    st = gr_pg_gather(pg, all, (gr_vec){ mine, N_ELEM, GR_F32 }, 0);
    for (int i = 0; st == GR_OK && me == 0 && i < w * N_ELEM; i++)
        GR_CHECK(all[i] == (float)i);
    free(mine);
    free(all);
    return st;
}

static gr_status leave_early(gr_pg *pg, void *arg)
{
    (void)arg;
    return gr_pg_rank(pg) == 0 ? give_and_leave(pg, NULL) : GR_OK;
}

static void test_transport(const char *name, int n_groups)
{
    gr_error e[2];

    world_transport(name);
    for (int i = 0; i < n_groups; i++)
        world_run(2 + i % 3, give_and_leave, NULL);
    world_try(2, 20000, leave_early, NULL, e);
    GR_CHECK_EQ(e[0].status, GR_ERR_PEER);
    GR_CHECK(strstr(e[0].text, "rank 1 left the group before gather") != NULL);
}

int main(void)
{
    test_transport("shm", N_GROUPS);
    test_transport("tcp", N_GROUPS / 20);
    return 0;
}
