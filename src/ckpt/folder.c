/*
 * A folder of checkpoints: "step-00000120.safetensors", and "last", a text file with the
 * name of the newest for people and scripts; nothing here reads it.
 *
 * (1) The number in the name is the order. Only names that gr_ckpt_save() itself would
 *     give count; every other file is left alone and never looked into.
 * (2) Old ones are removed only after the new one is on disk under its name, and that
 *     one is never removed: whenever a run dies, at least one whole checkpoint is there.
 * (3) Files with a higher number than the one just saved are neither counted nor removed.
 *     They belong to a run that went further, and somebody went back on purpose or
 *     because they are damaged.
 * (4) A save has succeeded when the checkpoint is on disk. What fails after that ("last",
 *     removing) is a warning: training must not die of it.
 *
 * One process writes to a folder, one thread at a time.
 */
#include "gradus/ckpt.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/outfile.h"
#include "base/status.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_FORMAT "step-%08lld.safetensors"
#define NAME_BYTES  48
#define TMP_SUFFIX  ".tmp"

typedef struct listing {
    int64_t *steps; /* owned; highest first */
    int n, cap;
    int64_t *left; /* owned; steps of files that a killed writer left half written */
    int n_left, cap_left;
} listing;

static void listing_fini(listing *l)
{
    gr_free(l->steps);
    gr_free(l->left);
    *l = (listing){ 0 };
}

static gr_status add_step(int64_t **steps, int *n, int *cap, int64_t step)
{
    void *items = *steps;
    gr_status st = gr_grow(&items, cap, *n + 1, sizeof(**steps));

    *steps = (int64_t *)items;
    if (st == GR_OK)
        (*steps)[(*n)++] = step;
    return st;
}

/* The step in a name and what follows the name; -1 when it is not one of ours. */
static int64_t step_of(const char *name, const char **rest)
{
    char own[NAME_BYTES];
    char *end;
    long long step;

    if (strncmp(name, "step-", 5) != 0)
        return -1;
    errno = 0;
    step = strtoll(name + 5, &end, 10);
    if (errno != 0 || step < 0)
        return -1;
    /* Made again and compared: one step has one name, so no file is counted twice. */
    snprintf(own, sizeof(own), NAME_FORMAT, step);
    if (strncmp(name, own, strlen(own)) != 0)
        return -1;
    *rest = name + strlen(own);
    return step;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x > y ? -1 : x < y;
}

static gr_status list_open(listing *l, DIR *dir)
{
    for (;;) {
        const char *rest = "";
        struct dirent *e;
        int64_t step;

        errno = 0;
        e = readdir(dir);
        if (!e)
            return errno == 0 ? GR_OK : gr_fail(GR_ERR_IO, "cannot list it: %s", strerror(errno));
        step = step_of(e->d_name, &rest);
        if (step >= 0 && rest[0] == '\0')
            GR_TRY(add_step(&l->steps, &l->n, &l->cap, step));
        else if (step >= 0 && strcmp(rest, TMP_SUFFIX) == 0)
            GR_TRY(add_step(&l->left, &l->n_left, &l->cap_left, step));
    }
}

static gr_status list_folder(listing *l, const char *folder)
{
    DIR *dir = opendir(folder);
    gr_status st;

    if (!dir)
        return gr_fail(GR_ERR_IO, "cannot open it: %s", strerror(errno));
    st = list_open(l, dir);
    closedir(dir);
    if (st == GR_OK && l->n > 0)
        qsort(l->steps, (size_t)l->n, sizeof(l->steps[0]), newest_first);
    return st;
}

/* "folder/name" + suffix into an emptied `t`. */
static gr_status make_path(gr_text *t, const char *folder, int64_t step, const char *suffix)
{
    t->len = 0;
    gr_text_addf(t, "%s/" NAME_FORMAT "%s", folder, (long long)step, suffix);
    return gr_text_status(t);
}

static gr_status write_last(const char *folder, int64_t step)
{
    gr_text path = GR_TEXT_INIT;
    gr_outfile *f = NULL;
    char line[NAME_BYTES];
    gr_status st;

    gr_text_addf(&path, "%s/last", folder);
    snprintf(line, sizeof(line), NAME_FORMAT "\n", (long long)step);
    GR_TRY_GOTO(st, gr_text_status(&path), done);
    GR_TRY_GOTO(st, gr_outfile_open(&f, path.str), done);
    gr_outfile_write(f, line, strlen(line));
    st = gr_outfile_commit(f);

done:
    gr_text_fini(&path);
    return st;
}

