/* One line per recipe. */
#include "recipe/recipes.h"

#include <stddef.h>

const gr_recipe *const gr_recipes[] = {
    &gr_recipe_shapes,
    &gr_recipe_vision,
    NULL,
};
