/*
 * The update: control (norm, factor, skip) over all gradients, counters, then one node
 * per parameter. Moments are variables named "optimizer.<kind>.<param>".
 *
 * Control exists only with clipping or a loss scale. Then every update reads it, so none
 * starts before all buckets are back; without it a bucket's parameters are updated as
 * soon as that bucket is.
 */

#include "op/update/update.h"
#include "base/alloc.h"
#include "graph/op.h"
#include "optim/optim.h"

#define SITE "optimiser"

typedef struct updater {
    gr_graph *g;
    const gr_update_config *c;
    gr_value *control; /* or NULL */
    gr_value *step;    /* the number of this update */
} updater;

static gr_status in_range(const char *name, double x, double lo, double hi)
{
    if (x >= lo && x <= hi)
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "optimiser: %s is %g, must be in [%g, %g]", name, x, lo, hi);
}

/* The moments' correction divides by 1 - beta^step. */
static gr_status check_beta(const char *name, double x)
{
    if (x >= 0 && x < 1)
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "optimiser: %s is %.17g, must be at least 0 and less than 1", name,
                   x);
}

gr_status gr_optim_check(const gr_optim *o)
{
    GR_TRY(in_range("momentum", o->momentum, 0, 1));
    GR_TRY(check_beta("beta1", o->beta1));
    GR_TRY(check_beta("beta2", o->beta2));
    GR_TRY(in_range("eps", o->eps, 0, 1));
    /* As kernels have it, in f32: a parameter without a gradient would be 0 / 0. */
    if (o->kind == GR_OPTIM_ADAMW && !((float)o->eps > 0))
        return gr_fail(GR_ERR_ARG, "optimiser: eps is %g, must be more than 0", o->eps);
    GR_TRY(in_range("weight_decay", o->weight_decay, 0, 1e6));
    if (o->kind != GR_OPTIM_SGD && o->kind != GR_OPTIM_ADAMW)
        return gr_fail(GR_ERR_ARG, "optimiser: unknown kind %d", (int)o->kind);
    return GR_OK;
}

static gr_status scalar_var(gr_vars *vars, const char *name, gr_dtype t, double start, gr_var **out)
{
    gr_var want = { .name = name,
                    .kind = GR_VAR_OPTIM,
                    .dtype = t,
                    .shape = GR_SCALAR,
                    .init = gr_init_const(start) };

    return gr_vars_get(vars, &want, out);
}

gr_status gr_loss_scale_var(gr_vars *vars, const gr_update_config *c, gr_var **out)
{
    *out = NULL;
    return c->scale_loss ? scalar_var(vars, GR_VAR_SCALE, GR_F32, c->init_scale, out) : GR_OK;
}

static gr_node *add(updater *u, const gr_op *op, gr_value **src, int n, const void *attr,
                    size_t attr_bytes)
{
    gr_build b = {
        .op = op, .site = SITE, .src = src, .n_src = n, .attr = attr, .attr_bytes = attr_bytes
    };

    return gr_graph_add(u->g, &b);
}

static gr_value *scalar_value(updater *u, const char *name, gr_dtype t, double start)
{
    gr_var *v;
    gr_status st = scalar_var(u->g->vars, name, t, start, &v);

    gr_graph_stick(u->g, st);
    return st == GR_OK ? gr_graph_var(u->g, SITE, v) : NULL;
}

static gr_status add_control(updater *u)
{
    gr_control_attr a = { .max_norm = u->c->clip_norm, .has_scale = u->c->scale_loss };
    gr_value **src = gr_malloc(((size_t)u->g->n_grads + 1) * sizeof(*src));
    gr_node *n;
    int k = 0;

    if (!src)
        return GR_ERR_NOMEM;
    if (u->c->scale_loss)
        src[k++] = scalar_value(u, GR_VAR_SCALE, GR_F32, u->c->init_scale);
    for (int i = 0; i < u->g->n_grads; i++)
        if (u->g->grads[i])
            src[k++] = u->g->grads[i];
    n = add(u, &gr_op_grad_control, src, k, &a, sizeof(a));
    gr_free(src);
    if (!n)
        return gr_graph_status(u->g);
    u->control = u->g->control = &n->out[0];
    return GR_OK;
}

