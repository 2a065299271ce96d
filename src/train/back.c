/*
 * Going back: a run that goes on in its own folder from below its newest step. Numbered
 * checkpoints of higher steps stay (ckpt/writer.c), but the next best model would take the place
 * of one that was better, since the judge forgets what came after the checkpoint. So that one
 * gets a name of its own first, and what happens to the records is said.
 *
 * The name is a second link: best_model stays until there is a new one. Rank 0 only, under the
 * folder's lock.
 */
#include "train/checkpoint.h"

#include "base/nan.h"
#include "base/outfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SAME 1000 /* best models of one step that are kept, each of another way from there */

static const char *const suffixes[] = { ".safetensors", ".pt" };

#define N_SUFFIXES (sizeof(suffixes) / sizeof(suffixes[0]))

/* Steps of the run that the file holds; -1 when it is not there or cannot be read, which is for
 * others to tell. */
static int64_t step_of(const char *path, gr_snapshot **texts)
{
    const char *step;

    *texts = NULL;
    if (access(path, F_OK) != 0 || gr_ckpt_peek(path, texts) != GR_OK)
        return -1;
    step = gr_snapshot_get(*texts, GR_KEY_AT);
    return step ? strtoll(step, NULL, 10) : -1;
}

int64_t gr_run_newest_step(const char *run)
{
    int64_t newest = -1;

    for (size_t i = 0; i < N_SUFFIXES; i++) {
        gr_text path = GR_TEXT_INIT;
        gr_snapshot *texts = NULL;
        int64_t step = -1;

        gr_text_addf(&path, "%s/" GR_CKPT_FOLDER "/last%s", run, suffixes[i]);
        if (gr_text_status(&path) == GR_OK)
            step = step_of(gr_text_str(&path), &texts);
        gr_snapshot_destroy(texts);
        gr_text_fini(&path);
        newest = step > newest ? step : newest;
    }
    return newest;
}

/* " (accuracy 81.20%)", as the judge of that step knew it; else nothing. */
static const char *value_text(const gr_trainer *t, const gr_snapshot *texts, int64_t step)
{
    const char *memory = gr_snapshot_get(texts, GR_KEY_JUDGE), *text;
    gr_judge j = t->judge;
    bool is_share = j.metric >= 0 && t->view.metrics[j.metric].is_share;

    if (!memory || gr_judge_parse(&j, memory) != GR_OK || !j.has_best || j.best_step != step)
        return "";
    text = is_share ? gr_arena_printf(t->arena, " (%s %.2f%%)", j.name, gr_plain_nan(100 * j.best))
                    : gr_arena_printf(t->arena, " (%s %.4g)", j.name, gr_plain_nan(j.best));
    return text ? text : "";
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Where the file system knows no links it moves: then there is no best_model for a while. */
static gr_status link_or_move(const char *from, const char *to)
{
    if (link(from, to) == 0 || (errno != EEXIST && rename(from, to) == 0))
        return GR_OK;
    return gr_fail(GR_ERR_IO, "cannot keep '%s' as '%s': %s", from, to, strerror(errno));
}

/* *name: what it is called now, without folder and suffix; NULL: it had its name already. */
static gr_status keep_as(const gr_trainer *t, const char *folder, const char *suffix, int64_t step,
                         const char **name)
{
    const char *from = gr_arena_printf(t->arena, "%s/best_model%s", folder, suffix);

    for (int i = 1; from && i < MAX_SAME; i++) {
        char more[16] = "";
        const char *to;

        if (i > 1)
            snprintf(more, sizeof(more), "_%d", i);
        *name = gr_arena_printf(t->arena, "best_model_step_%" PRId64 "%s", step, more);
        to = *name ? gr_arena_printf(t->arena, "%s/%s%s", folder, *name, suffix) : NULL;
        if (!to)
            return GR_ERR_NOMEM;
        if (access(to, F_OK) != 0)
            return link_or_move(from, to);
        if (is_same_file(from, to)) {
            *name = NULL;
            return GR_OK;
        }
    }
    return from ? gr_fail(GR_ERR_IO, "'%s' and %d more are taken", *name, MAX_SAME - 2)
                : GR_ERR_NOMEM;
}

/* Of each format that is there; formats of one save are one line. */
static gr_status keep_best(gr_trainer *t, gr_text *said)
{
    const char *folder = gr_arena_printf(t->arena, "%s/" GR_CKPT_FOLDER, t->folder);
    const char *before = NULL;

    for (size_t i = 0; i < N_SUFFIXES && folder; i++) {
        const char *path = gr_arena_printf(t->arena, "%s/best_model%s", folder, suffixes[i]);
        const char *name = NULL;
        gr_snapshot *texts = NULL;
        int64_t step = path ? step_of(path, &texts) : -1;
        gr_status st = GR_OK;

        if (step > t->at)
            st = keep_as(t, folder, suffixes[i], step, &name);
        if (st == GR_OK && name && (!before || strcmp(before, name) != 0)) {
            gr_text_addf(said, "%sbest_model of step %" PRId64 "%s is kept as %s",
                         said->len ? ", " : "", step, value_text(t, texts, step), name);
            before = name;
        }
        gr_snapshot_destroy(texts);
        GR_TRY(st);
    }
    GR_TRY(folder ? gr_text_status(said) : GR_ERR_NOMEM);
    return before ? gr_sync_folder(folder) : GR_OK;
}

gr_status gr_trainer_go_back(gr_trainer *t)
{
    gr_text said = GR_TEXT_INIT;
    int64_t newest;
    gr_status st;

    if (!t->goes_on)
        return GR_OK;
    newest = gr_run_newest_step(t->folder);
    if (newest > t->at)
        gr_text_addf(&said, "records after step %" PRId64 " are dropped", t->at);
    st = keep_best(t, &said);
    if (st == GR_OK && said.len > 0 && newest > t->at)
        gr_trainer_note(t, "  The run was at step %" PRId64 ": %s", newest, gr_text_str(&said));
    else if (st == GR_OK && said.len > 0)
        gr_trainer_note(t, "  The run had gone further before: %s", gr_text_str(&said));
    gr_text_fini(&said);
    return gr_wrap(st, "the best model");
}
