/* Running: scalars and inputs go up, the plan runs, outputs and numbers are read back. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "op/update/update.h"
#include "step/inspect.h"
#include "step/private.h"

static gr_role train_role(const gr_step *s)
{
    if (s->c.accumulate == 1)
        return GR_ROLE_WHOLE;
    return s->micro + 1 == s->c.accumulate ? GR_ROLE_LAST : GR_ROLE_MICRO;
}

static gr_status check_feeds(const gr_named *feeds, int n_feeds)
{
    for (int i = 0; i < n_feeds; i++)
        if (!feeds[i].mem && gr_shape_count(&feeds[i].shape) > 0)
            return gr_fail(GR_ERR_ARG, "feed '%s' has no memory", feeds[i].name);
    return GR_OK;
}

/* Kernels read the caller's memory itself. */
static gr_status send_addresses(gr_step *s, gr_entry *e, const gr_named *feeds, const gr_scalars *v)
{
    *s->scalars = *v;
    for (int i = 0; i < gr_plan_n_inputs(e->plan); i++)
        e->inputs[i] = feeds[e->feed_of[i]].mem;
    return GR_OK;
}

static gr_status poll_group(void *pg)
{
    return gr_pg_poll(pg);
}

/* A fault is reported once. Where work runs at once it stopped the run before anything was changed,
 * so the caller may go on with better data; elsewhere it shows only after the update. */
static gr_status take_fault(gr_step *s, gr_status st)
{
    if (st == GR_OK && s->bases.fault && s->bases.fault->is_set)
        st = s->last ? gr_plan_check_fault(s->last->plan, s->bases.fault)
                     : gr_fail(GR_ERR_ARG, "an index was out of range in an earlier run");
    if (st != GR_OK && s->bases.fault && s->bases.fault->is_set) {
        s->saw_bad_data = !s->device->ops->runs_at_once;
        memset(s->bases.fault, 0, sizeof(*s->bases.fault));
    }
    return st;
}

/* Where this micro-step's first sample stands in the global batch: rank r of micro-step m takes
 * the stretch m * world + r, so that accumulating over k micro-steps draws what k ranks draw.
 * The batch is dimension 0 of the first feed that has one, as in op/random/draw.h. */
static uint64_t first_sample(const gr_step *s, const gr_named *feeds, int n_feeds)
{
    uint64_t stretch = (uint64_t)s->micro * (uint64_t)gr_pg_size(s->c.pg);

    stretch += (uint64_t)gr_pg_rank(s->c.pg);
    for (int i = 0; i < n_feeds; i++)
        if (feeds[i].shape.n_dims > 0)
            return stretch *
                   (uint64_t)(s->c.max_batch > 0 ? s->c.max_batch : feeds[i].shape.dim[0]);
    return 0;
}

gr_status gr_step_send(gr_step *s, gr_entry *e, const gr_named *feeds, int n_feeds, double lr)
{
    gr_scalars v = {
        .lr = (float)lr,
        .micro = (uint32_t)s->micro,
        .step = (uint64_t)s->n_updates,
        .seed = s->c.seed,
        .sample = first_sample(s, feeds, n_feeds),
        .stop = s->records.stop,
    };

    GR_TRY(check_feeds(feeds, n_feeds));
    return s->device->ops->needs_copies ? gr_step_send_copies(s, e, feeds, &v)
                                        : send_addresses(s, e, feeds, &v);
}

gr_status gr_step_begin_run(gr_step *s, gr_entry *e, const gr_named *feeds, int n_feeds, double lr,
                            gr_run *r)
{
    *r = (gr_run){ .inputs = e->inputs, .pool = s->pool };
    GR_TRY(gr_step_send(s, e, feeds, n_feeds, lr));
    if (s->device->ops->can_poll && gr_pg_size(s->group) > 1 && gr_role_trains(e->purpose.role)) {
        r->poll = poll_group;
        r->poll_arg = s->group;
        s->group->pool = s->pool; /* until the end of the run: between nodes it is idle */
        s->group->agreed_name = "the learning rate";
        s->group->agreed = e->purpose.role == GR_ROLE_MICRO ? 0 : lr; /* there it does not count */
    }
    s->last = e;
    return GR_OK;
}

gr_status gr_step_end_run(gr_step *s, gr_status st)
{
    if (s->group)
        s->group->pool = NULL;
    return s->device->ops->runs_at_once ? take_fault(s, st) : st;
}

static gr_status run_entry(gr_step *s, gr_entry *e, const gr_named *feeds, int n_feeds, double lr)
{
    gr_run r;

    GR_TRY(gr_step_begin_run(s, e, feeds, n_feeds, lr, &r));
    return gr_step_end_run(s, gr_plan_run(e->plan, &r));
}

