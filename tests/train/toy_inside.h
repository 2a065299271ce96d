/* The toy recipe from the inside: its files share this. */
#ifndef GR_TESTS_TRAIN_TOY_INSIDE_H
#define GR_TESTS_TRAIN_TOY_INSIDE_H

#include "train/toy_keep.h"
#include "train/toy_recipe.h"

enum { TOY_WIDTH = 12, TOY_CLASSES = 4 };
enum { TOY_N_RIGHT, TOY_N_ALL, TOY_DRAWN, TOY_N_COUNTS };

typedef struct toy {
    int64_t size[GR_N_SPLITS];
    int64_t span;   /* lengths differ by less than that */
    int64_t broken; /* the training sample that does not load; -1: none */
    double dropout, size_weight;
    int64_t draws;     /* units of work: points that a sampler draws; 0: none */
    const char *judge; /* another checkpoint, which runs the sampler, too; or NULL */
    gr_runner *other;  /* of that */
    toy_state state;
} toy;

/* ---- toy_sampler.c: points [n, width] that go through the network's layers again and again, with
 * noise by key ---- */

gr_status toy_sample(gr_graph *g, void *user); /* the trace "sample" */
void toy_work(const void *user, gr_task task, gr_split split, gr_eval_work *out);
gr_status toy_prepare(void *user, gr_task task, gr_runner *r);
gr_status toy_score_unit(void *user, gr_runner *r, gr_split split, int64_t unit, double *counts);
/* A picture of the logits of the first chain. */
gr_status toy_show(const void *user, const gr_eval *e, gr_results *out);
extern const gr_action toy_points;
gr_status toy_predict_unit(void *user, gr_runner *r, int64_t unit, gr_results *out);

#endif
