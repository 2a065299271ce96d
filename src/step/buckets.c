/*
 * The step's buckets: made once, from the first training graph, and then the same for all; whether
 * ranks have what they train in common, and how the update is divided between them.
 */
#include "base/alloc.h"
#include "step/private.h"

/* Sums need not be kept where the update is all that reads them, and reads them once. */
static bool updates_from_rows(const gr_step *s)
{
    return s->is_common && s->group->ops->rows && s->c.grad_dtype == GR_F32 &&
           !gr_update_has_control(&s->update) && s->update.ema_decay == 0;
}

static gr_status make_shards(gr_step *s)
{
    gr_shard_config c = { .pg = s->group,
                          .n_vars = s->vars->n,
                          .wants_norm = gr_update_has_control(&s->update),
                          .has_rows = updates_from_rows(s),
                          .may_reuse = s->c.zero == 2 && s->c.accumulate == 1,
                          .is_common = s->is_common,
                          .wire = s->c.grad_dtype };

    GR_TRY(gr_shard_make(&s->shard, s->arena, &s->buckets, &c));
    s->update.shard = &s->shard.update;
    for (int i = 0; i < s->buckets.n_slots && s->is_common; i++)
        s->vars->list[s->buckets.var[i]->index]->common = true;
    return GR_OK;
}

static bool pays_in_common(const gr_step *s)
{
    return s->buckets.n_bytes * (size_t)(gr_pg_size(s->group) - 1) >= s->common_from;
}

gr_status gr_step_make_buckets(gr_step *s, const gr_graph *g)
{
    size_t caps[2] = { s->c.first_bucket_bytes, s->c.bucket_bytes };
    bool *used;
    gr_status st;

    if (s->has_buckets)
        return GR_OK;
    used = gr_calloc((size_t)s->vars->n + 1, sizeof(*used));
    if (!used)
        return GR_ERR_NOMEM;
    for (int i = 0; i < g->n_grads; i++)
        used[i] = g->grads[i] != NULL;
    st = gr_buckets_make(&s->buckets, s->arena, s->vars, used, caps);
    gr_free(used);
    s->is_common = s->is_common && pays_in_common(s);
    if (st == GR_OK && gr_step_has_shares(s))
        st = make_shards(s);
    else if (st == GR_OK && s->c.grad_dtype != GR_F32 && gr_pg_size(s->group) > 1)
        st = gr_buckets_narrow(&s->buckets, s->c.grad_dtype);
    s->has_buckets = st == GR_OK;
    if (s->has_buckets)
        gr_buckets_find_keys(&s->buckets, g);
    return st;
}

gr_status gr_step_check_slots(const gr_step *s, const gr_graph *g)
{
    for (int i = 0; i < g->n_grads; i++) {
        bool found = !g->grads[i];

        for (int k = 0; k < s->buckets.n_slots && !found; k++)
            found = s->buckets.var[k]->index == i;
        if (!found)
            return gr_fail(GR_ERR_ARG,
                           "parameter '%s' has a gradient here but had none in the first trace",
                           s->vars->list[i]->name);
    }
    return GR_OK;
}
