/*
 * From the words of a command to a trainer that is ready for its first step. The order
 * matters: ranks are compared before anything that they do together depends on settings,
 * and everything that can be refused is refused before step 1.
 */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/outfile.h"
#include "base/streams.h"
#include "comm/pg.h"
#include "net/env.h"
#include "train/checkpoint.h"
#include "train/config/process.h"
#include "train/config/request.h"
#include "train/config/settings.h"
#include "train/rate.h"
#include "train/stop.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- recipe and settings ---- */

static gr_status pick_recipe(gr_trainer *t)
{
    gr_request r;
    gr_status st;

    GR_TRY_GOTO(st, gr_request_read(&r, t->command), done);
    GR_TRY_GOTO(st, gr_request_recipe(&r, t->command, &t->recipe), done);
    if (!r.word && !r.o.checkpoint && !r.o.resume)
        gr_trainer_note(t, "  Recipe: %s, the only one that knows these settings", t->recipe->name);
    t->argc = r.argc;
    t->argv = gr_arena_array(t->arena, (size_t)r.argc + 1, sizeof(*t->argv));
    if (!t->argv)
        st = GR_ERR_NOMEM;
    else
        memcpy(t->argv, r.argv, (size_t)r.argc * sizeof(*t->argv));

done:
    gr_request_fini(&r);
    return st;
}

/* As the group says it where it reads the variables itself. */
static void tell_timeout(const gr_trainer *t)
{
    const gr_origin *from = &gr_settings_slot(t->o.settings, "ddp.timeout")->origin;

    if (from->kind == GR_FROM_ENV && strcmp(from->name, "GR_TIMEOUT") != 0)
        gr_log(COMM, INFO, "%s is taken as the timeout, %.6g s; GR_TIMEOUT is its own name",
               from->name, t->o.timeout_s);
}

static gr_status join_group(gr_trainer *t)
{
    gr_pg_config config = GR_PG_CONFIG_INIT;
    gr_job job;

    GR_TRY(gr_job_ranks_from_env(&job));
    GR_TRY(gr_log_setup(job.rank));
    if (t->o.log_level != GR_LOG_LEVEL_AUTO)
        gr_log_set_level((gr_log_level)(t->o.log_level - 1));
    tell_timeout(t);
    config.timeout_ms = (int)(t->o.timeout_s * 1000); /* at most 1e9: see the table */
    config.transport = t->o.comm;
    GR_TRY(gr_pg_create(&t->pg, &config));
    t->rank = gr_pg_rank(t->pg);
    t->n_ranks = gr_pg_size(t->pg);
    return GR_OK;
}

/* The first thing done together, so that a difference is named before it can do harm. */
static gr_status compare_settings(gr_trainer *t)
{
    gr_text text = GR_TEXT_INIT;
    gr_status st;

    gr_train_options_record(&t->o, GR_RECORD_COMPARE, &text);
    st = gr_text_status(&text);
    if (st == GR_OK && t->n_ranks > 1) {
        st = gr_pg_compare(t->pg, gr_text_str(&text));
        t->told_all = st == GR_ERR_ARG;
    }
    gr_text_fini(&text);
    return st;
}

/* ---- the run's files ---- */

static gr_status write_config(const gr_trainer *t, const char *path)
{
    gr_text text = GR_TEXT_INIT;
    gr_outfile *f;
    gr_status st;

    gr_text_addf(&text, "# gradus %s, %d rank%s\n", GR_VERSION, t->n_ranks, gr_plural(t->n_ranks));
    gr_train_options_record(&t->o, GR_RECORD_YAML, &text);
    st = gr_text_status(&text);
    if (st == GR_OK)
        st = gr_outfile_open(&f, path);
    if (st == GR_OK) {
        gr_outfile_write(f, text.str, text.len);
        st = gr_outfile_commit(f);
    }
    gr_text_fini(&text);
    return st;
}

static gr_status open_files(gr_trainer *t)
{
    const char *config = gr_arena_printf(t->arena, "%s/config.yaml", t->folder);
    const char *stop = gr_arena_printf(t->arena, "%s/STOP", t->folder);

    if (!gr_trainer_writes(t))
        return gr_trainer_open_writer(t);
    if (!config || !stop)
        return GR_ERR_NOMEM;
    if (unlink(stop) == 0)
        gr_trainer_note(t, "  '%s' was there from before and is removed.", stop);
    t->stop_path = stop;
    gr_trainer_remove_asides(t);
    GR_TRY(gr_trainer_check_room(t));
    GR_TRY(gr_trainer_go_back(t)); /* before records go */
    GR_TRY(write_config(t, config));
    t->is_trial = false;
    GR_TRY(gr_trainer_write_summary(t));
    GR_TRY(gr_trainer_open_track(t));
    gr_trainer_show_texts(t);
    return gr_trainer_open_writer(t);
}

static void open_progress(gr_trainer *t)
{
    FILE *out = t->command->out;
    bool live = t->o.progress == GR_PROGRESS_LIVE ||
                (t->o.progress == GR_PROGRESS_AUTO && gr_terminal_redraws(fileno(out)));

    gr_progress_init(&t->progress, out, live);
}

