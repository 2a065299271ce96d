/* What a run says of itself before it starts, and the command that goes on with it. */
#include "train/trainer.h"

#include "net/env.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void gr_trainer_say(gr_trainer *t, const char *fmt, ...)
{
    va_list args;

    if (!gr_trainer_writes(t))
        return;
    gr_progress_clear(&t->progress);
    va_start(args, fmt);
    vfprintf(t->command->out, fmt, args);
    va_end(args);
    fputc('\n', t->command->out);
    gr_progress_flush(&t->progress);
}

static const char *size_text(size_t n_bytes, char text[32])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double n = (double)n_bytes;
    int u = 0;

    for (; n >= 1024 && u < 4; u++)
        n /= 1024;
    snprintf(text, 32, u ? "%.1f %s" : "%.0f %s", n, units[u]);
    return text;
}

/* "device: X" is the first line of a step's description. */
static gr_status say_device(gr_trainer *t)
{
    char *text, *name;

    GR_TRY(gr_step_describe(t->step, &text));
    name = strchr(text, ' ');
    gr_trainer_say(t, "  Device: %.*s", name ? (int)strcspn(name + 1, "\n") : 0,
                   name ? name + 1 : "");
    free(text);
    return GR_OK;
}

static void say_rate(gr_trainer *t)
{
    const char *kind = t->o.schedule == GR_SCHEDULE_COSINE ? "cosine to 0" : "constant";

    gr_trainer_say(t, "  Learning rate: %g, warm-up %" PRId64 " steps, then %s", t->o.lr,
                   t->o.warmup_steps < t->n_steps ? t->o.warmup_steps : t->n_steps, kind);
}

static gr_status say_memory(gr_trainer *t)
{
    char state[32], arena[32], exchange[32];
    gr_step_stats s;

    GR_TRY(gr_step_get_stats(t->step, &s));
    gr_trainer_say(t, "  Parameters: %" PRId64 " trainable", s.n_params);
    gr_trainer_say(t, "  Memory per rank: state %s, arena %s, exchange %s",
                   size_text(s.state_bytes, state), size_text(s.arena_bytes, arena),
                   size_text(s.exchange_bytes, exchange));
    return GR_OK;
}

gr_status gr_trainer_banner(gr_trainer *t)
{
    static const char *const amp[] = { "f32", "bf16 activations", "fp16 activations, scaled loss" };

    gr_trainer_say(t, "Training setup:");
    gr_trainer_say(t, "  Distributed: %s", t->n_ranks > 1 ? "True" : "False");
    gr_trainer_say(t, "  World size: %d", t->n_ranks);
    gr_trainer_say(t, "  Rank: %d, Local rank: %d", t->rank, gr_pg_local_rank(t->pg));
    GR_TRY(say_device(t));
    gr_trainer_say(t, "  Precision: %s", amp[t->o.amp]);
    gr_trainer_say(
        t, "  Effective batch: batch %" PRId64 " x %d ranks x %" PRId64 " accumulation = %" PRId64,
        t->o.batch_size, t->n_ranks, t->o.accumulate,
        t->o.batch_size * t->n_ranks * t->o.accumulate);
    say_rate(t);
    gr_trainer_say(t, "  Steps: %" PRId64 " per epoch x %" PRId64 " epochs = %" PRId64,
                   t->steps_per_epoch, t->o.epochs, t->n_steps);
    gr_trainer_say(t, "  Data: %" PRId64 " training and %" PRId64 " evaluation samples",
                   t->size[GR_SPLIT_TRAIN], t->size[GR_SPLIT_VALID]);
    GR_TRY(say_memory(t));
    gr_trainer_say(t, "  Output: %s", t->folder);
    if (t->at > 0)
        gr_trainer_say(t, "  Resumed at step %" PRId64, t->at);
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

/* gradrun lies beside gradus, found the same way. */
static void add_launcher(gr_text *out, const char *program, int n_ranks)
{
    const char *slash = strrchr(program, '/');
    gr_text path = GR_TEXT_INIT;

    gr_text_addn(&path, program, slash ? (size_t)(slash - program) + 1 : 0);
    gr_text_add(&path, "gradrun");
    add_word(out, gr_text_str(&path));
    gr_text_addf(out, " --nproc-per-node %d ", n_ranks);
    gr_text_fini(&path);
}

void gr_trainer_resume_command(const gr_trainer *t, int64_t epochs, gr_text *out)
{
    gr_job job;

    if (t->n_ranks > 1 && gr_job_ranks_from_env(&job) == GR_OK)
        add_launcher(out, t->command->program, job.n_local > 0 ? job.n_local : t->n_ranks);
    add_word(out, t->command->program);
    gr_text_addf(out, " train %s --output_dir ", t->recipe->name);
    add_word(out, t->folder);
    gr_text_add(out, " --resume");
    if (epochs > 0)
        gr_text_addf(out, " --epochs %" PRId64, epochs);
}
