/*
 * The job as the environment describes it.
 *
 * (1) Rank and size come from one family: mpirun inside a Slurm allocation shows two, and
 *     Slurm's then describe mpirun's own process.
 * (2) Slurm's variables count only inside a step of several tasks: under plain sbatch they
 *     name tasks that nobody has started.
 * (3) An empty variable counts as unset: scripts write RANK= to mean none.
 */
#include "net/env.h"

#include "net/slurm.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HINT       "start the program with gradrun or torchrun, or unset %s to run a single process"
#define FIRST_PORT 15000 /* ports that are derived from the number of a job */
#define N_PORTS    10000
#define USUAL_PORT 29500

/* Two names where versions differ; the first that is set counts. */
typedef struct family {
    const char *name;
    const char *rank[2], *size[2], *local_rank[2], *n_local[2];
} family;

static const family families[] = {
    { "torchrun", { "RANK" }, { "WORLD_SIZE" }, { "LOCAL_RANK" }, { "LOCAL_WORLD_SIZE" } },
    { "Open MPI",
      { "OMPI_COMM_WORLD_RANK" },
      { "OMPI_COMM_WORLD_SIZE" },
      { "OMPI_COMM_WORLD_LOCAL_RANK" },
      { "OMPI_COMM_WORLD_LOCAL_SIZE" } },
    { "MVAPICH",
      { "MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK" },
      { "MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE" },
      { "MV2_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_LOCAL_RANK" },
      { "MV2_COMM_WORLD_LOCAL_SIZE", "MVP_COMM_WORLD_LOCAL_SIZE" } },
    { "PMI",
      { "PMI_RANK" },
      { "PMI_SIZE" },
      { "MPI_LOCALRANKID", "PMI_LOCAL_RANK" },
      { "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE" } },
    /* PMIx tells sizes through its library only; under srun the step's variables have them. */
    { "PMIx", { "PMIX_RANK" }, { "SLURM_STEP_NUM_TASKS" }, { "SLURM_LOCALID" }, { NULL } },
    { "LSF",
      { "JSM_NAMESPACE_RANK" },
      { "JSM_NAMESPACE_SIZE" },
      { "JSM_NAMESPACE_LOCAL_RANK" },
      { "JSM_NAMESPACE_LOCAL_SIZE" } },
    { "Flux", { "FLUX_TASK_RANK" }, { "FLUX_JOB_SIZE" }, { "FLUX_TASK_LOCAL_ID" }, { NULL } },
};

static const family slurm = { "Slurm",
                              { "SLURM_PROCID" },
                              { "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS" },
                              { "SLURM_LOCALID" },
                              { NULL } };

/* What Kubernetes' operators tell a launcher, one per pod; a single process per pod can do with it.
 * An Indexed Job has a number for each pod, and whoever wants ranks says how many. */
static const family pods = { "Kubernetes",
                             { "PET_NODE_RANK", "JOB_COMPLETION_INDEX" },
                             { "PET_NNODES", "WORLD_SIZE" },
                             { NULL },
                             { NULL } };

static const char *get(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

/* The name of the pair that is set, or NULL. */
static const char *set_name(const char *const pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] && get(pair[i]))
            return pair[i];
    return NULL;
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

/* ---- which family ---- */

static bool in_slurm_step(void)
{
    const char *id = get("SLURM_STEP_ID"), *n = get("SLURM_STEP_NUM_TASKS");

    return id && n && strcmp(n, "1") != 0 && get("SLURM_PROCID");
}

static bool in_pods(void)
{
    const char *n = get("PET_NNODES");

    if (n && get("PET_NODE_RANK"))
        return strcmp(n, "1") != 0 && strcmp(n, "1:1") != 0;
    return get("WORLD_SIZE") && !get("RANK") && get("JOB_COMPLETION_INDEX");
}

