/*
 * The table of settings.
 *
 * (1) A row's `use` says where its value goes; nothing else lists settings by name.
 * (2) Aliases are replaced in the words before parsing, so a row has one name inside.
 */
#include "train/options.h"

#include "base/option.h"
#include "gradus/schedule.h"
#include "optim/optim.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAVED = 1, FIXED = 2, LOCAL = 4 }; /* kept; may not change; a rank's own business */

typedef struct row {
    const char *name;
    gr_option_kind kind;
    size_t offset; /* of the field in gr_train_options */
    double min, max;
    const char *choices, *arg, *help;
    unsigned use;
} row;

#define AT(field) offsetof(gr_train_options, field)
#define INT       GR_OPTION_INT
#define F64       GR_OPTION_F64
#define TEXT      GR_OPTION_TEXT
#define FLAG      GR_OPTION_FLAG
#define CHOICE    GR_OPTION_CHOICE
#define MANY      1e15

/* clang-format off */
static const row rows[] = {
    { "epochs", INT, AT(epochs), 1, MANY, NULL, "N", "passes over the training data", SAVED },
    { "max_steps", INT, AT(max_steps), 0, MANY, NULL, "N", "end after N steps in all; 0: no limit", 0 },
    { "batch_size", INT, AT(batch_size), 1, 1e9, NULL, "N", "samples per rank and micro-step", SAVED | FIXED },
    { "grad_accumulation_steps", INT, AT(accumulate), 1, 1e6, NULL, "N", "micro-steps per step", SAVED | FIXED },
    { "lr", F64, AT(lr), 0, 1e6, NULL, "X", "learning rate at its highest", SAVED },
    { "effective_batch", INT, AT(effective_batch), 0, 1e15, NULL, "N",
      "samples per step of all ranks: sets batch_size; 0: follows from it", SAVED },
    { "lr_scaling", CHOICE, AT(lr_scaling), 0, 0, "none|linear|sqrt", NULL, "how lr follows the number of ranks", SAVED },
    { "lr_base_batch", INT, AT(lr_base_batch), 0, 1e15, NULL, "N",
      "effective batch that lr is meant for: lr_scaling goes by it; 0: by ranks", SAVED },
    { "lr_schedule", CHOICE, AT(schedule), 0, 0,
      "constant|cosine|restarts|step|multistep|polynomial|exponential|plateau", NULL, "what follows the warm-up", SAVED },
    { "lr_by_epoch", FLAG, AT(lr_by_epoch), 0, 0, NULL, NULL, "change the rate once an epoch; periods count epochs", SAVED },
    { "warmup_steps", INT, AT(warmup_steps), 0, MANY, NULL, "N", "steps in which the rate rises", SAVED },
    { "lr_min", F64, AT(lr_min), 0, 1e6, NULL, "X", "where cosine, restarts, polynomial and plateau end", SAVED },
    { "lr_gamma", F64, AT(lr_gamma), 0, 100, NULL, "X", "factor of step, multistep, exponential, plateau; growth of restarts", SAVED },
    { "lr_period", INT, AT(lr_period), 1, MANY, NULL, "N", "of step and restarts", SAVED },
    { "lr_power", F64, AT(lr_power), 0, 100, NULL, "X", "of polynomial", SAVED },
    { "lr_milestones", TEXT, AT(lr_milestones), 0, 0, NULL, "N,N,...", "of multistep", SAVED },
    { "lr_patience", INT, AT(lr_patience), 0, MANY, NULL, "N", "plateau: evaluations without a better value", SAVED },
    { "lr_threshold", F64, AT(lr_threshold), 0, 1, NULL, "X", "plateau: less than this share is not better", SAVED },
    { "lr_cooldown", INT, AT(lr_cooldown), 0, MANY, NULL, "N", "plateau: evaluations after a reduction that do not count", SAVED },
    { "optimizer", CHOICE, AT(optimizer), 0, 0, "sgd|adamw|adam", NULL, "update rule", SAVED | FIXED },
    { "momentum", F64, AT(momentum), 0, 1, NULL, "X", "of sgd", SAVED },
    { "beta1", F64, AT(beta1), 0, 1, NULL, "X", "of adam and adamw", SAVED },
    { "beta2", F64, AT(beta2), 0, 1, NULL, "X", "of adam and adamw", SAVED },
    { "eps", F64, AT(eps), 0, 1, NULL, "X", "of adam and adamw", SAVED },
    { "weight_decay", F64, AT(weight_decay), 0, 1e6, NULL, "X", "adamw: decoupled; others: added to the gradient", SAVED },
    { "nesterov", FLAG, AT(nesterov), 0, 0, NULL, NULL, "of sgd with momentum", SAVED },
    { "decay_all", FLAG, AT(decay_all), 0, 0, NULL, NULL, "decay norms and biases, too", SAVED },
    { "no_decay", TEXT, AT(no_decay), 0, 0, NULL, "PATTERNS", "parameters without decay: \"*.bias|*.norm*\"", SAVED },
    { "clip_norm", F64, AT(clip_norm), 0, 1e30, NULL, "X", "limit of the gradients' global norm; 0: none", SAVED },
    { "clip_value", F64, AT(clip_value), 0, 1e30, NULL, "X", "limit of each element of a gradient; 0: none", SAVED },
    { "ema_decay", F64, AT(ema_decay), 0, 1, NULL, "X", "averages of the parameters, used for evaluation; 0: none", SAVED | FIXED },
    { "amp", CHOICE, AT(amp), 0, 0, "none|bf16|fp16|auto", NULL, "mixed precision", SAVED | FIXED },
    { "recompute", CHOICE, AT(recompute), 0, 0, "none|all|limit", NULL, "compute activations again to save memory", 0 },
    { "memory_limit", INT, AT(memory_limit), 0, 1e18, NULL, "BYTES", "that a training step may need on a rank; 0: none", 0 },
    { "bucket_bytes", INT, AT(bucket_bytes), 1, 1e15, NULL, "N", "largest bucket of gradients", SAVED },
    { "first_bucket_bytes", INT, AT(first_bucket_bytes), 1, 1e15, NULL, "N", "and of the first one", SAVED },
    { "log_grad_norm", FLAG, AT(log_grad_norm), 0, 0, NULL, NULL, "record the gradients' norm without clipping, too", SAVED },
    { "log_level", CHOICE, AT(log_level), 0, 0, "auto|error|warning|info|debug", NULL, "of all ranks; GR_LOG wins", LOCAL },
    { "best_by", TEXT, AT(best_by), 0, 0, NULL, "METRIC", "that says which model is the best, or loss; default: the recipe's first", SAVED },
    { "best_direction", CHOICE, AT(best_direction), 0, 0, "auto|max|min", NULL, "which values of it are better", SAVED },
    { "patience", INT, AT(patience), 0, MANY, NULL, "N", "early stopping: evaluations without a better value; 0: never", SAVED },
    { "min_delta", F64, AT(min_delta), 0, 1e30, NULL, "X", "early stopping: less than this is not better", SAVED },
    { "seed", INT, AT(seed), 0, MANY, NULL, "N", "of weights, data and order", SAVED | FIXED },
    { "n_train", INT, AT(n_train), 0, MANY, NULL, "N", "training samples; 0: the recipe's", SAVED | FIXED },
    { "n_eval", INT, AT(n_eval), 0, MANY, NULL, "N", "evaluation samples; 0: the recipe's", SAVED },
    { "valid_batch", INT, AT(valid_batch), 0, 1e9, NULL, "N", "samples per rank in validation; 0: batch_size", SAVED },
    { "test_batch", INT, AT(test_batch), 0, 1e9, NULL, "N", "and in test and predict", SAVED },
    { "num_workers", INT, AT(num_workers), -1, 1024, NULL, "N", "loader threads of a rank; -1: 4, but not more than its cores", 0 },
    { "prefetch", INT, AT(prefetch), 0, 1024, NULL, "N", "batches made ahead", 0 },
    { "pin_memory", FLAG, AT(pin_memory), 0, 0, NULL, NULL, "batches in memory that a GPU reads directly", 0 },
    { "shuffle", FLAG, AT(shuffle), 0, 0, NULL, NULL, "a new order in each epoch", SAVED | FIXED },
    { "on_bad_sample", CHOICE, AT(on_bad_sample), 0, 0, "error|skip", NULL, "when a sample does not load", SAVED },
    { "drop_last", FLAG, AT(drop_last), 0, 0, NULL, NULL, "leave an epoch's short last batch out", SAVED | FIXED },
    { "device", TEXT, AT(device), 0, 0, NULL, "NAME", "cpu, cuda, cuda:N or auto", 0 },
    { "group", CHOICE, AT(group), 0, 0, "auto|nccl|ipc", NULL, "exchange between GPUs", 0 },
    { "threads", INT, AT(threads), 0, 1024, NULL, "N", "per rank; 0: GR_THREADS, else 1", 0 },
    { "timeout_s", INT, AT(timeout_s), 0, 1e6, NULL, "N",
      "longest wait for another rank, seconds; 0: GR_TIMEOUT, else 300", 0 },
    { "log_every", INT, AT(log_every), 1, MANY, NULL, "N", "steps between metrics records", SAVED },
    { "eval_every", INT, AT(eval_every), 0, MANY, NULL, "N", "epochs between evaluations; 0: at the end only", SAVED },
    { "save_every", INT, AT(save_every), 0, MANY, NULL, "N", "steps between checkpoints; 0: at the end only", SAVED },
    { "keep", INT, AT(keep), 0, 1e6, NULL, "N", "checkpoints kept; 0: all", SAVED },
    { "output_dir", TEXT, AT(output_dir), 0, 0, NULL, "FOLDER", "of this run; default: a new one in runs/", 0 },
    { "resume", FLAG, AT(resume), 0, 0, NULL, NULL, "go on from the newest checkpoint in output_dir", 0 },
    { "progress", CHOICE, AT(progress), 0, 0, "auto|live|plain", NULL, "one line that redraws itself, or lines", LOCAL },
    { "dump_after", TEXT, AT(dump_after), 0, 0, NULL, "PASS", "print the graphs after that pass, or after all", LOCAL },
    { "dump_dot", TEXT, AT(dump_dot), 0, 0, NULL, "FILE", "write the planned training graph for Graphviz", LOCAL },
};
/* clang-format on */

