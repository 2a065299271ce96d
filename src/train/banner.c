/* What a run says of itself before it starts, and the command that goes on with it. */
#include "train/trainer.h"

#include "backend/backend.h"
#include "base/log.h"
#include "base/shown.h"
#include "graph/vars.h"
#include "net/env.h"
#include "step/inspect.h"
#include "train/rate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gr_trainer_say(gr_trainer *t, const char *fmt, ...)
{
    gr_text text = GR_TEXT_INIT;
    va_list args;

    if (!gr_trainer_writes(t))
        return;
    va_start(args, fmt);
    gr_text_addv(&text, fmt, args);
    va_end(args);
    gr_text_make_shown(&text, 0, GR_SHOWN_LINES);
    if (!t->is_quiet) {
        gr_progress_clear(&t->progress);
        fprintf(t->command->out, "%s\n", gr_text_str(&text));
        gr_progress_flush(&t->progress);
    }
    gr_log_keep(gr_text_str(&text));
    gr_text_fini(&text);
}

const char *gr_bytes_text(size_t n_bytes, char text[GR_BYTES_TEXT])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double n = (double)n_bytes;
    int u = 0;

    for (; n >= 1024 && u < 4; u++)
        n /= 1024;
    snprintf(text, GR_BYTES_TEXT, u ? "%.1f %s" : "%.0f %s", n, units[u]);
    return text;
}

/* ---- who takes part ---- */

/* "  Rank 3: host, NVIDIA H200, 139 GiB": where each rank computes. */
static gr_status say_ranks(gr_trainer *t)
{
    gr_device *d = gr_step_device(t->step);
    gr_text place = GR_TEXT_INIT;
    char host[256] = "", **all = NULL;
    gr_status st;

    if (gethostname(host, sizeof(host) - 1) != 0)
        host[0] = '\0';
    gr_text_addf(&place, "%s, ", host);
    d->ops->describe(d, &place);
    st = gr_text_status(&place);
    if (st == GR_OK)
        st = gr_pg_gather_bytes(t->pg, gr_text_str(&place), place.len, &all, NULL);
    gr_text_fini(&place);
    GR_TRY(st);
    for (int r = 0; r < t->n_ranks; r++)
        gr_trainer_say(t, "  Rank %d: %s", r, all[r]);
    free(all);
    return GR_OK;
}

static void say_group(gr_trainer *t)
{
    gr_job job;

    gr_trainer_say(t, "Training setup:");
    gr_trainer_say(t, "  Distributed: %s", t->n_ranks > 1 ? "True" : "False");
    gr_trainer_say(t, "  World size: %d", t->n_ranks);
    gr_trainer_say(t, "  Rank: %d, Local rank: %d", t->rank, gr_pg_local_rank(t->pg));
    if (t->n_ranks > 1 && gr_job_from_env(&job) == GR_OK && job.store_port > 0)
        gr_trainer_say(t, "  Master: %s, port %d", job.store_host, job.store_port);
}

/* GPUs that nobody uses are most often a forgotten --nproc_per_node. */
static void warn_of_unused(const gr_trainer *t)
{
    const gr_device *d = gr_step_device(t->step);
    int n_seen = d->ops->shares_memory ? 0 : d->ops->count(), n_local = t->n_ranks;
    gr_job job;

    if (gr_job_from_env(&job) == GR_OK && job.n_local > 0)
        n_local = job.n_local;
    if (gr_trainer_writes(t) && n_seen > n_local)
        gr_log(TRAIN, WARN,
               "%d GPUs are visible and %d of them used; gradrun --nproc_per_node=%d uses all, "
               "CUDA_VISIBLE_DEVICES hides the others",
               n_seen, n_local, n_seen);
}

/* ---- what it will do ---- */

