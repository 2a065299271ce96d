/* The terms of a loss: what they add to a graph. */
#include "op/loss/terms.h"

#include "base/alloc.h"
#include "gradus/index.h"
#include "op/loss/count.h"
#include "op/loss/loss.h"
#include "op/map/map_impl.h"
#include "op/random/draw.h"

#include <math.h>
#include <string.h>

#define MAX_SUMS 16

typedef struct place {
    const char *site;
    gr_graph *g;
} place;

/* Room for one more in a list of the graph's arena. */
static bool make_room(gr_graph *g, void **list, int n, int *cap, size_t each)
{
    int more = *cap ? 2 * *cap : 8;
    void *grown;

    if (n < *cap)
        return true;
    grown = gr_arena_array(g->arena, (size_t)more, each);
    if (!grown) {
        gr_graph_stick(g, GR_ERR_NOMEM);
        return false;
    }
    if (n > 0)
        memcpy(grown, *list, (size_t)n * each);
    *list = grown;
    *cap = more;
    return true;
}

static struct gr_terms *terms_of(gr_graph *g)
{
    if (!g->terms) {
        g->terms = gr_arena_array(g->arena, 1, sizeof(*g->terms));
        if (!g->terms)
            gr_graph_stick(g, GR_ERR_NOMEM);
        else
            *g->terms = (struct gr_terms){ .n = 0 };
    }
    return g->terms;
}

/* ---- sums of a batch ---- */

static gr_value *as_f32(const place *p, gr_value *v)
{
    return v && v->dtype != GR_F32 ? gr_cast_at(p->site, p->g, v, GR_F32) : v;
}

static gr_value *over_batch(const place *p, const gr_loss_sum *s, int64_t n_batch)
{
    gr_value *v = s->each;

    if (!v)
        return gr_fill_at(p->site, p->g, GR_F32, GR_SCALAR, s->constant * (double)n_batch);
    if (s->by_class) {
        v = as_f32(p, v);
        return v && v->shape.n_dims > 1
                   ? gr_reduce_at(p->site, p->g, "sum", v, GR_AXIS(v->shape.n_dims - 1) - 1, false)
                   : v;
    }
    if (!gr_dtype_is_float(v->dtype))
        return as_f32(p, v->dtype == GR_BOOL
                             ? gr_count_nonzero_at(p->site, p->g, v, GR_AXES_ALL, false)
                             : gr_reduce_at(p->site, p->g, "sum", v, GR_AXES_ALL, false));
    return gr_reduce_at(p->site, p->g, "sum", as_f32(p, v), GR_AXES_ALL, false);
}

/* A mean over everything is one operator, and need not be a sum and a quotient. */
static bool is_plain_mean(const gr_loss_term *from, const gr_term *t, int64_t n_batch)
{
    const gr_formula_op *o = &t->formula.op[t->formula.n - 1];
    const gr_loss_sum *each = &from->sums[0], *count = &from->sums[1];

    return t->n_sums == 2 && t->formula.n == 3 && o->kind == GR_FORMULA_DIV &&
           t->formula.op[o->a].a == 0 && t->formula.op[o->b].a == 1 && each->each &&
           !each->by_class && gr_dtype_is_float(each->each->dtype) && !count->each &&
           fabs(count->constant * (double)n_batch - (double)gr_shape_count(&each->each->shape)) <
               0.5;
}

/* Sums of this rank become those of all: one exchange for all sums of a term. */
static void sum_over_ranks(const place *p, const gr_term *t, gr_value **sums)
{
    gr_count_sync_attr a = { .key = p->g->next_id, .n_ranks = p->g->sum_ranks };
    gr_value *parts[MAX_SUMS], *row;
    int64_t at = 0;
    gr_node *sync;

    for (int i = 0; i < t->n_sums; i++) {
        parts[i] =
            sums[i] ? gr_reshape_at(p->site, p->g, sums[i], GR_SHAPE(t->sums[i].length)) : NULL;
        a.n_elem += t->sums[i].length;
    }
    row = t->n_sums > 1 ? gr_concat_at(p->site, p->g, parts, t->n_sums, 0) : parts[0];
    sync = gr_sync_counts_add(p->g, &row, 1, &a);
    row = sync ? gr_mapk_at(p->site, p->g, "mul", &sync->out[0], a.n_ranks) : NULL;
    for (int i = 0; i < t->n_sums && row; i++) {
        int64_t n = t->sums[i].length;

        sums[i] = gr_slice_axis_at(p->site, p->g, row, 0, at, at + n);
        if (n == 1 && sums[i])
            sums[i] = gr_reshape_at(p->site, p->g, sums[i], GR_SCALAR);
        at += n;
    }
}