#define N_ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

/* Other people's names for the same things. With `on`, a switch: it stands for that value,
 * and =false for `off`. */
static const struct alias {
    const char *name, *means, *on, *off;
} aliases[] = {
    { "epoch", "epochs", NULL, NULL },
    { "workers", "num_workers", NULL, NULL },
    { "num_epochs", "epochs", NULL, NULL },
    { "steps", "max_steps", NULL, NULL },
    { "batch", "batch_size", NULL, NULL },
    { "batchsize", "batch_size", NULL, NULL },
    { "gradient_accumulation_steps", "grad_accumulation_steps", NULL, NULL },
    { "accumulate", "grad_accumulation_steps", NULL, NULL },
    { "learning_rate", "lr", NULL, NULL },
    { "warmup", "warmup_steps", NULL, NULL },
    { "optim", "optimizer", NULL, NULL },
    { "scheduler", "lr_schedule", NULL, NULL },
    { "lr_scheduler", "lr_schedule", NULL, NULL },
    { "main_metric", "best_by", NULL, NULL },
    { "metric_direction", "best_direction", NULL, NULL },
    { "early_stopping", "patience", NULL, NULL },
    { "grad_clip", "clip_norm", NULL, NULL },
    { "max_grad_norm", "clip_norm", NULL, NULL },
    { "use_amp", "amp", "auto", "none" },
    { "save_dir", "output_dir", NULL, NULL },
    { "logdir", "output_dir", NULL, NULL },
};