static const char *schedule_text(const gr_trainer *t, gr_text *out)
{
    const gr_schedule *s = &t->schedule;

    if (s->n_warmup > 0)
        gr_text_addf(out, "warm-up %" PRId64 " step%s, then ", s->n_warmup, gr_plural(s->n_warmup));
    if (t->o.schedule == GR_SCHEDULE_PLATEAU)
        gr_text_addf(out, "x %g when %s does not improve", s->factor, t->judge.name);
    else
        gr_text_add(out, gr_schedule_name(s->kind));
    if (s->kind == GR_SCHEDULE_COSINE || s->kind == GR_SCHEDULE_POLYNOMIAL)
        gr_text_addf(out, " to %g", s->floor);
    if (t->o.warmup_epochs <= 0 && t->o.warmup_steps > s->n_warmup)
        gr_text_addf(out, " (warm-up of %" PRId64 " cut to the run)", t->o.warmup_steps);
    return gr_text_str(out);
}

/* "3 of 188 per epoch x 8 epochs = 1504 (max_steps)": first what will run. */
static void say_steps(gr_trainer *t)
{
    bool is_cut = t->o.max_steps > 0 && t->o.max_steps < t->n_steps + t->shift;
    gr_text first = GR_TEXT_INIT;

    if (is_cut)
        gr_text_addf(&first, "%" PRId64 " of ", t->o.max_steps);
    gr_trainer_say(t, "  Steps: %s%" PRId64 " per epoch x %" PRId64 " epoch%s = %" PRId64 "%s",
                   gr_text_str(&first), t->steps_per_epoch, t->o.epochs, gr_plural(t->o.epochs),
                   t->n_steps, is_cut ? " (max_steps)" : "");
    gr_text_fini(&first);
}

static void add_rate_before(const gr_train_options *o, gr_text *out)
{
    if (o->lr_before <= 0 || (o->lr_before <= o->lr && o->lr_before >= o->lr))
        return;
    gr_text_add(out, " (was ");
    gr_rate_number(o->lr_before, 6, out);
    gr_text_add(out, " in the checkpoint)");
}

static void say_plan(gr_trainer *t)
{
    gr_text batch = GR_TEXT_INIT, rate = GR_TEXT_INIT, schedule = GR_TEXT_INIT;

    if (t->view.model)
        gr_trainer_say(t, "  Model: %s", t->view.model);
    gr_rate_batch_text(&t->o, t->n_ranks, &batch);
    gr_rate_text(&t->o, t->n_ranks, &rate);
    add_rate_before(&t->o, &rate);
    gr_trainer_say(t, "  Precision: %s", gr_step_precision(t->step));
    gr_trainer_say(t, "  Effective batch: %s", gr_text_str(&batch));
    gr_trainer_say(t, "  Learning rate: %s", gr_text_str(&rate));
    gr_trainer_say(t, "  Schedule: %s", schedule_text(t, &schedule));
    say_steps(t);
    gr_trainer_say(t,
                   "  Data: %s%s%" PRId64 " training and %" PRId64 " evaluation samples, %d loader "
                   "thread%s per rank, %" PRId64 " batch%s ahead",
                   t->view.data ? t->view.data : "", t->view.data ? ", " : "",
                   t->size[GR_SPLIT_TRAIN], t->size[GR_SPLIT_VALID], t->n_workers,
                   gr_plural(t->n_workers), t->o.prefetch, t->o.prefetch == 1 ? "" : "es");
    gr_text_fini(&batch);
    gr_text_fini(&rate);
    gr_text_fini(&schedule);
}

static int64_t count_frozen(const gr_trainer *t)
{
    const gr_vars *vars = gr_step_vars(t->step);
    int64_t n = 0;

    for (int i = 0; i < vars->n; i++)
        if (vars->list[i]->kind == GR_VAR_PARAM && vars->list[i]->frozen)
            n += gr_shape_count(&vars->list[i]->shape);
    return n;
}

