/*
 * `gradus export`: the model out of a checkpoint as a file of its own, without optimiser,
 * counters and averages. One process; a recipe is needed only where the checkpoint lacks frozen
 * weights (complete.c).
 */
#include "train/train.h"

#include "base/log.h"
#include "base/option.h"
#include "base/shown.h"
#include "gradus/ckpt.h"
#include "train/checkpoint.h"
#include "train/export.h"
#include "train/foreign.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EMA   "ema."
#define OPTIM "optimizer."

/* ---- what goes into the file ---- */

static bool begins_with(const char *name, const char *part)
{
    return strncmp(name, part, strlen(part)) == 0;
}

/* `list` has a name on each line. */
static bool is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; at && *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strcspn(at, "\n") == len && strncmp(at, name, len) == 0)
            return true;
    return false;
}

static gr_status copy_tensor(gr_snapshot *out, const char *name, const gr_named *from)
{
    void *mem;

    GR_TRY(gr_snapshot_add(out, name, from->dtype, from->shape, &mem));
    memcpy(mem, from->mem, (size_t)gr_shape_count(&from->shape) * gr_dtype_bytes(from->dtype));
    return GR_OK;
}

/* The average of a parameter; the tensor itself where there is none (buffers, frozen). */
static const gr_named *averaged(const gr_snapshot *snap, const gr_named *tensor)
{
    gr_text name = GR_TEXT_INIT;
    const gr_named *found;

    gr_text_addf(&name, EMA "%s", tensor->name);
    found = gr_snapshot_find(snap, gr_text_str(&name));
    gr_text_fini(&name);
    return found ? found : tensor;
}

static gr_status take_tensors(const gr_snapshot *snap, const gr_export *e, gr_snapshot *out)
{
    const char *frozen = gr_snapshot_get(snap, GR_KEY_FROZEN);
    int n_averaged = 0;

    for (int i = 0; i < gr_snapshot_count(snap); i++) {
        const gr_named *tensor = gr_snapshot_at(snap, i);
        const gr_named *from = e->ema ? averaged(snap, tensor) : tensor;

        if (begins_with(tensor->name, OPTIM) || begins_with(tensor->name, EMA))
            continue;
        if (e->trainable_only && is_listed(frozen, tensor->name))
            continue;
        n_averaged += from != tensor;
        GR_TRY(copy_tensor(out, tensor->name, from));
    }
    if (e->ema && n_averaged == 0)
        return gr_fail(GR_ERR_ARG, "the checkpoint has no averages (--ema_decay was 0); leave "
                                   "--ema out");
    return GR_OK;
}

static gr_status take_texts(const gr_snapshot *snap, gr_snapshot *out)
{
    static const char *const kept[] = { "gradus.step", "train.recipe", "train.config" };

    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        const char *text = gr_snapshot_get(snap, kept[i]);

        if (text)
            GR_TRY(gr_snapshot_set(out, kept[i], text));
    }
    for (int i = 0; i < gr_snapshot_n_texts(snap); i++) {
        const char *key, *text;

        gr_snapshot_text_at(snap, i, &key, &text);
        if (begins_with(key, GR_SNAPSHOT_ASIDE))
            GR_TRY(gr_snapshot_set(out, key, text));
    }
    return GR_OK;
}

gr_status gr_export_model(const gr_snapshot *snap, const gr_export *e, gr_snapshot **out)
{
    gr_snapshot *model;
    gr_status st;

    GR_TRY(gr_snapshot_create(&model));
    st = take_tensors(snap, e, model);
    if (st == GR_OK)
        st = take_texts(snap, model);
    if (st != GR_OK) {
        gr_snapshot_destroy(model);
        return st;
    }
    *out = model;
    return GR_OK;
}

/* ---- the command ---- */

/* The run that --output_dir and --run_id name. Appends it; false: none. */
static bool named_run(const gr_export *e, gr_text *out)
{
    const char *above = e->output_dir ? e->output_dir : e->run_id ? GR_RUNS : NULL;

    if (above)
        gr_text_add(out, above);
    if (above && e->run_id)
        gr_text_addf(out, "/%s", e->run_id);
    return above != NULL;
}

