/* The parts of a loss, and records of a trace. */
#include "train/parts.h"

#include "base/alloc.h"
#include "op/loss/terms.h"
#include "step/inspect.h"

#include <math.h>
#include <string.h>

void gr_parts_fini(gr_parts *p)
{
    gr_free(p->sums);
    gr_free(p->most);
    gr_free(p->row);
    *p = (gr_parts){ 0 };
}

void gr_parts_clear(gr_parts *p)
{
    for (int64_t i = 0; i < p->n_columns; i++) {
        p->sums[i] = (gr_exact){ 0 };
        p->most[i] = -HUGE_VAL;
    }
}

static gr_status make_room(gr_parts *p, int64_t n_columns, int n_parts, gr_arena *arena)
{
    p->sums = gr_calloc((size_t)n_columns + 1, sizeof(*p->sums));
    p->most = gr_calloc((size_t)n_columns + 1, sizeof(*p->most));
    p->list = gr_arena_array(arena, (size_t)n_parts + 1, sizeof(*p->list));
    if (!p->sums || !p->most || !p->list)
        return GR_ERR_NOMEM;
    p->n_columns = n_columns;
    p->n = n_parts;
    gr_parts_clear(p);
    return GR_OK;
}

/* The graph may leave the cache of plans, or another run be the latest, when they are computed. */
static gr_status know(gr_parts *p, const struct gr_terms *all, gr_arena *arena)
{
    int n_terms = all->n > 1 ? all->n : 0;

    if (p->terms)
        return GR_OK;
    p->terms = gr_terms_copy(all, arena);
    if (!p->terms)
        return GR_ERR_NOMEM;
    GR_TRY(make_room(p, all->n_columns, n_terms + all->n_records, arena));
    p->has_loss = all->n > 0;
    for (int i = 0; i < p->n; i++) {
        p->list[i].name = i < n_terms ? gr_arena_printf(arena, "loss/%s", all->list[i].name)
                                      : p->terms->records[i - n_terms].name;
        if (!p->list[i].name)
            return GR_ERR_NOMEM;
    }
    return GR_OK;
}

static gr_status room_for_row(gr_parts *p, size_t n)
{
    if (n <= p->row_cap)
        return GR_OK;
    gr_free(p->row);
    p->row_cap = 0;
    p->row = gr_calloc(n, sizeof(*p->row));
    if (!p->row)
        return GR_ERR_NOMEM;
    p->row_cap = n;
    return GR_OK;
}

static void add(gr_parts *p, int64_t column, double x)
{
    gr_exact_add(&p->sums[column], x);
    p->most[column] = x > p->most[column] || isnan(x) ? x : p->most[column];
}

/* ---- totals ---- */

static gr_status add_over_ranks(gr_parts *p, gr_pg *pg)
{
    size_t n = (size_t)p->n_columns;

    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ p->sums, n * GR_EXACT_INTS, GR_I64 }, GR_REDUCE_SUM));
    return gr_pg_allreduce(pg, (gr_vec){ p->most, n, GR_F64 }, GR_REDUCE_MAX);
}

/* `n` is how many numbers a mean is of. */
static gr_status compute(gr_parts *p, int64_t n)
{
    const struct gr_terms *all = p->terms;
    double *totals = gr_calloc((size_t)p->n_columns + 1, sizeof(*totals));
    int n_terms = all->n > 1 ? all->n : 0;

    if (!totals)
        return GR_ERR_NOMEM;
    for (int64_t i = 0; i < p->n_columns; i++)
        totals[i] = gr_exact_value(&p->sums[i]);
    p->loss = 0;
    for (int i = 0; i < all->n; i++) {
        double value = gr_term_value(&all->list[i], totals);

        p->loss += all->list[i].weight * value;
        if (n_terms > 0)
            p->list[i].value = value;
    }
    for (int i = 0; i < all->n_records; i++) {
        const gr_term_record *r = &all->records[i];

        p->list[n_terms + i].value = r->kind == GR_RECORD_MAX    ? p->most[r->column]
                                     : r->kind == GR_RECORD_MEAN ? totals[r->column] / (double)n
                                                                 : totals[r->column];
    }
    gr_free(totals);
    return GR_OK;
}

/* ---- training ---- */

static gr_status read_output(gr_parts *p, gr_step *s, const char *output, int64_t n)
{
    GR_TRY(room_for_row(p, (size_t)n));
    return gr_step_read(s, output, (gr_vec){ p->row, (size_t)n, GR_F32 });
}

gr_status gr_parts_take_step(gr_parts *p, gr_step *s, gr_arena *arena)
{
    const struct gr_terms *all = gr_step_terms(s);

    if (!all)
        return GR_OK;
    GR_TRY(know(p, all, arena));
    for (int k = 0; k < all->n; k++)
        for (int i = 0; i < all->list[k].n_sums; i++) {
            const gr_term_sum *sum = &all->list[k].sums[i];

            if (!sum->output)
                continue;
            GR_TRY(read_output(p, s, sum->output, sum->length));
            for (int64_t e = 0; e < sum->length; e++)
                add(p, sum->column + e, (double)p->row[e]);
        }
    for (int i = 0; i < all->n_records; i++) {
        GR_TRY(read_output(p, s, all->records[i].output, 1));
        add(p, all->records[i].column, (double)p->row[0]);
    }
    return GR_OK;
}

gr_status gr_parts_share_step(gr_parts *p, gr_pg *pg, int64_t n_micro)
{
    if (p->n == 0)
        return GR_OK;
    GR_TRY(add_over_ranks(p, pg));
    GR_TRY(compute(p, n_micro * gr_pg_size(pg)));
    gr_parts_clear(p);
    return GR_OK;
}

/* ---- evaluation ---- */

gr_status gr_parts_take_rows(gr_parts *p, gr_step *s, gr_arena *arena, int64_t n)
{
    const struct gr_terms *all = gr_step_terms(s);
    const float *at;

    if (!all || all->n_columns == 0)
        return GR_OK;
    GR_TRY(know(p, all, arena));
    GR_TRY(read_output(p, s, GR_TERMS_OUTPUT, n * p->n_columns));
    at = p->row;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < p->n_columns; c++)
            add(p, c, (double)*at++);
    return GR_OK;
}

/* What rank 0 made of the totals, told to all. */
static gr_status tell(gr_parts *p, gr_pg *pg)
{
    double *values = gr_calloc((size_t)p->n + 1, sizeof(*values));
    gr_status st;

    if (!values)
        return GR_ERR_NOMEM;
    values[0] = p->loss;
    for (int i = 0; i < p->n; i++)
        values[i + 1] = p->list[i].value;
    st = gr_pg_broadcast(pg, (gr_vec){ values, (size_t)p->n + 1, GR_F64 }, 0);
    p->loss = values[0];
    for (int i = 0; i < p->n; i++)
        p->list[i].value = values[i + 1];
    gr_free(values);
    return st;
}

gr_status gr_parts_share_rows(gr_parts *p, gr_pg *pg, int64_t n_samples, gr_arena *arena)
{
    int64_t known[3] = { p->n_columns, p->n, p->has_loss };

    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ known, 3, GR_I64 }, GR_REDUCE_MAX));
    if (known[0] == 0)
        return GR_OK;
    if (!p->sums) /* a rank without samples */
        GR_TRY(make_room(p, known[0], (int)known[1], arena));
    p->has_loss = known[2] != 0;
    GR_TRY(add_over_ranks(p, pg));
    if (gr_pg_rank(pg) == 0)
        GR_TRY(compute(p, n_samples));
    GR_TRY(tell(p, pg));
    gr_parts_clear(p);
    return GR_OK;
}