static void add_to_loss(const place *p, struct gr_terms *all, const gr_term *t)
{
    gr_value *sums[MAX_SUMS], *v = t->mean;

    for (int i = 0; i < t->n_sums; i++)
        sums[i] = t->sums[i].value;
    if (!t->mean && p->g->sum_ranks != 0 && !gr_formula_is_mean(&t->formula)) {
        if (p->g->sum_ranks < 0) {
            gr_graph_fail(p->g, p->site,
                          "loss_reduction global with accumulation: the term '%s' is no mean: what "
                          "it makes of its sums cannot be told before the last micro-step",
                          t->name);
            return;
        }
        sum_over_ranks(p, t, sums);
    }
    if (!t->mean)
        v = gr_formula_build(&t->formula, p->site, p->g, sums);
    if (v && t->weight != 1)
        v = gr_mapk_at(p->site, p->g, "mul", v, t->weight);
    all->loss = all->loss ? gr_map2_at(p->site, p->g, "add", all->loss, v) : v;
}

/* ---- sums of each sample ---- */

/* [n, ..] to [n, 1], or [n, classes]. */
static gr_value *of_samples(const place *p, const gr_loss_sum *s, int64_t n_batch)
{
    gr_value *v = s->each;
    int64_t last, count;

    if (!v)
        return gr_fill_at(p->site, p->g, GR_F32, GR_SHAPE(n_batch, 1), s->constant);
    v = as_f32(p, v);
    if (!v)
        return NULL;
    last = s->by_class ? v->shape.dim[v->shape.n_dims - 1] : 1;
    count = gr_shape_count(&v->shape) / n_batch;
    v = gr_reshape_at(p->site, p->g, v, GR_SHAPE(n_batch, count / last, last));
    return v ? gr_reduce_at(p->site, p->g, "sum", v, GR_AXIS(1), false) : NULL;
}

static void add_part(struct gr_terms *all, const place *p, gr_value *v, int64_t n_columns)
{
    if (!v ||
        !make_room(p->g, (void **)&all->parts, all->n_parts, &all->cap_parts, sizeof(gr_value *)))
        return;
    all->parts[all->n_parts++] = v;
    all->n_columns += n_columns;
}

/* ---- terms ---- */

static bool fits(const gr_value *v, int64_t n_batch)
{
    return v->shape.n_dims > 0 && n_batch > 0 && v->shape.dim[0] % n_batch == 0;
}

static bool check_sum(const place *p, const gr_loss_term *t, const gr_loss_sum *s, int64_t n_batch)
{
    char text[GR_SHAPE_TEXT];

    if (!s->name || !*s->name) {
        gr_graph_fail(p->g, p->site, "a sum of the loss '%s' has no name", t->name);
        return false;
    }
    if (s->each ? fits(s->each, n_batch) : s->constant > 0)
        return true;
    if (!s->each) {
        gr_graph_fail(p->g, p->site, "loss '%s': the sum '%s' has neither values nor a constant",
                      t->name, s->name);
        return false;
    }
    gr_graph_fail(p->g, p->site,
                  "loss '%s': the sum '%s' is of %s, which does not begin with the batch of %lld: "
                  "give what is added up for each sample",
                  t->name, s->name, gr_shape_text(&s->each->shape, text, sizeof(text)),
                  (long long)n_batch);
    return false;
}

static bool check_term(const place *p, const struct gr_terms *all, const gr_loss_term *t,
                       int64_t n_batch)
{
    if (!t->name || !*t->name || t->n_sums < 1 || t->n_sums > MAX_SUMS) {
        gr_graph_fail(p->g, p->site, "a loss has a name and from 1 to %d sums", MAX_SUMS);
        return false;
    }
    if (!isfinite(t->weight)) {
        gr_graph_fail(p->g, p->site, "loss '%s': the weight is %g", t->name, t->weight);
        return false;
    }
    for (int i = 0; i < all->n; i++)
        if (strcmp(all->list[i].name, t->name) == 0) {
            gr_graph_fail(p->g, p->site, "two losses are called '%s'", t->name);
            return false;
        }
    for (int i = 0; i < t->n_sums; i++)
        if (!check_sum(p, t, &t->sums[i], n_batch))
            return false;
    return true;
}

