/*
 * Strangers at the port of a group that is being joined: silence, garbage, half a greeting, a
 * whole one with a wrong token. All are refused, and the ranks join as if nothing had been.
 */
#include "check.h"
#include "comm/pg.h"
#include "comm/tcp/mesh.h"
#include "net/quiet_port.h"
#include "net/socket.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_RANKS 3

static void be_rank(int rank, int port, int first_port)
{
    gr_pg_config config = { .timeout_ms = 120000, .transport = "tcp" };
    struct timespec pause = { .tv_nsec = 600000000 };
    char text[32];
    int32_t x = 1;
    gr_pg *pg;

    snprintf(text, sizeof(text), "%d", rank);
    setenv("RANK", text, 1);
    setenv("WORLD_SIZE", "3", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    snprintf(text, sizeof(text), "%d", port);
    setenv("MASTER_PORT", text, 1);
    snprintf(text, sizeof(text), "%d:%d", first_port, first_port + 8);
    setenv("GR_PORT_RANGE", text, 1);
    if (rank == 2)
        nanosleep(&pause, NULL); /* the others listen meanwhile */
    GR_CHECK_OK(gr_pg_create(&pg, &config));
    GR_CHECK_OK(gr_pg_allreduce(pg, (gr_vec){ &x, 1, GR_I32 }, GR_REDUCE_SUM));
    GR_CHECK_EQ(x, N_RANKS);
    gr_pg_destroy(pg);
    _exit(0);
}

/* Connects to whatever of the range listens; silence keeps its connection open. */
static void disturb(int port, int kind)
{
    gr_deadline d = gr_deadline_in_ms(40);
    uint8_t bytes[200];
    mesh_hello h = { .rank = 2, .size = N_RANKS, .stream = 0 };
    int fd;

    if (gr_socket_connect(&fd, "127.0.0.1", port, d) != GR_OK)
        return;
    memset(bytes, 'x', sizeof(bytes));
    if (kind == 1)
        GR_IGNORE(gr_socket_send(fd, bytes, sizeof(bytes), d));
    mesh_hello_put(bytes, &h);
    if (kind == 2)
        GR_IGNORE(gr_socket_send(fd, bytes, 10, d));
    if (kind == 3)
        GR_IGNORE(gr_socket_send(fd, bytes, MESH_HELLO, d));
    if (kind != 0)
        close(fd);
}

int main(void)
{
    int port = quiet_port(), first = quiet_port();
    pid_t pid[N_RANKS];

    for (int r = 0; r < N_RANKS; r++) {
        pid[r] = fork();
        if (pid[r] == 0)
            be_rank(r, port, first);
    }
    for (int round = 0; round < 3; round++)
        for (int kind = 0; kind < 4; kind++)
            for (int i = 0; i < 2; i++)
                if (first + i != port)
                    disturb(first + i, kind);
    for (int r = 0; r < N_RANKS; r++) {
        int status;

        GR_CHECK_EQ(waitpid(pid[r], &status, 0), pid[r]);
        GR_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return 0;
}
