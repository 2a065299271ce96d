/*
 * `gradus check`: everything that a start proves, what the run will be, and one step of it on
 * all ranks; nothing is written. With --device_memory, whether it fits on a device that is
 * not here, and which batch would.
 */
#include "train/trainer.h"

#include "base/clock.h"
#include "graph/vars.h"
#include "op/flops.h"
#include "step/inspect.h"
#include "train/checkpoint.h"
#include "train/layers.h"
#include "train/rate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static bool resumes(const gr_trainer *t)
{
    return t->o.resume && *t->o.resume;
}

/* ---- the run's folder ---- */

/* How much of the path exists: that is where a new folder would be made. */
static const char *existing_part(const gr_trainer *t, const char *path)
{
    char *part = gr_arena_strdup(t->arena, path);
    char *slash;

    while (part && access(part, F_OK) != 0) {
        slash = strrchr(part, '/');
        if (!slash)
            return ".";
        if (slash == part)
            return "/";
        *slash = '\0';
    }
    return part;
}

/* A run that is in the way ends no check: its settings are often tried again. */
static gr_status look_for_run(gr_trainer *t, const char *folder)
{
    const char *checkpoints = gr_arena_printf(t->arena, "%s/%s", folder, GR_CKPT_FOLDER);

    if (!checkpoints)
        return GR_ERR_NOMEM;
    if (!resumes(t) && gr_ckpt_count(checkpoints) > 0)
        gr_trainer_say(t,
                       "Folder: %s holds a run already: train needs --resume %s, or another "
                       "--output_dir or --run_id",
                       folder, folder);
    return GR_OK;
}

static gr_status check_folder(gr_trainer *t)
{
    const char *base = t->o.output_dir ? t->o.output_dir : GR_RUNS;
    const char *folder = t->o.run_id ? gr_arena_printf(t->arena, "%s/%s", base, t->o.run_id) : base;
    const char *part = folder ? existing_part(t, folder) : NULL;
    char need[GR_BYTES_TEXT], have[GR_BYTES_TEXT];
    gr_step_stats stats;
    struct statvfs about;
    struct stat info;
    size_t n_free;

    if (!part)
        return GR_ERR_NOMEM;
    if (stat(part, &info) == 0 && !S_ISDIR(info.st_mode))
        return gr_fail(GR_ERR_IO, "'%s' is no folder, and '%s' would be in it", part, folder);
    if (access(part, W_OK) != 0)
        return gr_fail(GR_ERR_IO, "cannot write to '%s', where '%s' would be: %s", part, folder,
                       strerror(errno));
    if (statvfs(part, &about) != 0)
        return gr_fail(GR_ERR_IO, "cannot look at '%s': %s", part, strerror(errno));
    GR_TRY(gr_step_get_stats(t->step, &stats));
    n_free = (size_t)about.f_bavail * about.f_frsize;
    gr_bytes_text(stats.state_bytes, need);
    gr_bytes_text(n_free, have);
    if (n_free < stats.state_bytes)
        return gr_fail(GR_ERR_IO, "'%s' has %s free, and a checkpoint needs %s", part, have, need);
    gr_trainer_say(t, "Folder: %s can be written; %s free, a checkpoint takes %s", folder, have,
                   need);
    return t->o.output_dir || t->o.run_id ? look_for_run(t, folder) : GR_OK;
}

/* ---- what is in it ---- */

static void add_fields(const gr_recipe_view *view, const char *what, const gr_field *fields, int n,
                       gr_text *out)
{
    gr_text_addf(out, "  %s:", what);
    for (int i = 0; i < n; i++) {
        gr_text_addf(out, "%s %s %s ", i > 0 ? "," : "", fields[i].name,
                     gr_dtype_name(fields[i].dtype));
        gr_fields_shape_text(view, &fields[i], out);
    }
    gr_text_add(out, "\n");
}

/* What batches are padded to, and what that costs. */
static void add_sizes(const gr_trainer *t, gr_text *out)
{
    const gr_sizes *sizes = t->sizes[GR_SPLIT_TRAIN];

    if (!sizes)
        return;
    gr_text_addf(out, "Batches are padded to one of %d sizes:\n", sizes->n_sizes);
    for (int k = 0; k < sizes->n_sizes; k++) {
        gr_text_add(out, "  ");
        gr_fields_size_text(&t->view, gr_feed_size(sizes, k), out);
        gr_text_addf(out, " (%" PRId64 " tokens)\n", sizes->tokens[k]);
    }
}

