/*
 * `gradus test` and `gradus predict`: a checkpoint, a split of the data, and what the model
 * makes of it. Rank 0 alone reads the checkpoint and writes results; ranks take the samples
 * in turn, each once (P36).
 */
#include "train/trainer.h"

#include "base/outfile.h"
#include "train/checkpoint.h"
#include "train/config/settings.h"
#include "train/rate.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- which checkpoint ---- */

/* The folder of the run that the command names; NULL: none. */
static gr_status own_run(const gr_trainer *t, const char **out)
{
    *out = t->o.output_dir;
    if (!t->o.run_id)
        return GR_OK;
    *out = gr_arena_printf(t->arena, "%s/%s", t->o.output_dir ? t->o.output_dir : GR_RUNS,
                           t->o.run_id);
    return *out ? GR_OK : GR_ERR_NOMEM;
}

/* A folder of checkpoints: the run that it lies in, or itself. */
static gr_status run_around(gr_trainer *t, const char *folder, const char **out)
{
    size_t n = strlen(folder);
    const char *inside, *run;

    while (n > 1 && folder[n - 1] == '/')
        n--;
    inside = gr_arena_printf(t->arena, "%.*s/any", (int)n, folder);
    if (!inside)
        return GR_ERR_NOMEM;
    GR_TRY(gr_run_of_file(t->arena, inside, &run));
    *out = run ? run : folder;
    return GR_OK;
}

/* A run: its best model, or the last where no best one was kept; or as the word says. */
static gr_status from_run(gr_trainer *t, const char *run, const char *word)
{
    const char *folder = gr_arena_printf(t->arena, "%s/" GR_CKPT_FOLDER, run);

    if (!folder)
        return GR_ERR_NOMEM;
    t->folder = run;
    if (gr_ckpt_count(folder) == 0 && gr_ckpt_count(run) > 0) {
        folder = run;
        GR_TRY(run_around(t, run, &t->folder));
    }
    t->source.folder = folder;
    t->source.pick = GR_CKPT_LAST;
    if (word ? strcmp(word, "best") == 0 : gr_run_has_best(folder))
        t->source.pick = GR_CKPT_BEST;
    return GR_OK;
}

static gr_status from_path(gr_trainer *t, const char *own, const char *path)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return gr_fail(GR_ERR_IO,
                       "checkpoint: cannot open '%s': %s; --checkpoint takes a file, the folder of "
                       "a run, best or last",
                       path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return from_run(t, path, NULL);
    t->source.file = path;
    t->folder = own;
    if (!own)
        GR_TRY(gr_run_of_file(t->arena, path, &t->folder));
    if (!t->folder)
        t->folder = "."; /* it belongs to no run */
    return GR_OK;
}

gr_status gr_trainer_choose_model(gr_trainer *t, const char *path)
{
    return from_path(t, NULL, path);
}

/* --checkpoint; --resume is understood too, where it was typed. NULL: none. */
static const char *wanted(const gr_trainer *t)
{
    const gr_slot *resume = gr_settings_slot(t->o.settings, "checkpoint.resume");

    if (t->o.checkpoint || !t->o.resume || resume->origin.kind != GR_FROM_FLAG)
        return t->o.checkpoint;
    return *t->o.resume && strcmp(t->o.resume, "auto") != 0 ? t->o.resume : NULL;
}

/* "; the newest run is 'runs/...'", by its latest save; "" where there is none. */
static const char *newest_run(const gr_trainer *t)
{
    DIR *d = opendir(GR_RUNS);
    struct timespec newest = { 0 };
    const char *text = "";

    for (const struct dirent *e; d && (e = readdir(d));) {
        const char *folder = gr_arena_printf(t->arena, GR_RUNS "/%s/" GR_CKPT_FOLDER, e->d_name);
        const char *said =
            gr_arena_printf(t->arena, "; the newest run is '" GR_RUNS "/%s'", e->d_name);
        struct stat info;

        if (e->d_name[0] == '.' || !folder || !said || gr_ckpt_count(folder) == 0 ||
            stat(folder, &info) != 0)
            continue;
        if (info.st_mtim.tv_sec > newest.tv_sec ||
            (info.st_mtim.tv_sec == newest.tv_sec && info.st_mtim.tv_nsec > newest.tv_nsec)) {
            newest = info.st_mtim;
            text = said;
        }
    }
    if (d)
        closedir(d);
    return text;
}