static gr_status add_counters(updater *u)
{
    gr_count_attr a = { .has_control = u->control != NULL };
    gr_value *src[3] = { scalar_value(u, GR_VAR_STEP, GR_I64, 0),
                         scalar_value(u, GR_VAR_SKIPPED, GR_I64, 0), u->control };
    gr_node *n = add(u, &gr_op_count_step, src, a.has_control ? 3 : 2, &a, sizeof(a));

    if (!n)
        return gr_graph_status(u->g);
    u->step = &n->out[0];
    if (u->c->scale_loss) {
        gr_value *scale[3] = { scalar_value(u, GR_VAR_SCALE, GR_F32, u->c->init_scale),
                               scalar_value(u, GR_VAR_GOOD, GR_I64, 0), u->control };

        add(u, &gr_op_scale_update, scale, 3, NULL, 0);
    }
    return gr_graph_status(u->g);
}

static gr_value *moment(updater *u, const gr_var *param, const char *kind)
{
    char *name = gr_arena_printf(u->g->arena, "optimizer.%s.%s", kind, param->name);
    gr_var want = { .name = name,
                    .kind = GR_VAR_OPTIM,
                    .dtype = GR_F32,
                    .shape = param->shape,
                    .init = gr_init_const(0) };
    gr_var *v;
    gr_status st = name ? gr_vars_get(u->g->vars, &want, &v) : GR_ERR_NOMEM;

    gr_graph_stick(u->g, st);
    return st == GR_OK ? gr_graph_var(u->g, SITE, v) : NULL;
}

static void add_sgd(updater *u, gr_value *param, gr_value *grad)
{
    const gr_optim *o = &u->c->optim;
    gr_sgd_attr a = { .momentum = o->momentum,
                      .weight_decay = o->weight_decay,
                      .has_control = u->control != NULL };
    gr_value *src[4] = { param, grad };
    int n = 2;

    if (u->control)
        src[n++] = u->control;
    if (o->momentum != 0)
        src[n++] = moment(u, param->var, "momentum_buffer");
    add(u, &gr_op_sgd, src, n, &a, sizeof(a));
}

static void add_adamw(updater *u, gr_value *param, gr_value *grad)
{
    const gr_optim *o = &u->c->optim;
    gr_adamw_attr a = { .beta1 = o->beta1,
                        .beta2 = o->beta2,
                        .eps = o->eps,
                        .weight_decay = o->weight_decay,
                        .has_control = u->control != NULL };
    gr_value *src[6] = { param, grad, u->step };
    int n = 3;

    if (u->control)
        src[n++] = u->control;
    src[n++] = moment(u, param->var, "exp_avg");
    src[n++] = moment(u, param->var, "exp_avg_sq");
    add(u, &gr_op_adamw, src, n, &a, sizeof(a));
}

static bool has_grads(const gr_graph *g)
{
    for (int i = 0; i < g->n_grads; i++)
        if (g->grads[i])
            return true;
    return false;
}

gr_status gr_pass_update(gr_graph *g, const gr_update_config *c)
{
    updater u = { .g = g, .c = c };
    int n_params = g->n_grads; /* moments are added to the table behind them */

    if (!has_grads(g))
        return GR_OK;
    g->phase = GR_PHASE_UPDATE;
    if (c->clip_norm > 0 || c->scale_loss)
        GR_TRY(add_control(&u));
    GR_TRY(add_counters(&u));
    /* From the last parameter to the first: in the order in which their buckets come back,
     * so that early ones are updated while late ones are still on their way. */
    for (int i = n_params - 1; i >= 0; i--) {
        if (!g->grads[i])
            continue;
        if (c->optim.kind == GR_OPTIM_SGD)
            add_sgd(&u, gr_graph_var(g, SITE, g->vars->list[i]), g->grads[i]);
        else
            add_adamw(&u, gr_graph_var(g, SITE, g->vars->list[i]), g->grads[i]);
        GR_TRY(gr_graph_status(g));
    }
    g->phase = GR_PHASE_FORWARD;
    return GR_OK;
}

void gr_optim_print(const gr_update_config *c, gr_text *out)
{
    const gr_optim *o = &c->optim;

    if (o->kind == GR_OPTIM_SGD)
        gr_text_addf(out, "sgd, momentum %.17g", o->momentum);
    else
        gr_text_addf(out, "adamw, beta1 %.17g, beta2 %.17g, eps %.17g", o->beta1, o->beta2, o->eps);
    gr_text_addf(out, ", weight decay %.17g, clip norm %.17g", o->weight_decay, c->clip_norm);
    if (c->scale_loss)
        gr_text_addf(out, ", loss scale from %.17g", c->init_scale);
}
