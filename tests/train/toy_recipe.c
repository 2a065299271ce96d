/*
 * Chains of residues that carry fragments. A chain is of one of two kinds, which only its residues
 * tell; a fragment's class follows from its number and the chain's kind. So a model that learns
 * uses both axes, and one that looks at padding gets it wrong.
 */
#include "train/toy_inside.h"

#include "base/text.h"
#include "gradus/loss.h"
#include "gradus/nn.h"
#include "gradus/ops.h"
#include "gradus/random.h"
#include "gradus/settings.h"
#include "train/command.h"
#include "train/config/process.h"
#include "train/toy_keep.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { N_RESIDUES = 8, N_FRAGMENTS = 6, IGNORED = -100 };
enum { FEED_RESIDUES, FEED_FRAGMENTS, FEED_CLASS, N_FEEDS };
#define SPAN    60
#define N_OTHER 41 /* validation, test and prediction: no multiple of the ranks */

/* ---- data ---- */

static uint64_t hash(gr_split split, int64_t index, int64_t what)
{
    uint64_t x = ((uint64_t)split << 60) ^ ((uint64_t)index << 20) ^ (uint64_t)what;

    for (int i = 0; i < 3; i++) {
        x ^= x >> 31;
        x = x * 0xd6e8feb86659fd93u + 0x9e3779b97f4a7c15u;
    }
    return x ^ (x >> 32);
}

static gr_status lengths(const void *user, gr_split split, int64_t index, int64_t *out)
{
    const toy *t = user;

    out[TOY_RESIDUES] = 5 + (int64_t)(hash(split, index, -1) % (uint64_t)t->span);
    out[TOY_FRAGMENTS] = out[TOY_RESIDUES] * 2 + (int64_t)(hash(split, index, -2) % 12);
    if (split != GR_SPLIT_TRAIN && index == 3)
        out[TOY_RESIDUES] = 150; /* longer than any that was trained on */
    return GR_OK;
}

void toy_lengths(int64_t index, int64_t out[TOY_AXES])
{
    static const toy t = { .span = SPAN };

    GR_IGNORE(lengths(&t, GR_SPLIT_TRAIN, index, out));
}

static gr_status open_toy(void **user, const gr_recipe_config *config)
{
    toy *t = calloc(1, sizeof(*t));
    gr_status st;

    if (!t)
        return gr_fail(GR_ERR_NOMEM, "no memory for the recipe");
    for (int split = 0; split < GR_N_SPLITS; split++)
        t->size[split] = N_OTHER;
    t->size[GR_SPLIT_TRAIN] = config->n_train > 0 ? config->n_train : TOY_TRAIN;
    t->span = gr_settings_int(config->settings, "toy.span");
    t->broken = gr_settings_int(config->settings, "toy.broken");
    t->dropout = gr_settings_f64(config->settings, "toy.dropout");
    t->size_weight = gr_settings_f64(config->settings, "toy.size_weight");
    t->draws = gr_settings_int(config->settings, "toy.draws");
    t->judge = gr_settings_text(config->settings, "toy.judge");
    st = toy_check_cache(config);
    if (st == GR_OK)
        st = toy_open_state(&t->state, config);
    if (st != GR_OK)
        free(t);
    else
        *user = t;
    return st;
}

static gr_status save(const void *user, gr_snapshot *into)
{
    return toy_save_state(&((const toy *)user)->state, into);
}

static int64_t size_of(const void *user, gr_split split)
{
    return ((const toy *)user)->size[split];
}

/* For the sampler `distributed`: every third one, from another beginning in each epoch. */
static gr_status order(const void *user, uint64_t seed, int64_t epoch, int64_t *index)
{
    int64_t n = ((const toy *)user)->size[GR_SPLIT_TRAIN], at = 0;

    for (int64_t first = 0; first < 3; first++)
        for (int64_t i = first; i < n; i += 3)
            index[at++] = (i + (int64_t)(seed % 7) + epoch * 5) % n;
    return GR_OK;
}

/* Each thread has its own list of residues. */
static gr_status open_scratch(const void *user, void **scratch)
{
    (void)user;
    *scratch = calloc(256, sizeof(int32_t));
    return *scratch ? GR_OK : gr_fail(GR_ERR_NOMEM, "no memory for residues");
}

