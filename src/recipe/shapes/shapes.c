/*
 * The recipe `shapes`: an MLP 784-256-128-10 tells drawn shapes apart. It needs no
 * download, trains in seconds, and is the pattern for a recipe of your own.
 */
#include "recipe/recipes.h"
#include "recipe/shapes/draw.h"

#include "gradus/loss.h"
#include "gradus/nn.h"
#include "gradus/ops.h"

#include <stdlib.h>

#define N_TRAIN 24000
#define N_OTHER 4000

typedef struct shapes_data {
    uint64_t key[GR_N_SPLITS]; /* of the splits' streams */
    int64_t size[GR_N_SPLITS];
} shapes_data;

static gr_status shapes_open(void **user, const gr_recipe_config *config)
{
    shapes_data *d = malloc(sizeof(*d));

    if (!d)
        return gr_fail(GR_ERR_NOMEM, "no memory for the recipe");
    for (int split = 0; split < GR_N_SPLITS; split++) {
        d->key[split] = config->seed * GR_N_SPLITS + (uint64_t)split;
        d->size[split] = config->n_valid ? config->n_valid : N_OTHER;
    }
    d->size[GR_SPLIT_TRAIN] = config->n_train ? config->n_train : N_TRAIN;
    *user = d;
    return GR_OK;
}

static int64_t shapes_size(const void *user, gr_split split)
{
    return ((const shapes_data *)user)->size[split];
}

static gr_status shapes_load(const void *user, const gr_sample *s, void *scratch,
                             const gr_feed_slot *feeds)
{
    const shapes_data *d = user;

    (void)scratch;
    *(int32_t *)feeds[1].mem = gr_shapes_draw(d->key[s->split], (uint64_t)s->index, feeds[0].mem);
    return GR_OK;
}

static gr_value *logits_of(gr_graph *g)
{
    gr_value *x = gr_input(g, "image");

    x = gr_relu(g, gr_linear(g, "fc1", x, 256));
    x = gr_relu(g, gr_linear(g, "fc2", x, 128));
    return gr_linear(g, "fc3", x, GR_SHAPES_CLASSES);
}

static gr_status shapes_train(gr_graph *g, void *user)
{
    gr_value *logits = logits_of(g);

    (void)user;
    gr_loss_add_cross_entropy(g, "ce", 1, logits, gr_input(g, "label"), NULL);
    return gr_graph_status(g);
}

static gr_status shapes_eval(gr_graph *g, void *user)
{
    gr_value *logits = logits_of(g);

    (void)user;
    gr_output(g, "logits", logits);
    gr_loss_add_cross_entropy(g, "ce", 1, logits, gr_input(g, "label"), NULL);
    return gr_graph_status(g);
}

static int best_of(const float *row)
{
    int best = 0;

    for (int c = 1; c < GR_SHAPES_CLASSES; c++)
        best = row[c] > row[best] ? c : best;
    return best;
}

enum { N_RIGHT, N_ALL, N_COUNTS };

static void shapes_score(const void *user, const gr_eval *e, double *counts)
{
    const float *logits = e->outputs[0];
    const int32_t *label = e->feeds[1];

    (void)user;
    for (int64_t i = 0; i < e->n; i++)
        counts[N_RIGHT] += best_of(logits + i * GR_SHAPES_CLASSES) == label[i];
    counts[N_ALL] += (double)e->n;
}

static void shapes_measure(const void *user, const double *counts, double *values)
{
    (void)user;
    values[0] = counts[N_RIGHT] / counts[N_ALL];
}

static gr_status shapes_predict(const void *user, const gr_eval *e, gr_results *out)
{
    const float *logits = e->outputs[0];

    (void)user;
    for (int64_t i = 0; i < e->n; i++) {
        int best = best_of(logits + i * GR_SHAPES_CLASSES);
        gr_cell cells[] = { { .i = e->index[i] }, { .i = best }, { .text = gr_shapes_name(best) } };

        GR_TRY(gr_results_row(out, e->index[i], cells));
    }
    return GR_OK;
}

static gr_status shapes_describe(const void *user, gr_recipe_view *out)
{
    static const gr_field feeds[] = {
        { "image", GR_F32, { 1, { GR_SHAPES_PIXELS } }, 0 },
        { "label", GR_I32, { 0 }, 0 },
    };
    static const gr_field logits = { "logits", GR_F32, { 1, { GR_SHAPES_CLASSES } }, 0 };
    static const gr_column columns[] = { { .name = "index", .kind = GR_COLUMN_INT },
                                         { .name = "class", .kind = GR_COLUMN_INT },
                                         { .name = "name", .kind = GR_COLUMN_TEXT } };
    static const gr_metric_info accuracy = { .name = "accuracy", .is_share = true };

    (void)user;
    *out = (gr_recipe_view){ .feeds = feeds,
                             .n_feeds = 2,
                             .outputs = &logits,
                             .n_outputs = 1,
                             .metrics = &accuracy,
                             .n_metrics = 1,
                             .n_counts = N_COUNTS,
                             .columns = columns,
                             .n_columns = 3 };
    return GR_OK;
}

static const gr_recipe_data data = {
    .open = shapes_open,
    .close = free,
    .describe = shapes_describe,
    .size = shapes_size,
    .load = shapes_load,
};

static const gr_named_trace traces[] = { { "train", shapes_train }, { "eval", shapes_eval } };
static const gr_recipe_model model = { traces, 2 };

static const gr_recipe_evaluation evaluation = {
    .score = shapes_score,
    .measure = shapes_measure,
    .predict = shapes_predict,
};

static const gr_preset presets[] = {
    { "train.epochs", "8", NULL },
    { "train.batch_size", "64", NULL },
    { "train.lr", "2e-3", NULL },
    { "train.optimizer.weight_decay", "0.01", NULL },
};

const gr_recipe gr_recipe_shapes = {
    .abi = GR_RECIPE_ABI,
    .name = "shapes",
    .help = "an MLP tells ten kinds of drawn shapes apart; the data are computed",
    .presets = presets,
    .n_presets = sizeof(presets) / sizeof(presets[0]),
    .data = &data,
    .model = &model,
    .evaluation = &evaluation,
};