#define N_ALIASES ((int)(sizeof(aliases) / sizeof(aliases[0])))

void gr_train_options_init(gr_train_options *o, const gr_recipe *recipe)
{
    const gr_recipe_defaults *d = &recipe->defaults;

    *o = (gr_train_options){
        .epochs = d->epochs,
        .batch_size = d->batch_size,
        .accumulate = 1,
        .lr = d->lr,
        .schedule = GR_SCHEDULE_COSINE,
        .warmup_steps = 50,
        .lr_gamma = 0.1,
        .lr_period = 30,
        .lr_power = 1,
        .lr_patience = 10,
        .lr_threshold = 1e-4,
        .optimizer = (int)d->optim.kind,
        .momentum = d->optim.momentum,
        .beta1 = d->optim.beta1,
        .beta2 = d->optim.beta2,
        .eps = d->optim.eps,
        .weight_decay = d->optim.weight_decay,
        .nesterov = d->optim.nesterov,
        .decay_all = d->optim.decay_all,
        .bucket_bytes = (int64_t)25 << 20,
        .first_bucket_bytes = (int64_t)1 << 20,
        .num_workers = -1,
        .prefetch = 2,
        .pin_memory = true,
        .shuffle = true,
        .device = "auto",
        .group = GR_GROUP_AUTO,
        .log_every = 20,
        .eval_every = 1,
        .save_every = 500,
        .keep = 3,
    };
}