static gr_status remove_file(const char *folder, int64_t step, const char *suffix)
{
    gr_text path = GR_TEXT_INIT;
    gr_status st = make_path(&path, folder, step, suffix);

    if (st == GR_OK && unlink(path.str) != 0 && errno != ENOENT)
        st = gr_fail(GR_ERR_IO, "cannot remove '%s': %s", path.str, strerror(errno));
    gr_text_fini(&path);
    return st;
}

/* Keeps `step` and the keep - 1 before it; goes on after a failure, returns the first. */
static gr_status remove_old(const char *folder, int64_t step, int keep)
{
    listing l = { 0 };
    gr_status st = list_folder(&l, folder);
    int n_kept = 0;

    for (int i = 0; i < l.n && keep > 0; i++) {
        gr_status one;

        if (l.steps[i] > step || n_kept++ < keep) /* invariants (2) and (3) */
            continue;
        one = remove_file(folder, l.steps[i], "");
        st = st == GR_OK ? one : st;
    }
    for (int i = 0; i < l.n_left; i++)
        if (l.left[i] < step) {
            gr_status one = remove_file(folder, l.left[i], TMP_SUFFIX);

            st = st == GR_OK ? one : st;
        }
    listing_fini(&l);
    return st;
}

gr_status gr_ckpt_save(const char *folder, int64_t step, const gr_snapshot *snap, int keep)
{
    gr_text path = GR_TEXT_INIT;
    gr_status st;

    if (step < 0 || keep < 0)
        return gr_fail(GR_ERR_ARG, "checkpoint of step %lld, keep %d: neither can be negative",
                       (long long)step, keep);
    GR_TRY_GOTO(st, make_path(&path, folder, step, ""), done);
    GR_TRY_GOTO(st, gr_make_folders(folder), done);
    GR_TRY_GOTO(st, gr_ckpt_write(path.str, snap), done);
    /* Invariant (4). */
    if (write_last(folder, step) != GR_OK)
        gr_log(CKPT, WARN, "'%s/last' is out of date: %s", folder, gr_error_message());
    if (remove_old(folder, step, keep) != GR_OK)
        gr_log(CKPT, WARN, "old checkpoints stay: folder '%s': %s", folder, gr_error_message());

done:
    gr_text_fini(&path);
    return st;
}

/* Reads the newest that is whole; notes the damaged ones before it. */
static gr_status load_newest(const char *folder, const listing *l, gr_snapshot **out, int64_t *step,
                             gr_text *note)
{
    gr_text path = GR_TEXT_INIT;
    gr_status st = GR_ERR_IO;
    int i = 0;

    for (; i < l->n; i++) {
        st = make_path(&path, folder, l->steps[i], "");
        if (st == GR_OK)
            st = gr_ckpt_read(path.str, out);
        /* Only what lies in the file: short of memory, an older one would not help. */
        if (st != GR_ERR_FORMAT && st != GR_ERR_IO)
            break;
        gr_text_addf(note, "%s%s", i ? "; " : "", gr_error_message());
    }
    if (st == GR_OK) {
        *step = l->steps[i];
        if (i > 0)
            gr_text_addf(note, "; '%s' is used instead", path.str);
    } else if (i == l->n && l->n > 0) {
        GR_TRY_GOTO(st, gr_text_status(note), done);
        st = gr_fail(GR_ERR_IO, "none of %d checkpoints can be read: %s", l->n, gr_text_str(note));
    } else if (l->n == 0) {
        st = gr_fail(GR_ERR_IO, "it holds no checkpoint");
    }

done:
    gr_text_fini(&path);
    return st;
}

gr_status gr_ckpt_load(const char *folder, gr_snapshot **out, int64_t *step, char **note)
{
    gr_text text = GR_TEXT_INIT;
    listing l = { 0 };
    gr_status st;

    *out = NULL;
    *note = NULL;
    GR_TRY_GOTO(st, list_folder(&l, folder), done);
    GR_TRY_GOTO(st, load_newest(folder, &l, out, step, &text), done);
    GR_TRY_GOTO(st, gr_text_status(&text), done);
    *note = text.str; /* handed over; NULL when nothing was noted */
    text = (gr_text)GR_TEXT_INIT;

done:
    if (st != GR_OK) {
        gr_snapshot_destroy(*out);
        *out = NULL;
    }
    gr_text_fini(&text);
    listing_fini(&l);
    return gr_wrap(st, "checkpoint folder '%s'", folder);
}
