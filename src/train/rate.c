/* Batch, learning rate and schedule of a run. */
#include "train/rate.h"

#include "base/option.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- batch ---- */

int64_t gr_rate_effective(const gr_train_options *o, int n_ranks)
{
    return o->batch_size * n_ranks * o->accumulate;
}

gr_status gr_rate_batch(gr_train_options *o, int n_ranks)
{
    int64_t parts = n_ranks * o->accumulate, batch = o->effective_batch / parts;
    int64_t low = batch > 0 ? batch : 1;

    if (o->effective_batch == 0)
        return GR_OK;
    if (o->effective_batch % parts == 0) {
        o->batch_size = batch;
        return GR_OK;
    }
    return gr_fail(GR_ERR_ARG,
                   "effective_batch %" PRId64 " is no multiple of %d rank%s x %" PRId64
                   " accumulation = %" PRId64 "; %" PRId64 " and %" PRId64 " are",
                   o->effective_batch, n_ranks, gr_plural(n_ranks), o->accumulate, parts,
                   low * parts, (low + 1) * parts);
}

void gr_rate_batch_text(const gr_train_options *o, int n_ranks, gr_text *out)
{
    const char *most = o->sampler == GR_ORDER_BUCKETED ? "at most " : "";

    gr_text_addf(out, "batch %s%" PRId64, most, o->batch_size);
    if (o->token_budget > 0)
        gr_text_addf(out, " (%" PRId64 " tokens)", o->token_budget);
    gr_text_addf(out, " x %d rank%s x %" PRId64 " accumulation = %s%" PRId64, n_ranks,
                 gr_plural(n_ranks), o->accumulate, most, gr_rate_effective(o, n_ranks));
}

/* ---- learning rate ---- */

double gr_rate_factor(const gr_train_options *o, gr_lr_scaling rule, int n_ranks)
{
    double times = n_ranks;

    if (o->lr_base_batch > 0)
        times = (double)gr_rate_effective(o, n_ranks) / (double)o->lr_base_batch;
    if (rule == GR_LR_NONE)
        return 1;
    return rule == GR_LR_LINEAR ? times : sqrt(times);
}

void gr_rate_number(double x, int digits, gr_text *out)
{
    char text[64];
    char *e;

    snprintf(text, sizeof(text), "%.*e", digits - 1, x);
    e = strchr(text, 'e');
    if (!e || (fabs(x) >= 0.01 && fabs(x) < 1e5) || fabs(x) <= 0) {
        gr_text_addf(out, "%.*g", digits, x);
        return;
    }
    if (digits > 1) { /* "8.000000e-04" -> "8e-4" */
        char *end = e;

        while (end[-1] == '0')
            end--;
        gr_text_addn(out, text, (size_t)(end - (end[-1] == '.') - text));
    } else {
        gr_text_addn(out, text, (size_t)(e - text));
    }
    gr_text_addf(out, "e%ld", strtol(e + 1, NULL, 10));
}

static void add_result(const gr_train_options *o, gr_lr_scaling rule, int n_ranks, gr_text *out)
{
    gr_rate_number(o->lr * gr_rate_factor(o, rule, n_ranks), 3, out);
}

/* What the rules go by: " by 8 ranks", or the batches. */
static void add_reason(const gr_train_options *o, int n_ranks, gr_text *out)
{
    if (o->lr_base_batch > 0)
        gr_text_addf(out, "batch %" PRId64 " / %" PRId64, gr_rate_effective(o, n_ranks),
                     o->lr_base_batch);
    else
        gr_text_addf(out, "%d ranks", n_ranks);
}

