/*
 * The numbers of a run on their way to its files (src/track). Rank 0 only. Nothing here fails
 * a run and nothing makes it wait (P18, P31), but for the upload at the very end, which has
 * a bound.
 */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/log.h"
#include "train/config/settings.h"
#include "train/stop.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define UPLOAD_MS  120000
#define STOPPED_MS 5000 /* after a signal */
#define LOOK_MS    50

/* ---- the run's settings as parameters ---- */

/* A value as a checkpoint has it: true, 0.1, "text". */
static gr_param param_of(gr_arena *arena, const char *name, char *value)
{
    gr_param p = { .name = name, .kind = GR_PARAM_TEXT };
    size_t n = strlen(value);
    char *end;

    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) {
        p.kind = GR_PARAM_BOOL;
        p.number = value[0] == 't';
        return p;
    }
    p.number = strtod(value, &end);
    if (end != value && *end == '\0') {
        p.kind = GR_PARAM_NUMBER;
        return p;
    }
    if (n >= 2 && value[0] == '"' && value[n - 1] == '"')
        p.text = gr_arena_printf(arena, "%.*s", (int)(n - 2), value + 1);
    else
        p.text = value;
    return p;
}

static size_t count_lines(const char *text)
{
    size_t n = 1;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Lines "key = value" of the resolved settings. */
static gr_status make_params(gr_trainer *t, gr_param **out, int *n)
{
    gr_param *params;
    gr_text text = GR_TEXT_INIT;
    char *line, *rest;
    gr_status st;

    gr_text_addf(&text, "recipe = %s\nworld_size = %d\n", t->recipe->name, t->n_ranks);
    gr_train_options_record(&t->o, GR_RECORD_SAVE, &text);
    st = gr_text_status(&text);
    line = st == GR_OK ? gr_arena_strdup(t->arena, gr_text_str(&text)) : NULL;
    gr_text_fini(&text);
    params = line ? gr_arena_array(t->arena, count_lines(line), sizeof(*params)) : NULL;
    if (!params)
        return st == GR_OK ? GR_ERR_NOMEM : st;
    *out = params;
    for (*n = 0; *line; line = rest) {
        char *mark = strstr(line, " = ");

        rest = line + strcspn(line, "\n");
        if (*rest)
            *rest++ = '\0';
        if (!mark || mark >= rest)
            continue;
        *mark = '\0';
        params[*n] = param_of(t->arena, line, mark + 3);
        if (params[*n].kind == GR_PARAM_TEXT && !params[*n].text)
            return GR_ERR_NOMEM;
        ++*n;
    }
    return GR_OK;
}

/* ---- open ---- */

/* A flag stands over WANDB_DISABLED as the setting does over WANDB_MODE. */
static bool wants_wandb(const gr_trainer *t)
{
    const gr_slot *mode = gr_settings_slot(t->o.settings, "wandb.mode");

    return t->o.use_wandb && t->o.wandb_mode != GR_WANDB_DISABLED &&
           (mode->origin.kind == GR_FROM_FLAG || !gr_wandb_disabled());
}

gr_status gr_trainer_open_track(gr_trainer *t)
{
    const char **names = gr_arena_array(t->arena, (size_t)t->view.n_metrics + 1, sizeof(*names));
    gr_wandb_config wandb = { .folder = t->folder,
                              .project = t->o.wandb_project,
                              .name = t->o.wandb_name,
                              .entity = t->o.wandb_entity,
                              .tags = t->o.wandb_tags,
                              .notes = t->o.wandb_notes,
                              .run_id = t->wandb_id };
    gr_track_config c = { .folder = t->folder,
                          .last_step = t->at,
                          .metrics_again = t->owes_eval,
                          .jsonl = true,
                          .csv = t->o.csv,
                          .tensorboard = t->o.tensorboard,
                          .plots = t->o.plots,
                          .metrics = names,
                          .n_metrics = t->view.n_metrics + 1 };
    gr_param *params = NULL;

    if (!names)
        return GR_ERR_NOMEM;
    names[0] = "val_loss";
    GR_TRY(make_params(t, &params, &c.n_params));
    c.params = wandb.params = params;
    wandb.n_params = c.n_params;
    for (int i = 0; i < t->view.n_metrics; i++)
        names[i + 1] = t->view.metrics[i].name;
    if (!wandb.name || !*wandb.name)
        wandb.name = strrchr(t->folder, '/') ? strrchr(t->folder, '/') + 1 : t->folder;
    if (wants_wandb(t))
        c.wandb = &wandb;
    c.no_upload = t->o.wandb_mode == GR_WANDB_OFFLINE;
    GR_TRY(gr_track_open(&t->track, &c));
    t->wandb_id = gr_arena_strdup(t->arena, gr_track_wandb_id(t->track));
    return t->wandb_id ? GR_OK : GR_ERR_NOMEM;
}

/* ---- close ---- */

typedef enum gr_upload { UPLOAD_DONE, UPLOAD_FAILED, UPLOAD_SLOW, UPLOAD_STOPPED } gr_upload;

/* The launcher ends what a rank leaves behind, so the rank stays for a while: not for long after
 * a signal that stopped the run, and no longer than until the next one (P18). */
static gr_upload wait_child(pid_t child)
{
    const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };
    bool was_stopped = gr_stop_signal() != 0;
    gr_deadline end = gr_deadline_in_ms(was_stopped ? STOPPED_MS : UPLOAD_MS);

    while (!gr_deadline_passed(end)) {
        int status = 0;
        pid_t pid = waitpid(child, &status, WNOHANG);

        if (pid == child || (pid < 0 && errno != EINTR))
            return status == 0 ? UPLOAD_DONE : UPLOAD_FAILED;
        if (!was_stopped && gr_stop_signal() != 0)
            return UPLOAD_STOPPED;
        nanosleep(&pause, NULL);
    }
    return was_stopped ? UPLOAD_STOPPED : UPLOAD_SLOW;
}

/* The run is over and its files are written: nothing here changes its result. */
static void end_upload(gr_trainer *t, const gr_track_end *end)
{
    const char *command = gr_text_str(&end->wandb_command);

    if (end->wandb_child <= 0) {
        if (end->wandb_command.len > 0)
            gr_trainer_say(t, "To upload the run to W&B: %s", command);
        return;
    }
    gr_trainer_say(t, "Uploading the run to W&B; Ctrl-C ends that");
    switch (wait_child(end->wandb_child)) {
    case UPLOAD_DONE: gr_trainer_say(t, "The run is uploaded to W&B."); break;
    case UPLOAD_FAILED:
        gr_log(TRAIN, WARN,
               "the upload to W&B failed; its log is logs/sync.log in the run's folder of "
               "'%s/wandb'; again: %s",
               t->folder, command);
        break;
    case UPLOAD_SLOW:
        gr_log(TRAIN, WARN,
               "the upload to W&B has not ended after %d s and is left alone; again: %s",
               UPLOAD_MS / 1000, command);
        break;
    case UPLOAD_STOPPED:
        kill(-end->wandb_child, SIGTERM); /* its session, which is its own */
        gr_log(TRAIN, WARN, "the upload to W&B is stopped; again: %s", command);
        break;
    }
}

void gr_trainer_close_track(gr_trainer *t, int exit_code)
{
    gr_track_end end = { .wandb_child = -1, .wandb_command = GR_TEXT_INIT };

    if (!t->track)
        return;
    gr_track_close(t->track, exit_code, &end);
    t->track = NULL;
    end_upload(t, &end);
    gr_text_fini(&end.wandb_command);
}
