/*
 * One rank of anybody's job: finds itself in the environment, meets the others and says so.
 *
 *     rank_worker store [SECONDS]   meets them in the key-value store
 *     rank_worker group [SECONDS]   meets them in a process group, and adds up the ranks; rank 1
 *                                   then stays for a while
 *     rank_worker all               every kind of call once; prints a checksum of the results
 *     rank_worker steps N           N all-reduces, a line each
 *     rank_worker repeat KIND MS    the same kind of call until something fails
 *     rank_worker groups            several groups at once
 *     rank_worker second            a second group, for which rank 1 does not come
 *     rank_worker differ            rank 1 calls something else than the others
 *     rank_worker leave N           gives N elements to rank 0 and leaves the group at once
 *     rank_worker ops HOST PORT     makes every request to a store that somebody runs there
 */
#include "base/alloc.h"
#include "comm/pg.h"
#include "multi/rank_calls.h"
#include "net/env.h"
#include "net/store.h"
#include "net/store_ops.h"
#include "net/store_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Everybody sets a key, and waits for the keys of all. */
static gr_status meet(const gr_job *j, gr_deadline d)
{
    const char **keys = (const char **)gr_calloc((size_t)j->n_ranks, sizeof(*keys));
    char(*names)[32] = (char(*)[32])gr_calloc((size_t)j->n_ranks, sizeof(*names));
    gr_store *s = NULL;
    gr_status st = keys && names ? GR_OK : GR_ERR_NOMEM;

    if (st == GR_OK)
        st = gr_store_connect(&s, j->store_host, j->store_port, d);
    for (int r = 0; r < j->n_ranks && st == GR_OK; r++) {
        snprintf(names[r], sizeof(names[r]), "here/%d/%d", j->restart, r);
        keys[r] = names[r];
    }
    if (st == GR_OK)
        st = gr_store_set(s, keys[j->rank], "1", 1, d);
    if (st == GR_OK)
        st = gr_store_wait(s, keys, j->n_ranks, d);
    gr_store_close(s);
    gr_free(keys);
    gr_free(names);
    return st;
}

static gr_status in_store(const gr_job *j, int seconds)
{
    gr_deadline d = gr_deadline_in_ms(240000);
    gr_store_server *server = NULL;
    gr_status st = GR_OK;

    if (j->n_ranks > 1 && !j->agent_store && j->rank == 0) {
        st = gr_store_server_create(&server, j->store_host, j->store_port);
        if (st == GR_OK)
            st = gr_store_server_start(server);
    }
    if (st == GR_OK && j->n_ranks > 1)
        st = meet(j, d);
    if (st == GR_OK) {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        printf("rank %d of %d (local %d) met the others, says %s, at %lld us\n", j->rank,
               j->n_ranks, j->local_rank, j->source,
               (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
        fflush(stdout);
        sleep((unsigned)seconds);
    }
    if (server)
        gr_store_server_drain(server, gr_deadline_in_ms(30000));
    gr_store_server_destroy(server);
    return st;
}

static gr_status in_group(const gr_job *j, int seconds)
{
    double sum = j->rank + 1;
    gr_pg *pg;

    GR_TRY(gr_pg_create(&pg, NULL));
    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ &sum, 1, GR_F64 }, GR_REDUCE_SUM));
    printf("rank %d of %d adds up to %g\n", j->rank, j->n_ranks, sum);
    gr_pg_destroy(pg);
    sleep(j->rank == 1 ? (unsigned)seconds : 0);
    return GR_OK;
}

static gr_status run(const gr_job *j, const char *mode, char **words)
{
    long n = words[0] ? strtol(words[0], NULL, 10) : 0;

    if (strcmp(mode, "group") == 0)
        return in_group(j, (int)n);
    if (strcmp(mode, "all") == 0)
        return rank_calls_all();
    if (strcmp(mode, "steps") == 0)
        return rank_calls_steps(n);
    if (strcmp(mode, "repeat") == 0 && words[0] && words[1])
        return rank_calls_repeat(words[0], (int)strtol(words[1], NULL, 10));
    if (strcmp(mode, "groups") == 0)
        return rank_calls_groups();
    if (strcmp(mode, "second") == 0)
        return rank_calls_second();
    if (strcmp(mode, "differ") == 0)
        return rank_calls_differ();
    if (strcmp(mode, "leave") == 0)
        return rank_calls_leave(n);
    return in_store(j, (int)n);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "store";
    gr_job j;
    gr_status st;

    if (argc == 4 && strcmp(mode, "ops") == 0) {
        store_ops_check(argv[2], (int)strtol(argv[3], NULL, 10));
        printf("every request was answered\n");
        return 0;
    }
    st = gr_job_from_env(&j);
    if (st == GR_OK)
        st = run(&j, mode, argv + (argc > 2 ? 2 : argc));
    if (st == GR_OK)
        return 0;
    fprintf(stderr, "rank_worker: %s: %s\n", gr_status_text(st), gr_error_message());
    return st == GR_ERR_PEER ? GR_EXIT_PEER : 1;
}