/* Calls may look for several plans, and for one twice: a hit is a call that made none. */
static void count_hit(gr_step *s, int64_t n_made_before)
{
    s->n_plan_hits += s->n_plans_made == n_made_before;
}

static gr_status plan_roles(gr_step *s, bool training, const gr_named *feeds, int n_feeds)
{
    gr_entry *e;

    if (!training)
        return gr_step_entry(s, (gr_purpose){ GR_ROLE_EVAL, s->eval_trace }, feeds, n_feeds, &e);
    if (s->c.accumulate == 1)
        return gr_step_entry(s, gr_training(GR_ROLE_WHOLE), feeds, n_feeds, &e);
    /* The updating graph first: it is the one that uses every variable. */
    GR_TRY(gr_step_entry(s, gr_training(GR_ROLE_LAST), feeds, n_feeds, &e));
    return gr_step_entry(s, gr_training(GR_ROLE_MICRO), feeds, n_feeds, &e);
}

gr_status gr_step_plan(gr_step *s, bool training, const gr_named *feeds, int n_feeds)
{
    int64_t n_made;

    GR_TRY(gr_step_check_given(s));
    n_made = s->n_plans_made;
    GR_TRY(plan_roles(s, training, feeds, n_feeds));
    count_hit(s, n_made);
    return GR_OK;
}

/* What would ruin the weights without a word. */
gr_status gr_step_check_training(const gr_step *s, const gr_named *feeds, int n_feeds, double lr)
{
    GR_TRY(gr_step_check_feeds(feeds, n_feeds));
    if (isfinite(lr) && lr > (double)FLT_MAX)
        return gr_fail(GR_ERR_ARG, "the learning rate is %g, more than f32 holds", lr);
    if (!(lr >= 0 && lr <= (double)FLT_MAX))
        return gr_fail(GR_ERR_ARG, "the learning rate is %g, must be a number from 0 up", lr);
    for (int i = 0; i < n_feeds; i++)
        if (gr_shape_count(&feeds[i].shape) == 0)
            return gr_fail(GR_ERR_ARG, "feed '%s' is empty: there is nothing to train on",
                           feeds[i].name);
    if (s->saw_bad_data)
        return gr_fail(GR_ERR_ARG, "an update was made from bad data; restore a snapshot first");
    return GR_OK;
}

gr_status gr_step_train_entry(gr_step *s, const gr_named *feeds, int n_feeds, gr_entry **out)
{
    int64_t n_made = s->n_plans_made;

    gr_step_put_back_params(s);
    if (!s->sealed)
        GR_TRY(plan_roles(s, true, feeds, n_feeds));
    GR_TRY(gr_step_entry(s, gr_training(train_role(s)), feeds, n_feeds, out));
    count_hit(s, n_made);
    return GR_OK;
}

void gr_step_count(gr_step *s)
{
    s->micro = (s->micro + 1) % s->c.accumulate;
    if (s->micro == 0)
        s->n_updates++;
}

gr_status gr_step_train(gr_step *s, const gr_named *feeds, int n_feeds, double lr)
{
    gr_entry *e;

    GR_TRY(gr_step_check_given(s));
    GR_TRY(gr_step_check_training(s, feeds, n_feeds, lr));
    GR_TRY(gr_step_check_records(s));
    GR_TRY(gr_step_train_entry(s, feeds, n_feeds, &e));
    GR_TRY(run_entry(s, e, feeds, n_feeds, lr));
    gr_step_count(s);
    if (s->micro != 0)
        return GR_OK;
    GR_TRY(gr_step_send_record(s));
    return gr_step_check_drift(s);
}

gr_status gr_step_find_trace(const gr_step *s, const char *name, int *out)
{
    gr_text known = GR_TEXT_INIT;
    gr_status st;

    for (int i = 0; name && i < s->c.n_traces; i++)
        if (strcmp(s->c.traces[i].name, name) == 0 && strcmp(name, "train") != 0) {
            gr_text_fini(&known);
            *out = i;
            return GR_OK;
        }
    for (int i = 0; i < s->c.n_traces; i++)
        if (strcmp(s->c.traces[i].name, "train") != 0)
            gr_text_addf(&known, " %s", s->c.traces[i].name);
    st = gr_fail(GR_ERR_ARG, "there is no trace '%s' to evaluate; there are:%s", name ? name : "",
                 known.len > 0 ? gr_text_str(&known) : " none");
    gr_text_fini(&known);
    return st;
}

/* Averages, where they are asked for, are read in place of parameters, or they lie there. */
static gr_purpose evaluation(const gr_step *s, int trace)
{
    return (gr_purpose){ s->use_ema && !s->params ? GR_ROLE_AVERAGE : GR_ROLE_EVAL, trace };
}

