/* The public ways to make a group: which transport, and from what. */
#include "comm/create.h"

#include "base/log.h"
#include "comm/mpi_module.h"
#include "comm/solo.h"
#include "comm/timeout.h"

#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 4096

/* A name, and for `hosts` a number behind a colon (see tcp.c). */
static bool is_known(const char *name)
{
    return strcmp(name, "shm") == 0 || strcmp(name, "tcp") == 0 || strcmp(name, "hosts") == 0 ||
           strcmp(name, "mpi") == 0 || strncmp(name, "hosts:", 6) == 0;
}

static gr_status too_many(int n_ranks)
{
    return gr_fail(GR_ERR_ARG, "a group of %d ranks; 1 to %d are possible", n_ranks, MAX_RANKS);
}

/* The configuration with everything decided that does not need the other ranks. */
static gr_status complete(const gr_pg_config *given, int n_ranks, gr_pg_config *config)
{
    const char *transport = getenv("GR_COMM");

    *config = given ? *given : (gr_pg_config)GR_PG_CONFIG_INIT;
    if (n_ranks < 1 || n_ranks > MAX_RANKS)
        return too_many(n_ranks);
    if (config->timeout_ms < 0)
        return gr_fail(GR_ERR_ARG, "timeout_ms is %d; it must be positive", config->timeout_ms);
    if (config->timeout_ms == 0)
        GR_TRY(gr_timeout_from_env(&config->timeout_ms));
    if (!config->transport && transport && *transport)
        config->transport = transport;
    if (config->transport && strcmp(config->transport, "auto") == 0)
        config->transport = NULL;
    if (config->transport && !is_known(config->transport))
        return gr_fail(GR_ERR_ARG,
                       "there is no transport '%s'; there are 'shm', 'tcp', 'hosts', 'mpi' "
                       "and 'auto'",
                       config->transport);
    return GR_OK;
}

/* One line about the group, as NCCL gives one: from rank 0, from all when asked for. On a
 * single host it is left out unless somebody wants to know. */
static void say_what(const gr_pg *pg)
{
    const char *wish = getenv("NCCL_DEBUG");
    bool is_asked = wish && (strcmp(wish, "INFO") == 0 || strcmp(wish, "TRACE") == 0);

    if (is_asked || strcmp(pg->ops->name, "shm") != 0)
        gr_log(COMM, INFO, "group '%s': rank %d of %d, timeout %d s", pg->ops->name, pg->rank,
               pg->size, pg->timeout_ms / 1000);
}

static gr_status create_mpi(gr_pg **out, const gr_pg_config *config)
{
    gr_status st;

    GR_TRY(gr_wrap(gr_mpi_create(out, config), "transport 'mpi'"));
    st = gr_log_open((*out)->rank); /* which nobody knew before */
    if (st != GR_OK) {
        gr_pg_destroy(*out);
        *out = NULL;
        return st;
    }
    say_what(*out);
    return GR_OK;
}

/* Ranks that an MPI started on several hosts: its own network carries their bytes, if the
 * module for it is there. Within one host shared memory is faster. */
static bool suits_mpi(void)
{
    static const char *const starters[] = { "Open MPI", "MVAPICH", "PMI" };
    const gr_mpi_module *module;
    gr_job job;

    if (gr_job_ranks_from_env(&job) != GR_OK || job.n_local < 1 || job.n_local >= job.n_ranks)
        return false;
    for (size_t i = 0; i < sizeof(starters) / sizeof(starters[0]); i++)
        if (strcmp(job.source, starters[i]) == 0)
            return gr_mpi_load(&module) == GR_OK;
    return false;
}

gr_status gr_pg_create(gr_pg **out, const gr_pg_config *given)
{
    gr_pg_config config;
    gr_job job;

    *out = NULL;
    GR_TRY(complete(given, 1, &config));
    if (config.transport && strcmp(config.transport, "mpi") == 0)
        return create_mpi(out, &config);
    if (!config.transport && suits_mpi())
        return create_mpi(out, &config);
    GR_TRY(gr_job_from_env(&job));
    GR_TRY(gr_log_open(job.rank));
    if (job.n_ranks > MAX_RANKS)
        return too_many(job.n_ranks);
    if (job.n_ranks == 1)
        return gr_solo_create(out, &config);
    GR_TRY(gr_wrap(gr_join(out, &job, &config), "rank %d of %d joins the group", job.rank,
                   job.n_ranks));
    say_what(*out);
    return GR_OK;
}

gr_status gr_pg_create_threads(gr_pg **out, int n, const gr_pg_config *given)
{
    gr_pg_config config;

    GR_TRY(complete(given, n, &config));
    if (config.transport && strcmp(config.transport, "mpi") == 0)
        return gr_fail(GR_ERR_ARG, "transport 'mpi' joins processes, not threads");
    if (!config.transport || strcmp(config.transport, "shm") == 0)
        return gr_shm_create_threads(out, n, &config);
    return gr_wired_create_threads(out, n, &config);
}
