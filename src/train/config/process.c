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

/* NULL: not set, or empty. */
static const char *get(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

static bool is_set(const char *name)
{
    return get(name) != NULL;
}

/* -1: not set. */
static int64_t get_number(const char *name)
{
    const char *text = get(name);

    return text ? strtoll(text, NULL, 10) : -1;
}

static bool is_from_file(const gr_train_options *o, const char *key)
{
    return gr_settings_slot(o->settings, key)->origin.kind == GR_FROM_FILE;
}

/* Whether a launcher has said something about ranks, be it half. */
static bool has_launcher(void)
{
    gr_job job;

    if (is_set("RANK") || is_set("WORLD_SIZE"))
        return true;
    return gr_job_ranks_from_env(&job) != GR_OK || strcmp(job.source, "nobody") != 0;
}

/* ---- ranks ---- */

/* What the settings say about this process, where the environment is not the stronger; -1:
 * nothing. */
typedef struct claim {
    int64_t rank, world_size, local_rank;
} claim;

/* A file's number counts where no launcher has said it, be it by other variables. */
static int64_t claimed(const gr_train_options *o, const char *key, int64_t value, const char *name)
{
    gr_job job;

    if (value < 0 || !is_from_file(o, key))
        return value;
    if (is_set(name) || (gr_job_ranks_from_env(&job) == GR_OK && strcmp(job.source, "nobody") != 0))
        return -1;
    return value;
}

static claim read_claim(const gr_train_options *o)
{
    return (claim){ .rank = claimed(o, "ddp.rank", o->rank, "RANK"),
                    .world_size = claimed(o, "ddp.world_size", o->world_size, "WORLD_SIZE"),
                    .local_rank = claimed(o, "ddp.local_rank", o->local_rank, "LOCAL_RANK") };
}

static gr_status need_rank(const gr_train_options *o)
{
    return gr_settings_fail(o->settings, "ddp.world_size",
                            "%" PRId64 " ranks, but neither RANK nor --rank says which one this "
                            "is; start all of them with " LINE,
                            o->world_size, o->world_size);
}

/* Discovery would say this of variables that nobody has set but this file. */
static gr_status check_claim(const gr_train_options *o, const claim *c)
{
    int64_t rank = get_number("RANK"), n = get_number("WORLD_SIZE");
    int64_t n_local = get_number("LOCAL_WORLD_SIZE");

    if (n > 0 && rank >= n)
        return gr_settings_fail(o->settings, c->rank >= 0 ? "ddp.rank" : "ddp.world_size",
                                "rank %" PRId64 " of %" PRId64 ": ranks are counted from 0, and "
                                "the last one is %" PRId64,
                                rank, n, n - 1);
    n_local = n_local > 0 ? n_local : n;
    if (n_local > 0 && c->local_rank >= n_local)
        return gr_settings_fail(o->settings, "ddp.local_rank",
                                "local rank %" PRId64 ", but of %" PRId64 " on this host: the last "
                                "one is %" PRId64,
                                c->local_rank, n_local, n_local - 1);
    return GR_OK;
}

static gr_status need_place(const gr_train_options *o)
{
    if (is_set("GR_INIT_METHOD") || (is_set("MASTER_ADDR") && is_set("MASTER_PORT")))
        return GR_OK;
    return gr_settings_fail(
        o->settings, "ddp.world_size",
        "%" PRId64 " ranks, but nothing says where rank 0 is: give --%s%s to "
        "all of them, or start them with " LINE,
        o->world_size, is_set("MASTER_ADDR") ? "master_port PORT" : "master_addr HOST",
        is_set("MASTER_ADDR") || is_set("MASTER_PORT") ? "" : " --master_port PORT", o->world_size);
}

/* Ranks from settings alone, where no launcher has said anything. */
static gr_status alone(const gr_train_options *o, const claim *c)
{
    if (c->world_size > 1 && c->rank < 0)
        return need_rank(o);
    if (c->rank > 0 && c->world_size < 0)
        return gr_settings_fail(o->settings, "ddp.rank",
                                "rank %" PRId64 ", but neither WORLD_SIZE nor --world_size says of "
                                "how many; start all of them with " LINE,
                                c->rank, c->rank + 1);
    if (c->local_rank > 0 && c->rank < 0)
        return gr_settings_fail(o->settings, "ddp.local_rank",
                                "local rank %" PRId64 ", but RANK and WORLD_SIZE are not set, and "
                                "--rank and --world_size not given; start all ranks with " LINE,
                                c->local_rank, c->local_rank + 1);
    if (c->world_size < 2 && c->rank < 1)
        return GR_OK; /* a group of one needs no variables */
    GR_TRY(set_number("RANK", c->rank));
    GR_TRY(set_number("WORLD_SIZE", c->world_size));
    if (c->local_rank >= 0)
        GR_TRY(set_number("LOCAL_RANK", c->local_rank));
    GR_TRY(check_claim(o, c));
    return need_place(o);
}

/* Whether ranks meet at the store of our own launcher. It has started all ranks that there will be:
 * one with another number waits for ranks that cannot come, or takes the place of another. Who
 * moves the meeting elsewhere makes a group of his own, and other launchers may be a part only. */
static bool is_our_launcher(void)
{
    const char *launcher = get("GR_LAUNCHER"), *store = get("TORCHELASTIC_USE_AGENT_STORE");

    return launcher && strcmp(launcher, "gradrun") == 0 && store && strcmp(store, "True") == 0 &&
           !is_set("GR_INIT_METHOD");
}

static gr_status check_launcher(const gr_train_options *o, const claim *c)
{
    int64_t rank = get_number("RANK"), n = get_number("WORLD_SIZE");

    if (!is_our_launcher() || rank < 0 || n < 0)
        return GR_OK;
    if (c->world_size >= 0 && c->world_size != n)
        return gr_settings_fail(o->settings, "ddp.world_size",
                                "%" PRId64 " ranks, but gradrun has started %" PRId64
                                " (WORLD_SIZE); take it out, or start as many ranks: " LINE,
                                c->world_size, n, c->world_size);
    if (c->rank >= 0 && c->rank != rank)
        return gr_settings_fail(o->settings, "ddp.rank",
                                "rank %" PRId64 ", but gradrun has started this process as rank "
                                "%" PRId64 " of %" PRId64 " (RANK); take it out",
                                c->rank, rank, n);
    return GR_OK;
}

/* Settings over what a launcher said. Both numbers are written, so that one family has them. */
static gr_status override(const gr_train_options *o, const claim *c)
{
    gr_job job;

    if (c->rank < 0 && c->world_size < 0 && c->local_rank < 0)
        return GR_OK;
    GR_TRY(check_launcher(o, c));
    if ((c->rank >= 0 && is_set("WORLD_SIZE")) || (c->world_size >= 0 && is_set("RANK")) ||
        (c->rank >= 0 && c->world_size >= 0)) {
        if (c->rank >= 0)
            GR_TRY(set_number("RANK", c->rank));
        if (c->world_size >= 0)
            GR_TRY(set_number("WORLD_SIZE", c->world_size));
    } else {
        GR_TRY(gr_job_ranks_from_env(&job));
        GR_TRY(set_number("RANK", c->rank >= 0 ? c->rank : job.rank));
        GR_TRY(set_number("WORLD_SIZE", c->world_size >= 0 ? c->world_size : job.n_ranks));
    }
    if (c->local_rank >= 0)
        GR_TRY(set_number("LOCAL_RANK", c->local_rank));
    return check_claim(o, c);
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

/* ---- where they meet ---- */

/* A variable that a setting stands over; *is_new: it has another value now. */
static gr_status put_place(const gr_train_options *o, const char *key, const char *name,
                           const char *text, bool *is_new)
{
    const char *before = get(name);

    if (before && (is_from_file(o, key) || strcmp(before, text) == 0))
        return GR_OK;
    *is_new = true;
    return set_text(name, text);
}

/* The launcher serves the store that it has told of and no other: elsewhere rank 0 does. */
static gr_status put_master(const gr_train_options *o)
{
    bool is_new = false;
    char port[32];

    snprintf(port, sizeof(port), "%" PRId64, o->master_port);
    if (o->master_addr)
        GR_TRY(put_place(o, "ddp.master_addr", "MASTER_ADDR", o->master_addr, &is_new));
    if (o->master_port > 0)
        GR_TRY(put_place(o, "ddp.master_port", "MASTER_PORT", port, &is_new));
    return is_new ? set_text("TORCHELASTIC_USE_AGENT_STORE", "False") : GR_OK;
}

/* *url: the address that counts; NULL: the environment's. */
static gr_status put_url(const gr_train_options *o, const char **url)
{
    bool is_env = o->dist_url && strcmp(o->dist_url, "env://") == 0;

    if (!o->dist_url)
        return GR_OK;
    if (is_from_file(o, "ddp.dist_url") && (is_set("GR_INIT_METHOD") || is_set("MASTER_ADDR")))
        return GR_OK;
    if (is_env && gr_settings_given(o->settings, "ddp.dist_url"))
        unsetenv("GR_INIT_METHOD");
    if (is_env)
        return GR_OK;
    *url = o->dist_url;
    return set_text("GR_INIT_METHOD", o->dist_url);
}

static gr_status check_url(const gr_train_options *o, const char *url)
{
    gr_job job;
    gr_status st = url ? gr_job_from_url(&job, url) : GR_OK;

    return gr_settings_wrap(st, &gr_settings_slot(o->settings, "ddp.dist_url")->origin);
}

gr_status gr_train_options_process(const gr_train_options *o)
{
    const claim c = read_claim(o); /* before this process adds to the environment */
    const char *url = NULL;

    GR_TRY(put_master(o));
    GR_TRY(put_url(o, &url));
    GR_TRY(has_launcher() ? override(o, &c) : alone(o, &c));
    GR_TRY(check_url(o, url));
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

static gr_status become(gr_arena *a, const gr_command *c, const char *name,
                        const gr_train_options *o)
{
    char **words = gr_arena_array(a, (size_t)c->argc + 8, sizeof(*words));
    char *const launcher = find_gradrun(a);
    int n = 0;

    if (!words || !launcher)
        return GR_ERR_NOMEM;
    words[n++] = launcher;
    words[n++] = gr_arena_printf(a, "--nproc-per-node=%" PRId64, o->nproc);
    if (o->master_port > 0) /* its own would be stronger than a file's */
        words[n++] = gr_arena_printf(a, "--master-port=%" PRId64, o->master_port);
    words[n++] = find_self(a, c->program);
    words[n++] = gr_arena_strdup(a, name);
    for (int i = 0; i < n; i++)
        if (!words[i])
            return GR_ERR_NOMEM;
    for (int i = 0; i < c->argc; i++)
        words[n++] = c->argv[i];
    fflush(NULL);
    execvp(launcher, words);
    return gr_fail(GR_ERR_IO, "cannot start '%s' for %" PRId64 " ranks: %s", launcher, o->nproc,
                   strerror(errno));
}

/* Whether a number of this process's place is as strong as the wish for ranks. */
static bool is_in_the_way(const gr_train_options *o, const char *key, int64_t value)
{
    return value >= 0 && gr_settings_slot(o->settings, key)->origin.kind >=
                             gr_settings_slot(o->settings, "ddp.nproc")->origin.kind;
}

static bool wants_ranks(const gr_train_options *o)
{
    if (o->nproc < 2 || has_launcher() || is_in_the_way(o, "ddp.rank", o->rank))
        return false;
    return o->world_size == o->nproc || !is_in_the_way(o, "ddp.world_size", o->world_size);
}

gr_status gr_process_relaunch(const gr_command *c, const char *name)
{
    gr_request r;
    gr_status st = gr_request_read(&r, c);

    if (st == GR_OK && wants_ranks(&r.o))
        st = become(r.o.settings->arena, c, name, &r.o);
    gr_request_fini(&r);
    return st;
}
