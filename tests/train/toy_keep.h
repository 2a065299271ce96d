/* A cache and state for the toy recipe. */
#ifndef GR_TESTS_TRAIN_TOY_KEEP_H
#define GR_TESTS_TRAIN_TOY_KEEP_H

#include "gradus/recipe.h"

enum { TOY_MEANS = 3 };

typedef struct toy_state {
    double means[TOY_MEANS];
    char word[64];
} toy_state;

extern const gr_preparation toy_preparation;
gr_status toy_check_cache(const gr_recipe_config *config) GR_MUST_CHECK;

/* From the checkpoint, or settled anew by a training. */
gr_status toy_open_state(toy_state *s, const gr_recipe_config *config) GR_MUST_CHECK;
gr_status toy_save_state(const toy_state *s, gr_snapshot *into) GR_MUST_CHECK;

#endif
