/*
 * Which folder a run writes to, and which checkpoint it begins from.
 *
 *     --resume     the run's own folder is named       none is named
 *     (none)       a new run in it                     a new run in runs/
 *     last, best   that one of it                      refused
 *     auto         its newest, or a new run in it      a new run in runs/
 *     RUN, FILE    a new run in it from that one,      that run goes on; a file that belongs
 *                  or that run if it is the same       to none begins a new run in runs/
 *
 * A restarted job goes on from its own newest checkpoint, if there is one, whatever the
 * command says: the command was for its first start. Rank 0 only.
 */
#include "train/checkpoint.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "gradus/ckpt.h"
#include "net/env.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *checkpoints_in(const gr_trainer *t, const char *folder)
{
    return gr_arena_printf(t->arena, "%s/" GR_CKPT_FOLDER, folder);
}

/* The same folder, by whatever names. */
static bool is_same(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The folder that the command names for this run; NULL: a new one is made up. */
static gr_status named_folder(gr_trainer *t, const char **out)
{
    *out = t->o.output_dir;
    if (!t->o.run_id)
        return GR_OK;
    if (!*t->o.run_id || strchr(t->o.run_id, '/') || t->o.run_id[0] == '.')
        return gr_fail(GR_ERR_ARG, "--run_id '%s' is no name of a folder", t->o.run_id);
    *out = gr_arena_printf(t->arena, "%s/%s", t->o.output_dir ? t->o.output_dir : GR_RUNS,
                           t->o.run_id);
    return *out ? GR_OK : GR_ERR_NOMEM;
}

/* The run that a restarted job had begun, by the name of the launch that each run notes. */
static gr_status launched_folder(gr_trainer *t, const char **out)
{
    const char *launch = getenv("TORCHELASTIC_RUN_ID");
    DIR *d = launch && *launch ? opendir(GR_RUNS) : NULL;
    gr_status st = GR_OK;

    for (const struct dirent *e = d ? readdir(d) : NULL; e && st == GR_OK; e = readdir(d)) {
        const char *path = gr_arena_printf(t->arena, GR_RUNS "/%s/" GR_LAUNCH_FILE, e->d_name);
        char *text = NULL;
        size_t n;

        if (!path)
            st = GR_ERR_NOMEM;
        else if (access(path, R_OK) == 0 && gr_file_read(path, &text, &n) == GR_OK &&
                 strcmp(text, launch) == 0)
            *out = gr_arena_printf(t->arena, GR_RUNS "/%s", e->d_name);
        gr_free(text);
    }
    if (d)
        closedir(d);
    return st;
}

static gr_status go_on(gr_trainer *t, const char *folder, gr_ckpt_pick pick)
{
    t->folder = folder;
    t->goes_on = true;
    t->source.folder = checkpoints_in(t, folder);
    t->source.pick = pick;
    return t->source.folder ? GR_OK : GR_ERR_NOMEM;
}

/* Unless another run is just about to make one. */
static gr_status no_checkpoint(gr_trainer *t, const char *folder)
{
    t->folder = folder;
    if (access(folder, F_OK) != 0)
        return gr_fail(GR_ERR_IO, "resume: cannot open '%s': %s; begin a run without --resume",
                       folder, strerror(errno));
    GR_TRY(gr_trainer_lock_folder(t));
    return gr_fail(GR_ERR_IO,
                   "resume: '%s' holds no checkpoint; start the run again without --resume",
                   folder);
}

/* --resume last, best or auto: in the run's own folder. */
static gr_status plan_word(gr_trainer *t, const char *own, const char *word)
{
    bool is_auto = strcmp(word, "auto") == 0;
    const char *checkpoints = own ? checkpoints_in(t, own) : "";

    if (!checkpoints)
        return GR_ERR_NOMEM;
    if (!own && !is_auto)
        return gr_fail(GR_ERR_ARG,
                       "--resume %s needs the folder of the run: --output_dir or --run_id, or "
                       "--resume FOLDER",
                       word);
    if (own && gr_ckpt_count(checkpoints) > 0)
        return go_on(t, own, strcmp(word, "best") == 0 ? GR_CKPT_BEST : GR_CKPT_LAST);
    if (own && !is_auto)
        return no_checkpoint(t, own);
    gr_trainer_note(t, "  There is no checkpoint to resume from: the run begins%s",
                    own ? ""
                        : "; name it by --output_dir or --run_id, or the next one begins, too");
    t->folder = own;
    return GR_OK;
}

/* Whether this process stands in "RUN/checkpoints". */
static bool run_around_here(void)
{
    char here[4096];
    const char *slash = getcwd(here, sizeof(here)) ? strrchr(here, '/') : NULL;

    return slash && strcmp(slash + 1, GR_CKPT_FOLDER) == 0 && access("../config.yaml", F_OK) == 0;
}

/* The run that a file of checkpoints belongs to: "RUN/checkpoints/NAME"; NULL: to none. */
gr_status gr_run_of_file(gr_arena *arena, const char *file, const char **out)
{
    char *path = gr_arena_strdup(arena, file);
    const char *config;
    char *slash;

    *out = NULL;
    if (!path)
        return GR_ERR_NOMEM;
    slash = strrchr(path, '/');
    if (!slash) {
        *out = run_around_here() ? ".." : NULL;
        return GR_OK;
    }
    *slash = '\0';
    slash = strrchr(path, '/');
    if (strcmp(slash ? slash + 1 : path, GR_CKPT_FOLDER) != 0)
        return GR_OK;
    if (slash)
        *slash = '\0';
    config = gr_arena_printf(arena, "%s/config.yaml", slash ? path : ".");
    if (!config)
        return GR_ERR_NOMEM;
    if (access(config, F_OK) == 0)
        *out = slash ? path : ".";
    return GR_OK;
}

/* The run whose "RUN/checkpoints" the folder is; NULL: none. */
static gr_status run_of_folder(gr_arena *arena, const char *folder, const char **out)
{
    int n = (int)strlen(folder);
    const char *file;

    while (n > 1 && folder[n - 1] == '/')
        n--;
    file = n == 1 && *folder == '.' ? "x" : gr_arena_printf(arena, "%.*s/x", n, folder);
    return file ? gr_run_of_file(arena, file, out) : GR_ERR_NOMEM;
}

bool gr_run_has_best(const char *folder)
{
    static const char *const names[] = { "best_model.safetensors", "best_model.pt" };
    bool found = false;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        gr_text path = GR_TEXT_INIT;

        gr_text_addf(&path, "%s/%s", folder, names[i]);
        found = found || access(gr_text_str(&path), R_OK) == 0;
        gr_text_fini(&path);
    }
    return found;
}