static gr_status say_model(gr_trainer *t)
{
    const gr_graph *g = gr_step_first_graph(t->step);
    gr_text text = GR_TEXT_INIT;
    gr_status st;

    gr_text_add(&text, "Shapes of a sample:\n");
    add_fields(&t->view, "inputs", t->view.feeds, t->view.n_feeds, &text);
    add_fields(&t->view, "outputs", t->view.outputs, t->view.n_outputs, &text);
    add_sizes(t, &text);
    gr_text_add(&text, "Layers (FLOP: forward, one sample):\n");
    st = gr_layers_text(g, gr_step_vars(t->step), t->largest_n, &text);
    if (st == GR_OK) {
        gr_text_add(&text, "Arithmetic of a step on each rank, forward and backward: ");
        gr_layers_count(gr_graph_flops(g) * (double)t->o.accumulate, &text);
        gr_text_add(&text, "FLOP");
        gr_trainer_say(t, "%s", gr_text_str(&text));
    }
    gr_text_fini(&text);
    return st;
}

/* ---- memory ---- */

/* What the rank that needs most needs: the answer is one for all ranks. */
static gr_status most_needed(gr_trainer *t, size_t total, size_t *most)
{
    int64_t n_bytes = (int64_t)total;

    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ &n_bytes, 1, GR_I64 }, GR_REDUCE_MAX));
    *most = (size_t)n_bytes;
    return GR_OK;
}

static bool fits_there(const gr_trainer *t, size_t total)
{
    return t->o.device_memory == 0 || total <= (size_t)t->o.device_memory;
}

static void say_fit(gr_trainer *t, const gr_named *feeds, size_t total)
{
    char need[GR_BYTES_TEXT], limit[GR_BYTES_TEXT];
    gr_fit_config fit = GR_FIT_CONFIG_INIT;
    bool fits = fits_there(t, total);
    size_t n_bytes;
    int64_t batch;
    gr_status st;

    fit.limit_bytes = (size_t)t->o.device_memory;
    if (fits)
        fit.min_batch = t->largest_n;
    if (fit.max_batch < t->largest_n)
        fit.max_batch = t->largest_n;
    gr_bytes_text(fit.limit_bytes, limit);
    gr_trainer_say(t, "Device memory %s: batch_size %" PRId64 " needs %s and %s", limit,
                   t->largest_n, gr_bytes_text(total, need), fits ? "fits" : "does not fit");
    st = gr_trainer_fit_batch(t, feeds, &fit, &batch, &n_bytes);
    if (st == GR_OK)
        gr_trainer_say(t, "  the largest batch_size that fits is %s%" PRId64 " (%s)",
                       batch == fit.max_batch ? "at least " : "", batch,
                       gr_bytes_text(n_bytes, need));
    else
        gr_trainer_say(t, "  %s: %s",
                       st == GR_ERR_NOMEM ? "no batch fits" : "which batch fits cannot be told",
                       gr_error_message());
}

/* Which batch the numbers are of, where batches differ. */
static void say_largest(gr_trainer *t)
{
    gr_text size = GR_TEXT_INIT;

    gr_trainer_largest_text(t, &size);
    if (t->view.n_axes > 0)
        gr_trainer_say(t, "The largest batch: %" PRId64 " sample%s%s", t->largest_n,
                       gr_plural(t->largest_n), gr_text_str(&size));
    gr_text_fini(&size);
}

static gr_status say_memory(gr_trainer *t, size_t *total)
{
    gr_memory_report r;
    char *text;

    GR_TRY(gr_trainer_largest(t, &r));
    GR_TRY(gr_memory_report_text(&r, &text));
    say_largest(t);
    gr_trainer_say(t, "Memory of a step on each rank:\n%s", text);
    free(text);
    *total = r.total;
    if (t->o.device_memory == 0)
        return GR_OK;
    GR_TRY(most_needed(t, r.total, total));
    say_fit(t, t->shapes, *total);
    return GR_OK;
}

/* ---- trying it ---- */

/* The first batch of every split that there is. */
static gr_status load_samples(gr_trainer *t)
{
    for (int split = GR_SPLIT_VALID; split < GR_N_SPLITS; split++) {
        const gr_loaded *b;

        if (gr_eval_count(t->size[split], t->rank, t->n_ranks) == 0)
            continue;
        GR_TRY(gr_trainer_open_feed(t, (gr_split)split));
        GR_TRY(gr_loader_seek(t->feeds[split].loader, 0, 0));
        GR_TRY(gr_feed_next(&t->feeds[split], &b));
        gr_feed_close(&t->feeds[split]);
    }
    return GR_OK;
}

