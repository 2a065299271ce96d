/* Runners: a recipe's procedures run its traces, as often and on whatever feeds they want. */
#include "train/runner.h"

#include "base/alloc.h"
#include "gradus/inspect.h"
#include "step/inspect.h"
#include "train/trainer.h"

gr_status gr_runner_begin(gr_runner **out, gr_trainer *t)
{
    gr_runner *r = gr_calloc(1, sizeof(*r));

    if (!r)
        return GR_ERR_NOMEM;
    r->t = t;
    *out = r;
    return GR_OK;
}

void gr_runner_end(gr_runner *r)
{
    if (!r)
        return;
    while (r->others) {
        gr_runner *other = r->others;

        r->others = other->next;
        gr_runner_end(other);
    }
    if (r->is_own)
        gr_trainer_close_other(r->t);
    gr_free(r->expected);
    gr_free(r);
}

/* ---- running ---- */

gr_status gr_runner_run(gr_runner *r, const char *trace, const gr_named *feeds, int n_feeds)
{
    return gr_step_eval_named(r->t->step, trace, feeds, n_feeds);
}

gr_status gr_runner_read(gr_runner *r, const char *output, gr_vec dst)
{
    return gr_step_read(r->t->step, output, dst);
}

gr_status gr_runner_shape(const gr_runner *r, const char *output, gr_shape *out)
{
    return gr_step_output_shape(r->t->step, output, out);
}

bool gr_runner_has_averages(const gr_runner *r)
{
    return r->t->o.ema_decay > 0;
}

gr_status gr_runner_use_averages(gr_runner *r, bool on)
{
    if (r->t->o.zero > 0 && on != gr_runner_has_averages(r))
        return gr_fail(GR_ERR_ARG, "with zero, ranks put averages together before an evaluation: "
                                   "parameters cannot be taken in its middle");
    return r->t->o.zero > 0 ? GR_OK : gr_step_use_ema(r->t->step, on);
}

int gr_runner_rank(const gr_runner *r)
{
    return r->t->rank;
}

int gr_runner_n_ranks(const gr_runner *r)
{
    return r->t->n_ranks;
}

uint64_t gr_runner_seed(const gr_runner *r)
{
    return (uint64_t)r->t->o.seed;
}

/* ---- another checkpoint ---- */

gr_status gr_runner_open(gr_runner *r, const char *checkpoint, gr_runner **out)
{
    gr_trainer *other;
    gr_status st;

    GR_TRY(
        gr_wrap(gr_trainer_open_other(r->t, checkpoint, &other), "the model of '%s'", checkpoint));
    st = gr_runner_begin(out, other);
    if (st != GR_OK) {
        gr_trainer_close_other(other);
        return st;
    }
    (*out)->is_own = true;
    (*out)->next = r->others;
    r->others = *out;
    return GR_OK;
}

const gr_recipe_view *gr_runner_view(const gr_runner *r)
{
    return &r->t->view;
}

/* ---- what will be run ---- */

gr_status gr_runner_expect(gr_runner *r, const char *trace, const gr_named *feeds, int n_feeds)
{
    gr_arena *a = r->t->arena;
    gr_expected e = { .trace = gr_arena_strdup(a, trace), .n_feeds = n_feeds };

    e.feeds = gr_arena_array(a, (size_t)n_feeds + 1, sizeof(*e.feeds));
    if (!e.trace || !e.feeds)
        return GR_ERR_NOMEM;
    for (int i = 0; i < n_feeds; i++) {
        e.feeds[i] = feeds[i];
        e.feeds[i].mem = NULL;
        e.feeds[i].name = gr_arena_strdup(a, feeds[i].name);
        if (!e.feeds[i].name)
            return GR_ERR_NOMEM;
    }
    GR_TRY(gr_grow((void **)&r->expected, &r->cap_expected, r->n_expected + 1, sizeof(e)));
    r->expected[r->n_expected++] = e;
    return GR_OK;
}

gr_status gr_runner_measure(gr_runner *r, size_t *n_bytes, const char **trace)
{
    *n_bytes = 0;
    *trace = NULL;
    for (int i = 0; i < r->n_expected; i++) {
        const gr_expected *e = &r->expected[i];
        gr_memory_report report;

        GR_TRY(gr_step_memory_report_named(r->t->step, e->trace, e->feeds, e->n_feeds, &report));
        if (*trace && report.arena + report.inputs <= *n_bytes)
            continue;
        *n_bytes = report.arena + report.inputs;
        *trace = e->trace;
    }
    return GR_OK;
}

gr_status gr_runner_plan(gr_runner *r)
{
    for (int i = 0; i < r->n_expected; i++)
        GR_TRY(gr_step_plan_named(r->t->step, r->expected[i].trace, r->expected[i].feeds,
                                  r->expected[i].n_feeds));
    return GR_OK;
}
