/* Creating and ending a step; checking what the caller asks for. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "comm/solo.h"
#include "step/private.h"

/* A named trace; NULL: there is none. */
static const gr_named_trace *find_trace(const gr_step_config *c, const char *name)
{
    for (int i = 0; i < c->n_traces; i++)
        if (strcmp(c->traces[i].name, name) == 0)
            return &c->traces[i];
    return NULL;
}

static gr_status check_traces(const gr_step_config *c)
{
    if (c->n_traces < 0 || (c->n_traces > 0 && !c->traces))
        return gr_fail(GR_ERR_ARG, "step: %d traces at address %p", c->n_traces,
                       (const void *)c->traces);
    for (int i = 0; i < c->n_traces; i++) {
        if (!c->traces[i].name || !c->traces[i].trace)
            return gr_fail(GR_ERR_ARG, "step: trace %d has no name or no function", i);
        if (find_trace(c, c->traces[i].name) != &c->traces[i])
            return gr_fail(GR_ERR_ARG, "step: two traces are called '%s'", c->traces[i].name);
    }
    return GR_OK;
}

static gr_status check_counts(const gr_step_config *c)
{
    if (!c->trace && !find_trace(c, "train"))
        return gr_fail(GR_ERR_ARG, "step: trace is NULL");
    if (c->accumulate < 1)
        return gr_fail(GR_ERR_ARG, "step: accumulate is %d, must be at least 1", c->accumulate);
    if (c->max_plans < 2)
        return gr_fail(GR_ERR_ARG, "step: max_plans is %d, must be at least 2", c->max_plans);
    if (c->check_every < 0)
        return gr_fail(GR_ERR_ARG, "step: check_every is %d, must not be negative", c->check_every);
    if (c->n_threads < 0)
        return gr_fail(GR_ERR_ARG, "step: n_threads is %d, must not be negative", c->n_threads);
    if (c->zero < 0 || c->zero > 2)
        return gr_fail(GR_ERR_ARG, "step: zero is %d, must be 0, 1 or 2", c->zero);
    if (c->bucket_bytes == 0 || c->first_bucket_bytes == 0)
        return gr_fail(GR_ERR_ARG, "step: bucket caps must be at least 1 byte");
    return GR_OK;
}

static gr_status check_config(const gr_step_config *c)
{
    GR_TRY(check_traces(c));
    GR_TRY(check_counts(c));
    if (!(c->clip_norm >= 0))
        return gr_fail(GR_ERR_ARG, "step: clip_norm is %g, must be 0 or more", c->clip_norm);
    if (!(c->clip_value >= 0))
        return gr_fail(GR_ERR_ARG, "step: clip_value is %g, must be 0 or more", c->clip_value);
    if (!(c->ema_decay >= 0 && c->ema_decay < 1))
        return gr_fail(GR_ERR_ARG, "step: ema_decay is %g, must be at least 0 and less than 1",
                       c->ema_decay);
    if (!(c->init_scale >= (double)FLT_MIN && c->init_scale <= (double)FLT_MAX))
        return gr_fail(GR_ERR_ARG, "step: init_scale is %g, must be a positive f32", c->init_scale);
    if ((unsigned)c->amp > GR_AMP_AUTO)
        return gr_fail(GR_ERR_ARG, "step: unknown amp %d", (int)c->amp);
    if (c->grad_dtype != GR_F32 && c->grad_dtype != GR_BF16 && c->grad_dtype != GR_F16)
        return gr_fail(GR_ERR_ARG, "step: grad_dtype is %s, must be f32, bf16 or f16",
                       gr_dtype_name(c->grad_dtype));
    if (c->loss_reduction != GR_LOSS_LOCAL && c->loss_reduction != GR_LOSS_GLOBAL)
        return gr_fail(GR_ERR_ARG, "step: unknown loss_reduction %d", (int)c->loss_reduction);
    if (c->loss_reduction == GR_LOSS_GLOBAL && c->accumulate > 1 &&
        (c->zero > 0 || c->grad_dtype == GR_F16))
        return gr_fail(GR_ERR_ARG,
                       "step: loss_reduction global over several micro-steps does not go with %s: "
                       "gradients are sums until the update",
                       c->zero > 0 ? "zero" : "grad_dtype f16");
    if (c->recompute != GR_RECOMPUTE_NONE && c->recompute != GR_RECOMPUTE_ALL &&
        c->recompute != GR_RECOMPUTE_LIMIT)
        return gr_fail(GR_ERR_ARG, "step: unknown recompute %d", (int)c->recompute);
    if (c->recompute == GR_RECOMPUTE_LIMIT && c->memory_limit == 0)
        return gr_fail(GR_ERR_ARG, "step: recompute to a limit needs memory_limit");
    if (c->dump_after)
        GR_TRY(gr_step_check_pass_name(c->dump_after));
    GR_TRY(gr_step_check_without(c->without ? c->without : ""));
    return gr_optim_check(&c->optim);
}

/* The caller's strings may go after create: keep our own. */
static gr_status keep_text(gr_step *s, const char **text, const char *otherwise)
{
    *text = gr_arena_strdup(s->arena, *text ? *text : otherwise);
    return *text ? GR_OK : GR_ERR_NOMEM;
}

