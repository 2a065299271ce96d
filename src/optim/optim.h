/* The update at the end of a step, as graph nodes: control, counters, one per parameter. */
#ifndef GR_OPTIM_OPTIM_H
#define GR_OPTIM_OPTIM_H

#include "gradus/optim.h"
#include "graph/graph.h"
#include "op/update/shard.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_update_config {
    gr_optim optim;
    double clip_norm;  /* 0: none */
    double clip_value; /* 0: none */
    double ema_decay;  /* 0: no average */
    bool scale_loss;   /* fp16: dynamic loss scale */
    bool check_finite; /* skip updates from gradients that are not finite, whatever else */
    bool watches;      /* keep a record of each update for the host (op/vote) */
    double init_scale;
    const gr_update_shard *shard; /* each rank updates a part of every parameter; NULL: all */
} gr_update_config;

/* Whether a step from gradients that are not finite is left out, and the next one counts again. */
static inline bool gr_update_skips(const gr_update_config *c)
{
    return c->clip_norm > 0 || c->scale_loss || c->check_finite;
}

/* Whether every update waits for a look at all gradients. */
static inline bool gr_update_has_control(const gr_update_config *c)
{
    return gr_update_skips(c) || c->watches;
}

/* GR_ERR_ARG names the setting that is out of range. */
gr_status gr_optim_check(const gr_optim *o) GR_MUST_CHECK;

/* Every pattern of every group takes a parameter; GR_ERR_ARG names one that does not, and its
 * place: it is more likely misspelt than meant so. */
gr_status gr_optim_check_names(const gr_optim *o, const gr_vars *vars) GR_MUST_CHECK;

/* The group of a parameter of that name; NULL: none matches. */
const gr_param_group *gr_optim_group(const gr_optim *o, const char *name);

/* The loss scale's variable, NULL when the loss is not scaled. Adds it when missing. */
gr_status gr_loss_scale_var(gr_vars *vars, const gr_update_config *c, gr_var **out) GR_MUST_CHECK;

/* Adds the nodes that turn g->grads into new parameters; sets g->control if there is
 * one. With `watches` g->vote must be there. Without trainable gradients nothing is added. */
gr_status gr_pass_update(gr_graph *g, const gr_update_config *c) GR_MUST_CHECK;

/* For steps with control: makes what is assigned to buffers a part of its decision. Where a step
 * is skipped they keep the values that they had before it, before its first micro-step if it
 * accumulates. Behind gr_pass_update() in graphs that update. */
gr_status gr_pass_guard(gr_graph *g, bool accumulates) GR_MUST_CHECK;

/* Reads averages in place of the parameters that have one. For evaluation. */
gr_status gr_pass_average(gr_graph *g) GR_MUST_CHECK;

/* "adamw beta1 0.9 ..." for the fingerprint and the log. */
void gr_optim_print(const gr_update_config *c, gr_text *out);

/* Names of the variables that the step room reads back. */
#define GR_VAR_STEP    "optimizer.step"
#define GR_VAR_SKIPPED "optimizer.skipped"
#define GR_VAR_SCALE   "optimizer.loss_scale"
#define GR_VAR_GOOD    "optimizer.good_steps"
#define GR_VAR_RECORD  "vote.record"
#define GR_VAR_EMA     "ema."  /* and the parameter's name */
#define GR_VAR_BEFORE  "held." /* and the buffer's name */

#ifdef __cplusplus
}
#endif

#endif
