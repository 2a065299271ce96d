/*
 * What the tensors of a sample look like when its axes have a size, and the feeds that come with
 * axes: behind a recipe's own, "<axis>.mask" and "<axis>.length" of each.
 */
#ifndef GR_TRAIN_FIELDS_H
#define GR_TRAIN_FIELDS_H

#include "base/arena.h"
#include "base/text.h"
#include "data/sizes.h"
#include "gradus/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Checks the axes of a view and what refers to them, and puts a longer list of feeds, in the
 * arena, in place of the recipe's. */
gr_status gr_fields_add_axes(gr_recipe_view *view, gr_arena *arena) GR_MUST_CHECK;
int gr_fields_n_own(const gr_recipe_view *view); /* feeds that the recipe loads */

/* Below, `size` is what each axis is padded to; NULL for a view without axes. */

/* Of one sample. */
gr_shape gr_field_shape(const gr_field *f, const int64_t *size);
size_t gr_field_bytes(const gr_field *f, const int64_t *size);
/* Fills a sample's memory with its padding. */
void gr_field_fill(const gr_field *f, void *mem, size_t n_bytes);

/* Feeds for n samples: names, types and shapes, without memory. */
gr_status gr_feed_shapes(const gr_recipe_view *view, const int64_t *size, int64_t n,
                         gr_named *feeds) GR_MUST_CHECK;
size_t gr_feed_sample_bytes(const gr_recipe_view *view, const int64_t *size);
/* "residues 128, fragments 256"; nothing without axes. */
void gr_fields_size_text(const gr_recipe_view *view, const int64_t *size, gr_text *out);
/* "[residues, 3]" */
void gr_fields_shape_text(const gr_recipe_view *view, const gr_field *f, gr_text *out);

#ifdef __cplusplus
}
#endif

#endif
