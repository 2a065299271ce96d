/* What an optimiser's settings mean: their limits, groups of parameters, and their text. */
#include "optim/optim.h"

#include "base/status.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

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

static gr_status check_groups(const gr_optim *o)
{
    if (o->n_groups < 0 || (o->n_groups > 0 && !o->groups))
        return gr_fail(GR_ERR_ARG, "optimiser: %d groups at NULL", o->n_groups);
    for (int i = 0; i < o->n_groups; i++) {
        const gr_param_group *g = &o->groups[i];

        if (!g->match || !g->match[0])
            return gr_fail(GR_ERR_ARG, "optimiser: group %d matches no name", i);
        if (!(g->lr_scale >= 0 && isfinite(g->lr_scale)))
            return gr_fail(GR_ERR_ARG, "optimiser: group '%s': lr_scale is %g, must be 0 or more",
                           g->match, g->lr_scale);
        if (!(g->weight_decay >= 0 && g->weight_decay <= 1e6))
            return gr_fail(GR_ERR_ARG,
                           "optimiser: group '%s': weight_decay is %g, must be in [0, 1e6]",
                           g->match, g->weight_decay);
    }
    return GR_OK;
}

gr_status gr_optim_check(const gr_optim *o)
{
    GR_TRY(in_range("momentum", o->momentum, 0, 1));
    GR_TRY(check_beta("beta1", o->beta1));
    GR_TRY(check_beta("beta2", o->beta2));
    GR_TRY(in_range("eps", o->eps, 0, 1));
    if (o->kind != GR_OPTIM_SGD && o->kind != GR_OPTIM_ADAMW && o->kind != GR_OPTIM_ADAM)
        return gr_fail(GR_ERR_ARG, "optimiser: unknown kind %d", (int)o->kind);
    /* As kernels have it, in f32: a parameter without a gradient would be 0 / 0. */
    if (o->kind != GR_OPTIM_SGD && !((float)o->eps > 0))
        return gr_fail(GR_ERR_ARG, "optimiser: eps is %g, must be more than 0", o->eps);
    GR_TRY(in_range("weight_decay", o->weight_decay, 0, 1e6));
    if (o->nesterov && !(o->kind == GR_OPTIM_SGD && o->momentum > 0))
        return gr_fail(GR_ERR_ARG, "optimiser: nesterov needs SGD with momentum");
    return check_groups(o);
}

/* Takes the next pattern off a list parted by '|'; false at the end. One that is too long is cut:
 * it matches nothing then, and is named as such. */
static bool next_pattern(const char **list, char one[GR_VARS_PATTERN])
{
    const char *at = *list + strspn(*list, "|");
    size_t len = strcspn(at, "|"), n = len < GR_VARS_PATTERN ? len : GR_VARS_PATTERN - 1;

    *list = at + len;
    memcpy(one, at, n);
    one[n] = '\0';
    return n > 0;
}

static bool matches(const char *patterns, const char *name)
{
    char one[GR_VARS_PATTERN];

    while (next_pattern(&patterns, one))
        if (fnmatch(one, name, 0) == 0)
            return true;
    return false;
}

gr_status gr_optim_check_names(const gr_optim *o, const gr_vars *vars)
{
    for (int i = 0; i < o->n_groups; i++) {
        const gr_param_group *g = &o->groups[i];
        const char *rest = g->match;
        char one[GR_VARS_PATTERN];

        while (next_pattern(&rest, one)) {
            gr_status st = gr_vars_check_pattern(vars, one);

            if (st != GR_OK && g->where)
                return gr_wrap(st, "%s", g->where);
            GR_TRY(gr_wrap(st, "optimiser: group %d", i));
        }
    }
    return GR_OK;
}

const gr_param_group *gr_optim_group(const gr_optim *o, const char *name)
{
    for (int i = 0; i < o->n_groups; i++)
        if (matches(o->groups[i].match, name))
            return &o->groups[i];
    return NULL;
}

void gr_optim_print(const gr_update_config *c, gr_text *out)
{
    const gr_optim *o = &c->optim;

    if (o->kind == GR_OPTIM_SGD)
        gr_text_addf(out, "sgd, momentum %.17g%s", o->momentum, o->nesterov ? ", nesterov" : "");
    else
        gr_text_addf(out, "%s, beta1 %.17g, beta2 %.17g, eps %.17g",
                     o->kind == GR_OPTIM_ADAM ? "adam" : "adamw", o->beta1, o->beta2, o->eps);
    gr_text_addf(out, ", weight decay %.17g, clip norm %.17g", o->weight_decay, c->clip_norm);
    if (!o->decay_all)
        gr_text_add(out, ", no decay of norms and biases");
    for (int i = 0; i < o->n_groups; i++)
        gr_text_addf(out, ", %s: lr x %.17g, weight decay %.17g", o->groups[i].match,
                     o->groups[i].lr_scale, o->groups[i].weight_decay);
    if (c->clip_value > 0)
        gr_text_addf(out, ", clip value %.17g", c->clip_value);
    if (c->ema_decay > 0)
        gr_text_addf(out, ", ema %.17g", c->ema_decay);
    if (c->scale_loss)
        gr_text_addf(out, ", loss scale from %.17g", c->init_scale);
}
