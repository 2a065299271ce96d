/* The job as the environment describes it. */
#include "net/env.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HINT "start the program with gradrun or torchrun, or unset %s to run a single process"

/* An empty variable counts as unset: scripts write RANK= to mean none. */
static const char *get(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

static gr_status get_int(const char *name, int min, int max, int *out)
{
    const char *text = get(name);
    char *end;
    long v;

    errno = 0;
    v = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || v < min || v > max)
        return gr_fail(GR_ERR_ARG, "%s is '%.40s'; it must be a number from %d to %d", name, text,
                       min, max);
    *out = (int)v;
    return GR_OK;
}

static gr_status need(const char *name, const char *because)
{
    if (get(name))
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "%s is set but %s is not: " HINT, because, name, because);
}

static gr_status read_store(gr_job *job)
{
    const char *agent = get("TORCHELASTIC_USE_AGENT_STORE");

    GR_TRY(need("MASTER_ADDR", "WORLD_SIZE"));
    GR_TRY(need("MASTER_PORT", "WORLD_SIZE"));
    GR_TRY(get_int("MASTER_PORT", 1, 65535, &job->store_port));
    if (strlen(get("MASTER_ADDR")) >= sizeof(job->store_host))
        return gr_fail(GR_ERR_ARG, "MASTER_ADDR is longer than %d characters", GR_HOST_TEXT - 1);
    snprintf(job->store_host, sizeof(job->store_host), "%s", get("MASTER_ADDR"));
    job->agent_store = agent && strcmp(agent, "True") == 0;
    if (get("TORCHELASTIC_RESTART_COUNT"))
        GR_TRY(get_int("TORCHELASTIC_RESTART_COUNT", 0, INT_MAX, &job->restart));
    return GR_OK;
}

gr_status gr_job_from_env(gr_job *out)
{
    static const char *const names[] = { "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE" };
    const char *some = NULL;

    *out = (gr_job){ .n_ranks = 1, .n_local = 1 };
    for (int i = 0; i < 4 && !some; i++)
        some = get(names[i]) ? names[i] : NULL;
    if (!some)
        return GR_OK;
    GR_TRY(need("RANK", some));
    GR_TRY(need("WORLD_SIZE", some));
    GR_TRY(get_int("WORLD_SIZE", 1, INT_MAX, &out->n_ranks));
    GR_TRY(get_int("RANK", 0, out->n_ranks - 1, &out->rank));
    out->local_rank = out->rank;
    out->n_local = 0;
    if (get("LOCAL_WORLD_SIZE"))
        GR_TRY(get_int("LOCAL_WORLD_SIZE", 1, out->n_ranks, &out->n_local));
    if (get("LOCAL_RANK"))
        GR_TRY(get_int("LOCAL_RANK", 0, (out->n_local ? out->n_local : out->n_ranks) - 1,
                       &out->local_rank));
    if (out->n_ranks > 1)
        GR_TRY(read_store(out));
    return GR_OK;
}
