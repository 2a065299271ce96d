/*
 * State that is cut up between ranks, seen as a whole: put together for a snapshot on rank 0,
 * handed out again, and averages gathered for evaluation. All of it is collective, over the
 * host group; parts of a variable follow each other in the order of ranks.
 */
#include <string.h>

#include "base/alloc.h"
#include "step/private.h"

/* How many elements of the variable each rank has; from gr_malloc. */
static size_t *part_counts(const gr_step *s, const gr_var *v)
{
    int n = gr_pg_size(s->c.pg);
    size_t *counts = gr_malloc((size_t)n * sizeof(*counts));

    for (int r = 0; r < n && counts; r++)
        counts[r] = (size_t)gr_shard_range(&s->shard, v->part_of, r).n;
    return counts;
}

/* A call over all parts of `v`, of which this rank has `part`. */
static gr_status run_parts(gr_step *s, const gr_var *v, gr_pg_call *c)
{
    size_t *counts = part_counts(s, v);
    gr_status st;

    if (!counts)
        return GR_ERR_NOMEM;
    c->dtype = v->dtype;
    c->counts = counts;
    c->label = v->name;
    st = gr_pg_run(s->c.pg, c);
    gr_free(counts);
    return st;
}

static void *place_of(const gr_step *s, const gr_var *v)
{
    return (char *)s->bases.state + v->offset;
}

gr_status gr_step_gather_part(gr_step *s, const gr_var *v, void *whole)
{
    gr_pg_call c = { .kind = GR_CALL_GATHER, .src = place_of(s, v), .dst = whole };

    return run_parts(s, v, &c);
}

gr_status gr_step_scatter_part(gr_step *s, const gr_var *v, void *whole, void *part)
{
    gr_pg_call c = { .kind = GR_CALL_SCATTER, .src = whole, .dst = part };

    return run_parts(s, v, &c);
}

/* ---- telling ---- */

typedef struct verdict {
    int64_t status;
    char text[GR_ERROR_TEXT];
} verdict;

gr_status gr_step_tell(gr_step *s, gr_status st, void *mem, size_t n_bytes)
{
    verdict v = { .status = (int64_t)st };
    gr_vec bytes = { mem, n_bytes, GR_U8 };
    gr_error error;

    gr_error_take(&error, st);
    memcpy(v.text, error.text, sizeof(v.text));
    GR_TRY(gr_pg_broadcast(s->c.pg, (gr_vec){ &v, sizeof(v), GR_U8 }, 0));
    if (v.status != GR_OK && gr_pg_rank(s->c.pg) != 0)
        return gr_fail((gr_status)v.status, "rank 0: %s", v.text);
    if (v.status != GR_OK)
        return gr_error_raise(&error);
    return n_bytes > 0 ? gr_pg_broadcast(s->c.pg, bytes, 0) : GR_OK;
}

/* ---- averages ---- */

static bool is_average(const gr_var *v)
{
    return v->part_of && strncmp(v->name, GR_VAR_EMA, strlen(GR_VAR_EMA)) == 0;
}

static size_t param_bytes(const gr_var *average)
{
    return (size_t)gr_shape_count(&average->part_of->shape) * gr_dtype_bytes(average->dtype);
}

/* Parameters that have an average, to `mem` side by side, or back from there. */
static void move_params(gr_step *s, char *mem, bool back)
{
    for (int i = 0; i < s->vars->n; i++) {
        const gr_var *v = s->vars->list[i];

        if (!is_average(v))
            continue;
        if (back)
            memcpy(place_of(s, v->part_of), mem, param_bytes(v));
        else
            memcpy(mem, place_of(s, v->part_of), param_bytes(v));
        mem += param_bytes(v);
    }
}

static gr_status gather_averages(gr_step *s)
{
    for (int i = 0; i < s->vars->n; i++) {
        const gr_var *v = s->vars->list[i];
        gr_pg_call c = { .kind = GR_CALL_ALLGATHER, .src = place_of(s, v) };

        if (!is_average(v))
            continue;
        c.dst = place_of(s, v->part_of);
        GR_TRY(run_parts(s, v, &c));
    }
    return GR_OK;
}

gr_status gr_step_place_averages(gr_step *s)
{
    size_t n_bytes = 1;

    for (int i = 0; i < s->vars->n; i++)
        if (is_average(s->vars->list[i]))
            n_bytes += param_bytes(s->vars->list[i]);
    GR_TRY(s->device->ops->host_alloc(s->device, n_bytes, &s->params));
    move_params(s, s->params, false);
    return gather_averages(s);
}

void gr_step_put_back_params(gr_step *s)
{
    if (!s->params)
        return;
    move_params(s, s->params, true);
    s->device->ops->host_free(s->device, s->params);
    s->params = NULL;
}