static gr_status parse(const place *p, const gr_loss_term *from, gr_term *t)
{
    const char *names[MAX_SUMS];
    int64_t length[MAX_SUMS];

    t->name = gr_arena_strdup(p->g->arena, from->name);
    t->weight = from->weight;
    t->n_sums = from->n_sums;
    t->sums = gr_arena_array(p->g->arena, (size_t)t->n_sums, sizeof(*t->sums));
    if (!t->name || !t->sums)
        return GR_ERR_NOMEM;
    for (int i = 0; i < t->n_sums; i++) {
        const gr_loss_sum *s = &from->sums[i];

        names[i] = s->name;
        length[i] = s->each && s->by_class ? s->each->shape.dim[s->each->shape.n_dims - 1] : 1;
        t->sums[i] = (gr_term_sum){ .length = length[i] };
    }
    return gr_wrap(
        gr_formula_parse(&t->formula, from->formula,
                         &(gr_formula_names){ .names = names, .length = length, .n = t->n_sums }),
        "%s: loss '%s'", p->site, from->name);
}

/* A sum that could not be made is NULL after a failure. */
static bool has_failed(const gr_graph *g, const gr_loss_term *t)
{
    return g->status != GR_OK || !t;
}

void gr_loss_add_at(const char *site, gr_graph *g, const gr_loss_term *from)
{
    place p = { site, g };
    int64_t n_batch = gr_draw_batch(g);
    struct gr_terms *all;
    gr_status st;
    gr_term *t;

    if (has_failed(g, from) || !(from->weight < 0 || from->weight > 0 || isnan(from->weight)))
        return;
    all = terms_of(g);
    if (!all || !check_term(&p, all, from, n_batch) ||
        !make_room(g, (void **)&all->list, all->n, &all->cap, sizeof(gr_term)))
        return;
    t = &all->list[all->n];
    st = parse(&p, from, t);
    if (st != GR_OK) {
        gr_graph_stick(g, st);
        return;
    }
    all->n++;
    if (g->training && is_plain_mean(from, t, n_batch)) {
        gr_value *each = from->sums[0].each;

        t->n_mean = (double)gr_shape_count(&each->shape);
        t->mean = gr_reduce_at(site, g, "mean", as_f32(&p, each), GR_AXES_ALL, false);
    }
    for (int i = 0; i < t->n_sums; i++) {
        t->sums[i].column = all->n_columns;
        if (g->training) {
            if (!t->mean)
                t->sums[i].value = over_batch(&p, &from->sums[i], n_batch);
            all->n_columns += t->sums[i].length;
        } else {
            add_part(all, &p, of_samples(&p, &from->sums[i], n_batch), t->sums[i].length);
        }
    }
    if (g->training && g->status == GR_OK)
        add_to_loss(&p, all, t);
}

struct gr_terms *gr_terms_copy(const struct gr_terms *all, gr_arena *arena)
{
    struct gr_terms *c = gr_arena_array(arena, 1, sizeof(*c));
    bool whole = c;

    if (!c)
        return NULL;
    *c = (struct gr_terms){ .n = all->n, .n_records = all->n_records, .n_columns = all->n_columns };
    c->list = gr_arena_array(arena, (size_t)all->n + 1, sizeof(*c->list));
    c->records = gr_arena_array(arena, (size_t)all->n_records + 1, sizeof(*c->records));
    for (int i = 0; c->list && i < all->n; i++) {
        gr_term *t = &c->list[i];

        *t = all->list[i];
        t->name = gr_arena_strdup(arena, t->name);
        t->sums = gr_arena_array(arena, (size_t)t->n_sums, sizeof(*t->sums));
        whole = whole && t->name && t->sums;
        for (int k = 0; t->sums && k < t->n_sums; k++)
            t->sums[k] = (gr_term_sum){ .length = all->list[i].sums[k].length,
                                        .column = all->list[i].sums[k].column };
    }
    for (int i = 0; c->records && i < all->n_records; i++) {
        c->records[i] = all->records[i];
        c->records[i].name = gr_arena_strdup(arena, c->records[i].name);
        c->records[i].output = NULL;
        whole = whole && c->records[i].name;
    }
    return whole && c->list && c->records ? c : NULL;
}

double gr_term_value(const gr_term *t, const double *totals)
{
    const double *sums[MAX_SUMS];

    for (int i = 0; i < t->n_sums; i++)
        sums[i] = totals + t->sums[i].column;
    return gr_formula_compute(&t->formula, sums);
}

/* ---- records ---- */

static const char *const reduction[] = {
    [GR_RECORD_MEAN] = "mean", [GR_RECORD_SUM] = "sum", [GR_RECORD_MAX] = "max"
};

