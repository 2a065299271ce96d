/* Weights in the layouts of other projects' files, by the rules of a recipe. */
#ifndef GR_TRAIN_FOREIGN_H
#define GR_TRAIN_FOREIGN_H

#include "base/status.h"
#include "gradus/ckpt.h"
#include "gradus/recipe.h"

/* The model under its own names, if the file has one of the recipe's layouts; *out NULL: it has
 * not. Caller owns *out. */
gr_status gr_foreign_read(const gr_recipe *recipe, const gr_snapshot *file,
                          gr_snapshot **out) GR_MUST_CHECK;
/* And back. GR_ERR_ARG: a tensor has no place there. Caller owns *out. */
gr_status gr_foreign_write(const gr_foreign *f, const gr_snapshot *model,
                           gr_snapshot **out) GR_MUST_CHECK;

#endif
