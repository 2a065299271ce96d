/*
 * The update: control (norm, factor, skip) over all gradients, counters, then one node
 * per parameter, and one per average of a parameter. Moments are variables named
 * "optimizer.<kind>.<param>", averages "ema.<param>".
 *
 * Control exists only with clipping, a loss scale or a watch. Then every update reads it, so none
 * starts before all buckets are back; without it a bucket's parameters are updated as
 * soon as that bucket is.
 *
 * A step that is watched has control in any case, and it passes through a verdict (op/vote), which
 * knows of all ranks' losses, too.
 *
 * With shards gradients are shares of buckets, and a parameter's nodes work on the part that lies
 * in the own share (all of it where they are rows, which ranks update together). Its moments and
 * average have that part only (ZeRO), or are common to all ranks as the parameter is.
 *
 * A parameter that has a copy in 16 bits (pass/copies.c) has it written with it, whether or not
 * this graph reads it.
 */

#include "op/update/update.h"
#include "base/alloc.h"
#include "gradus/ops.h"
#include "graph/op.h"
#include "op/collective/collective.h"
#include "op/update/shard.h"
#include "op/vote/vote.h"
#include "optim/optim.h"

#define SITE "optimiser"

typedef struct updater {
    gr_graph *g;
    const gr_update_config *c;
    gr_value *control; /* or NULL */
    gr_value *step;    /* the number of this update */
} updater;

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

/* An update of source 0 with `n_out` results; its copy in 16 bits, if there is one, is a further
 * source and result. `src` has room for it. */
static gr_node *add_update(updater *u, gr_build b, gr_value **src, int n_out)
{
    gr_var *copy = src[0]->var->copy;

    b.site = SITE;
    b.src = src;
    b.n_out = n_out;
    if (copy) {
        src[b.n_src++] = gr_graph_var(u->g, SITE, copy);
        b.n_out++;
    }
    return gr_graph_add(u->g, &b);
}

static gr_value *scalar_value(updater *u, const char *name, gr_dtype t, double start)
{
    gr_var *v;
    gr_status st = scalar_var(u->g->vars, name, t, start, &v);

    gr_graph_stick(u->g, st);
    return st == GR_OK ? gr_graph_var(u->g, SITE, v) : NULL;
}

/* What gradients are to be divided by; NULL: by nothing. */
static gr_value *grad_scale(updater *u)
{
    gr_value *scale = u->g->grad_scale;

    if (!u->c->scale_loss)
        return scale;
    if (!scale)
        return scalar_value(u, GR_VAR_SCALE, GR_F32, u->c->init_scale);
    return gr_map2_at(SITE, u->g, "mul", scalar_value(u, GR_VAR_SCALE, GR_F32, u->c->init_scale),
                      scale);
}

