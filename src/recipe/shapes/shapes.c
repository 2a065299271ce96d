/*
 * The recipe `shapes`: an MLP 784-256-128-10 tells drawn shapes apart. It needs no
 * download, trains in seconds, and is the pattern for a recipe of your own.
 */
#include "recipe/recipes.h"
#include "recipe/shapes/draw.h"

#include "gradus/nn.h"
#include "gradus/ops.h"

#include <stdlib.h>

#define N_TRAIN 24000
#define N_EVAL  4000

typedef struct shapes_data {
    uint64_t key[2]; /* of the splits' streams */
    int64_t size[2];
} shapes_data;

static gr_status shapes_create(void **user, const gr_recipe_config *config)
{
    shapes_data *d = malloc(sizeof(*d));

    if (!d)
        return gr_fail(GR_ERR_NOMEM, "no memory for the recipe");
    for (int split = 0; split < 2; split++)
        d->key[split] = config->seed * 2 + (uint64_t)split;
    d->size[GR_SPLIT_TRAIN] = config->n_train ? config->n_train : N_TRAIN;
    d->size[GR_SPLIT_EVAL] = config->n_eval ? config->n_eval : N_EVAL;
    *user = d;
    return GR_OK;
}

static int64_t shapes_size(const void *user, gr_split split)
{
    return ((const shapes_data *)user)->size[split];
}

static gr_status shapes_load(const void *user, gr_split split, int64_t index, void *const *mem)
{
    const shapes_data *d = user;

    *(int32_t *)mem[1] = gr_shapes_draw(d->key[split], (uint64_t)index, mem[0]);
    return GR_OK;
}

static gr_status shapes_trace(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "image");
    gr_value *label = gr_input(g, "label");

    (void)user;
    x = gr_relu(g, gr_linear(g, "fc1", x, 256));
    x = gr_relu(g, gr_linear(g, "fc2", x, 128));
    x = gr_linear(g, "fc3", x, GR_SHAPES_CLASSES);
    gr_output(g, "logits", x);
    gr_loss(g, gr_cross_entropy(g, x, label));
    return gr_graph_status(g);
}

static int64_t shapes_score(const void *user, const float *output, void *const *mem, int64_t n)
{
    const int32_t *label = mem[1];
    int64_t n_right = 0;

    (void)user;
    for (int64_t i = 0; i < n; i++) {
        const float *row = output + i * GR_SHAPES_CLASSES;
        int best = 0;

        for (int c = 1; c < GR_SHAPES_CLASSES; c++)
            best = row[c] > row[best] ? c : best;
        n_right += best == label[i];
    }
    return n_right;
}

static const gr_field feeds[] = {
    { "image", GR_F32, { 1, { GR_SHAPES_PIXELS } } },
    { "label", GR_I32, { 0 } },
};

const gr_recipe gr_recipe_shapes = {
    .abi = GR_RECIPE_ABI,
    .name = "shapes",
    .help = "an MLP tells ten kinds of drawn shapes apart; the data are computed",
    .defaults = { .epochs = 8, .batch_size = 64, .lr = 2e-3, .optim = GR_OPTIM_ADAMW_INIT },
    .feeds = feeds,
    .n_feeds = 2,
    .output = { "logits", GR_F32, { 1, { GR_SHAPES_CLASSES } } },
    .metric = "accuracy",
    .create = shapes_create,
    .destroy = free,
    .size = shapes_size,
    .load = shapes_load,
    .trace = shapes_trace,
    .score = shapes_score,
};