/* --resume FILE or FOLDER: that run goes on, unless another folder is named for this one. */
static gr_status plan_path(gr_trainer *t, const char *own, const char *path)
{
    const char *run = NULL, *inside = checkpoints_in(t, path);
    struct stat info;

    if (!inside)
        return GR_ERR_NOMEM;
    if (stat(path, &info) != 0)
        return gr_fail(GR_ERR_IO,
                       "resume: cannot open '%s': %s; --resume takes a file, the folder of a run, "
                       "last, best or auto",
                       path, strerror(errno));
    if (!S_ISDIR(info.st_mode)) {
        t->source.file = path;
        GR_TRY(gr_run_of_file(t->arena, path, &run));
    } else if (gr_ckpt_count(inside) > 0) {
        t->source.folder = inside;
        run = path;
    } else if (gr_ckpt_count(path) > 0) {
        t->source.folder = path;
        GR_TRY(run_of_folder(t->arena, path, &run));
    } else {
        return no_checkpoint(t, path);
    }
    t->goes_on = run && (!own || is_same(run, own));
    t->folder = t->goes_on ? run : own;
    return GR_OK;
}

/* Rank 0: t->folder (NULL: to be made up), t->goes_on and t->source. */
gr_status gr_trainer_plan_run(gr_trainer *t)
{
    const char *own, *word = t->o.resume, *checkpoints;
    gr_job job;

    GR_TRY(gr_job_ranks_from_env(&job));
    GR_TRY(named_folder(t, &own));
    if (job.restart > 0 && !own)
        GR_TRY(launched_folder(t, &own));
    checkpoints = own ? checkpoints_in(t, own) : NULL;
    if (job.restart > 0 && checkpoints && gr_ckpt_count(checkpoints) > 0) {
        gr_trainer_note(t, "  Restart %d: the run goes on from its newest checkpoint", job.restart);
        return go_on(t, own, GR_CKPT_LAST);
    }
    t->folder = own;
    if (!word || !*word)
        return GR_OK;
    if (strcmp(word, "auto") == 0 || strcmp(word, "last") == 0 || strcmp(word, "best") == 0)
        return plan_word(t, own, word);
    return plan_path(t, own, word);
}
