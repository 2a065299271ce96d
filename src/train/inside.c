/*
 * A run writes in its own folder only. The folder may have come from somebody else, with links
 * among its files that lead to files of the user's, or pipes that would keep the run waiting. So
 * before anything in it is opened, every name that a run uses is looked at: it is a file or a
 * folder, or a link to one that lies inside of the run. The folder itself may be reached by links
 * as people like.
 */
#include "train/own.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const files[] = { "lock", GR_HOME_FILE,        GR_LAUNCH_FILE, "config.yaml",
                                     "STOP", "model_summary.txt", "metrics.csv",  "metrics.jsonl" };
static const char *const folders[] = { GR_CKPT_FOLDER, "logs",  "plots",
                                       "predict",      "wandb", "tensorboard" };

#define N(a) (sizeof(a) / sizeof((a)[0]))

static bool lies_in(const char *path, const char *top)
{
    size_t n = strlen(top);

    return strncmp(path, top, n) == 0 && (path[n] == '/' || path[n] == '\0' || top[n - 1] == '/');
}

/* top: the run's folder without links. */
static gr_status check_link(const char *path, const char *top)
{
    char target[PATH_MAX];

    if (!realpath(path, target))
        return gr_fail(GR_ERR_IO, "'%s' is a link that leads nowhere: %s; remove it", path,
                       strerror(errno));
    if (lies_in(target, top))
        return GR_OK;
    return gr_fail(GR_ERR_IO,
                   "'%s' is a link to '%s', and a run writes in its own folder only; remove it, or "
                   "make a link of the whole folder",
                   path, target);
}

static gr_status check_name(const char *path, const char *top)
{
    struct stat info;

    if (lstat(path, &info) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? GR_OK
                   : gr_fail(GR_ERR_IO, "cannot look at '%s': %s", path, strerror(errno));
    if (S_ISLNK(info.st_mode)) {
        GR_TRY(check_link(path, top));
        if (stat(path, &info) != 0)
            return gr_fail(GR_ERR_IO, "cannot look at '%s': %s", path, strerror(errno));
    }
    if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))
        return GR_OK;
    return gr_fail(GR_ERR_IO, "'%s' is neither a file nor a folder; remove it", path);
}

static gr_status check_entry(const char *folder, const char *name, const char *top)
{
    gr_text path = GR_TEXT_INIT;
    gr_status st;

    gr_text_addf(&path, "%s/%s", folder, name);
    st = gr_text_status(&path);
    if (st == GR_OK)
        st = check_name(path.str, top);
    gr_text_fini(&path);
    return st;
}

/* What is in it, but not below: links of the run's own programs (wandb/latest-run) lie there. */
static gr_status check_folder(const char *run, const char *name, const char *top)
{
    gr_text path = GR_TEXT_INIT;
    gr_status st;
    DIR *d = NULL;

    gr_text_addf(&path, "%s/%s", run, name);
    st = gr_text_status(&path);
    if (st == GR_OK)
        st = check_name(path.str, top);
    if (st == GR_OK)
        d = opendir(path.str); /* one that cannot be opened will be said to be so by who needs it */
    for (const struct dirent *e; d && st == GR_OK && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            st = check_entry(path.str, e->d_name, top);
    if (d)
        closedir(d);
    gr_text_fini(&path);
    return st;
}

gr_status gr_run_check_inside(const char *run)
{
    char top[PATH_MAX];

    if (!realpath(run, top))
        return GR_OK; /* not there; or who opens it will say what is wrong */
    for (size_t i = 0; i < N(files); i++)
        GR_TRY(check_entry(run, files[i], top));
    for (size_t i = 0; i < N(folders); i++)
        GR_TRY(check_folder(run, folders[i], top));
    return GR_OK;
}