static gr_status evaluate(gr_step *s, int trace, const gr_named *feeds, int n_feeds)
{
    int64_t n_made = s->n_plans_made;
    gr_entry *e;

    if (s->use_ema && gr_step_shards(s) && !s->params)
        return gr_fail(GR_ERR_ARG, "evaluation: with zero, averages are those of the last "
                                   "gr_step_use_ema(); training goes on since: call it again, on "
                                   "all ranks");
    GR_TRY(gr_step_entry(s, evaluation(s, trace), feeds, n_feeds, &e));
    count_hit(s, n_made);
    return run_entry(s, e, feeds, n_feeds, 0);
}

gr_status gr_step_eval(gr_step *s, const gr_named *feeds, int n_feeds)
{
    GR_TRY(gr_step_check_given(s));
    return evaluate(s, s->eval_trace, feeds, n_feeds);
}

gr_status gr_step_eval_named(gr_step *s, const char *trace, const gr_named *feeds, int n_feeds)
{
    int at;

    GR_TRY(gr_step_check_given(s));
    GR_TRY(gr_step_find_trace(s, trace, &at));
    return gr_wrap(evaluate(s, at, feeds, n_feeds), "trace '%s'", trace);
}

gr_status gr_step_plan_named(gr_step *s, const char *trace, const gr_named *feeds, int n_feeds)
{
    int64_t n_made;
    gr_entry *e;
    int at;

    GR_TRY(gr_step_check_given(s));
    GR_TRY(gr_step_find_trace(s, trace, &at));
    n_made = s->n_plans_made;
    GR_TRY(gr_wrap(gr_step_entry(s, evaluation(s, at), feeds, n_feeds, &e), "trace '%s'", trace));
    count_hit(s, n_made);
    return GR_OK;
}

gr_status gr_step_use_ema(gr_step *s, bool on)
{
    GR_TRY(gr_step_check_given(s));
    if (on && !(s->c.ema_decay > 0))
        return gr_fail(GR_ERR_ARG, "step: there is no average; set ema_decay");
    if (on && !s->can_train)
        return gr_fail(GR_ERR_ARG, "step: plan a training shape first; it makes the averages");
    if (!on)
        gr_step_put_back_params(s);
    else if (gr_step_shards(s) && !s->params)
        GR_TRY(gr_step_place_averages(s));
    s->use_ema = on;
    return GR_OK;
}

gr_status gr_step_sync(gr_step *s)
{
    GR_TRY(gr_step_check_given(s));
    GR_TRY(s->device->ops->sync(s->device));
    return take_fault(s, GR_OK);
}

static const gr_value *find_output(const gr_entry *e, const char *name)
{
    for (int i = 0; i < e->graph->n_outputs; i++)
        if (strcmp(e->graph->outputs[i].name, name) == 0)
            return e->graph->outputs[i].value;
    return NULL;
}

/* A caller may read a 16-bit output as f32: mixed precision is not its business. */
static bool can_widen(gr_dtype from, gr_dtype to)
{
    return to == GR_F32 && (from == GR_BF16 || from == GR_F16);
}

/* In place, from the last element down: the wide ones overwrite only what was read. */
static void widen(const gr_vec *v, gr_dtype from)
{
    const uint16_t *src = v->mem;
    float *dst = v->mem;

    for (size_t i = v->n_elem; i-- > 0;)
        dst[i] = from == GR_BF16 ? gr_bf16_to_f32(src[i]) : gr_f16_to_f32(src[i]);
}

static gr_status check_read(const gr_value *v, const char *name, gr_vec dst)
{
    char text[GR_SHAPE_TEXT];

    if (!v)
        return gr_fail(GR_ERR_ARG, "read: the last run has no output '%s'", name);
    if ((size_t)gr_shape_count(&v->shape) == dst.n_elem &&
        (v->dtype == dst.dtype || can_widen(v->dtype, dst.dtype)))
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "read: output '%s' is %s %s, asked for as %zu x %s", name,
                   gr_dtype_name(v->dtype), gr_shape_text(&v->shape, text, sizeof(text)),
                   dst.n_elem, gr_dtype_name(dst.dtype));
}

gr_status gr_step_read(gr_step *s, const char *output, gr_vec dst)
{
    const gr_value *v;

    GR_TRY(gr_step_check_given(s));
    if (!output || (!dst.mem && dst.n_elem > 0))
        return gr_fail(GR_ERR_ARG, "read: no name or no memory");
    if (!s->last)
        return gr_fail(GR_ERR_ARG, "read: nothing has run since the last new plan was made");
    v = find_output(s->last, output);
    GR_TRY(check_read(v, output, dst));
    GR_TRY(s->device->ops->download(s->device, dst.mem, gr_plan_address(s->last->plan, v),
                                    gr_value_bytes(v)));
    GR_TRY(gr_step_sync(s));
    if (v->dtype != dst.dtype)
        widen(&dst, v->dtype);
    return GR_OK;
}

