/* MPI as a whole: starting and ending it, who is where, numbers for groups. */
#include "comm/mpi/mpi.h"

#include "base/alloc.h"
#include "comm/mpi/watch.h"
#include "comm/tcp/tcp.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

mpi_world *mpi_world_get(void)
{
    static mpi_world world;

    return &world;
}

gr_status mpi_check(int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int n;

    if (rc == MPI_SUCCESS)
        return GR_OK;
    MPI_Error_string(rc, text, &n);
    return gr_fail(GR_ERR_PEER, "%s: %s", what, text);
}

/* Rule (3). Who leaves without it is not believed to have ended well. */
static void end_mpi(void)
{
    const mpi_world *w = mpi_world_get();
    int is_over = 0;
    mpi_watch *watch;

    MPI_Finalized(&is_over);
    if (is_over || w->is_broken)
        return;
    watch = mpi_watch_begin("MPI_Finalize, which waits until all ranks are done with MPI: one is "
                            "still busy, stopped, or ended without it",
                            gr_deadline_in_ms(w->timeout_ms));
    MPI_Finalize();
    mpi_watch_end(watch);
}

/* Rule (1). Open MPI without mpirun sets PMIX_RANK, which would look like half of a launcher's
 * variables to who asks the environment afterwards. */
static gr_status init_mpi(gr_deadline d)
{
    bool has_pmix = getenv("PMIX_RANK") != NULL;
    int level, rc;
    mpi_watch *watch =
        mpi_watch_begin("MPI_Init, which waits until all ranks of mpirun have started MPI", d);

    rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    mpi_watch_end(watch);
    GR_TRY(mpi_check(rc, "MPI_Init"));
    if (!has_pmix)
        unsetenv("PMIX_RANK");
    atexit(end_mpi);
    return GR_OK;
}

/* Rule (1): until a collective call of MPI is done. */
static gr_status wait_until(MPI_Request *request, const char *what, gr_deadline d)
{
    const struct timespec nap = { .tv_nsec = MPI_NAP_NS };
    int64_t start = gr_now_ns();
    int is_done = 0;

    for (;;) {
        GR_TRY(mpi_check(MPI_Test(request, &is_done, MPI_STATUS_IGNORE), what));
        if (is_done)
            return GR_OK;
        if (gr_deadline_passed(d)) {
            mpi_world_get()->is_broken = true;
            return gr_fail(GR_ERR_TIMEOUT,
                           "not all %d ranks of MPI_COMM_WORLD have come within %.1f s (%s; MPI "
                           "does not say who is missing); " GR_TIMEOUT_HINT,
                           mpi_world_get()->size, (double)(gr_now_ns() - start) * 1e-9, what);
        }
        nanosleep(&nap, NULL);
    }
}

/* Once per process: MPI runs, and there is a communicator that is ours alone. */
static gr_status start(mpi_world *w, gr_deadline d)
{
    int is_running = 0;
    MPI_Request request;

    w->timeout_ms = gr_deadline_left_ms(d);
    MPI_Initialized(&is_running);
    if (!is_running)
        GR_TRY(init_mpi(d));
    MPI_Comm_rank(MPI_COMM_WORLD, &w->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &w->size);
    GR_TRY(mpi_check(MPI_Comm_idup(MPI_COMM_WORLD, &w->comm, &request), "MPI_Comm_idup"));
    GR_TRY(wait_until(&request, "MPI_Comm_idup", d));
    GR_TRY(
        mpi_check(MPI_Comm_set_errhandler(w->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    w->cards = (mpi_card *)gr_calloc((size_t)w->size, sizeof(*w->cards));
    return w->cards ? GR_OK : GR_ERR_NOMEM;
}

static gr_status tell_all(mpi_world *w, gr_deadline d)
{
    static mpi_card mine; /* MPI reads it until all have it, also after a failure */
    MPI_Request request;
    int n = (int)sizeof(mine);

    memset(&mine, 0, sizeof(mine));
    gr_host_identity(mine.host_id, sizeof(mine.host_id), mine.host, sizeof(mine.host));
    mine.pid = (int32_t)getpid();
    mine.next_group = w->n_groups;
    GR_TRY(mpi_check(MPI_Iallgather(&mine, n, MPI_BYTE, w->cards, n, MPI_BYTE, w->comm, &request),
                     "MPI_Iallgather"));
    return wait_until(&request, "MPI_Iallgather", d);
}

gr_status mpi_world_join(int *rank, int *size, int *local_rank, gr_deadline d)
{
    mpi_world *w = mpi_world_get();

    if (w->is_broken)
        return gr_fail(GR_ERR_PEER, "a group over MPI has failed in this process already");
    if (!w->cards)
        GR_TRY(start(w, d));
    GR_TRY(tell_all(w, d));
    *rank = w->rank;
    *size = w->size;
    *local_rank = 0;
    w->group = 0;
    for (int r = 0; r < w->size; r++) {
        *local_rank += r < w->rank && strcmp(w->cards[r].host_id, w->cards[w->rank].host_id) == 0;
        w->group = w->cards[r].next_group > w->group ? w->cards[r].next_group : w->group;
    }
    w->n_groups = w->group + 1;
    return GR_OK;
}

gr_status mpi_group_meet(gr_meet *m, int *ranks, int *group)
{
    mpi_world *w = mpi_world_get();
    int32_t mine[2] = { w->rank, w->n_groups };
    char **cards = NULL;

    GR_TRY(m->gather(m, mine, sizeof(mine), &cards, NULL));
    *group = 0;
    for (int r = 0; r < m->size; r++) {
        int32_t one[2];

        memcpy(one, cards[r], sizeof(one));
        if (ranks)
            ranks[r] = one[0];
        *group = one[1] > *group ? one[1] : *group;
    }
    free(cards);
    w->n_groups = *group + 1;
    return GR_OK;
}

static const char *version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0;

    if (MPI_Get_library_version(text, &n) != MPI_SUCCESS)
        text[0] = '\0';
    return text;
}

static const gr_mpi_module module = {
    .abi = GR_MPI_ABI, .world = mpi_world_join, .make_wire = mpi_make_wire, .version = version
};

GR_API gr_mpi_module_get_fn gr_mpi_module_get;

const gr_mpi_module *gr_mpi_module_get(void)
{
    return &module;
}
