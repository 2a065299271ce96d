/*
 * How processes become a group.
 *
 *     every rank   counts itself, and is refused if it is another's rank (claim.h)
 *                  host/<rank> = its line (host.h) to the store
 *                  reads everybody's: all on one host, or not
 *     then         shared memory (shm/join.c), or a mesh of connections (tcp/)
 *
 * Keys begin with "gradus/<restart>/<n>/", where n counts how often this rank has joined:
 * a store that outlives a group does not mix it up with the next one.
 */
#include "comm/shm/join.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "comm/claim.h"
#include "comm/create.h"
#include "comm/tcp/tcp.h"
#include "net/interface.h"
#include "net/socket.h"
#include "net/store.h"
#include "net/store_server.h"

#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define KEY_TEXT 96
#define DRAIN_MS 2000
#define TELL_MS  5000 /* between two words about whom a rank waits for */

typedef struct joining {
    const gr_job *job;
    const gr_pg_config *config;
    gr_deadline deadline;
    gr_store *store;
    gr_host me;
    int64_t n;     /* how often this rank has joined a group through this store */
    int *pids;     /* of all ranks, owned */
    bool is_far;   /* some ranks do not share memory */
    bool is_final; /* a failure is not to be tried again */
} joining;

static void key_of(const joining *j, char *key, const char *what, int rank)
{
    if (rank < 0)
        snprintf(key, KEY_TEXT, "gradus/%d/%" PRId64 "/%s", j->job->restart, j->n, what);
    else
        snprintf(key, KEY_TEXT, "gradus/%d/%" PRId64 "/%s/%d", j->job->restart, j->n, what, rank);
}

/* ---- who is where ---- */

/* With `shm` asked for, ranks must share memory; else it is only noted that they do not. */
static gr_status check_host(joining *j, const gr_host *first, const gr_host *h, int rank)
{
    bool is_near = strcmp(first->boot, h->boot) == 0 && strcmp(first->name, h->name) == 0 &&
                   strcmp(first->space, h->space) == 0 && strcmp(first->id, h->id) == 0;

    j->is_far = j->is_far || !is_near;
    if (is_near || !j->config->transport || strcmp(j->config->transport, "shm") != 0)
        return GR_OK;
    if (strcmp(first->boot, h->boot) != 0 || strcmp(first->name, h->name) != 0)
        return gr_fail(
            GR_ERR_ARG,
            "rank 0 is on host '%s' and rank %d on '%s': transport 'shm' is for one host; "
            "take 'hosts' or none",
            first->name, rank, h->name);
    if (strcmp(first->space, h->space) != 0)
        return gr_fail(
            GR_ERR_ARG,
            "ranks 0 and %d cannot see each other's processes (%s and %s): start them in "
            "one container",
            rank, first->space, h->space);
    return GR_OK;
}

/* Ranks that were told different numbers would wait for one that never comes; with different
 * transports they would wait for each other in different places. */
static gr_status check_alike(const joining *j, const gr_host *h, int rank)
{
    const char *own = j->me.transport;

    if (h->n_ranks == j->job->n_ranks && strcmp(h->transport, own) == 0)
        return GR_OK;
    if (h->n_ranks == j->job->n_ranks)
        return gr_fail(GR_ERR_ARG,
                       "rank %d has transport (--comm, GR_COMM) '%s', and rank %d '%s'; start all "
                       "ranks with the same",
                       rank, h->transport, j->job->rank, own);
    return gr_fail(GR_ERR_ARG,
                   "rank %d has a world size (WORLD_SIZE) of %d, and rank %d of %d; start all "
                   "ranks with the same",
                   rank, h->n_ranks, j->job->rank, j->job->n_ranks);
}

static gr_status read_hosts(joining *j, char **texts)
{
    gr_host first = { .pid = 0 };

    for (int r = 0; r < j->job->n_ranks; r++) {
        gr_host h = { .pid = 0 };

        GR_TRY(gr_host_parse(texts[r], r, &h));
        if (r == 0)
            first = h;
        GR_TRY(check_alike(j, &h, r));
        GR_TRY(check_host(j, &first, &h, r));
        j->pids[r] = h.pid;
    }
    return GR_OK;
}