/* A number is every sample's: its share of a sum is that of n. */
static gr_value *record_of_samples(const place *p, gr_value *v, gr_record_kind kind,
                                   int64_t n_batch)
{
    if (v->shape.n_dims > 0)
        return gr_reshape_at(p->site, p->g, v, GR_SHAPE(n_batch, 1));
    if (kind == GR_RECORD_SUM)
        v = gr_mapk_at(p->site, p->g, "mul", v, 1 / (double)n_batch);
    v = v ? gr_reshape_at(p->site, p->g, v, GR_SHAPE(1, 1)) : NULL;
    return v ? gr_broadcast_at(p->site, p->g, v, GR_SHAPE(n_batch, 1)) : NULL;
}

static bool check_record(const place *p, const char *name, const gr_value *v, gr_record_kind kind,
                         int64_t n_batch)
{
    char text[GR_SHAPE_TEXT];

    if (!name || !*name || (unsigned)kind > GR_RECORD_MAX) {
        gr_graph_fail(p->g, p->site, "a record needs a name, and is a mean, a sum or a maximum");
        return false;
    }
    if (v->shape.n_dims == 0 || (v->shape.n_dims == 1 && v->shape.dim[0] == n_batch))
        return true;
    gr_graph_fail(p->g, p->site,
                  "record '%s' is one number, or one for each of %lld samples, not %s", name,
                  (long long)n_batch, gr_shape_text(&v->shape, text, sizeof(text)));
    return false;
}

void gr_record_at(const char *site, gr_graph *g, const char *name, gr_value *v, gr_record_kind kind)
{
    place p = { site, g };
    int64_t n_batch = gr_draw_batch(g);
    gr_term_record *r;
    struct gr_terms *all;

    if (!gr_graph_given(g, site, "record", v) || !check_record(&p, name, v, kind, n_batch))
        return;
    all = terms_of(g);
    v = as_f32(&p, v);
    if (!all || !v ||
        !make_room(g, (void **)&all->records, all->n_records, &all->cap_records, sizeof(*r)))
        return;
    r = &all->records[all->n_records++];
    *r = (gr_term_record){ .name = gr_arena_strdup(g->arena, name),
                           .kind = kind,
                           .column = all->n_columns,
                           .output = gr_arena_printf(g->arena, "record %s", name) };
    if (!r->name || !r->output) {
        gr_graph_stick(g, GR_ERR_NOMEM);
        return;
    }
    if (!g->training) {
        add_part(all, &p, record_of_samples(&p, v, kind, n_batch), 1);
        return;
    }
    all->n_columns++;
    if (v->shape.n_dims > 0)
        v = gr_reduce_at(site, g, reduction[kind], v, GR_AXES_ALL, false);
    gr_output_at(site, g, r->output, v);
}

/* ---- the end ---- */

/* From the mean: what it was made of was never there. */
static gr_value *sum_of_mean(gr_graph *g, const gr_term *t, int i)
{
    const char *site = t->mean->node->site;

    return i == 0 ? gr_mapk_at(site, g, "mul", t->mean, t->n_mean)
                  : gr_fill_at(site, g, GR_F32, GR_SCALAR, t->n_mean);
}

/* Of a loss of one term there is nothing to tell but the loss itself. */
static gr_status give_sums(gr_graph *g, struct gr_terms *all)
{
    for (int k = 0; k < all->n && all->n > 1; k++)
        for (int i = 0; i < all->list[k].n_sums; i++) {
            gr_term_sum *s = &all->list[k].sums[i];

            s->output = gr_arena_printf(g->arena, "sum %d of loss %s", i, all->list[k].name);
            if (!s->value)
                s->value = sum_of_mean(g, &all->list[k], i);
            if (!s->output || !s->value)
                return g->status == GR_OK ? GR_ERR_NOMEM : gr_graph_status(g);
            gr_output_at(s->value->node->site, g, s->output, s->value);
        }
    return gr_graph_status(g);
}

gr_status gr_terms_close(gr_graph *g)
{
    struct gr_terms *all = g->terms;
    gr_value *v;

    if (!all || g->status != GR_OK)
        return gr_graph_status(g);
    if (all->n > 0 && g->loss)
        return gr_fail(GR_ERR_ARG,
                       "the trace calls gr_loss() and adds '%s' to the loss: it is one "
                       "or the other",
                       all->list[0].name);
    if (g->training) {
        if (all->loss)
            gr_loss_at(all->loss->node->site, g, all->loss);
        return give_sums(g, all);
    }
    if (all->n_parts == 0)
        return GR_OK;
    v = all->n_parts == 1 ? all->parts[0] : gr_concat_at("loss", g, all->parts, all->n_parts, 1);
    if (v)
        gr_output_at("loss", g, GR_TERMS_OUTPUT, v);
    return gr_graph_status(g);
}
