/* What a test gave, for people and programs. */
#ifndef GR_TRAIN_SCORES_H
#define GR_TRAIN_SCORES_H

#include "base/text.h"
#include "gradus/recipe.h"
#include "train/parts.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an evaluation gave: values in the order of the recipe's metrics. */
typedef struct gr_scores {
    double loss, *values;
    const gr_loss_part *parts; /* of the loss, and records of the trace; borrowed */
    int n_parts;
    bool has_no_loss;  /* nothing was evaluated in batches, or its trace has none */
    int64_t n_samples; /* that were evaluated, by all ranks */
} gr_scores;

/* Rows "  accuracy   98.20%", the loss first. */
void gr_scores_table(const gr_recipe_view *view, const gr_scores *s, gr_text *out);
/* {"samples": 100, "loss": 0.5, "accuracy": 0.982}; what is no number is null. */
void gr_scores_json(const gr_recipe_view *view, const gr_scores *s, gr_text *out);
/* "metric,value" and a line for each. */
void gr_scores_csv(const gr_recipe_view *view, const gr_scores *s, gr_text *out);
/* Both as test_metrics.json and test_metrics.csv in the folder. */
gr_status gr_scores_write(const gr_recipe_view *view, const gr_scores *s,
                          const char *folder) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