static gr_status add_control(updater *u)
{
    gr_value *scale = grad_scale(u);
    gr_control_attr a = { .max_norm = u->c->clip_norm, .has_scale = scale != NULL };
    gr_value **src = gr_malloc(((size_t)u->g->n_grads + 1) * sizeof(*src));
    gr_node *n;
    int k = 0;

    if (!src)
        return GR_ERR_NOMEM;
    if (scale)
        src[k++] = scale;
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

/* All-reduces a result of shard_squares, which may be empty. */
static gr_value *reduce(updater *u, gr_value *v, const gr_coll *c)
{
    gr_value *reduced = v;

    v->offset = c->offset;
    if (c->n_elem > 0)
        gr_graph_stick(u->g, gr_allreduce_nodes(u->g, u->c->shard->pg, c, &v, 1, &reduced));
    return reduced;
}

/* The same control from shares; see op/update/shard.h. */
static gr_status add_shard_control(updater *u)
{
    const gr_update_shard *sh = u->c->shard;
    gr_shard_control_attr a = {
        .of = { .max_norm = u->c->clip_norm, .has_scale = u->c->scale_loss }, .norm = sh->norm
    };
    gr_value **share = gr_arena_array(u->g->arena, (size_t)sh->n_buckets, sizeof(*share));
    gr_value *src[3];
    gr_node *n;
    int k = 0;

    if (!share)
        return GR_ERR_NOMEM;
    for (int i = 0; i < sh->n_buckets; i++)
        share[i] = u->g->grads[sh->first_var[i]];
    n = add(u, &gr_op_shard_squares, share, sh->n_buckets, &sh->norm, sizeof(sh->norm));
    if (!n)
        return gr_graph_status(u->g);
    if (u->c->scale_loss)
        src[k++] = scalar_value(u, GR_VAR_SCALE, GR_F32, u->c->init_scale);
    src[k++] = reduce(u, &n->out[0], &sh->sums);
    src[k++] = reduce(u, &n->out[1], &sh->cuts);
    n = add(u, &gr_op_shard_control, src, k, &a, sizeof(a));
    if (!n)
        return gr_graph_status(u->g);
    u->control = u->g->control = &n->out[0];
    return GR_OK;
}

static gr_value *record_value(updater *u)
{
    gr_var want = { .name = GR_VAR_RECORD,
                    .kind = GR_VAR_HELD,
                    .dtype = GR_I32,
                    .shape = GR_SHAPE(GR_RECORD_COUNT),
                    .init = gr_init_const(0) };
    gr_var *v;
    gr_status st = gr_vars_get(u->g->vars, &want, &v);

    gr_graph_stick(u->g, st);
    return st == GR_OK ? gr_graph_var(u->g, SITE, v) : NULL;
}

static gr_status add_verdict(updater *u)
{
    gr_verdict_attr a = { .halts = !gr_update_skips(u->c) };
    gr_value *src[3] = { record_value(u), u->control, u->g->vote };
    gr_node *n = add(u, &gr_op_verdict, src, 3, &a, sizeof(a));

    if (!n)
        return gr_graph_status(u->g);
    u->control = u->g->control = &n->out[1];
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

/* NULL: this rank updates all of it. */
static const gr_update_part *part_of(const updater *u, const gr_var *param)
{
    return u->c->shard ? &u->c->shard->part[param->index] : NULL;
}

/* A variable of the parameter's shape, or that of the part of it which this rank updates,
 * "<prefix><param>", that starts at 0 or as a copy. */
static gr_value *companion(updater *u, const gr_var *param, const char *prefix, bool copy)
{
    char *name = gr_arena_printf(u->g->arena, "%s%s", prefix, param->name);
    const gr_update_part *part = part_of(u, param);
    gr_var want = { .name = name,
                    .kind = GR_VAR_OPTIM,
                    .dtype = GR_F32,
                    .shape = param->shape,
                    .init = gr_init_const(0),
                    .copy_of = copy ? param : NULL };
    gr_var *v;
    gr_status st;

    want.common = part && part->in_whole;
    if (part && !part->in_whole) {
        want.shape = gr_shape_of(1, &part->of.n);
        want.part_of = param;
        want.first = part->of.first;
    }
    st = name ? gr_vars_get(u->g->vars, &want, &v) : GR_ERR_NOMEM;
    gr_graph_stick(u->g, st);
    return st == GR_OK ? gr_graph_var(u->g, SITE, v) : NULL;
}

static gr_update_attr own_attr(const updater *u, const gr_var *param)
{
    const gr_optim *o = &u->c->optim;
    const gr_param_group *group = gr_optim_group(o, param->name);
    gr_update_attr a = { .lr_scale = 1,
                         .weight_decay = o->weight_decay,
                         .clip_value = u->c->clip_value,
                         .has_control = u->control != NULL,
                         .has_copy = param->copy != NULL };

    if (!o->decay_all && param->shape.n_dims <= 1)
        a.weight_decay = 0;
    if (group) {
        a.lr_scale = group->lr_scale;
        a.weight_decay = group->weight_decay;
    }
    if (part_of(u, param)) {
        a.has_part = true;
        a.part = *part_of(u, param);
    }
    return a;
}

static gr_node *add_sgd(updater *u, gr_value *param, gr_value *grad)
{
    const gr_optim *o = &u->c->optim;
    gr_sgd_attr a = { .of = own_attr(u, param->var),
                      .momentum = o->momentum,
                      .nesterov = o->nesterov };
    gr_build b = { .op = &gr_op_sgd, .n_src = 2, .attr = &a, .attr_bytes = sizeof(a) };
    gr_value *src[5] = { param, grad };

    if (u->control)
        src[b.n_src++] = u->control;
    if (o->momentum != 0)
        src[b.n_src++] = companion(u, param->var, "optimizer.momentum_buffer.", false);
    return add_update(u, b, src, 2);
}

static gr_node *add_adamw(updater *u, gr_value *param, gr_value *grad)
{
    const gr_optim *o = &u->c->optim;
    gr_adamw_attr a = { .of = own_attr(u, param->var),
                        .beta1 = o->beta1,
                        .beta2 = o->beta2,
                        .eps = o->eps,
                        .l2 = o->kind == GR_OPTIM_ADAM };
    gr_build b = { .op = &gr_op_adamw, .n_src = 3, .attr = &a, .attr_bytes = sizeof(a) };
    gr_value *src[7] = { param, grad, u->step };

    if (u->control)
        src[b.n_src++] = u->control;
    src[b.n_src++] = companion(u, param->var, "optimizer.exp_avg.", false);
    src[b.n_src++] = companion(u, param->var, "optimizer.exp_avg_sq.", false);
    return add_update(u, b, src, 3);
}

/* Reads the parameter as `update` leaves it. */
static void add_ema(updater *u, const gr_node *update)
{
    const gr_update_part *part = part_of(u, update->src[0]->var);
    gr_ema_attr a = { .decay = u->c->ema_decay, .has_control = u->control != NULL };
    gr_value *src[4] = { companion(u, update->src[0]->var, GR_VAR_EMA, true), &update->out[0],
                         u->step, u->control };

    if (part) {
        a.has_part = true;
        a.part = *part;
    }
    add(u, &gr_op_ema, src, a.has_control ? 4 : 3, &a, sizeof(a));
}

static bool has_grads(const gr_graph *g)
{
    for (int i = 0; i < g->n_grads; i++)
        if (g->grads[i])
            return true;
    return false;
}

/* From the last parameter to the first: in the order in which their buckets come back, so
 * that early ones are updated while late ones are still on their way. Averages follow in
 * the same order. `node` has room for all. */
static gr_status add_updates(updater *u, int n_params, gr_node **node)
{
    gr_graph *g = u->g;
    int n = 0;

    for (int i = n_params - 1; i >= 0; i--) {
        gr_value *param;

        if (!g->grads[i])
            continue;
        param = gr_graph_var(g, SITE, g->vars->list[i]);
        if (!param)
            return gr_graph_status(g);
        node[n++] = u->c->optim.kind == GR_OPTIM_SGD ? add_sgd(u, param, g->grads[i])
                                                     : add_adamw(u, param, g->grads[i]);
        GR_TRY(gr_graph_status(g));
    }
    for (int i = 0; i < n && u->c->ema_decay > 0; i++)
        add_ema(u, node[i]);
    return gr_graph_status(g);
}

gr_status gr_pass_update(gr_graph *g, const gr_update_config *c)
{
    updater u = { .g = g, .c = c };
    int n_params = g->n_grads; /* moments are added to the table behind them */
    gr_node **node;

    if (!has_grads(g))
        return GR_OK;
    g->phase = GR_PHASE_UPDATE;
    if (gr_update_has_control(c) || g->grad_scale)
        GR_TRY(c->shard ? add_shard_control(&u) : add_control(&u));
    if (c->watches)
        GR_TRY(add_verdict(&u));
    GR_TRY(add_counters(&u));
    node = gr_arena_array(g->arena, (size_t)n_params, sizeof(gr_node *));
    if (!node)
        return GR_ERR_NOMEM;
    GR_TRY(add_updates(&u, n_params, node));
    g->phase = GR_PHASE_FORWARD;
    return GR_OK;
}
