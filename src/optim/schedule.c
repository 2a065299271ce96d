/* Schedules, as functions of the step number alone. */
#include "gradus/schedule.h"

#include "base/status.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#define PI 3.14159265358979323846

static const char *const names[] = {
    [GR_SCHEDULE_CONSTANT] = "constant",       [GR_SCHEDULE_COSINE] = "cosine",
    [GR_SCHEDULE_RESTARTS] = "restarts",       [GR_SCHEDULE_STEP] = "step",
    [GR_SCHEDULE_MULTISTEP] = "multistep",     [GR_SCHEDULE_POLYNOMIAL] = "polynomial",
    [GR_SCHEDULE_EXPONENTIAL] = "exponential",
};

const char *gr_schedule_name(gr_schedule_kind kind)
{
    return (unsigned)kind < GR_SCHEDULE_KIND_COUNT ? names[kind] : NULL;
}

static gr_status check_milestones(const gr_schedule *s)
{
    if (s->n_milestones < 0 || s->n_milestones > GR_MAX_MILESTONES)
        return gr_fail(GR_ERR_ARG, "schedule: %d milestones, must be 0 to %d", s->n_milestones,
                       GR_MAX_MILESTONES);
    for (int i = 1; i < s->n_milestones; i++)
        if (s->milestone[i] <= s->milestone[i - 1])
            return gr_fail(GR_ERR_ARG,
                           "schedule: milestone %" PRId64 " does not come after %" PRId64,
                           s->milestone[i], s->milestone[i - 1]);
    return GR_OK;
}

gr_status gr_schedule_check(const gr_schedule *s)
{
    bool has_period, has_end;

    if (!s)
        return gr_fail(GR_ERR_ARG, "schedule: it is NULL");
    has_period = s->kind == GR_SCHEDULE_STEP || s->kind == GR_SCHEDULE_RESTARTS;
    has_end = s->kind == GR_SCHEDULE_COSINE || s->kind == GR_SCHEDULE_POLYNOMIAL;
    if (!gr_schedule_name(s->kind))
        return gr_fail(GR_ERR_ARG, "schedule: unknown kind %d", (int)s->kind);
    if (!(s->lr >= 0) || isinf(s->lr))
        return gr_fail(GR_ERR_ARG, "schedule: the learning rate is %g, must be 0 or more", s->lr);
    if (s->n_warmup < 0 || s->n_steps < 0 || s->tick < 0)
        return gr_fail(GR_ERR_ARG,
                       "schedule: warm-up %" PRId64 ", steps %" PRId64 ", tick %" PRId64
                       ": none may be negative",
                       s->n_warmup, s->n_steps, s->tick);
    if (has_end && s->n_steps == 0)
        return gr_fail(GR_ERR_ARG, "schedule: n_steps is 0, and %s declines towards the end",
                       gr_schedule_name(s->kind));
    if (!(s->floor >= 0) || s->floor > s->lr)
        return gr_fail(GR_ERR_ARG, "schedule: the floor is %g, must be in [0, %g]", s->floor,
                       s->lr);
    if (has_period && s->period < 1)
        return gr_fail(GR_ERR_ARG, "schedule: the period is %" PRId64 ", must be at least 1",
                       s->period);
    if (s->kind == GR_SCHEDULE_RESTARTS && !(s->factor >= 1 && s->factor < 1e6))
        return gr_fail(GR_ERR_ARG, "schedule: restarts grow by %g, must be at least 1", s->factor);
    if (!(s->factor >= 0) || isinf(s->factor))
        return gr_fail(GR_ERR_ARG, "schedule: the factor is %g, must be 0 or more", s->factor);
    if (s->kind == GR_SCHEDULE_POLYNOMIAL && !(s->power >= 0 && s->power < 1e3))
        return gr_fail(GR_ERR_ARG, "schedule: the power is %g, must be in [0, 1000)", s->power);
    return check_milestones(s);
}

/* Between lr and the floor: lr at share 0, the floor at share 1. */
static double cosine(const gr_schedule *s, double share)
{
    return s->floor + (s->lr - s->floor) * 0.5 * (1 + cos(PI * share));
}

static double restarts(const gr_schedule *s, int64_t t)
{
    double at = (double)t, length = (double)s->period;

    if (s->factor == 1)
        at = fmod(at, length);
    for (; s->factor > 1 && at >= length; length *= s->factor)
        at -= length;
    return cosine(s, at / length);
}

static double multistep(const gr_schedule *s, int64_t t)
{
    int n = 0;

    while (n < s->n_milestones && t >= s->milestone[n])
        n++;
    return s->lr * pow(s->factor, n);
}

/* `t` ticks after the warm-up; `share` of the time that is left after it. */
static double after_warmup(const gr_schedule *s, int64_t t, double share)
{
    switch (s->kind) {
    case GR_SCHEDULE_COSINE: return cosine(s, share);
    case GR_SCHEDULE_RESTARTS: return restarts(s, t);
    case GR_SCHEDULE_STEP: return s->lr * pow(s->factor, (double)(t / s->period));
    case GR_SCHEDULE_MULTISTEP: return multistep(s, t);
    case GR_SCHEDULE_POLYNOMIAL: return s->floor + (s->lr - s->floor) * pow(1 - share, s->power);
    case GR_SCHEDULE_EXPONENTIAL: return s->lr * pow(s->factor, (double)t);
    case GR_SCHEDULE_CONSTANT:
    case GR_SCHEDULE_KIND_COUNT: break;
    }
    return s->lr;
}

double gr_schedule_lr(const gr_schedule *s, int64_t step)
{
    bool is_cut = s->n_steps > 0 && s->n_steps < s->n_warmup; /* 0: nobody knows the end */
    int64_t n_warmup = is_cut ? s->n_steps : s->n_warmup;
    int64_t tick = s->tick > 0 ? s->tick : 1, left = s->n_steps - n_warmup, t;
    double share;

    if (step < 0)
        step = 0;
    if (step < n_warmup)
        return s->lr * (double)(s->warmup_at_0 ? step : step + 1) / (double)n_warmup;
    t = (step - n_warmup) / tick;
    /* A last epoch that was cut short still counts as a whole tick. */
    share = left > 0 ? (double)t / (double)((left + tick - 1) / tick) : 1;
    return after_warmup(s, t, share < 1 ? share : 1);
}

static bool is_better(const gr_plateau *p, double value)
{
    if (!p->has_best) /* PyTorch starts from the infinity that everything is better than */
        return p->maximize ? value > (double)-INFINITY : value < (double)INFINITY;
    if (p->maximize)
        return value > p->best * (1 + p->threshold);
    return value < p->best * (1 - p->threshold);
}

bool gr_plateau_observe(gr_plateau *p, double value)
{
    double scale;

    if (is_better(p, value)) {
        p->best = value;
        p->has_best = true;
        p->n_bad = 0;
    } else {
        p->n_bad++;
    }
    if (p->n_cooling > 0) {
        p->n_cooling--;
        p->n_bad = 0;
    }
    if (p->n_bad <= p->patience)
        return false;
    p->n_cooling = p->cooldown;
    p->n_bad = 0;
    scale = p->scale * p->factor;
    if (scale < p->min_scale)
        scale = p->min_scale;
    if (scale >= p->scale)
        return false;
    p->scale = scale;
    return true;
}