/* Of a folder: as `pick` says, and without it the best one where one was kept, as test does. */
static gr_status read_folder(const char *path, const char *pick, gr_snapshot **out, gr_text *from)
{
    gr_text inside = GR_TEXT_INIT;
    char *found = NULL, *note = NULL;
    const char *folder;
    bool best;
    gr_status st;

    gr_text_addf(&inside, "%s/" GR_CKPT_FOLDER, path);
    folder = gr_ckpt_count(gr_text_str(&inside)) > 0 ? gr_text_str(&inside) : path;
    best = pick ? strcmp(pick, "best") == 0 : gr_run_has_best(folder);
    st = gr_ckpt_find(folder, best ? GR_CKPT_BEST : GR_CKPT_LAST, out, &found, &note);
    if (note)
        gr_log(TRAIN, WARN, "%s", note);
    if (st == GR_OK)
        gr_text_add(from, found);
    free(found);
    free(note);
    gr_text_fini(&inside);
    return st;
}

/* A file, the folder of a run, or its folder of checkpoints. */
static gr_status read_checkpoint(const gr_export *e, gr_snapshot **out, gr_text *from)
{
    gr_text run = GR_TEXT_INIT;
    struct stat info;
    gr_status st;

    if (e->source)
        gr_text_add(&run, e->source);
    else if (!named_run(e, &run))
        return gr_fail(GR_ERR_ARG, "say of which run: gradus export RUN, --output_dir or --run_id");
    GR_TRY_GOTO(st, gr_text_status(&run), done);
    if (stat(gr_text_str(&run), &info) == 0 && S_ISDIR(info.st_mode)) {
        st = read_folder(gr_text_str(&run), e->pick, out, from);
    } else if (e->pick) {
        st = gr_fail(GR_ERR_ARG, "'%s' is not the folder of a run, so it has no '%s'",
                     gr_text_str(&run), e->pick);
    } else {
        gr_text_add(from, gr_text_str(&run));
        st = gr_ckpt_read(gr_text_str(&run), out);
    }

done:
    gr_text_fini(&run);
    return st;
}

static bool has_averages(const gr_snapshot *s)
{
    for (int i = 0; i < gr_snapshot_count(s); i++)
        if (begins_with(gr_snapshot_at(s, i)->name, EMA))
            return true;
    return false;
}

/* Frozen parameters that a run with trainable_only left out. */
static int count_absent(const gr_snapshot *s)
{
    const char *frozen = gr_snapshot_get(s, GR_KEY_FROZEN);
    gr_text name = GR_TEXT_INIT;
    int n = 0;

    for (const char *at = frozen; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
        name.len = 0;
        gr_text_addn(&name, at, strcspn(at, "\n"));
        n += name.len > 0 && !gr_snapshot_find(s, gr_text_str(&name));
    }
    gr_text_fini(&name);
    return n;
}

static int64_t count_elements(const gr_snapshot *s)
{
    int64_t n = 0;

    for (int i = 0; i < gr_snapshot_count(s); i++)
        n += gr_shape_count(&gr_snapshot_at(s, i)->shape);
    return n;
}

static void tell(const gr_command *c, const gr_export *e, const gr_snapshot *model,
                 const char *from)
{
    gr_shown_printf(c->out, GR_SHOWN_LINES, "%s: %d tensors, %" PRId64 " elements, from %s, %s\n",
                    e->output, gr_snapshot_count(model), count_elements(model), from,
                    e->ema ? "averages (ema) where there are" : "parameters as they are");
}

/* The value of a setting as the checkpoint has it; NULL or empty: none. *n is its length. */
static const char *saved_setting(const gr_snapshot *snap, const char *key, size_t *n)
{
    const char *at = gr_snapshot_get(snap, GR_KEY_CONFIG);
    size_t len = strlen(key);

    for (; at && *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strncmp(at, key, len) == 0 && strncmp(at + len, " = ", 3) == 0) {
            *n = strcspn(at + len + 3, "\n");
            return at + len + 3;
        }
    *n = 0;
    return NULL;
}

/* What was put into the file and is not in the checkpoint. */
static void tell_origin(const gr_command *c, const gr_export *e, const gr_snapshot *snap,
                        int n_absent)
{
    size_t n = 0;
    const char *file = saved_setting(snap, "pretrained", &n);

    if (e->pretrained) {
        file = e->pretrained;
        n = strlen(file);
    }
    gr_shown_printf(
        c->out, GR_SHOWN_LINES,
        "%d of them are frozen and not in the checkpoint: %.*s%sdrawn with its seed %s\n", n_absent,
        (int)n, n > 0 ? file : "", n > 0 ? ", and what that lacks " : "",
        gr_snapshot_get(snap, GR_KEY_SEED));
}