static gr_status load(const void *user, const gr_sample *s, void *scratch,
                      const gr_feed_slot *feeds)
{
    const toy *t = user;
    int32_t kind = (int32_t)(hash(s->split, s->index, -3) & 1), *list = scratch;
    int32_t *fragment = feeds[FEED_FRAGMENTS].mem, *class = feeds[FEED_CLASS].mem;
    int64_t n[TOY_AXES];

    if (s->split == GR_SPLIT_TRAIN && s->index == t->broken)
        return gr_fail(GR_ERR_FORMAT, "chain %" PRId64 " is broken", s->index);
    GR_TRY(lengths(user, s->split, s->index, n));
    if (feeds[FEED_RESIDUES].shape.dim[0] < n[TOY_RESIDUES] ||
        feeds[FEED_CLASS].shape.dim[0] < n[TOY_FRAGMENTS])
        return gr_fail(GR_ERR_ARG, "chain %" PRId64 " does not fit", s->index);
    for (int64_t i = 0; i < n[TOY_RESIDUES]; i++)
        list[i] = (int32_t)(hash(s->split, s->index, i) % (N_RESIDUES / 2)) + kind * N_RESIDUES / 2;
    memcpy(feeds[FEED_RESIDUES].mem, list, (size_t)n[TOY_RESIDUES] * sizeof(*list));
    for (int64_t i = 0; i < n[TOY_FRAGMENTS]; i++) {
        fragment[i] = (int32_t)(hash(s->split, s->index, 1000 + i) % N_FRAGMENTS);
        if (s->split != GR_SPLIT_PREDICT)
            class[i] = (fragment[i] + 2 * kind) % TOY_CLASSES;
    }
    return GR_OK;
}

/* ---- model ---- */

static gr_value *axis_mask(gr_graph *g, const char *name)
{
    gr_value *mask = gr_cast(g, gr_input(g, name), GR_F32);
    gr_shape shape = gr_value_shape(mask);

    return gr_reshape(g, mask, GR_SHAPE(shape.dim[0], shape.dim[1], 1));
}

static gr_value *logits_of(gr_graph *g, const toy *t)
{
    gr_value *residues =
        gr_embedding_layer(g, "residue", gr_input(g, "residues"), N_RESIDUES, TOY_WIDTH, NULL);
    gr_value *x =
        gr_embedding_layer(g, "fragment", gr_input(g, "fragments"), N_FRAGMENTS, TOY_WIDTH, NULL);
    gr_value *sum = gr_sum(g, gr_mul(g, residues, axis_mask(g, "residues.mask")), GR_AXIS(1), true);
    gr_value *n = gr_cast(g, gr_input(g, "residues.length"), GR_F32);
    gr_shape shape = gr_value_shape(sum);

    n = gr_reshape(g, n, GR_SHAPE(shape.dim[0], 1, 1));
    x = gr_relu(g, gr_linear(g, "mix", gr_add(g, x, gr_div(g, sum, n)), TOY_WIDTH));
    return gr_linear(g, "head", gr_dropout(g, x, t->dropout), TOY_CLASSES);
}

/* Two terms, which count differently: the second also keeps the logits of what is padded small. */
static void add_losses(gr_graph *g, const toy *t, gr_value *logits)
{
    gr_value *size = gr_mean(g, gr_square(g, logits), GR_AXIS(2), true);

    gr_loss_add_cross_entropy(g, "ce", 1, logits, gr_input(g, "class"),
                              &(gr_cross_entropy_options){ .ignore_index = IGNORED });
    gr_loss_add_mean(g, "size", t->size_weight, size, axis_mask(g, "fragments.mask"));
    gr_record(g, "longest", gr_input(g, "fragments.length"), GR_RECORD_MAX);
}

static gr_status train(gr_graph *g, void *user)
{
    add_losses(g, user, logits_of(g, user));
    return gr_graph_status(g);
}

static gr_status eval(gr_graph *g, void *user)
{
    gr_value *logits = logits_of(g, user);

    gr_output(g, "logits", logits);
    add_losses(g, user, logits);
    return gr_graph_status(g);
}

/* ---- evaluation ---- */

static int best_of(const float *row)
{
    int best = 0;

    for (int c = 1; c < TOY_CLASSES; c++)
        best = row[c] > row[best] ? c : best;
    return best;
}