static void make_table(gr_train_options *o, gr_option table[N_ROWS + 1])
{
    for (int i = 0; i < N_ROWS; i++)
        table[i] = (gr_option){ .name = rows[i].name,
                                .kind = rows[i].kind,
                                .target = (char *)o + rows[i].offset,
                                .min = rows[i].min,
                                .max = rows[i].max,
                                .choices = rows[i].choices,
                                .arg = rows[i].arg,
                                .help = rows[i].help };
    table[N_ROWS] = (gr_option){ 0 };
}

/* ---- aliases ---- */

static bool is_called(const char *word, size_t len, const char *name)
{
    for (size_t i = 0; i < len; i++)
        if (name[i] == '\0' || (word[i] == '-' ? '_' : word[i]) != name[i])
            return false;
    return name[len] == '\0';
}

/* "--batchsize=8" -> "--batch_size=8"; other words as they are. NULL: no memory. */
static char *without_alias(gr_arena *arena, char *word)
{
    size_t len = strcspn(word, "=");
    const char *rest = word + len;

    if (strncmp(word, "--", 2) != 0)
        return word;
    for (int i = 0; i < N_ALIASES; i++) {
        const struct alias *a = &aliases[i];

        if (!is_called(word + 2, len - 2, a->name))
            continue;
        if (!a->on)
            return gr_arena_printf(arena, "--%s%s", a->means, rest);
        if (*rest == '\0' || strcmp(rest, "=true") == 0)
            return gr_arena_printf(arena, "--%s=%s", a->means, a->on);
        if (strcmp(rest, "=false") == 0)
            return gr_arena_printf(arena, "--%s=%s", a->means, a->off);
    }
    return word;
}

static gr_status parse_leading(gr_train_options *o, gr_arena *arena, int argc, char **argv,
                               int *n_used)
{
    gr_option table[N_ROWS + 1];
    char **words = gr_arena_array(arena, (size_t)argc + 1, sizeof(*words));

    if (!words)
        return GR_ERR_NOMEM;
    for (int i = 0; i < argc; i++) {
        words[i] = without_alias(arena, argv[i]);
        if (!words[i])
            return GR_ERR_NOMEM;
    }
    make_table(o, table);
    return gr_option_parse(table, argc, words, n_used);
}

gr_status gr_train_options_skip(gr_arena *arena, int argc, char **argv, int *n_used)
{
    gr_train_options unused = { 0 };

    *n_used = 0;
    return argc > 0 ? parse_leading(&unused, arena, argc, argv, n_used) : GR_OK;
}

gr_optim gr_train_options_optim(const gr_train_options *o)
{
    return (gr_optim){ .kind = (gr_optim_kind)o->optimizer,
                       .momentum = o->momentum,
                       .beta1 = o->beta1,
                       .beta2 = o->beta2,
                       .eps = o->eps,
                       .weight_decay = o->weight_decay,
                       .nesterov = o->nesterov,
                       .decay_all = o->decay_all };
}

gr_status gr_train_options_parse(gr_train_options *o, gr_arena *arena, int argc, char **argv)
{
    gr_optim optim;
    int n_used;

    GR_TRY(parse_leading(o, arena, argc, argv, &n_used));
    if (n_used < argc)
        return gr_fail(GR_ERR_ARG, "unexpected word '%s'; options begin with '--'", argv[n_used]);
    if (o->output_dir && !*o->output_dir)
        return gr_fail(GR_ERR_ARG, "option '--output_dir' is empty; give the name of a folder");
    optim = gr_train_options_optim(o);
    return gr_optim_check(&optim);
}

void gr_train_options_help(gr_train_options *o, gr_text *out)
{
    gr_option table[N_ROWS + 1];

    make_table(o, table);
    gr_option_help(table, out);
    gr_text_add(out, "\nOther names ('-' and '_' are alike everywhere):\n");
    for (int i = 0; i < N_ALIASES; i++)
        gr_text_addf(out, "  --%s = --%s%s%s\n", aliases[i].name, aliases[i].means,
                     aliases[i].on ? "=" : "", aliases[i].on ? aliases[i].on : "");
}

/* ---- records ---- */

/* The shortest of the usual forms that reads back as the same number. */
static void add_f64(gr_text *out, double x)
{
    char text[40];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, x);
        if (memcmp(&(double){ strtod(text, NULL) }, &x, sizeof(x)) == 0)
            break;
    }
    gr_text_add(out, text);
}