static const family *find_family(void)
{
    bool is_indexed = in_pods() && !get("RANK") && get("WORLD_SIZE");

    for (size_t i = is_indexed ? 1 : 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const family *f = &families[i];

        if (set_name(f->rank))
            return f;
        /* Half of torchrun's is a slip; half of another's may belong to something else. */
        if (i == 0 && (set_name(f->size) || set_name(f->local_rank) || set_name(f->n_local)))
            return f;
    }
    if (in_slurm_step())
        return &slurm;
    return in_pods() ? &pods : NULL;
}

/* For the message: which of the family's variables is there. */
static const char *some_name(const family *f)
{
    const char *const *pairs[] = { f->rank, f->size, f->local_rank, f->n_local };

    for (int i = 0; i < 4; i++)
        if (set_name(pairs[i]))
            return set_name(pairs[i]);
    return f->rank[0];
}

static gr_status read_ranks(gr_job *job, const family *f)
{
    const char *rank = set_name(f->rank), *size = set_name(f->size);
    const char *local = set_name(f->local_rank), *n_local = set_name(f->n_local);

    if (!rank)
        return need(f->rank[0], some_name(f));
    if (!size && strcmp(f->name, "PMIx") == 0)
        return gr_fail(GR_ERR_ARG,
                       "PMIX_RANK is set, but no variable says how many ranks there are: set RANK "
                       "and WORLD_SIZE, or unset PMIX_RANK to run a single process");
    if (!size)
        return need(f->size[0], rank);
    GR_TRY(get_int(size, 1, INT_MAX, &job->n_ranks));
    GR_TRY(get_int(rank, 0, job->n_ranks - 1, &job->rank));
    job->local_rank = job->rank;
    job->n_local = 0;
    if (n_local)
        GR_TRY(get_int(n_local, 1, job->n_ranks, &job->n_local));
    if (local)
        GR_TRY(
            get_int(local, 0, (job->n_local ? job->n_local : job->n_ranks) - 1, &job->local_rank));
    return GR_OK;
}

/* "2" or "2:2", and a process in each pod: anything else needs a launcher. */
static gr_status read_pods(gr_job *job)
{
    const char *n = get("PET_NNODES"), *n_each = get("PET_NPROC_PER_NODE");
    const char *rank = set_name(pods.rank);
    int min, max, n_read = 0;

    if (n_each && strcmp(n_each, "1") != 0)
        return gr_fail(GR_ERR_ARG,
                       "PET_NPROC_PER_NODE is '%.40s', but this is the only process of its pod: "
                       "put gradrun before the program, which starts that many",
                       n_each);
    if (n && sscanf(n, "%d:%d%n", &min, &max, &n_read) == 2 && !n[n_read] && min == max && min > 0)
        job->n_ranks = min;
    else if (n && strchr(n, ':'))
        return gr_fail(GR_ERR_ARG,
                       "PET_NNODES is '%.40s': how many pods there will be is for a launcher to "
                       "find out; put gradrun before the program",
                       n);
    else
        GR_TRY(get_int(n ? "PET_NNODES" : "WORLD_SIZE", 1, INT_MAX, &job->n_ranks));
    job->n_local = 1;
    return get_int(rank, 0, job->n_ranks - 1, &job->rank);
}

/* How many tasks this node has, when Slurm says it in a way that can be read. */
static void read_slurm_local(gr_job *job)
{
    const char *text = get("SLURM_STEP_TASKS_PER_NODE");
    int node = 0, n;

    text = text ? text : get("SLURM_TASKS_PER_NODE");
    if (!text || !get("SLURM_NODEID") || get_int("SLURM_NODEID", 0, INT_MAX, &node) != GR_OK)
        return;
    if (gr_slurm_tasks_on(text, node, &n) == GR_OK && n <= job->n_ranks && job->local_rank < n)
        job->n_local = n;
}

/* ---- where the store is ---- */

/* A number that all ranks of this job, and hardly any other job of this host, have. *is_shared:
 * those on other hosts have it, too. */