/* A file that lacks weights is written only when it is asked for (--trainable_only). */
static gr_status complete(const gr_command *c, const gr_export *e, const char *from, int n_absent,
                          gr_snapshot **snap)
{
    gr_complete how = {
        .command = c, .path = from, .pretrained = e->pretrained, .n_absent = n_absent
    };
    gr_snapshot *whole;

    GR_TRY(gr_export_complete(&how, *snap, &whole));
    gr_snapshot_destroy(*snap);
    *snap = whole;
    return GR_OK;
}

static gr_status find_layout(const gr_command *c, const gr_export *e, const gr_snapshot *snap,
                             const gr_foreign **out)
{
    const char *name = gr_snapshot_get(snap, GR_KEY_RECIPE);
    const gr_recipe *recipe = NULL;
    gr_text names = GR_TEXT_INIT;
    gr_status st;

    *out = NULL;
    for (int i = 0; name && c->recipes[i]; i++)
        if (strcmp(c->recipes[i]->name, name) == 0)
            recipe = c->recipes[i];
    if (!recipe || recipe->abi != GR_RECIPE_ABI)
        return gr_fail(GR_ERR_ARG, "--layout is a recipe's, and the checkpoint is of none here");
    for (int i = 0; i < recipe->n_foreign; i++) {
        gr_text_addf(&names, "%s%s", i ? ", " : "", recipe->foreign[i].name);
        if (strcmp(recipe->foreign[i].name, e->layout) == 0)
            *out = &recipe->foreign[i];
    }
    st = *out ? GR_OK
              : gr_fail(GR_ERR_ARG, "recipe '%s' has no layout '%s'; it has %s", name, e->layout,
                        names.len ? gr_text_str(&names) : "none");
    gr_text_fini(&names);
    return st;
}

/* The model as it is written: the layout has no place for texts. */
static gr_status lay_out(const gr_command *c, const gr_export *e, const gr_snapshot *snap,
                         gr_snapshot **model)
{
    const gr_foreign *layout;
    gr_snapshot *theirs;

    if (!e->layout)
        return GR_OK;
    GR_TRY(find_layout(c, e, snap, &layout));
    GR_TRY(gr_foreign_write(layout, *model, &theirs));
    gr_snapshot_destroy(*model);
    *model = theirs;
    return GR_OK;
}

static gr_status export(const gr_command *c, gr_export *e)
{
    gr_snapshot *snap = NULL, *model = NULL;
    gr_text from = GR_TEXT_INIT;
    int n_absent = 0;
    gr_status st;

    GR_TRY_GOTO(st, read_checkpoint(e, &snap, &from), done);
    if (!e->raw)
        e->ema = e->ema || has_averages(snap);
    if (!e->trainable_only)
        n_absent = count_absent(snap);
    if (n_absent > 0)
        GR_TRY_GOTO(st, complete(c, e, gr_text_str(&from), n_absent, &snap), done);
    GR_TRY_GOTO(st, gr_export_model(snap, e, &model), done);
    GR_TRY_GOTO(st, lay_out(c, e, snap, &model), done);
    GR_TRY_GOTO(st, gr_ckpt_write(e->output, model), done);
    tell(c, e, model, gr_text_str(&from));
    if (n_absent > 0)
        tell_origin(c, e, snap, n_absent);

done:
    gr_snapshot_destroy(model);
    gr_snapshot_destroy(snap);
    gr_text_fini(&from);
    return gr_wrap(st, "export");
}

#define N_OPTIONS 11

