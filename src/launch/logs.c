/* Folders and files of a job's output. */
#include "launch/logs.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/outfile.h"
#include "launch/litter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct gr_logs {
    gr_text folder;    /* of this run; empty: no files */
    gr_text temporary; /* to remove at the end; empty: nothing is removed */
    int lock;          /* of the temporary folder; -1: none */
    int n_local;
    int attempt;
};

/* Whether any rank's output goes into files. */
static bool has_output(const gr_launch_config *c)
{
    if (c->out_filters || c->err_filters)
        return true;
    for (int r = 0; r < c->n_local; r++)
        if (gr_std_mode(c->redirects, r) > 0 || gr_std_mode(c->tee, r) > 0)
            return true;
    return false;
}

/* A new folder below `place`; its name is in `temporary`, which is empty after a failure. */
static gr_status make_below(gr_logs *l, const char *place)
{
    gr_status st = GR_OK;

    gr_text_addf(&l->temporary, "%s/gradrun_XXXXXX", place);
    GR_TRY(gr_text_status(&l->temporary));
    if (!mkdtemp(l->temporary.str)) {
        st = gr_fail(GR_ERR_IO, "cannot make a folder '%s': %s; set TMPDIR or --log-dir",
                     l->temporary.str, strerror(errno));
        gr_text_fini(&l->temporary);
        l->temporary = (gr_text)GR_TEXT_INIT;
    }
    return st;
}

/* A TMPDIR of another host (sbatch hands on the environment) is no reason not to start: nobody
 * asked for these files. */
static gr_status make_temporary(gr_logs *l, const gr_launch_config *c)
{
    const char *tmp = getenv("TMPDIR");
    bool has_place = tmp && *tmp && strcmp(tmp, "/tmp") != 0;
    gr_status st = make_below(l, has_place ? tmp : "/tmp");

    if (st == GR_ERR_IO && has_place) {
        gr_log(LAUNCH, WARN, "%s; /tmp is taken", gr_error_message());
        st = make_below(l, "/tmp");
    }
    GR_TRY(st);
    gr_text_addf(&l->folder, "%s/%s_run", l->temporary.str, c->run_id);
    gr_litter_sweep(has_place ? tmp : "/tmp");
    if (has_output(c)) { /* who sends output into files wants to read them afterwards */
        gr_text_fini(&l->temporary);
        l->temporary = (gr_text)GR_TEXT_INIT;
    } else {
        l->lock = gr_litter_mark(l->temporary.str);
    }
    return GR_OK;
}

static gr_status make_run(gr_logs *l, const gr_launch_config *c)
{
    char *whole;

    GR_TRY(gr_make_folders(c->log_dir));
    /* Ranks may change their folder before they write to the error file. */
    whole = realpath(c->log_dir, NULL);
    gr_text_addf(&l->folder, "%s/%s_XXXXXX", whole ? whole : c->log_dir, c->run_id);
    free(whole); /* from realpath(), not from gr_malloc() */
    GR_TRY(gr_text_status(&l->folder));
    if (!mkdtemp(l->folder.str))
        return gr_fail(GR_ERR_IO, "cannot make a folder '%s': %s", l->folder.str, strerror(errno));
    /* mkdtemp() is for secrets; logs are like other files. */
    (void)chmod(l->folder.str, 0755);
    return GR_OK;
}

gr_status gr_logs_create(gr_logs **out, const gr_launch_config *c)
{
    gr_logs *l = (gr_logs *)gr_calloc(1, sizeof(*l));
    bool has_place = c->log_dir && *c->log_dir;
    gr_status st = GR_OK;

    if (!l)
        return GR_ERR_NOMEM;
    l->n_local = c->n_local;
    l->lock = -1;
    if (!has_place)
        st = make_temporary(l, c);
    else if (strcmp(c->log_dir, "/dev/null") != 0)
        st = make_run(l, c);
    if (st == GR_OK && l->folder.len > 0 && has_output(c))
        gr_log(LAUNCH, INFO, "output of the ranks: %s%s", gr_text_str(&l->folder),
               has_place ? "" : " (it stays there; --log-dir names another place)");
    if (st != GR_OK) {
        gr_logs_destroy(l);
        return gr_wrap(st, "logs");
    }
    *out = l;
    return GR_OK;
}

gr_status gr_logs_begin(gr_logs *l, int attempt)
{
    gr_text path = GR_TEXT_INIT;
    gr_status st = GR_OK;

    l->attempt = attempt;
    for (int r = 0; r < l->n_local && l->folder.len > 0 && st == GR_OK; r++) {
        path.len = 0;
        gr_logs_path(l, r, "", &path);
        st = gr_text_status(&path);
        if (st == GR_OK && (r == 0 || mkdir(path.str, 0777) != 0))
            st = gr_make_folders(path.str);
    }
    gr_text_fini(&path);
    return st;
}

void gr_logs_path(const gr_logs *l, int local_rank, const char *name, gr_text *out)
{
    if (l->folder.len == 0)
        return;
    gr_text_addf(out, "%s/attempt_%d", gr_text_str(&l->folder), l->attempt);
    if (local_rank >= 0)
        gr_text_addf(out, "/%d", local_rank);
    if (*name)
        gr_text_addf(out, "/%s", name);
}

gr_status gr_logs_open(const gr_logs *l, int local_rank, const char *name, int *fd)
{
    gr_text path = GR_TEXT_INIT;
    gr_status st;

    gr_logs_path(l, local_rank, name, &path);
    if (path.len == 0)
        gr_text_add(&path, "/dev/null");
    st = gr_text_status(&path);
    if (st == GR_OK) {
        *fd = open(path.str, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (*fd < 0)
            st = gr_fail(GR_ERR_IO, "cannot open '%s': %s", path.str, strerror(errno));
    }
    gr_text_fini(&path);
    return st;
}

void gr_logs_destroy(gr_logs *l)
{
    if (!l)
        return;
    if (l->temporary.len > 0)
        gr_litter_remove(l->temporary.str);
    if (l->lock >= 0)
        close(l->lock); /* last: until then nobody else removes it */
    gr_text_fini(&l->folder);
    gr_text_fini(&l->temporary);
    gr_free(l);
}