/* Rank 0: t->source, and t->folder for the results. */
static gr_status choose_checkpoint(gr_trainer *t)
{
    const char *word = wanted(t), *own = NULL;
    bool is_pick = word && (strcmp(word, "best") == 0 || strcmp(word, "last") == 0);

    GR_TRY(own_run(t, &own));
    if (word && !is_pick)
        return from_path(t, own, word);
    if (!own)
        return gr_fail(GR_ERR_ARG,
                       "say which model: --checkpoint FILE or RUN, or the run by --output_dir or "
                       "--run_id%s",
                       newest_run(t));
    return from_run(t, own, word);
}

/* ---- opening ---- */

/* Frozen weights that the checkpoint lacks are where the run had them from. */
static void say_frozen(gr_trainer *t)
{
    const char *frozen = gr_snapshot_get(t->resumed, GR_KEY_FROZEN);
    bool has_file = t->o.pretrained && *t->o.pretrained;
    int n = 0;

    for (; frozen && *frozen; frozen++)
        n += *frozen == '\n';
    if (n == 0)
        return;
    gr_trainer_say(t, "%d frozen tensor%s not in the checkpoint: %s%sdrawn with its seed %s", n,
                   n == 1 ? " is" : "s are", has_file ? t->o.pretrained : "",
                   has_file ? ", and what that lacks " : "",
                   gr_snapshot_get(t->resumed, GR_KEY_SEED));
}

gr_status gr_trainer_restore_model(gr_trainer *t)
{
    const char *part = gr_snapshot_get(t->resumed, GR_KEY_PART);

    if (gr_trainer_has_weights_only(t))
        return gr_trainer_take_weights(t);
    if (strcmp(part, "trainable") == 0) {
        GR_TRY(gr_trainer_take_pretrained(t));
        say_frozen(t);
    }
    return gr_trainer_restore_state(t);
}

/* All shapes of a split, after the one that lays out the state. */
static gr_status plan(gr_trainer *t, gr_split split)
{
    GR_TRY(gr_trainer_plan_small(t));
    GR_TRY(gr_trainer_restore_model(t));
    if (t->o.ema_decay > 0)
        GR_TRY(gr_step_use_ema(t->step, true));
    if (gr_trainer_work(t, split).has_batches)
        GR_TRY(gr_trainer_plan_split(t, split));
    return gr_trainer_plan_runs(t);
}

static gr_status open(gr_trainer *t, const gr_command *c, gr_task task)
{
    gr_split split = task == GR_TASK_TEST ? GR_SPLIT_TEST : GR_SPLIT_PREDICT;

    GR_TRY(gr_trainer_begin(t, c, task));
    if (gr_trainer_writes(t))
        GR_TRY(choose_checkpoint(t));
    GR_TRY(gr_trainer_load(t));
    GR_TRY(gr_rate_batch(&t->o, t->n_ranks));
    GR_TRY(gr_trainer_open_data(t));
    GR_TRY(gr_trainer_create_step(t));
    GR_TRY(gr_trainer_open_runner(t));
    return plan(t, split);
}

/* ---- the tasks ---- */

static const char *output_folder(const gr_trainer *t, const char *inside)
{
    if (t->o.output)
        return t->o.output;
    return *inside ? gr_arena_printf(t->arena, "%s/%s", t->folder, inside) : t->folder;
}

static gr_status test(gr_trainer *t)
{
    gr_text table = GR_TEXT_INIT;
    const gr_scores *s = &t->scores;
    const char *folder;
    gr_status st;

    GR_TRY(gr_trainer_evaluate(t, GR_SPLIT_TEST, &t->scores));
    GR_TRY(gr_trainer_sum_up_skips(t));
    if (!gr_trainer_writes(t))
        return GR_OK;
    folder = output_folder(t, "");
    if (!t->o.output)
        GR_TRY(gr_run_check_inside(t->folder));
    gr_scores_table(&t->view, s, &table);
    gr_trainer_say(t, "Test of %s on %" PRId64 " sample%s:\n%s", t->resumed_from, s->n_samples,
                   gr_plural(s->n_samples), gr_text_str(&table));
    gr_text_fini(&table);
    st = gr_scores_write(&t->view, s, folder);
    if (st == GR_OK)
        gr_trainer_say(t, "Results: %s/test_metrics.json, %s/test_metrics.csv", folder, folder);
    return st;
}