static gr_status keep_groups(gr_step *s)
{
    gr_optim *o = &s->c.optim;
    gr_param_group *groups = gr_arena_array(s->arena, (size_t)o->n_groups, sizeof(*groups));

    if (!groups)
        return GR_ERR_NOMEM;
    for (int i = 0; i < o->n_groups; i++) {
        groups[i] = o->groups[i];
        GR_TRY(keep_text(s, &groups[i].match, ""));
        if (groups[i].where)
            GR_TRY(keep_text(s, &groups[i].where, ""));
    }
    o->groups = groups;
    return GR_OK;
}

static gr_status keep_traces(gr_step *s)
{
    gr_step_config *c = &s->c;
    gr_named_trace *traces = gr_arena_array(s->arena, (size_t)c->n_traces + 1, sizeof(*traces));
    const gr_named_trace *train = find_trace(c, "train"), *eval = find_trace(c, "eval");

    if (!traces)
        return GR_ERR_NOMEM;
    if (train && !c->trace)
        c->trace = train->trace;
    s->eval_trace = eval ? (int)(eval - c->traces) : -1;
    for (int i = 0; i < c->n_traces; i++) {
        traces[i] = c->traces[i];
        GR_TRY(keep_text(s, &traces[i].name, ""));
    }
    c->traces = traces;
    return GR_OK;
}

static gr_status keep_config(gr_step *s, const gr_step_config *c)
{
    s->c = *c;
    GR_TRY(keep_text(s, &s->c.device, "auto"));
    GR_TRY(keep_text(s, &s->c.group, "auto"));
    GR_TRY(keep_text(s, &s->c.config_text, ""));
    GR_TRY(keep_text(s, &s->c.without, ""));
    GR_TRY(keep_text(s, &s->c.freeze, ""));
    if (s->c.dump_after)
        GR_TRY(keep_text(s, &s->c.dump_after, ""));
    GR_TRY(keep_groups(s));
    GR_TRY(keep_traces(s));
    s->update = (gr_update_config){ .optim = s->c.optim,
                                    .clip_norm = c->clip_norm,
                                    .clip_value = c->clip_value,
                                    .ema_decay = c->ema_decay,
                                    .init_scale = c->init_scale };
    return GR_OK;
}

gr_status gr_step_check_given(const gr_step *s)
{
    return s ? GR_OK : gr_fail(GR_ERR_ARG, "there is no step (NULL)");
}

/* Ranks without a group would each train alone, and nothing would say so. */
static gr_status check_group(const gr_step_config *c)
{
    gr_error why;

    if (c->pg || c->alone)
        return GR_OK;
    gr_error_take(&why, gr_solo_check());
    if (why.status != GR_ERR_ARG)
        return gr_error_raise(&why);
    return gr_fail(GR_ERR_ARG,
                   "step: config.pg is NULL, but %s; make the group of all ranks by "
                   "gr_pg_create(&config.pg, NULL), or set config.alone if each process shall "
                   "train a model of its own",
                   why.text);
}

gr_status gr_step_create(gr_step **out, const gr_step_config *config)
{
    gr_step *s;
    gr_status st;

    if (!out || !config)
        return gr_fail(GR_ERR_ARG, "step: out or config is NULL");
    GR_TRY(check_config(config));
    GR_TRY(check_group(config));
    s = gr_calloc(1, sizeof(*s));
    if (!s)
        return GR_ERR_NOMEM;
    GR_TRY_GOTO(st, gr_arena_create(&s->arena), fail);
    GR_TRY_GOTO(st, keep_config(s, config), fail);
    GR_TRY_GOTO(st, gr_vars_create(&s->vars), fail);
    s->vars->freeze = s->c.freeze;
    GR_TRY_GOTO(st, gr_step_parse_choices(s, config->choices), fail);
    GR_TRY_GOTO(st, gr_step_open_device(s), fail);
    s->vars->align = s->device->ops->align;
    if (s->c.amp == GR_AMP_AUTO)
        s->c.amp = s->device->ops->has_bf16(s->device) ? GR_AMP_BF16 : GR_AMP_F16;
    s->update.scale_loss = s->c.amp == GR_AMP_F16;
    s->update.check_finite = s->c.grad_dtype == GR_F16 && gr_pg_size(s->c.pg) > 1;
    *out = s;
    return GR_OK;

fail:
    gr_step_destroy(s);
    return st;
}

static void free_memory(gr_step *s)
{
    const gr_backend_ops *ops = s->device->ops;

    ops->free(s->device, s->bases.arena);
    gr_step_free_state(s);
    ops->free(s->device, s->scalars);
    if (gr_pg_size(s->c.pg) == 1)
        ops->free(s->device, s->bases.exchange);
    ops->host_free(s->device, s->params);
    ops->host_free(s->device, s->records.mem);
    ops->host_free(s->device, s->bases.fault);
    gr_step_free_staging(s);
}

void gr_step_destroy(gr_step *s)
{
    if (!s)
        return;
    if (s->device) {
        GR_IGNORE(s->device->ops->sync(s->device)); /* ending anyway */
        for (int i = 0; i < s->n_entries; i++)
            gr_entry_destroy(s, s->entries[i]);
        free_memory(s);
    }
    gr_step_close_device(s);
    gr_free(s->entries);
    gr_free(s->choices);
    gr_vars_destroy(s->vars);
    gr_arena_destroy(s->arena);
    gr_free(s);
}