/* Rank 0 says it as long as it lasts. If it is rank 0 that is missing, the others do, once. */
static void say_waiting(const joining *j, int rank, double seconds)
{
    if (rank == 0 && seconds < TELL_MS * 1.5e-3)
        gr_log(COMM, WARN, "rank %d of %d waits for rank 0 to join (%.0f s)", j->job->rank,
               j->job->n_ranks, seconds);
    else
        gr_log(COMM, INFO, "waiting for rank %d of %d to join (%.0f s)", rank, j->job->n_ranks,
               seconds);
}

/* Says from time to time for whom it waits. */
static gr_status wait_for_rank(joining *j, const char *key, int rank)
{
    int64_t start = gr_now_ns();

    for (;;) {
        int left = gr_deadline_left_ms(j->deadline);
        double waited = (double)(gr_now_ns() - start) * 1e-9;
        gr_status st =
            gr_store_wait(j->store, &key, 1, gr_deadline_in_ms(left < TELL_MS ? left : TELL_MS));

        if (st != GR_ERR_TIMEOUT)
            return gr_wrap(st, "waiting for rank %d", rank);
        if (gr_deadline_passed(j->deadline))
            return gr_fail(
                GR_ERR_TIMEOUT,
                "rank %d of %d has not come within %.0f s: start it with the same "
                "MASTER_ADDR and MASTER_PORT, or wait longer with --timeout or GR_TIMEOUT",
                rank, j->job->n_ranks, (double)j->config->timeout_ms * 1e-3);
        say_waiting(j, rank, waited + TELL_MS * 1e-3);
        GR_TRY(gr_claim_trouble(j->store, j->job, j->n, j->deadline));
    }
}

/* Before all are there. Rank 0 looks at each that comes, the others at rank 0 only, so that many
 * ranks do not ask the store too much. */
static gr_status check_early(joining *j, const char *key, int rank)
{
    gr_host h = { .pid = 0 };
    size_t n_bytes;
    char *text;
    gr_status st;

    if (rank != 0 && j->job->rank != 0)
        return GR_OK;
    GR_TRY(gr_store_get(j->store, key, &text, &n_bytes, j->deadline));
    st = gr_host_parse(text, rank, &h);
    gr_free(text);
    return st == GR_OK ? check_alike(j, &h, rank) : st;
}

static gr_status get_hosts(joining *j, char *names, const char **keys, char **texts)
{
    int n = j->job->n_ranks;
    gr_status st;

    for (int r = 0; r < n; r++) {
        key_of(j, names + (size_t)r * KEY_TEXT, "host", r);
        keys[r] = names + (size_t)r * KEY_TEXT;
    }
    for (int r = 0; r < n; r++) {
        GR_TRY(wait_for_rank(j, keys[r], r));
        GR_TRY(check_early(j, keys[r], r));
    }
    GR_TRY(gr_store_get_many(j->store, keys, n, texts, j->deadline));
    st = read_hosts(j, texts);
    for (int r = 0; r < n; r++)
        gr_free(texts[r]);
    return st;
}

static gr_status meet_hosts(joining *j)
{
    size_t n = (size_t)j->job->n_ranks;
    char *names = (char *)gr_calloc(n, KEY_TEXT);
    const char **keys = (const char **)gr_calloc(n, sizeof(*keys));
    char **texts = (char **)gr_calloc(n, sizeof(*texts));
    char key[KEY_TEXT], line[GR_HOST_LINE];
    gr_status st = GR_ERR_NOMEM;

    if (names && keys && texts) {
        gr_host_write(&j->me, line);
        key_of(j, key, "host", j->job->rank);
        st = gr_store_set(j->store, key, line, strlen(line), j->deadline);
    }
    if (st == GR_OK)
        st = get_hosts(j, names, keys, texts);
    gr_free(texts);
    gr_free(keys);
    gr_free(names);
    return st;
}

/* The address by which this host reaches the store, which the others reach, too. A UDP socket
 * finds it without sending anything. */
static void find_address(const gr_job *job, char address[GR_HOST_TEXT])
{
    struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *list = NULL;
    char port[16], text[GR_ADDRESS_TEXT] = "";
    int fd;

    snprintf(port, sizeof(port), "%d", job->store_port);
    address[0] = '\0';
    if (gr_interface_is_loopback(job->store_host) ||
        getaddrinfo(job->store_host, port, &hints, &list) != 0)
        return;
    fd = socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0)
        gr_address_of_self(fd, text);
    if (fd >= 0)
        close(fd);
    freeaddrinfo(list);
    if (text[0] && text[0] != '?')
        snprintf(address, GR_HOST_TEXT, "%s", text);
}

