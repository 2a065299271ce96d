/*
 * `gradus list`: recipes with the models they know, and the runs in a folder. Looks only;
 * one process.
 */
#include "train/train.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "base/shown.h"
#include "gradus/ckpt.h"
#include "gradus/settings.h"
#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define RUNS "runs"

/* ---- recipes ---- */

/* "resnet18|resnet34=r34" -> " resnet18 resnet34" */
static void add_choices(gr_text *out, const char *choices)
{
    while (choices && *choices) {
        size_t len = strcspn(choices, "|");

        gr_text_addf(out, " %.*s", (int)strcspn(choices, "|="), choices);
        choices += len + (choices[len] == '|');
    }
}

static void list_recipes(const gr_command *c, gr_text *out)
{
    gr_text_add(out, "Recipes:\n");
    for (int i = 0; c->recipes[i]; i++) {
        const gr_recipe *r = c->recipes[i];

        gr_text_addf(out, "  %-10s %s\n", r->name, r->help);
        for (int k = 0; k < r->n_keys; k++) {
            const gr_key *key = &r->keys[k];

            if (strcmp(key->name, "model.name") != 0)
                continue;
            gr_text_add(out, "             models:");
            if (key->kind == GR_KEY_CHOICE)
                add_choices(out, key->choices);
            else
                gr_text_addf(out, " %s", key->help);
            gr_text_add(out, "\n");
        }
    }
}

/* ---- runs ---- */

typedef struct run_state {
    bool is_run, is_active;
    int n_checkpoints;
    int64_t step;  /* of the last record; -1: none */
    int64_t saved; /* step of the last checkpoint; -1: none that can be read */
} run_state;

/* The step of the last record. Every record begins with it. */
static int64_t last_step(const char *path)
{
    static const char head[] = "{\"step\": ";
    char *text, *line;
    int64_t step = -1;
    size_t n;

    if (access(path, R_OK) != 0 || gr_file_read(path, &text, &n) != GR_OK)
        return -1;
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    if (strncmp(line, head, sizeof(head) - 1) == 0)
        step = strtoll(line + sizeof(head) - 1, NULL, 10);
    gr_free(text);
    return step;
}

/* A run's process holds the lock of its folder. */
static bool is_locked(const char *path)
{
    int fd = gr_open_input(path); /* it may be anything */
    bool held;

    if (fd < 0)
        return false;
    held = flock(fd, LOCK_EX | LOCK_NB) != 0;
    close(fd);
    return held;
}

static gr_status look_at(const char *folder, const char *name, run_state *s)
{
    gr_text path = GR_TEXT_INIT;
    gr_status st;

    *s = (run_state){ .step = -1, .saved = -1 };
    gr_text_addf(&path, "%s/%s", folder, name);
    s->saved = gr_run_newest_step(gr_text_str(&path));
    path.len = 0;
    gr_text_addf(&path, "%s/%s/config.yaml", folder, name);
    s->is_run = access(gr_text_str(&path), R_OK) == 0;
    path.len = 0;
    gr_text_addf(&path, "%s/%s/metrics.jsonl", folder, name);
    s->step = s->is_run ? last_step(gr_text_str(&path)) : -1;
    path.len = 0;
    gr_text_addf(&path, "%s/%s/checkpoints", folder, name);
    s->n_checkpoints = gr_ckpt_count(gr_text_str(&path));
    path.len = 0;
    gr_text_addf(&path, "%s/%s/lock", folder, name);
    s->is_active = s->is_run && is_locked(gr_text_str(&path));
    st = gr_text_status(&path);
    gr_text_fini(&path);
    return st;
}

/* What a resume would go on from, and what was seen after it. */
static void add_step(gr_text *out, const run_state *s)
{
    if (s->saved >= 0 && s->step > s->saved)
        gr_text_addf(out, "step %" PRId64 " (logged up to %" PRId64 "), ", s->saved, s->step);
    else if (s->saved >= 0)
        gr_text_addf(out, "step %" PRId64 ", ", s->saved);
    else if (s->step >= 0)
        gr_text_addf(out, "logged up to step %" PRId64 ", ", s->step);
}

/* is_named: the folder was, and so it must be there. */
static gr_status list_runs(const char *folder, bool is_named, gr_text *out)
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, NULL, alphasort), n_runs = 0;
    gr_status st = GR_OK;

    if (n < 0 && !is_named) {
        gr_text_addf(out, "no runs in '%s'\n", folder);
        return GR_OK;
    }
    if (n < 0)
        return gr_fail(GR_ERR_IO, "list: cannot read folder '%s': %s", folder, strerror(errno));
    gr_text_addf(out, "Runs in %s:\n", folder);
    for (int i = 0; i < n; i++) {
        run_state s = { 0 };

        if (st == GR_OK && names[i]->d_name[0] != '.')
            st = look_at(folder, names[i]->d_name, &s);
        if (s.is_run) {
            size_t from = out->len;

            gr_text_addf(out, "  %-32s ", names[i]->d_name);
            gr_text_make_shown(out, from, GR_SHOWN_LINE);
            add_step(out, &s);
            gr_text_addf(out, "%d checkpoint%s%s\n", s.n_checkpoints, gr_plural(s.n_checkpoints),
                         s.is_active ? ", running" : "");
        }
        n_runs += s.is_run;
        free(names[i]);
    }
    free(names);
    if (n_runs == 0)
        gr_text_add(out, "  none\n");
    return st;
}

gr_status gr_list_command(const gr_command *c, gr_text *out)
{
    const char *what = c->argc > 0 ? c->argv[0] : "all";
    const char *folder = c->argc > 1 ? c->argv[1] : RUNS;
    bool all = strcmp(what, "all") == 0;

    if (c->argc > 2 || (c->argc > 1 && strcmp(what, "runs") != 0))
        return gr_fail(GR_ERR_ARG, "list: unexpected word '%s'", c->argv[c->argc - 1]);
    if (!all && strcmp(what, "recipes") != 0 && strcmp(what, "runs") != 0)
        return gr_fail(GR_ERR_ARG, "list: say 'recipes' or 'runs [FOLDER]', not '%s'", what);
    if (all || strcmp(what, "recipes") == 0)
        list_recipes(c, out);
    if (all || strcmp(what, "runs") == 0)
        GR_TRY(list_runs(folder, c->argc > 1, out));
    return gr_text_status(out);
}

void gr_list_help(gr_text *out)
{
    gr_text_add(out, "usage: gradus list [recipes | runs [FOLDER]]\n\n"
                     "Recipes with the models they know, and the runs in a folder (" RUNS
                     "): step of the last\ncheckpoint, what was logged after it, checkpoints, and "
                     "whether a process is at work in it.\n");
}