static gr_status say_memory(gr_trainer *t)
{
    char state[GR_BYTES_TEXT], arena[GR_BYTES_TEXT], exchange[GR_BYTES_TEXT];
    char total[GR_BYTES_TEXT], available[GR_BYTES_TEXT];
    gr_step_stats s;

    GR_TRY(gr_step_get_stats(t->step, &s));
    gr_trainer_say(t, "  Parameters: %" PRId64 " trainable, %" PRId64 " frozen", s.n_params,
                   count_frozen(t));
    gr_trainer_say(t, "  Memory per rank: state %s, arena %s, exchange %s; %s of %s free",
                   gr_bytes_text(s.state_bytes, state), gr_bytes_text(s.arena_bytes, arena),
                   gr_bytes_text(s.exchange_bytes, exchange), gr_bytes_text(t->memory_total, total),
                   gr_bytes_text(t->memory_free, available));
    return GR_OK;
}

void gr_trainer_note(gr_trainer *t, const char *fmt, ...)
{
    size_t from;
    va_list args;

    if (!gr_trainer_writes(t))
        return;
    gr_text_add(&t->notes, t->notes.len ? "\n" : "");
    from = t->notes.len;
    va_start(args, fmt);
    gr_text_addv(&t->notes, fmt, args);
    va_end(args);
    gr_text_make_shown(&t->notes, from, GR_SHOWN_LINE);
}

/* For want of memory they are lost, which hurts nobody. */
static void say_notes(gr_trainer *t)
{
    if (t->notes.len > 0)
        gr_trainer_say(t, "%s", gr_text_str(&t->notes));
    t->notes.len = 0;
}

gr_status gr_trainer_banner(gr_trainer *t)
{
    say_group(t);
    GR_TRY(say_ranks(t));
    say_plan(t);
    GR_TRY(say_memory(t));
    if (t->folder)
        gr_trainer_say(t, "  Output: %s", t->folder);
    if (t->resumed_from)
        gr_trainer_say(t, "  Resumed at step %" PRId64 " from %s", t->at, t->resumed_from);
    gr_trainer_note_ignored(t);
    say_notes(t);
    warn_of_unused(t);
    return GR_OK;
}

/* ---- the command to go on ---- */

static void add_word(gr_text *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./=:,+@%";

    if (*word && word[strspn(word, plain)] == '\0') {
        gr_text_add(out, word);
        return;
    }
    gr_text_add(out, "'");
    for (; *word; word++)
        gr_text_addf(out, *word == '\'' ? "'\\''" : "%c", *word);
    gr_text_add(out, "'");
}

/* Of a job on several hosts, what host 0 is to be told; the others differ in --node-rank. */
static void add_hosts(gr_text *out, int n_hosts)
{
    gr_job job;

    if (n_hosts < 2 || gr_job_from_env(&job) != GR_OK)
        return;
    gr_text_addf(out, "--nnodes %d --node-rank 0 --master-addr ", n_hosts);
    add_word(out, job.store_host);
    gr_text_addf(out, " --master-port %d ", job.store_port);
}

/* gradrun lies beside gradus, found the same way. */
static void add_launcher(gr_text *out, const char *program, int n_local, int n_hosts)
{
    const char *slash = strrchr(program, '/');
    gr_text path = GR_TEXT_INIT;

    gr_text_addn(&path, program, slash ? (size_t)(slash - program) + 1 : 0);
    gr_text_add(&path, "gradrun");
    add_word(out, gr_text_str(&path));
    gr_text_addf(out, " --nproc-per-node %d ", n_local);
    add_hosts(out, n_hosts);
    gr_text_fini(&path);
}

void gr_trainer_resume_command(const gr_trainer *t, int64_t epochs, gr_text *out)
{
    gr_job job;

    if (t->n_ranks > 1 && gr_job_ranks_from_env(&job) == GR_OK) {
        int n_local = job.n_local > 0 ? job.n_local : t->n_ranks;

        add_launcher(out, t->command->program, n_local, t->n_ranks / n_local);
    }
    add_word(out, t->command->program);
    gr_text_addf(out, " train %s --resume ", t->recipe->name);
    add_word(out, t->folder);
    if (epochs > 0)
        gr_text_addf(out, " --epochs %" PRId64, epochs);
    if (gr_judge_gives_up(&t->judge)) /* or else it would end at once, as it did */
        gr_text_add(out, " --patience 0");
}