void gr_rate_text(const gr_train_options *o, int n_ranks, gr_text *out)
{
    static const char *const names[] = { "none", "linear", "sqrt" }; /* gr_lr_scaling */
    gr_lr_scaling rule = (gr_lr_scaling)o->lr_scaling;
    double times = gr_rate_factor(o, GR_LR_LINEAR, n_ranks);

    gr_rate_number(o->lr, 6, out);
    if (rule != GR_LR_NONE) {
        gr_text_addf(out, " x %.3g (%s", gr_rate_factor(o, rule, n_ranks), names[rule]);
        if (o->lr_base_batch > 0) {
            gr_text_add(out, ", ");
            add_reason(o, n_ranks, out);
        }
        gr_text_add(out, ") = ");
        add_result(o, rule, n_ranks, out);
    } else if (times > 1 || times < 1) {
        gr_text_add(out, " (not scaled; by ");
        add_reason(o, n_ranks, out);
        gr_text_add(out, " linear would be ");
        add_result(o, GR_LR_LINEAR, n_ranks, out);
        gr_text_add(out, ", sqrt ");
        add_result(o, GR_LR_SQRT, n_ranks, out);
        gr_text_add(out, ")");
    }
}

/* ---- schedule ---- */

static gr_status read_milestones(const char *text, gr_schedule *s)
{
    while (text && *text) {
        char *end;
        long long value = strtoll(text, &end, 10);

        if (end == text || (*end != '\0' && *end != ',') || s->n_milestones == GR_MAX_MILESTONES)
            return gr_fail(GR_ERR_ARG,
                           "lr_milestones: '%s' is no list of at most %d whole numbers with "
                           "commas between them",
                           text, GR_MAX_MILESTONES);
        s->milestone[s->n_milestones++] = value;
        text = end + (*end == ',');
    }
    return GR_OK;
}

/* Steps of the warm-up, never more than it may have, or the run has. */
static int64_t warmup_steps(const gr_train_options *o, int64_t steps_per_epoch, int64_t n_steps)
{
    double n = (double)o->warmup_steps;

    if (o->warmup_epochs > 0)
        n = ceil(o->warmup_epochs * (double)steps_per_epoch);
    if (o->warmup_max_steps > 0 && n > (double)o->warmup_max_steps)
        n = (double)o->warmup_max_steps;
    return n < (double)n_steps ? (int64_t)n : n_steps;
}

gr_status gr_rate_schedule(const gr_train_options *o, int n_ranks, int64_t steps_per_epoch,
                           int64_t n_steps, gr_schedule *out)
{
    gr_schedule s = GR_SCHEDULE_INIT;

    s.kind =
        o->schedule == GR_SCHEDULE_PLATEAU ? GR_SCHEDULE_CONSTANT : (gr_schedule_kind)o->schedule;
    s.lr = o->lr * gr_rate_factor(o, (gr_lr_scaling)o->lr_scaling, n_ranks);
    s.n_warmup = warmup_steps(o, steps_per_epoch, n_steps);
    s.warmup_at_0 = o->warmup_at_0;
    s.n_steps = n_steps;
    s.tick = o->lr_by_epoch ? steps_per_epoch : 1;
    s.floor = o->lr_min;
    s.factor = s.kind == GR_SCHEDULE_RESTARTS ? o->lr_t_mult : o->lr_gamma;
    s.period = o->lr_period;
    s.power = o->lr_power;
    if (s.kind == GR_SCHEDULE_MULTISTEP && !o->lr_milestones)
        return gr_fail(GR_ERR_ARG, "lr_schedule 'multistep' changes the rate at lr_milestones, and "
                                   "there are none: give them, as in --lr_milestones 30,60,90");
    if (s.kind == GR_SCHEDULE_MULTISTEP)
        GR_TRY(read_milestones(o->lr_milestones, &s));
    GR_TRY(gr_schedule_check(&s));
    *out = s;
    return GR_OK;
}

gr_plateau gr_rate_plateau(const gr_train_options *o, bool maximize)
{
    gr_plateau p = GR_PLATEAU_INIT;

    p.maximize = maximize;
    p.factor = o->lr_gamma;
    p.patience = o->lr_patience;
    p.threshold = o->lr_threshold;
    p.cooldown = o->lr_cooldown;
    p.min_scale = o->lr > 0 ? o->lr_min / o->lr : 0;
    return p;
}
