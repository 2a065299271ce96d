/* What tools may see of a step. */
#include "step/inspect.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "step/private.h"

struct gr_device *gr_step_device(const gr_step *s)
{
    return s->device;
}

gr_amp gr_step_amp(const gr_step *s)
{
    return s->c.amp;
}

const char *gr_step_precision(const gr_step *s)
{
    switch (s->c.amp) {
    case GR_AMP_F16: return "fp16 activations, scaled loss";
    case GR_AMP_BF16:
        if (!s->module && !gr_cpu_has_avx512_bf16() && !gr_cpu_has_amx())
            return "bf16 activations; no faster than f32 here, often slower: there is neither AMX "
                   "nor AVX512_BF16 to use";
        return "bf16 activations";
    case GR_AMP_NONE:
    case GR_AMP_AUTO: break;
    }
    return "f32";
}

const struct gr_vars *gr_step_vars(const gr_step *s)
{
    return s->vars;
}

const gr_graph *gr_step_first_graph(const gr_step *s)
{
    return s->n_entries > 0 ? s->entries[0]->graph : NULL;
}

/* The plan of an update's last micro-step, ready to run on these feeds. */
static gr_status begin_nodes(gr_step *s, const gr_named *feeds, int n_feeds, gr_plan **plan,
                             gr_run *r)
{
    gr_role role = s->c.accumulate == 1 ? GR_ROLE_WHOLE : GR_ROLE_LAST;
    gr_entry *e;

    GR_TRY(gr_step_plan(s, true, feeds, n_feeds));
    GR_TRY(gr_step_entry(s, gr_training(role), feeds, n_feeds, &e));
    *plan = e->plan;
    return gr_step_begin_run(s, e, feeds, n_feeds, 0, r);
}

gr_status gr_step_profile(gr_step *s, const gr_named *feeds, int n_feeds, int n_runs, gr_text *out)
{
    gr_plan *plan;
    gr_run r;

    GR_TRY(begin_nodes(s, feeds, n_feeds, &plan, &r));
    return gr_step_end_run(s, gr_plan_profile(plan, &r, n_runs, out));
}

gr_status gr_step_n_nodes(gr_step *s, const gr_named *feeds, int n_feeds, int *out)
{
    gr_plan *plan;
    gr_run r;

    GR_TRY(begin_nodes(s, feeds, n_feeds, &plan, &r));
    *out = gr_plan_n_nodes(plan);
    return gr_step_end_run(s, GR_OK);
}

static gr_status time_nodes(gr_device *device, gr_plan *plan, const gr_run *r, int64_t *least_ns)
{
    GR_TRY(gr_plan_begin_nodes(plan, r));
    for (int i = 0; i < gr_plan_n_nodes(plan); i++) {
        int64_t from_ns = gr_now_ns(), ns;

        GR_TRY(gr_plan_run_node(plan, r, i));
        GR_TRY(device->ops->sync(device));
        ns = gr_now_ns() - from_ns;
        least_ns[i] = ns < least_ns[i] ? ns : least_ns[i];
    }
    return GR_OK;
}

gr_status gr_step_time_nodes(gr_step *s, const gr_named *feeds, int n_feeds, int64_t *least_ns)
{
    gr_plan *plan;
    gr_run r;

    GR_TRY(begin_nodes(s, feeds, n_feeds, &plan, &r));
    return gr_step_end_run(s, time_nodes(s->device, plan, &r, least_ns));
}
