/* What the builders of losses share. */
#ifndef GR_OP_LOSS_LOSS_H
#define GR_OP_LOSS_LOSS_H

#include "op/map/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A map of `program` over sources that broadcast; shape and type are filled in: f32, or f64
 * when a source is. NULL after a failure or for a source that is NULL. */
gr_value *gr_loss_map(const char *site, gr_graph *g, gr_value *const *src,
                      const gr_program *program);

/* a / b of scalars, a where b is 0. */
gr_value *gr_loss_ratio(const char *site, gr_graph *g, gr_value *a, gr_value *b);
/* Whether that made the node. */
bool gr_loss_is_ratio(const gr_node *n);

#ifdef __cplusplus
}
#endif

#endif