/* ---- all of it ---- */

static gr_status join_wired(joining *j, const gr_wired_kind *kind, gr_pg **out)
{
    gr_meet m = { .deadline = j->deadline };
    gr_meet_store at_store;
    gr_status st;

    GR_TRY(gr_meet_at_store(&m, &at_store, j->store, j->job));
    snprintf(m.token, sizeof(m.token), "%s", j->job->token);
    find_address(j->job, m.address);
    st = gr_wired_create(out, kind, &m, j->config, j->job->local_rank);
    j->is_final = at_store.round > 0; /* the store has done its part */
    return st;
}

static gr_status join_near(joining *j, gr_pg **out)
{
    char key[KEY_TEXT];
    shm_joining near = { .job = j->job,
                         .config = j->config,
                         .deadline = j->deadline,
                         .store = j->store,
                         .key = key,
                         .pids = j->pids };

    key_of(j, key, "control", -1);
    return shm_join(out, &near);
}

static gr_status join(joining *j, gr_pg **out)
{
    const char *transport = j->config->transport;
    char key[KEY_TEXT];

    snprintf(key, sizeof(key), "gradus/%d/joined/%d", j->job->restart, j->job->rank);
    GR_TRY(gr_store_add(j->store, key, 1, &j->n, j->deadline));
    GR_TRY(gr_claim_rank(j->store, j->job, &j->me, j->n, j->deadline));
    GR_TRY(meet_hosts(j));
    if (transport && strncmp(transport, "tcp", 3) == 0)
        return join_wired(j, &gr_wired_tcp, out);
    if (transport && strncmp(transport, "hosts", 5) == 0)
        return join_wired(j, &gr_wired_hosts, out);
    return j->is_far ? join_wired(j, &gr_wired_hosts, out) : join_near(j, out);
}

static gr_status join_once(joining *j, gr_pg **out)
{
    gr_status st;

    st = gr_store_connect(&j->store, j->job->store_host, j->job->store_port, j->deadline);
    if (st == GR_ERR_IO || st == GR_ERR_TIMEOUT)
        return gr_fail(st,
                       "%s; that is where rank 0 should be (MASTER_ADDR, MASTER_PORT): start it "
                       "there, or wait longer with --timeout or GR_TIMEOUT",
                       gr_error_message());
    GR_TRY(st);
    st = join(j, out);
    gr_store_close(j->store);
    return st;
}

/* When rank 0 hosts the store, its port may still be held by the store of the group
 * before, which is about to end: a lost connection is then no failure but too early. */
static gr_status join_until(joining *j, gr_pg **out)
{
    const struct timespec pause = { .tv_nsec = 5000000 };
    gr_status st;

    while ((st = join_once(j, out)) == GR_ERR_IO && j->job->rank != 0 && !j->job->agent_store &&
           !j->is_final && !gr_deadline_passed(j->deadline))
        nanosleep(&pause, NULL);
    return st;
}

gr_status gr_join(gr_pg **out, const gr_job *job, const gr_pg_config *config)
{
    joining j = { .job = job, .config = config, .deadline = gr_deadline_in_ms(config->timeout_ms) };
    gr_store_server *server = NULL;
    gr_status st = GR_OK;

    gr_host_describe(&j.me, job->n_ranks, config->transport);
    j.pids = (int *)gr_calloc((size_t)job->n_ranks, sizeof(*j.pids));
    if (!j.pids)
        return GR_ERR_NOMEM;
    if (job->rank == 0 && !job->agent_store) {
        st = gr_store_server_create(&server, job->store_host, job->store_port);
        if (st == GR_OK)
            st = gr_store_server_start(server);
    }
    if (st == GR_OK)
        st = join_until(&j, out);
    if (st != GR_OK && server) /* the others are still reading why */
        gr_store_server_drain(server, gr_deadline_in_ms(DRAIN_MS));
    gr_store_server_destroy(server);
    gr_free(j.pids);
    return st;
}
