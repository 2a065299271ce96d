/* The process and its ranks. */
#include "train/config/process.h"

#include "base/alloc.h"
#include "net/env.h"
#include "train/config/request.h"
#include "train/config/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE "gradrun --nproc_per_node %" PRId64 " gradus train ..."

/* ---- the environment ---- */

static gr_status set_text(const char *name, const char *text)
{
    if (setenv(name, text, 1) != 0)
        return gr_fail(GR_ERR_NOMEM, "cannot set %s: %s", name, strerror(errno));
    return GR_OK;
}

static gr_status set_number(const char *name, int64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, value);
    return set_text(name, text);
}

static bool is_set(const char *name)
{
    const char *text = getenv(name);

    return text && *text;
}

static gr_status need_rank(const gr_train_options *o)
{
    return gr_settings_fail(o->settings, "ddp.world_size",
                            "%" PRId64 " ranks, but neither RANK nor --rank says which one this "
                            "is; start all of them with " LINE,
                            o->world_size, o->world_size);
}

/* Ranks from flags alone, where no launcher has said anything. */
static gr_status alone(const gr_train_options *o)
{
    if (o->world_size > 1 && o->rank < 0)
        return need_rank(o);
    if (o->rank > 0 && o->world_size < 0)
        return gr_settings_fail(o->settings, "ddp.rank",
                                "rank %" PRId64 ", but neither WORLD_SIZE nor --world_size says of "
                                "how many; start all of them with " LINE,
                                o->rank, o->rank + 1);
    if (o->local_rank > 0 && o->rank < 0)
        return gr_settings_fail(o->settings, "ddp.local_rank",
                                "local rank %" PRId64 ", but RANK and WORLD_SIZE are not set, and "
                                "--rank and --world_size not given; start all ranks with " LINE,
                                o->local_rank, o->local_rank + 1);
    if (o->world_size < 2 && o->rank < 1)
        return GR_OK; /* a group of one needs no variables */
    GR_TRY(set_number("RANK", o->rank));
    GR_TRY(set_number("WORLD_SIZE", o->world_size));
    return o->local_rank >= 0 ? set_number("LOCAL_RANK", o->local_rank) : GR_OK;
}

/* Flags over what a launcher said. Both numbers are written, so that one family has them. */
static gr_status override(const gr_train_options *o)
{
    gr_job job;

    if (o->rank < 0 && o->world_size < 0 && o->local_rank < 0)
        return GR_OK;
    if ((o->rank >= 0 && is_set("WORLD_SIZE")) || (o->world_size >= 0 && is_set("RANK")) ||
        (o->rank >= 0 && o->world_size >= 0)) {
        if (o->rank >= 0)
            GR_TRY(set_number("RANK", o->rank));
        if (o->world_size >= 0)
            GR_TRY(set_number("WORLD_SIZE", o->world_size));
    } else {
        GR_TRY(gr_job_ranks_from_env(&job));
        GR_TRY(set_number("RANK", o->rank >= 0 ? o->rank : job.rank));
        GR_TRY(set_number("WORLD_SIZE", o->world_size >= 0 ? o->world_size : job.n_ranks));
    }
    return o->local_rank >= 0 ? set_number("LOCAL_RANK", o->local_rank) : GR_OK;
}

/* Whether a launcher has said something about ranks, be it half. */
static bool has_launcher(void)
{
    gr_job job;

    if (is_set("RANK") || is_set("WORLD_SIZE"))
        return true;
    return gr_job_ranks_from_env(&job) != GR_OK || strcmp(job.source, "nobody") != 0;
}

static gr_status check_job(const gr_train_options *o)
{
    gr_job job;

    GR_TRY(gr_job_ranks_from_env(&job));
    if (o->ddp_given && !o->ddp && job.n_ranks > 1)
        return gr_settings_fail(o->settings, "ddp.enabled",
                                "false, but this is rank %d of %d; take it out, or start one "
                                "process without a launcher",
                                job.rank, job.n_ranks);
    if (o->nproc > 0 && strcmp(job.source, "nobody") != 0 && job.n_local > 0 &&
        job.n_local != o->nproc)
        return gr_settings_fail(o->settings, "ddp.nproc",
                                "%" PRId64 " ranks, but the launcher has started %d on this host; "
                                "take it out",
                                o->nproc, job.n_local);
    return GR_OK;
}

gr_status gr_train_options_process(const gr_train_options *o)
{
    if (o->master_addr)
        GR_TRY(set_text("MASTER_ADDR", o->master_addr));
    if (o->master_port > 0)
        GR_TRY(set_number("MASTER_PORT", o->master_port));
    if (o->dist_url && strcmp(o->dist_url, "env://") != 0)
        GR_TRY(set_text("GR_INIT_METHOD", o->dist_url));
    GR_TRY(has_launcher() ? override(o) : alone(o));
    return check_job(o);
}

/* ---- starting the ranks ---- */

/* gradrun beside this program; "gradrun" where there is none: found on PATH. */
static char *find_gradrun(gr_arena *a)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash, *path;

    if (n <= 0)
        return gr_arena_strdup(a, "gradrun");
    self[n] = '\0';
    slash = strrchr(self, '/');
    path = slash ? gr_arena_printf(a, "%.*s/gradrun", (int)(slash - self), self) : NULL;
    return path && access(path, X_OK) == 0 ? path : gr_arena_strdup(a, "gradrun");
}

static char *find_self(gr_arena *a, const char *program)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n <= 0)
        return gr_arena_strdup(a, program);
    self[n] = '\0';
    return gr_arena_strdup(a, self);
}

static gr_status become(gr_arena *a, const gr_command *c, const char *name, int64_t nproc)
{
    char **words = gr_arena_array(a, (size_t)c->argc + 8, sizeof(*words));
    char *const launcher = find_gradrun(a);
    int n = 0;

    if (!words || !launcher)
        return GR_ERR_NOMEM;
    words[n++] = launcher;
    words[n++] = gr_arena_printf(a, "--nproc-per-node=%" PRId64, nproc);
    words[n++] = find_self(a, c->program);
    words[n++] = gr_arena_strdup(a, name);
    for (int i = 0; i < n; i++)
        if (!words[i])
            return GR_ERR_NOMEM;
    for (int i = 0; i < c->argc; i++)
        words[n++] = c->argv[i];
    fflush(NULL);
    execvp(launcher, words);
    return gr_fail(GR_ERR_IO, "cannot start '%s' for %" PRId64 " ranks: %s", launcher, nproc,
                   strerror(errno));
}

gr_status gr_process_relaunch(const gr_command *c, const char *name)
{
    gr_request r;
    gr_status st = gr_request_read(&r, c);

    if (st == GR_OK && r.o.nproc > 1 && !has_launcher() && r.o.rank < 0 && r.o.world_size < 0)
        st = become(r.o.settings->arena, c, name, r.o.nproc);
    gr_request_fini(&r);
    return st;
}