gr_status gr_step_output_shape(const gr_step *s, const char *output, gr_shape *out)
{
    const gr_value *v;

    GR_TRY(gr_step_check_given(s));
    if (!output || !out)
        return gr_fail(GR_ERR_ARG, "shape: no name or no place for it");
    v = s->last ? find_output(s->last, output) : NULL;
    if (!v)
        return gr_fail(GR_ERR_ARG, "shape: the last run has no output '%s'", output);
    *out = v->shape;
    return GR_OK;
}

bool gr_step_has_output(const gr_step *s, const char *name)
{
    return s->last && find_output(s->last, name);
}

const struct gr_terms *gr_step_terms(const gr_step *s)
{
    return s->last ? s->last->graph->terms : NULL;
}

gr_status gr_step_read_later(gr_step *s, const char *output, void *dst, size_t n_bytes,
                             gr_dtype *dtype)
{
    const gr_value *v = s->last ? find_output(s->last, output) : NULL;

    if (!v || gr_value_bytes(v) > n_bytes)
        return gr_fail(GR_ERR_ARG, "read: the last run has no output '%s' of at most %zu bytes",
                       output, n_bytes);
    *dtype = v->dtype;
    return s->device->ops->download(s->device, dst, gr_plan_address(s->last->plan, v),
                                    gr_value_bytes(v));
}

static gr_status read_var(gr_step *s, const char *name, void *dst, size_t n_bytes)
{
    const gr_var *v = gr_vars_find(s->vars, name);

    if (!v || !s->sealed)
        return GR_OK;
    return s->device->ops->download(s->device, dst, (char *)s->bases.state + v->offset, n_bytes);
}

static int64_t count_params(const gr_vars *vars)
{
    int64_t n = 0;

    for (int i = 0; i < vars->n; i++)
        if (vars->list[i]->kind == GR_VAR_PARAM && !vars->list[i]->frozen)
            n += gr_shape_count(&vars->list[i]->shape);
    return n;
}

/* With this rank's part of what is common. */
static size_t own_state_bytes(const gr_step *s)
{
    size_t n_common = s->vars->n_common;

    return s->vars->n_bytes - n_common + n_common / (size_t)gr_pg_size(s->c.pg);
}

gr_status gr_step_get_stats(gr_step *s, gr_step_stats *out)
{
    float control[GR_CONTROL_COUNT] = { 1, 0, NAN, 1 };
    float scale = 1;
    int64_t skipped = 0;

    GR_TRY(gr_step_check_given(s));
    if (!out)
        return gr_fail(GR_ERR_ARG, "stats: out is NULL");
    GR_TRY(read_var(s, GR_VAR_SCALE, &scale, sizeof(scale)));
    GR_TRY(read_var(s, GR_VAR_SKIPPED, &skipped, sizeof(skipped)));
    if (s->sealed)
        GR_TRY(s->device->ops->download(
            s->device, control, (char *)s->bases.state + s->vars->n_bytes, sizeof(control)));
    GR_TRY(gr_step_sync(s));
    *out = (gr_step_stats){
        .n_steps = s->n_updates,
        .n_skipped = skipped,
        /* A watch looks at the gradients for itself: nobody asked for the norm. */
        .grad_norm = s->update.watches && !gr_update_skips(&s->update)
                         ? (double)NAN
                         : (double)control[GR_CONTROL_NORM],
        .loss_scale = (double)scale,
        .arena_bytes = s->arena_bytes,
        .state_bytes = own_state_bytes(s),
        .exchange_bytes = s->exchange_bytes,
        .n_params = count_params(s->vars),
        .n_plans = s->n_entries,
        .n_plans_made = s->n_plans_made,
        .n_plan_hits = s->n_plan_hits,
        .n_plans_dropped = s->n_plans_dropped,
    };
    return GR_OK;
}

gr_status gr_step_describe(gr_step *s, char **out)
{
    gr_text t = GR_TEXT_INIT;
    gr_status st;

    GR_TRY(gr_step_check_given(s));
    if (!out)
        return gr_fail(GR_ERR_ARG, "step: there is no place for the description (NULL)");
    gr_text_add(&t, "device: ");
    s->device->ops->describe(s->device, &t);
    gr_text_addf(&t, "\nprecision: %s", gr_step_precision(s));
    gr_text_addf(&t, "\nthreads: %d\nstate: %zu bytes\nexchange: %zu bytes\narena: %zu bytes\n",
                 s->n_threads, s->vars->n_bytes, s->exchange_bytes, s->arena_bytes);
    if (s->last)
        gr_plan_print(s->last->plan, &t);
    st = gr_text_status(&t);
    *out = st == GR_OK ? strdup(gr_text_str(&t)) : NULL;
    gr_text_fini(&t);
    if (st == GR_OK && !*out)
        return gr_fail(GR_ERR_NOMEM, "no memory for a description");
    return st;
}