static gr_status try_step(gr_trainer *t)
{
    int64_t from_ns;

    GR_TRY(gr_trainer_seek(t));
    GR_TRY(gr_trainer_step(t, true)); /* the first one is slower: memory is touched */
    from_ns = gr_now_ns();
    if (t->end > 1)
        GR_TRY(gr_trainer_step(t, true));
    gr_trainer_say(t, "A step on %d rank%s: loss %.6g, %.1f ms", t->n_ranks, gr_plural(t->n_ranks),
                   t->loss, (double)(gr_now_ns() - from_ns) * 1e-6);
    return GR_OK;
}

/* Asked for another device, it need not fit on this one; then it is not tried. One rank
 * that cannot is enough. */
static gr_status fits_here(gr_trainer *t, bool *fits)
{
    gr_status st = gr_trainer_check_free(t);
    int32_t lacks = st != GR_OK;

    *fits = true;
    if (t->o.device_memory == 0)
        return st;
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ &lacks, 1, GR_I32 }, GR_REDUCE_MAX));
    *fits = lacks == 0;
    if (lacks)
        gr_trainer_say(t, "It does not fit here, so it is not tried.");
    return GR_OK;
}

/* Said by every rank, so none waits for another; scripts read the exit code. */
static gr_status refuse_there(gr_trainer *t, size_t total)
{
    char need[GR_BYTES_TEXT], limit[GR_BYTES_TEXT];

    t->told_all = true;
    return gr_fail(GR_ERR_NOMEM, "batch_size %" PRId64 " needs %s, and --device_memory is %s",
                   t->largest_n, gr_bytes_text(total, need),
                   gr_bytes_text((size_t)t->o.device_memory, limit));
}

static gr_status check(gr_trainer *t)
{
    size_t total;
    bool fits, there;

    GR_TRY(gr_trainer_open_data(t));
    GR_TRY(gr_trainer_create_step(t));
    GR_TRY(gr_trainer_open_runner(t));
    GR_TRY(say_memory(t, &total));
    there = fits_there(t, total);
    GR_TRY(fits_here(t, &fits));
    if (fits) {
        GR_TRY(gr_trainer_plan(t));
        GR_TRY(gr_trainer_plan_runs(t));
        if (resumes(t))
            gr_trainer_note(t, "  Not used: checkpoint.resume: check tries a new run, and reads no "
                               "checkpoint");
        GR_TRY(gr_trainer_banner(t));
        GR_TRY(say_model(t));
        if (gr_trainer_writes(t))
            GR_TRY(check_folder(t));
        GR_TRY(gr_trainer_survey(t));
        GR_TRY(load_samples(t));
        GR_TRY(try_step(t));
    }
    GR_TRY(gr_pg_barrier(t->pg));
    if (fits)
        gr_trainer_say(t, "%s",
                       there ? "Everything is ready."
                             : "Everything is ready here, but it does not fit into the "
                               "device memory that was asked for.");
    return there ? GR_OK : refuse_there(t, total);
}

gr_status gr_check(const gr_command *c)
{
    gr_trainer t;
    gr_status st;

    st = gr_trainer_begin(&t, c, GR_TASK_TRAIN);
    if (st == GR_OK)
        st = gr_rate_batch(&t.o, t.n_ranks);
    if (st == GR_OK)
        st = check(&t);
    return gr_trainer_end(&t, st);
}

void gr_check_help(const gr_command *c, gr_text *out)
{
    gr_text_add(out,
                "usage: gradus check RECIPE [OPTION...]\n\n"
                "Tries what `gradus train` would do and writes nothing: settings, data, folder, "
                "memory,\nlayers, one step on all ranks. --device_memory 24GiB asks for a "
                "device that is not here.\nEnds with 0 when train could start, and with 1 or 2 "
                "when it could not or would not fit there.\nThe head of every file is read, and "
                "sizes of pictures "
                "and masks compared; some samples are\nloaded whole. --check_data all loads all "
                "(values of masks, damage inside a file), none\nleaves them alone. Takes the "
                "options of train:\n\n");
    gr_train_help(c, out);
}
