/*
 * What a recipe does now and then while it trains: pictures that a sampler draws after every epoch.
 * Units of work are dealt to the ranks and run on the averages of the weights where there are some;
 * results come together as those of a prediction do. Nothing of it touches the training: a run with
 * actions has the bits of one without.
 */
#include "train/trainer.h"

#include "base/log.h"
#include "train/config/settings.h"

#include <inttypes.h>
#include <stdio.h>

static bool is_due(const gr_trainer *t, const gr_action *a)
{
    const gr_setting *every = &gr_settings_slot(t->o.settings, a->key)->value;
    int64_t n = every->n ? every->ints[0] : 0;

    if (every->n && every->ints[1])
        n *= t->steps_per_epoch;
    return n > 0 && gr_trainer_place(t, t->at) % n == 0;
}

/* Rank r runs units r, r + W, ...; who is asked to stop leaves the rest. */
static gr_status run_units(gr_trainer *t, const gr_action *a, gr_results *out)
{
    int64_t n = a->n_units(t->user), fewest = n / t->n_ranks, unused = 0;

    for (int64_t u = t->rank, n_done = 0; u < n && t->stopped_by == 0; u += t->n_ranks) {
        GR_TRY(gr_wrap(a->run_unit(t->user, t->runner, u, out), "unit %" PRId64, u));
        if (++n_done <= fewest)
            GR_TRY(gr_trainer_agree_on_signal(t, &t->stopped_by, &unused));
    }
    /* Whatever the units wanted: what comes next is as it was. */
    return t->o.zero > 0 ? GR_OK : gr_step_use_ema(t->step, t->o.ema_decay > 0);
}

static gr_status act(gr_trainer *t, const gr_action *a)
{
    gr_results *r;
    char prefix[40];
    gr_status st;

    snprintf(prefix, sizeof(prefix), "step_%" PRId64 "_", t->at);
    GR_TRY(gr_results_create(&r, &(gr_results_config){ .folder = t->folder, .prefix = prefix }));
    st = run_units(t, a, r);
    if (st == GR_OK && t->stopped_by == 0)
        st = gr_results_write(r, t->pg);
    if (st == GR_OK && t->stopped_by == 0 && gr_trainer_writes(t))
        gr_results_show(r, t->track, t->at);
    gr_results_destroy(r);
    return gr_wrap(st, "'%s' at step %" PRId64, a->name, t->at);
}

gr_status gr_trainer_act(gr_trainer *t)
{
    for (int i = 0; i < t->recipe->n_actions && t->stopped_by == 0; i++)
        if (is_due(t, &t->recipe->actions[i]))
            GR_TRY(act(t, &t->recipe->actions[i]));
    return GR_OK;
}
