/*
 * What evaluations decide: which one was the best, whether to go on, and the learning rate
 * of a plateau. Every rank shows it the same values (they are sums over all ranks, P35), so
 * every rank decides alike (P5). A plain value; its memory goes into checkpoints.
 */
#ifndef GR_TRAIN_JUDGE_H
#define GR_TRAIN_JUDGE_H

#include "base/text.h"
#include "gradus/recipe.h"
#include "gradus/schedule.h"
#include "train/options.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_judge {
    int metric;       /* number in the recipe's list; -1: the loss */
    const char *name; /* of it; borrowed */
    bool maximize;
    int64_t patience; /* 0: without end */
    double min_delta;
    bool has_plateau;

    /* What it remembers. */
    bool has_best;
    double best;
    int64_t best_step; /* steps that the best model had trained */
    double mark;       /* the last value that was better by min_delta */
    int64_t n_bad;     /* evaluations since */
    gr_plateau plateau;
} gr_judge;

/* GR_ERR_ARG: best_by names no metric of the recipe. */
gr_status gr_judge_init(gr_judge *j, const gr_train_options *o,
                        const gr_recipe_view *view) GR_MUST_CHECK;

/* After an evaluation at `step`; true: the best so far. NaN is never better. */
bool gr_judge_observe(gr_judge *j, double value, int64_t step);
/* Patience is at its end. */
bool gr_judge_gives_up(const gr_judge *j);
/* What the learning rate is multiplied with. */
double gr_judge_lr_scale(const gr_judge *j);

/* Its memory as a line of text, exact, and back. GR_ERR_FORMAT. */
void gr_judge_print(const gr_judge *j, gr_text *out);
gr_status gr_judge_parse(gr_judge *j, const char *text) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
