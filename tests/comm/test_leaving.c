/*
 * A rank may leave as soon as its own part of a call is done: what it has sent counts, though
 * the others have not looked at it yet. Whoever still owes something when it leaves is named.
 */
#include "check.h"
#include "comm/world.h"

#include <stdlib.h>
#include <string.h>

#define N_GROUPS 400
#define FEW      3000    /* elements: some pieces of a message */
#define MANY     2000003 /* more than the system takes at once: the rest is still on its way */

/* Everybody's numbers to rank 0; the others leave at once. */
static gr_status give_and_leave(gr_pg *pg, void *arg)
{
    int me = gr_pg_rank(pg), w = gr_pg_size(pg), n = *(const int *)arg;
    int32_t *mine = malloc((size_t)n * sizeof(*mine));
    int32_t *all = malloc((size_t)w * (size_t)n * sizeof(*all));
    gr_status st;

    for (int i = 0; i < n; i++)
        mine[i] = me * n + i;
    st = gr_pg_gather(pg, all, (gr_vec){ mine, (size_t)n, GR_I32 }, 0);
    for (int i = 0; st == GR_OK && me == 0 && i < w * n; i++)
        GR_CHECK(all[i] == i);
    free(mine);
    free(all);
    return st;
}

static gr_status leave_early(gr_pg *pg, void *arg)
{
    return gr_pg_rank(pg) == 0 ? give_and_leave(pg, arg) : GR_OK;
}

static void test_transport(const char *name, int n_groups, int n_large)
{
    int few = FEW, many = MANY;
    gr_error e[2];

    world_transport(name);
    for (int i = 0; i < n_groups; i++)
        world_run(2 + i % 3, give_and_leave, &few);
    for (int i = 0; i < n_large; i++)
        world_run(2 + i % 3, give_and_leave, &many);
    world_try(2, 20000, leave_early, &few, e);
    GR_CHECK_EQ(e[0].status, GR_ERR_PEER);
    GR_CHECK(strstr(e[0].text, "rank 1 left the group before gather") != NULL);
}

int main(void)
{
    test_transport("shm", N_GROUPS, 3);
    test_transport("tcp", N_GROUPS / 20, 3);
    test_transport("hosts:1", N_GROUPS / 20, 3);
    test_transport("hosts:2", N_GROUPS / 20, 3);
    return 0;
}