static void score(const void *user, const gr_eval *e, double *counts)
{
    const float *logits = e->outputs[0];
    const int32_t *class = e->feeds[FEED_CLASS];

    (void)user;
    for (int64_t i = 0; i < e->n * e->padded[TOY_FRAGMENTS]; i++)
        if (class[i] != IGNORED) {
            counts[TOY_N_RIGHT] += best_of(logits + i * TOY_CLASSES) == class[i];
            counts[TOY_N_ALL]++;
        }
}

static void measure(const void *user, const double *counts, double *values)
{
    (void)user;
    values[0] = counts[TOY_N_RIGHT] / counts[TOY_N_ALL];
    values[1] = counts[TOY_N_ALL];
    values[2] = counts[TOY_DRAWN];
}

/* Lengths come with the feeds: behind the recipe's own, those of axis 0, of axis 1. */
static gr_status predict(const void *user, const gr_eval *e, gr_results *out)
{
    const int32_t *n_residues = e->feeds[N_FEEDS + 1], *n_fragments = e->feeds[N_FEEDS + 3];
    const float *logits = e->outputs[0];

    (void)user;
    for (int64_t i = 0; i < e->n; i++) {
        gr_cell cells[] = {
            { .i = e->index[i] }, { .i = n_residues[i] }, { .i = n_fragments[i] }, { .i = 0 }
        };
        gr_text classes = GR_TEXT_INIT;
        gr_status st;

        for (int64_t k = 0; k < n_fragments[i]; k++)
            gr_text_addf(&classes, "%d",
                         best_of(logits + (i * e->padded[TOY_FRAGMENTS] + k) * TOY_CLASSES));
        cells[3].text = gr_text_str(&classes);
        st = gr_text_status(&classes);
        if (st == GR_OK)
            st = gr_results_row(out, e->index[i], cells);
        gr_text_fini(&classes);
        GR_TRY(st);
    }
    return GR_OK;
}

/* ---- tables ---- */

static gr_status describe(const void *user, gr_recipe_view *out)
{
    static const gr_axis axes[TOY_AXES] = { { .name = "residues", .cost = 1, .max = 150 },
                                            { .name = "fragments", .multiple = 16, .cost = 0.5 } };
    static const gr_field feeds[N_FEEDS] = {
        { "residues", GR_I32, { 1, { GR_AXIS_DIM(TOY_RESIDUES) } }, 0 },
        { "fragments", GR_I32, { 1, { GR_AXIS_DIM(TOY_FRAGMENTS) } }, 0 },
        { "class", GR_I32, { 1, { GR_AXIS_DIM(TOY_FRAGMENTS) } }, IGNORED },
    };
    static const gr_field logits = {
        "logits", GR_F32, { 2, { GR_AXIS_DIM(TOY_FRAGMENTS), TOY_CLASSES } }, 0
    };
    static const gr_column columns[] = { { .name = "index", .kind = GR_COLUMN_INT },
                                         { .name = "residues", .kind = GR_COLUMN_INT },
                                         { .name = "fragments", .kind = GR_COLUMN_INT },
                                         { .name = "classes", .kind = GR_COLUMN_TEXT } };
    static const gr_metric_info metrics[] = { { .name = "accuracy", .is_share = true },
                                              { .name = "fragments" },
                                              { .name = "drawn" } };

    (void)user;
    *out = (gr_recipe_view){ .feeds = feeds,
                             .n_feeds = N_FEEDS,
                             .outputs = &logits,
                             .n_outputs = 1,
                             .axes = axes,
                             .n_axes = TOY_AXES,
                             .metrics = metrics,
                             .n_metrics = 3,
                             .n_counts = TOY_N_COUNTS,
                             .columns = columns,
                             .n_columns = 4 };
    return GR_OK;
}