static void make_table(gr_export *e, gr_option table[N_OPTIONS])
{
    const gr_option rows[N_OPTIONS] = {
        { "checkpoint", GR_OPTION_TEXT, &e->checkpoint, 0, 0, NULL, "WHICH",
          "best, last, a file, or the folder of a run" },
        { "output", GR_OPTION_TEXT, &e->output, 0, 0, NULL, "FILE", ".safetensors, .pt or .pth" },
        { "output_dir", GR_OPTION_TEXT, &e->output_dir, 0, 0, NULL, "FOLDER", "the run" },
        { "run_id", GR_OPTION_TEXT, &e->run_id, 0, 0, NULL, "NAME", "the run, by its name" },
        { "best", GR_OPTION_FLAG, &e->best, 0, 0, NULL, NULL, "as --checkpoint best" },
        { "ema", GR_OPTION_FLAG, &e->ema, 0, 0, NULL, NULL,
          "averages, or fail; without it they are taken where there are" },
        { "raw", GR_OPTION_FLAG, &e->raw, 0, 0, NULL, NULL, "parameters and not their averages" },
        { "trainable_only", GR_OPTION_FLAG, &e->trainable_only, 0, 0, NULL, NULL,
          "without frozen parameters" },
        { "layout", GR_OPTION_TEXT, &e->layout, 0, 0, NULL, "NAME",
          "as another project's files are, where the recipe knows them" },
        { "pretrained", GR_OPTION_TEXT, &e->pretrained, 0, 0, NULL, "FILE",
          "what the run began with, if it is elsewhere now; for frozen parameters" },
        { 0 }
    };

    memcpy(table, rows, sizeof(rows));
}

/* A word is the run or file, or a pick, as --checkpoint is. */
static gr_status take_word(gr_export *e, const char *word)
{
    const char **place =
        strcmp(word, "best") == 0 || strcmp(word, "last") == 0 ? &e->pick : &e->source;

    if (*place && strcmp(*place, word) != 0 && place == &e->source && !e->output)
        return gr_fail(GR_ERR_ARG,
                       "export: '%s' and '%s': one is what to read; the file to write comes after "
                       "--output",
                       *place, word);
    if (*place && strcmp(*place, word) != 0)
        return gr_fail(GR_ERR_ARG, "export: '%s' and '%s': give one of them", *place, word);
    *place = word;
    return GR_OK;
}

/* By name, as gr_ckpt_write() goes, which takes all others for safetensors. */
static gr_status check_format(const char *output)
{
    static const char *const known[] = { ".safetensors", ".pt", ".pth" };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t n = strlen(output), n_end = strlen(known[i]);

        if (n > n_end && strcmp(output + n - n_end, known[i]) == 0)
            return GR_OK;
    }
    return gr_fail(GR_ERR_ARG,
                   "export: '%s' has no ending that says what to write: --output FILE.safetensors, "
                   "or .pt or .pth for PyTorch",
                   output);
}

gr_status gr_export_command(const gr_command *c)
{
    gr_option table[N_OPTIONS];
    gr_export e = { 0 };
    int at = 0, n_used;

    make_table(&e, table);
    while (at < c->argc) {
        GR_TRY(gr_option_parse(table, c->argc - at, c->argv + at, &n_used));
        at += n_used;
        if (at < c->argc)
            GR_TRY(take_word(&e, c->argv[at++]));
    }
    if (e.checkpoint)
        GR_TRY(take_word(&e, e.checkpoint));
    if (e.best)
        GR_TRY(take_word(&e, "best"));
    if (e.raw && e.ema)
        return gr_fail(GR_ERR_ARG, "export: --raw and --ema: give one of them");
    if (e.layout && e.output && strstr(e.output, ".safetensors"))
        return gr_fail(GR_ERR_ARG, "export: --layout is of PyTorch's files: --output FILE.pt");
    if ((!e.source && !e.output_dir && !e.run_id) || !e.output)
        return gr_fail(GR_ERR_ARG, "export: say from where and to where: gradus export RUN "
                                   "--output model.safetensors");
    GR_TRY(check_format(e.output));
    return export(c, &e);
}

void gr_export_help(gr_text *out)
{
    gr_option table[N_OPTIONS];
    gr_export e = { 0 };

    make_table(&e, table);
    gr_text_add(
        out, "usage: gradus export CHECKPOINT --output FILE [OPTION...]\n\n"
             "Writes the model of a checkpoint, without the state of training: of a run the "
             "best one,\nelse the last, and averages where there are, as test takes them. "
             "The kind of file goes by\nits name: .safetensors, or .pt and .pth, "
             "which are PyTorch's. Frozen\nparameters that a trainable_only run left out come from "
             "where the run had them: its\n--pretrained file, else drawn with its seed, for "
             "which its data must be at hand.\n\n");
    gr_option_help(table, out);
}
