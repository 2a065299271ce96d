/* The recipes built into the programs: a list that ends with NULL. */
#ifndef GR_RECIPE_RECIPES_H
#define GR_RECIPE_RECIPES_H

#include "gradus/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const gr_recipe gr_recipe_shapes;
extern const gr_recipe gr_recipe_vision;
extern const gr_recipe *const gr_recipes[];

#ifdef __cplusplus
}
#endif

#endif
