/*
 * Recipes: what is trained. A recipe is a table of functions: its data, its model, and
 * how an evaluation is counted. The trainer brings the rest: ranks, order of samples,
 * precision, checkpoints, progress. A recipe sees only the public headers.
 */
#ifndef GRADUS_RECIPE_H
#define GRADUS_RECIPE_H

#include "gradus/optim.h"
#include "gradus/step.h"
#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Goes up whenever the structs below change; the trainer refuses another number. */
#define GR_RECIPE_ABI 1

typedef enum gr_split { GR_SPLIT_TRAIN, GR_SPLIT_EVAL } gr_split;

/* What the user asked for; 0 or NULL leaves the choice to the recipe. */
typedef struct gr_recipe_config {
    uint64_t seed;
    int64_t n_train, n_eval; /* samples */
} gr_recipe_config;

/* One tensor of one sample. The trainer puts the batch dimension in front. */
typedef struct gr_field {
    const char *name;
    gr_dtype dtype;
    gr_shape shape;
} gr_field;

/* Settings that suit the recipe; flags change them. */
typedef struct gr_recipe_defaults {
    int64_t epochs, batch_size; /* of one rank */
    double lr;
    gr_optim optim;
} gr_recipe_defaults;

#define GR_RECIPE_MAX_FEEDS 8

typedef struct gr_recipe {
    uint32_t abi; /* GR_RECIPE_ABI; read before anything else */
    const char *name, *help;
    gr_recipe_defaults defaults;

    const gr_field *feeds; /* inputs of the trace; at most GR_RECIPE_MAX_FEEDS */
    int n_feeds;
    gr_field output;    /* of the evaluation trace: what score() is handed, f32 */
    const char *metric; /* name of the share that score() counts: "accuracy" */

    /* Equal configs give equal data on every rank. The caller owns *user. */
    gr_status (*create)(void **user, const gr_recipe_config *config);
    void (*destroy)(void *user); /* accepts NULL */
    int64_t (*size)(const void *user, gr_split split);

    /* Writes sample `index` to mem[i] of each feed i. Depends on nothing but its
     * arguments. May be called by several threads at once. */
    gr_status (*load)(const void *user, gr_split split, int64_t index, void *const *mem);

    gr_trace_fn *trace; /* handed `user` */

    /* How many of the n samples of a batch are right. `output` holds n rows of the field
     * above, mem[i] n samples of feed i. Counts are added over batches and ranks. */
    int64_t (*score)(const void *user, const float *output, void *const *mem, int64_t n);
} gr_recipe;

#ifdef __cplusplus
}
#endif

#endif