static void add_choice(gr_text *out, const char *choices, int index)
{
    for (; index > 0; index--)
        choices += strcspn(choices, "|") + 1;
    gr_text_addn(out, choices, strcspn(choices, "|"));
}

/* In YAML between quotes, with what they need; elsewhere as it is, in one line. */
static void add_string(gr_text *out, const char *s, bool quoted)
{
    gr_text_add(out, quoted ? "\"" : "");
    for (; *s; s++) {
        if (quoted && (*s == '"' || *s == '\\'))
            gr_text_addf(out, "\\%c", *s);
        else if ((unsigned char)*s < ' ')
            gr_text_addf(out, "\\x%02x", (unsigned)(unsigned char)*s);
        else
            gr_text_addn(out, s, 1);
    }
    gr_text_add(out, quoted ? "\"" : "");
}

static void add_value(gr_text *out, const gr_train_options *o, const row *r, bool quoted)
{
    const char *field = (const char *)o + r->offset;

    switch (r->kind) {
    case GR_OPTION_INT: gr_text_addf(out, "%lld", (long long)*(const int64_t *)field); break;
    case GR_OPTION_F64: add_f64(out, *(const double *)field); break;
    case GR_OPTION_FLAG: gr_text_add(out, *(const bool *)field ? "true" : "false"); break;
    case GR_OPTION_CHOICE: add_choice(out, r->choices, *(const int *)field); break;
    case GR_OPTION_TEXT: add_string(out, *(const char *const *)field, quoted); break;
    }
}

static bool is_wanted(const gr_train_options *o, const row *r, gr_record what)
{
    if (r->kind == GR_OPTION_TEXT && !*(const char *const *)((const char *)o + r->offset))
        return false;
    if (what == GR_RECORD_SAVE)
        return r->use & SAVED;
    if (what == GR_RECORD_COMPARE)
        return !(r->use & LOCAL);
    return true;
}

void gr_train_options_record(const gr_train_options *o, gr_record what, gr_text *out)
{
    bool yaml = what == GR_RECORD_YAML;

    for (int i = 0; i < N_ROWS; i++) {
        if (!is_wanted(o, &rows[i], what))
            continue;
        gr_text_addf(out, "%s%s", rows[i].name, yaml ? ": " : " = ");
        add_value(out, o, &rows[i], yaml);
        gr_text_add(out, "\n");
    }
}

/* ---- resuming ---- */

/* Lines "key = value" become words "--key=value". */
static gr_status parse_saved(gr_train_options *o, gr_arena *arena, const char *saved)
{
    while (*saved) {
        size_t len = strcspn(saved, "\n");
        const char *mark = memmem(saved, len, " = ", 3);
        char *word;

        if (!mark)
            return gr_fail(GR_ERR_FORMAT, "setting '%.*s' in the checkpoint has no value",
                           (int)(len < 100 ? len : 100), saved);
        word = gr_arena_printf(arena, "--%.*s=%.*s", (int)(mark - saved), saved,
                               (int)(len - (size_t)(mark - saved) - 3), mark + 3);
        if (!word)
            return GR_ERR_NOMEM;
        GR_TRY(gr_train_options_parse(o, arena, 1, &word));
        saved += len + (saved[len] == '\n');
    }
    return GR_OK;
}

static gr_status check_fixed(const gr_train_options *was, const gr_train_options *is)
{
    gr_status st = GR_OK;

    for (int i = 0; i < N_ROWS && st == GR_OK; i++) {
        gr_text a = GR_TEXT_INIT, b = GR_TEXT_INIT;

        if (rows[i].use & FIXED) {
            add_value(&a, was, &rows[i], false);
            add_value(&b, is, &rows[i], false);
            if (strcmp(gr_text_str(&a), gr_text_str(&b)) != 0)
                st = gr_fail(GR_ERR_ARG,
                             "'--%s' was %s when the run began and is %s now; it cannot change in "
                             "mid-run: leave it out, or begin a new run",
                             rows[i].name, gr_text_str(&a), gr_text_str(&b));
        }
        gr_text_fini(&a);
        gr_text_fini(&b);
    }
    return st;
}

gr_status gr_train_options_resume(gr_train_options *o, gr_arena *arena, const gr_recipe *recipe,
                                  const char *saved, int argc, char **argv)
{
    gr_train_options was;

    gr_train_options_init(&was, recipe);
    GR_TRY(parse_saved(&was, arena, saved));
    *o = was;
    GR_TRY(gr_train_options_parse(o, arena, argc, argv));
    return check_fixed(&was, o);
}