gr_status gr_trainer_begin(gr_trainer *t, const gr_command *c, gr_task task)
{
    *t = (gr_trainer){ .command = c,
                       .task = task,
                       .saved_at = -1,
                       .lock = -1,
                       .loss = (double)NAN,
                       .mean = GR_EPOCH_MEAN_INIT,
                       .notes = GR_TEXT_INIT };
    GR_TRY(gr_arena_create(&t->arena));
    GR_TRY(pick_recipe(t));
    GR_TRY(gr_train_options_init(&t->o, t->recipe));
    t->o.settings->recipes = c->recipes;
    t->o.settings->task = (int)task;
    GR_TRY(gr_train_options_parse(&t->o, t->argc, t->argv));
    GR_TRY(gr_train_options_process(&t->o));
    GR_TRY(join_group(t));
    GR_TRY(gr_train_options_of_ranks(&t->o, t->n_ranks));
    open_progress(t);
    if (gr_trainer_writes(t))
        gr_train_options_say_ignored(&t->o, true);
    return compare_settings(t);
}

/* Everything but the files of the run. */
static gr_status open_run(gr_trainer *t)
{
    GR_TRY(gr_trainer_load(t));
    GR_TRY(gr_rate_batch(&t->o, t->n_ranks));
    GR_TRY(gr_trainer_open_data(t));
    GR_TRY(gr_trainer_open_step(t));
    GR_TRY(gr_trainer_take_pretrained(t));
    GR_TRY(gr_trainer_restore(t));
    if (gr_judge_gives_up(&t->judge))
        t->end = t->at; /* the run had ended early */
    return GR_OK;
}

static gr_status begin_training(gr_trainer *t, const gr_command *c)
{
    GR_TRY(gr_trainer_begin(t, c, GR_TASK_TRAIN));
    t->is_quiet = !gr_log_wants(GR_LOG_TRAIN, GR_LEVEL_WARN);
    /* Not before: a rank that waits for the others has nothing to save. */
    gr_stop_watch();
    return GR_OK;
}

gr_status gr_trainer_open(gr_trainer *t, const gr_command *c)
{
    GR_TRY(begin_training(t, c));
    GR_TRY(gr_trainer_claim_folder(t));
    gr_trainer_open_log(t);
    t->watches = true;
    GR_TRY(open_run(t));
    GR_TRY(open_files(t));
    GR_TRY(gr_trainer_banner(t));
    t->is_trial = false;
    return GR_OK;
}

gr_status gr_trainer_open_unsaved(gr_trainer *t, const gr_command *c)
{
    GR_TRY(begin_training(t, c));
    GR_TRY(gr_trainer_find_run(t));
    GR_TRY(open_run(t));
    return gr_trainer_banner(t);
}

void gr_trainer_close(gr_trainer *t)
{
    gr_trainer_close_writer(t); /* it waits for records */
    gr_trainer_close_track(t, 1);
    gr_trainer_release_folder(t);
    gr_text_fini(&t->notes);
    gr_snapshot_destroy(t->resumed);
    gr_snapshot_destroy(t->kept);
    for (int split = 0; split < GR_N_SPLITS; split++)
        gr_feed_close(&t->feeds[split]); /* batches lie in the device's memory */
    gr_trainer_close_sizes(t);
    gr_trainer_close_mean(t); /* as are losses under way */
    gr_runner_end(t->runner);
    gr_step_destroy(t->step);
    gr_trainer_close_eval(t);
    if (t->user)
        t->recipe->data->close(t->user);
    gr_pg_destroy(t->pg);
    GR_IGNORE(gr_log_to_file(NULL)); /* no thread logs any more; an end cannot fail */
    gr_train_options_fini(&t->o);
    gr_arena_destroy(t->arena);
}

/* Refused, here or on another rank, or stopped before it had begun. A rank that crashed or was
 * waited for in vain is no refusal. */
static bool is_refusal(gr_status st)
{
    return st == GR_ERR_ARG || st == GR_ERR_FORMAT || st == GR_ERR_NOMEM || st == GR_ERR_IO ||
           st == GR_ERR_PEER || st == GR_ERR_STOPPED;
}

/* The last words of a run that failed, on rank 0, once the writer has ended: what is on the disk
 * counts, not what was handed over. A launcher that starts the job again needs no advice. */
static void say_where_to_go_on(gr_trainer *t)
{
    const char *most = getenv("TORCHELASTIC_MAX_RESTARTS");
    gr_text command = GR_TEXT_INIT;
    int64_t step;
    gr_job job;

    if (!t->writer)
        return; /* it had not begun, or this is no rank that writes */
    gr_trainer_close_writer(t);
    step = gr_run_newest_step(t->folder);
    if (step < 0 || gr_job_ranks_from_env(&job) != GR_OK ||
        (most && strtol(most, NULL, 10) > job.restart))
        return;
    gr_trainer_resume_command(t, 0, &command);
    gr_trainer_say(t, "The last checkpoint is of step %" PRId64 ". Go on with: %s", step,
                   gr_text_str(&command));
    gr_text_fini(&command);
}

gr_status gr_trainer_end(gr_trainer *t, gr_status st)
{
    gr_error error;

    if (t->pg)
        gr_progress_clear(&t->progress);
    /* The others learn why this rank goes, instead of only that it went. */
    if (st != GR_OK && st != GR_ERR_PEER && st != GR_ERR_STOPPED && !t->told_all)
        gr_pg_abort(t->pg, gr_error_message());
    if (st != GR_OK)
        gr_log_keep(gr_error_message());
    gr_error_take(&error, st); /* closing may fail in its turn and leave another text */
    if (st != GR_OK && st != GR_ERR_STOPPED)
        say_where_to_go_on(t);
    gr_trainer_close_writer(t); /* it waits for records */
    gr_trainer_close_track(t, st == GR_OK ? 0 : 1);
    if (t->is_trial && t->folder && is_refusal(st))
        gr_trainer_remove_trial(t);
    gr_trainer_close(t);
    return st == GR_OK ? GR_OK : gr_error_raise(&error);
}