static uint32_t job_number(bool *is_shared)
{
    static const char *const names[] = { "SLURM_JOB_ID", "PMIX_NAMESPACE",
                                         "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "FLUX_JOB_ID" };
    uint32_t h = 2166136261u;

    *is_shared = true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = get(names[i]), *step = get("SLURM_STEP_ID");

        if (!text)
            continue;
        for (; *text; text++)
            h = (h ^ (uint8_t)*text) * 16777619u;
        for (; i == 0 && step && *step; step++)
            h = (h ^ (uint8_t)*step) * 16777619u;
        return h;
    }
    *is_shared = false;
    return (uint32_t)getppid() * 2654435761u; /* ranks of one host: they have one parent */
}

static gr_status set_host(gr_job *job, const char *text, const char *name)
{
    if (strlen(text) >= sizeof(job->store_host))
        return gr_fail(GR_ERR_ARG, "%s is longer than %d characters", name, GR_HOST_TEXT - 1);
    snprintf(job->store_host, sizeof(job->store_host), "%s", text);
    return GR_OK;
}

/* Without MASTER_ADDR: one host needs none, and Slurm has a list of its nodes. */
static gr_status guess_host(gr_job *job)
{
    const char *nodes = get("SLURM_STEP_NODELIST");

    if (job->n_local == job->n_ranks)
        return set_host(job, "127.0.0.1", "MASTER_ADDR");
    nodes = nodes ? nodes : get("SLURM_JOB_NODELIST");
    if (nodes && in_slurm_step()) {
        gr_status st = gr_slurm_first_host(nodes, job->store_host, sizeof(job->store_host));

        return gr_wrap(st, "SLURM_JOB_NODELIST");
    }
    return gr_fail(GR_ERR_ARG,
                   "%s says that there are %d ranks, but not where rank 0 is: set MASTER_ADDR to "
                   "its host (and MASTER_PORT to a free port there) on all ranks",
                   job->source, job->n_ranks);
}

/* One that the ranks of all hosts come to. */
static int guess_port(const gr_job *job)
{
    bool is_shared;
    uint32_t number = job_number(&is_shared);

    return is_shared || job->n_local == job->n_ranks ? FIRST_PORT + (int)(number % N_PORTS)
                                                     : USUAL_PORT;
}

static gr_status read_store(gr_job *job, bool may_guess)
{
    const char *agent = get("TORCHELASTIC_USE_AGENT_STORE");
    bool has_pods = strcmp(job->source, pods.name) == 0;
    const char *host = has_pods && !get("MASTER_ADDR") ? "PET_MASTER_ADDR" : "MASTER_ADDR";
    const char *port = has_pods && !get("MASTER_PORT") ? "PET_MASTER_PORT" : "MASTER_PORT";

    if (!may_guess) {
        GR_TRY(need("MASTER_ADDR", "WORLD_SIZE"));
        GR_TRY(need("MASTER_PORT", "WORLD_SIZE"));
        job->agent_store = agent && strcmp(agent, "True") == 0;
    }
    if (get(host))
        GR_TRY(set_host(job, get(host), host));
    else
        GR_TRY(guess_host(job));
    if (get(port))
        return get_int(port, 1, 65535, &job->store_port);
    job->store_port = guess_port(job);
    return GR_OK;
}

static gr_status read_rest(gr_job *job)
{
    const char *token = get("GR_JOB_TOKEN");

    if (get("TORCHELASTIC_RESTART_COUNT"))
        GR_TRY(get_int("TORCHELASTIC_RESTART_COUNT", 0, INT_MAX, &job->restart));
    if (token && strlen(token) >= sizeof(job->token))
        return gr_fail(GR_ERR_ARG, "GR_JOB_TOKEN is longer than %d characters", GR_TOKEN_TEXT - 1);
    snprintf(job->token, sizeof(job->token), "%s", token ? token : "");
    return GR_OK;
}

