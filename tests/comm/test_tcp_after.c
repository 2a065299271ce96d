/*
 * After a failure over TCP the memory of a call is the caller's again: what has arrived since, from
 * a rank that died, is not written there, not when the group ends either. Ranks as processes.
 */
#include "check.h"
#include "comm/pg.h"
#include "net/quiet_port.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_RANKS 3
#define N_ELEM  ((size_t)50000) /* fits the system's buffers */
#define MARK    7

/* Shared by all: who has come how far. */
typedef struct stage {
    atomic_int n_joined, is_sent, are_dead;
} stage;

static stage *now;

static void wait_until(atomic_int *what, int n)
{
    const struct timespec nap = { 0, 1000000 };

    while (atomic_load(what) < n)
        nanosleep(&nap, NULL);
}

static gr_pg *join(int rank, int port)
{
    gr_pg_config config = { .timeout_ms = 60000, .transport = "tcp" };
    char number[16];
    gr_pg *pg;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(number, sizeof(number), "%d", rank);
    setenv("RANK", number, 1);
    snprintf(number, sizeof(number), "%d", N_RANKS);
    setenv("WORLD_SIZE", number, 1);
    snprintf(number, sizeof(number), "%d", port);
    setenv("MASTER_PORT", number, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    GR_CHECK_OK(gr_pg_create(&pg, &config));
    atomic_fetch_add(&now->n_joined, 1);
    return pg;
}

/* Sends all of it, and dies. */
static void be_sender(gr_pg *pg)
{
    static float mem[N_ELEM];
    gr_pg_call c = { .kind = GR_CALL_SEND, .dtype = GR_F32, .n_elem = N_ELEM, .root = 1 };
    gr_work *w;
    bool is_done = false;

    wait_until(&now->n_joined, N_RANKS);
    c.src = c.dst = mem;
    GR_CHECK_OK(gr_pg_begin(&w, pg, &c));
    while (!is_done)
        GR_CHECK_OK(gr_work_test(w, &is_done));
    atomic_store(&now->is_sent, 1);
    raise(SIGKILL);
}

/* Looks when both others are dead: at rank 2 first, so that it fails before it has read anything
 * of rank 0. */
static void be_receiver(gr_pg *pg)
{
    unsigned char *mem = (unsigned char *)malloc(N_ELEM * sizeof(float));

    wait_until(&now->are_dead, 1);
    GR_CHECK_EQ(gr_pg_recv(pg, (gr_vec){ mem, N_ELEM, GR_F32 }, 0), GR_ERR_PEER);
    GR_CHECK(strstr(gr_error_message(), "rank 2") != NULL);
    memset(mem, MARK, N_ELEM * sizeof(float));
    gr_pg_destroy(pg);
    for (size_t i = 0; i < N_ELEM * sizeof(float); i++)
        GR_CHECK_EQ(mem[i], MARK);
    free(mem);
}

static void be_rank(int rank, int port)
{
    gr_pg *pg = join(rank, port);

    if (rank == 0)
        be_sender(pg);
    if (rank == 2) {
        wait_until(&now->is_sent, 1);
        raise(SIGKILL);
    }
    be_receiver(pg);
    _exit(0);
}

int main(void)
{
    int port = quiet_port(), how;
    pid_t pid[N_RANKS];

    now = (stage *)mmap(NULL, sizeof(*now), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                        0);
    GR_CHECK((void *)now != MAP_FAILED);
    setenv("GR_TCP_SENDER", "0", 1); /* the call is done when all is written */
    for (int r = 0; r < N_RANKS; r++) {
        pid[r] = fork();
        GR_CHECK(pid[r] >= 0);
        if (pid[r] == 0)
            be_rank(r, port);
    }
    GR_CHECK_EQ(waitpid(pid[0], &how, 0), pid[0]);
    GR_CHECK_EQ(waitpid(pid[2], &how, 0), pid[2]);
    atomic_store(&now->are_dead, 1);
    GR_CHECK_EQ(waitpid(pid[1], &how, 0), pid[1]);
    GR_CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    return 0;
}
