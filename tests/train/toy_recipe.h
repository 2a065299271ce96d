/* A recipe for tests: sequences of two lengths. `tests/multi` trains it as a user would. */
#ifndef GR_TESTS_TRAIN_TOY_RECIPE_H
#define GR_TESTS_TRAIN_TOY_RECIPE_H

#include "gradus/recipe.h"

enum { TOY_RESIDUES, TOY_FRAGMENTS, TOY_AXES };

extern const gr_recipe toy_recipe;

/* `gradus` with this recipe alone: main's words after its own; the exit code. */
int toy_main(const char *program, int argc, char **argv);

/* Data of its own: the lengths of a training sample, for as many as the recipe has by default. */
#define TOY_TRAIN 90
void toy_lengths(int64_t index, int64_t lengths[TOY_AXES]);

#endif
