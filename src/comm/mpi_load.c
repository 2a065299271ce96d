/* Finding the MPI module: GR_MODULE_PATH, then around the program. It stays loaded. */
#include "comm/mpi_module.h"

#include "net/env.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "libgradus-mpi.so"

static const gr_mpi_module *try_path(const char *path, char *why, size_t n_bytes)
{
    gr_mpi_module_get_fn *get = NULL;
    void *handle, *symbol;

    if (access(path, F_OK) != 0)
        return NULL;
    /* MPI loads parts of itself later, which look for its symbols: hence global. */
    handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    symbol = handle ? dlsym(handle, "gr_mpi_module_get") : NULL;
    memcpy(&get, &symbol, sizeof(get)); /* ISO C has no such cast; POSIX says the bits are one */
    if (get && get()->abi == GR_MPI_ABI)
        return get();
    snprintf(why, n_bytes, "; %s: %s", path, handle ? "is of another version" : dlerror());
    return NULL;
}

gr_status gr_mpi_load(const gr_mpi_module **out)
{
    const char *list = getenv("GR_MODULE_PATH");
    char path[PATH_MAX + 32], program[PATH_MAX], why[300] = "";
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    static const char *const below[] = { "", "../lib/", "../lib/gradus/" };
    char *slash;

    *out = NULL;
    program[n > 0 ? n : 0] = '\0';
    while (list && *list && !*out) {
        size_t len = strcspn(list, ":");

        snprintf(path, sizeof(path), "%.*s/" NAME, (int)len, list);
        *out = try_path(path, why, sizeof(why));
        list += len + (list[len] == ':');
    }
    slash = strrchr(program, '/');
    for (int i = 0; i < 3 && slash && !*out; i++) {
        snprintf(path, sizeof(path), "%.*s/%s" NAME, (int)(slash - program), program, below[i]);
        *out = try_path(path, why, sizeof(why));
    }
    if (*out)
        return GR_OK;
    return gr_fail(GR_ERR_ARG,
                   "transport 'mpi' needs the module " NAME
                   " (built where MPI's headers are), which was not found in GR_MODULE_PATH or "
                   "around the program%s",
                   why);
}

static gr_status make_wire(gr_wire **out, gr_meet *m, const gr_pg_config *config)
{
    const gr_mpi_module *module;

    GR_TRY(gr_mpi_load(&module));
    return module->make_wire(out, m, config);
}

static const gr_wired_kind wired_mpi = { .ops = GR_WIRED_OPS("mpi"), .make_wire = make_wire };

/* Ranks that something else started are each the whole world to MPI, and would train alone. */
static gr_status check_starter(int rank, int size)
{
    gr_job job;

    if (gr_job_ranks_from_env(&job) != GR_OK || strcmp(job.source, "nobody") == 0 ||
        (job.rank == rank && job.n_ranks == size))
        return GR_OK;
    return gr_fail(GR_ERR_ARG,
                   "to MPI this is rank %d of %d, to the environment (%s) rank %d of %d; start it "
                   "with mpirun, or leave the choice of the transport to gradus",
                   rank, size, job.source, job.rank, job.n_ranks);
}

gr_status gr_mpi_create(gr_pg **out, const gr_pg_config *config)
{
    gr_meet m = { .deadline = gr_deadline_in_ms(config->timeout_ms) };
    const gr_mpi_module *module;
    int local_rank;

    GR_TRY(gr_mpi_load(&module));
    GR_TRY(module->world(&m.rank, &m.size, &local_rank, m.deadline));
    GR_TRY(check_starter(m.rank, m.size));
    return gr_wired_create(out, &wired_mpi, &m, config, local_rank);
}
