/* Opening the GPU, and ranks as processes. */
#include "gpu/gpu.h"

#include "tests/check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

const gr_module *gpu_loaded(void)
{
    const gr_module *m;

    if (gr_module_load("cuda", &m) != GR_OK) {
        printf("skipped: %s\n", gr_error_message());
        exit(GPU_SKIP);
    }
    return m;
}

const gr_module *gpu_module(void)
{
    const gr_module *m = gpu_loaded();

    if (m->backend->count() < 1) {
        printf("skipped: no GPU\n");
        exit(GPU_SKIP);
    }
    return m;
}

gr_device *gpu_open(void)
{
    gr_device *d;

    GR_CHECK_OK(gpu_module()->backend->open(&d, 0));
    return d;
}

gr_status gpu_group(gr_pg **out, const char *name, gr_pg *host, gr_device *dev)
{
    for (const gr_pg_factory *f = gpu_module()->groups; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f->create(out, host, dev);
    return gr_fail(GR_ERR_ARG, "the module has no group '%s'", name);
}

/* A port that nobody listens on right now. */
static int free_port(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port;

    GR_CHECK(fd >= 0);
    GR_CHECK_EQ(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    GR_CHECK_EQ(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    port = ntohs(a.sin_port);
    close(fd);
    return port;
}

static void set_number(const char *name, const char *prefix, int value)
{
    char text[40];

    snprintf(text, sizeof(text), "%s%d", prefix, value);
    GR_CHECK_EQ(setenv(name, text, 1), 0);
}

static int be_rank(int rank, int n_ranks, int timeout_ms, int port, gpu_rank_fn *fn, void *arg)
{
    gr_pg_config config = GR_PG_CONFIG_INIT;
    gr_pg *host;
    gr_status st;

    config.timeout_ms = timeout_ms;
    set_number("RANK", "", rank);
    set_number("WORLD_SIZE", "", n_ranks);
    set_number("LOCAL_RANK", "", rank);
    set_number("LOCAL_WORLD_SIZE", "", n_ranks);
    set_number("MASTER_PORT", "", port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("NCCL_HOSTID", "gradus-test-", rank);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_IB_DISABLE", "1", 1);
    GR_CHECK_OK(gr_pg_create(&host, &config));
    st = fn(host, arg);
    if (st != GR_OK)
        fprintf(stderr, "rank %d of %d: %s: %s\n", rank, n_ranks, gr_status_text(st),
                gr_error_message());
    gr_pg_destroy(host);
    return st == GR_OK ? 0 : 1;
}

void gpu_ranks(int n_ranks, int timeout_ms, unsigned may_fail, gpu_rank_fn *fn, void *arg)
{
    int port = free_port(), n_skipped = 0, n_failed = 0;
    pid_t pids[16];

    GR_CHECK(n_ranks <= 16);
    fflush(stdout);
    fflush(stderr);
    for (int r = 0; r < n_ranks; r++) {
        pids[r] = fork();
        GR_CHECK(pids[r] >= 0);
        if (pids[r] == 0)
            exit(be_rank(r, n_ranks, timeout_ms, port, fn, arg));
    }
    for (int r = 0; r < n_ranks; r++) {
        int status = 0;

        GR_CHECK_EQ(waitpid(pids[r], &status, 0), pids[r]);
        if (WIFEXITED(status) && WEXITSTATUS(status) == GPU_SKIP)
            n_skipped++;
        else if ((!WIFEXITED(status) || WEXITSTATUS(status) != 0) && !(may_fail >> r & 1u))
            n_failed++;
    }
    if (n_skipped > 0)
        exit(GPU_SKIP);
    GR_CHECK_EQ(n_failed, 0);
}
