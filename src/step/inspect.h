/* A look into a step, for tools. */
#ifndef GR_STEP_INSPECT_H
#define GR_STEP_INSPECT_H

#include "base/text.h"
#include "gradus/step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The step's device, borrowed; and its precision, never GR_AMP_AUTO. */
struct gr_device *gr_step_device(const gr_step *s);
gr_amp gr_step_amp(const gr_step *s);
/* The precision in words, and whether it is a slow one here. Static. */
const char *gr_step_precision(const gr_step *s);

/* Queues a copy of an output to `dst`, pinned memory of n_bytes or more, as it is: *dtype says
 * what. It is there after the next gr_step_sync() or gr_step_read(); nothing waits here. */
gr_status gr_step_read_later(gr_step *s, const char *output, void *dst, size_t n_bytes,
                             gr_dtype *dtype) GR_MUST_CHECK;

/* What the loss of the latest run was made of, and its records (op/loss/terms.h); NULL: nothing.
 * Borrowed; until the next run or plan. */
const struct gr_terms *gr_step_terms(const gr_step *s);
/* Whether the latest run has an output of that name. */
bool gr_step_has_output(const gr_step *s, const char *name);

/* All state, once a training plan was made. Borrowed. */
const struct gr_vars *gr_step_vars(const gr_step *s);

/* The graph of the first plan made, after all passes; NULL before. Borrowed; valid until
 * that plan leaves the cache. */
const gr_graph *gr_step_first_graph(const gr_step *s);

/* A table of where the time of a training step goes, node by node, from n_runs updates on
 * these feeds. Collective with several ranks: the nodes of the exchange then include waiting. */
gr_status gr_step_profile(gr_step *s, const gr_named *feeds, int n_feeds, int n_runs,
                          gr_text *out) GR_MUST_CHECK;

/* How many nodes that table has; and one update, node by node: least_ns[node] becomes the node's
 * time if that is less. */
gr_status gr_step_n_nodes(gr_step *s, const gr_named *feeds, int n_feeds, int *out) GR_MUST_CHECK;
gr_status gr_step_time_nodes(gr_step *s, const gr_named *feeds, int n_feeds,
                             int64_t *least_ns) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