/* Masks and the like that lie beside the table, on this host. */
static int count_files(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;

    for (const struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.' && strncmp(e->d_name, "predictions.", 12) != 0;
    if (d)
        closedir(d);
    return n;
}

static gr_status predict_into(gr_trainer *t, const char *folder)
{
    const char *path = gr_arena_printf(t->arena, "%s/predictions.csv", folder);
    bool has_rows = t->view.n_columns > 0;
    int64_t n_samples = 0;
    gr_results *r;
    gr_status st;
    int n_files;

    if (!path)
        return GR_ERR_NOMEM;
    if (!t->o.output && gr_trainer_writes(t))
        GR_TRY(gr_run_check_inside(t->folder));
    GR_TRY(gr_make_folders(folder));
    GR_TRY(gr_results_create(&r, &(gr_results_config){ .folder = folder,
                                                       .columns = t->view.columns,
                                                       .n_columns = t->view.n_columns }));
    st = gr_trainer_predict_split(t, GR_SPLIT_PREDICT, r, &n_samples);
    if (st == GR_OK)
        st = gr_results_write(r, t->pg);
    gr_results_destroy(r);
    GR_TRY(st);
    GR_TRY(gr_pg_barrier(t->pg)); /* the others have written theirs */
    GR_TRY(gr_trainer_sum_up_skips(t));
    n_files = has_rows ? count_files(folder) : 0;
    if (n_files > 0)
        gr_trainer_say(t,
                       "Predictions of %s on %" PRId64 " sample%s: %s, and %d other file%s in that "
                       "folder",
                       t->resumed_from, n_samples, gr_plural(n_samples), path, n_files,
                       gr_plural(n_files));
    else
        gr_trainer_say(t, "Predictions of %s on %" PRId64 " sample%s: %s", t->resumed_from,
                       n_samples, gr_plural(n_samples), has_rows ? path : folder);
    return GR_OK;
}

/* Every rank writes files of its own samples, so every rank needs the folder's name. */
static gr_status predict(gr_trainer *t)
{
    const char *folder = gr_trainer_writes(t) ? output_folder(t, "predict") : "";
    char **names = NULL;

    if (!folder)
        return GR_ERR_NOMEM;
    GR_TRY(gr_pg_gather_bytes(t->pg, folder, strlen(folder), &names, NULL));
    folder = gr_arena_strdup(t->arena, names[0]);
    free(names);
    return folder ? predict_into(t, folder) : GR_ERR_NOMEM;
}

static gr_status run(const gr_command *c, gr_task task)
{
    gr_trainer t;
    gr_status st = open(&t, c, task);

    if (st == GR_OK)
        st = task == GR_TASK_TEST ? test(&t) : predict(&t);
    if (st == GR_OK)
        st = gr_pg_barrier(t.pg); /* no rank leaves while rank 0 may still fail to write */
    return gr_trainer_end(&t, st);
}

gr_status gr_test(const gr_command *c)
{
    return run(c, GR_TASK_TEST);
}

gr_status gr_predict(const gr_command *c)
{
    return run(c, GR_TASK_PREDICT);
}

void gr_test_help(const gr_command *c, gr_text *out)
{
    gr_text_add(out,
                "usage: gradus test RECIPE --checkpoint RUN [OPTION...]\n\n"
                "Metrics of the test samples, as a table and as test_metrics.json and .csv in "
                "the run's\nfolder, or in --output. --checkpoint takes a file, the folder of a "
                "run (its best model,\nelse its last), or best or last of the run that "
                "--output_dir or --run_id names; a file\nof weights alone will do, too. Settings "
                "come from the checkpoint, and RECIPE may be left\nout; these change them:\n\n");
    gr_train_help(c, out);
}

void gr_predict_help(const gr_command *c, gr_text *out)
{
    gr_text_add(out,
                "usage: gradus predict RECIPE --checkpoint RUN [OPTION...]\n\n"
                "predictions.csv, a line for each sample in their order, in the folder predict "
                "of the run, or\nin --output; files of predictions lie beside it. --checkpoint "
                "as for test:\n\n");
    gr_train_help(c, out);
}