static gr_status from_family(gr_job *out, bool with_store)
{
    const family *f = find_family();

    *out = (gr_job){ .n_ranks = 1, .n_local = 1, .source = "nobody" };
    if (!f)
        return GR_OK;
    out->source = f->name;
    GR_TRY(f == &pods ? read_pods(out) : read_ranks(out, f));
    if (f == &slurm || strcmp(f->name, "PMIx") == 0)
        read_slurm_local(out);
    if (out->n_ranks > 1 && with_store)
        GR_TRY(read_store(out, f != &families[0]));
    return read_rest(out);
}

static gr_status from_env(gr_job *out, bool with_store)
{
    const char *url = get("GR_INIT_METHOD");

    if (url)
        return gr_wrap(gr_job_from_url(out, url), "GR_INIT_METHOD");
    return from_family(out, with_store);
}

gr_status gr_job_from_env(gr_job *out)
{
    return from_env(out, true);
}

gr_status gr_job_ranks_from_env(gr_job *out)
{
    return from_env(out, false);
}

/* ---- addresses ---- */

/* "rank=1&world_size=2": the value of a name, or -1. */
static gr_status query_int(const char *query, const char *name, int min, int max, int *out)
{
    size_t len = strlen(name);

    for (const char *at = query; at && *at; at += strcspn(at, "&"), at += *at == '&') {
        char *end;
        long v;

        if (strncmp(at, name, len) != 0 || at[len] != '=')
            continue;
        errno = 0;
        v = strtol(at + len + 1, &end, 10);
        if (errno != 0 || end == at + len + 1 || (*end && *end != '&') || v < min || v > max)
            return gr_fail(GR_ERR_ARG, "'%s' in '?%s' must be a number from %d to %d", name, query,
                           min, max);
        *out = (int)v;
        return GR_OK;
    }
    return GR_OK;
}

/* "host:port", "[::1]:port" */
static gr_status read_place(gr_job *job, const char *text, size_t len)
{
    char place[GR_HOST_TEXT + 16], *colon, *host = place, *end;
    long port;

    if (len >= sizeof(place))
        return gr_fail(GR_ERR_ARG, "an address of %zu characters", len);
    memcpy(place, text, len);
    place[len] = '\0';
    colon = strrchr(place, ':');
    if (!colon || colon == place)
        return gr_fail(GR_ERR_ARG, "'tcp://%s' must be tcp://host:port", place);
    *colon = '\0';
    if (*host == '[' && colon[-1] == ']') {
        host++;
        colon[-1] = '\0';
    }
    errno = 0;
    port = strtol(colon + 1, &end, 10);
    if (errno != 0 || end == colon + 1 || *end || port < 1 || port > 65535)
        return gr_fail(GR_ERR_ARG, "port '%s' must be a number from 1 to 65535", colon + 1);
    job->store_port = (int)port;
    return set_host(job, host, "the host");
}

gr_status gr_job_from_url(gr_job *out, const char *url)
{
    bool is_tcp = strncmp(url, "tcp://", 6) == 0;
    const char *rest = url + 6, *query = strchr(url, '?');
    size_t len = strcspn(rest, "?/");
    int size = 0, rank = -1;

    if (!is_tcp && strncmp(url, "env://", 6) != 0)
        return gr_fail(GR_ERR_ARG, "'%.80s' is neither env:// nor tcp://host:port", url);
    query = query ? query + 1 : "";
    GR_TRY(query_int(query, "world_size", 1, INT_MAX, &size));
    GR_TRY(query_int(query, "rank", 0, size ? size - 1 : INT_MAX, &rank));
    if ((size == 0) != (rank < 0))
        return gr_fail(GR_ERR_ARG, "'%.80s': rank and world_size belong together", url);
    if (size == 0) {
        GR_TRY(from_family(out, !is_tcp));
    } else {
        *out = (gr_job){ .rank = rank, .n_ranks = size, .local_rank = rank, .source = "the URL" };
        GR_TRY(read_rest(out));
        if (!is_tcp && size > 1)
            GR_TRY(read_store(out, false));
    }
    return is_tcp ? read_place(out, rest, len) : GR_OK;
}
