/* A recipe in one process: settings from text, a loop without a trainer. For tests. */
#ifndef GR_TESTS_RECIPE_RUN_H
#define GR_TESTS_RECIPE_RUN_H

#include "gradus/gradus.h"
#include "gradus/settings.h"

/* Of feeds, of outputs, of metrics: more than the recipes have. */
#define RECIPE_FIELDS  8
#define RECIPE_METRICS 64

typedef struct recipe_run {
    const gr_recipe *recipe;
    gr_settings *settings;
    void *user, *scratch;
    gr_recipe_view view;
    gr_step *step;
    int64_t batch;
    void *mem[RECIPE_FIELDS], *outputs[RECIPE_FIELDS];
    int64_t *index;
    double *counts;
} recipe_run;

typedef struct recipe_options {
    gr_task task;
    int64_t n_train, n_valid, batch;
    gr_optim optim;
} recipe_options;

/* The recipe of that name; NULL: none. */
const gr_recipe *recipe_find(const char *name);

/* What open() says about settings in YAML. */
gr_status recipe_try(recipe_run *r, const char *name, const char *yaml, const recipe_options *o);
/* The same, which must work; with a step. */
void recipe_open(recipe_run *r, const char *name, const char *yaml, const recipe_options *o);
void recipe_close(recipe_run *r);

/* Feeds of samples first .. first + n of a split (modulo its size), in memory of the run. */
void recipe_feeds(recipe_run *r, const gr_sample *first, int64_t n, gr_named *feeds);
/* Steps with a learning rate that goes to 0 on a cosine; returns the last loss. */
double recipe_train(recipe_run *r, int64_t n_steps, double lr);
/* All of a split; values of the metrics. */
void recipe_evaluate(recipe_run *r, gr_split split, double *values);
/* Whether the columns of predictions are called so, "index,file,class". */
bool recipe_has_columns(const recipe_run *r, const char *names);
/* The value of a metric by name. */
double recipe_value(const recipe_run *r, const double *values, const char *name);

#endif