static const gr_key keys[] = {
    { .name = "toy.span",
      .kind = GR_KEY_INT,
      .preset = "60",
      .min = 1,
      .max = 1000,
      .help = "lengths" },
    { .name = "toy.broken",
      .kind = GR_KEY_INT,
      .preset = "-1",
      .min = -1,
      .max = 1e6,
      .help = "a sample that does not load" },
    { .name = "toy.dropout",
      .kind = GR_KEY_F64,
      .preset = "0",
      .min = 0,
      .max = 0.9,
      .help = "dropout" },
    { .name = "toy.size_weight",
      .kind = GR_KEY_F64,
      .preset = "0",
      .min = 0,
      .max = 10,
      .help = "of a second loss" },
    { .name = "toy.draws",
      .kind = GR_KEY_INT,
      .preset = "0",
      .min = 0,
      .max = 1000,
      .help = "points that test and predict draw" },
    { .name = "toy.judge", .kind = GR_KEY_TEXT, .help = "a checkpoint that draws them, too" },
    { .name = "toy.cache",
      .kind = GR_KEY_TEXT,
      .use = GR_KEY_WRITES,
      .help = "folder of what is prepared; default: nothing is" },
    { .name = "toy.parts",
      .kind = GR_KEY_INT,
      .preset = "6",
      .min = 1,
      .max = 1000,
      .help = "of the cache" },
    { .name = "toy.part_ms",
      .kind = GR_KEY_INT,
      .preset = "0",
      .min = 0,
      .max = 1e6,
      .help = "what building a part takes" },
    { .name = "toy.broken_part",
      .kind = GR_KEY_INT,
      .preset = "-1",
      .min = -1,
      .max = 1e6,
      .help = "a part that cannot be built" },
    { .name = "toy.word", .kind = GR_KEY_TEXT, .help = "state; default: there is none" },
    { .name = "toy.differs",
      .kind = GR_KEY_BOOL,
      .preset = "false",
      .help = "ranks settle different state" },
};

static const gr_recipe_data data = {
    .open = open_toy,
    .close = free,
    .save = save,
    .preparation = &toy_preparation,
    .describe = describe,
    .size = size_of,
    .lengths = lengths,
    .scratch_open = open_scratch,
    .scratch_close = free,
    .load = load,
    .order = order,
};

static const gr_named_trace traces[] = { { "train", train },
                                         { "eval", eval },
                                         { "sample", toy_sample } };
static const gr_recipe_model model = { traces, 3 };

static const gr_recipe_evaluation evaluation = {
    .score = score,
    .measure = measure,
    .show = toy_show,
    .predict = predict,
    .work = toy_work,
    .prepare = toy_prepare,
    .score_unit = toy_score_unit,
    .predict_unit = toy_predict_unit,
};

static const gr_preset presets[] = {
    { "train.epochs", "2", NULL },
    { "train.batch_size", "8", NULL },
    { "train.lr", "1e-2", NULL },
    { "train.optimizer.weight_decay", "0.01", NULL },
};

/* As another project would write it. */
static const gr_foreign_rule rules[] = {
    { "net_state_dict", "net.unused.", NULL, 0 },
    { "net_state_dict", "net.", "", 0 },
};
static const gr_foreign layouts[] = { { "original", rules, 2 } };

const gr_recipe toy_recipe = {
    .abi = GR_RECIPE_ABI,
    .name = "toy",
    .help = "chains of two lengths",
    .presets = presets,
    .n_presets = (int)(sizeof(presets) / sizeof(presets[0])),
    .actions = &toy_points,
    .n_actions = 1,
    .foreign = layouts,
    .n_foreign = 1,
    .keys = keys,
    .n_keys = sizeof(keys) / sizeof(keys[0]),
    .data = &data,
    .model = &model,
    .evaluation = &evaluation,
};

/* ---- the program ---- */

static gr_status run(gr_command *c, int argc, char **argv)
{
    const gr_verb *verb = NULL;
    gr_text out = GR_TEXT_INIT;
    bool wants_help = false;
    int signal = 0;
    gr_status st = gr_command_choose(c, argc, argv, &verb, &wants_help);

    if (st == GR_OK)
        st = verb->run(c, &out, &signal);
    fputs(gr_text_str(&out), stdout);
    gr_text_fini(&out);
    return st;
}

int toy_main(const char *program, int argc, char **argv)
{
    static const gr_recipe *const recipes[] = { &toy_recipe, NULL };
    gr_command c = { .program = program, .recipes = recipes, .out = stdout };
    gr_status st = run(&c, argc, argv);

    if (st != GR_OK)
        fprintf(stderr, "toy: %s: %s\n", gr_status_text(st), gr_error_message());
    return st == GR_OK ? 0 : gr_exit_code(st);
}
