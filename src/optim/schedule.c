/* Schedules, as functions of the step number alone. */
#include "optim/schedule.h"

#include <math.h>

#define PI 3.14159265358979323846

double gr_schedule_lr(const gr_schedule *s, int64_t step)
{
    int64_t n_warmup = s->n_warmup < s->n_steps ? s->n_warmup : s->n_steps;
    double share;

    if (step < n_warmup)
        return s->lr * (double)(step + 1) / (double)n_warmup;
    if (s->kind == GR_SCHEDULE_CONSTANT)
        return s->lr;
    if (step >= s->n_steps)
        return 0;
    share = (double)(step - n_warmup) / (double)(s->n_steps - n_warmup);
    return s->lr * 0.5 * (1 + cos(PI * share));
}
