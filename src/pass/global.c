/*
 * loss_reduction global: a loss that is the mean over what counts (labels that are not ignored,
 * elements under a mask, or simply elements) becomes the mean over all ranks and micro-steps,
 * not the mean of their means.
 *
 * A loss is looked at as a sum of terms: from its end through additions, subtractions and
 * products with constants down to means, either sum / count as the losses of gradus/loss.h make
 * it, or a reduction to one number, whose count is the number of elements.
 *
 * (1) One micro-step per update: the counts of all terms are summed over ranks as soon as they
 *     are known, and each sum is divided by that. What is no mean stays: its gradient is
 *     averaged over ranks; terms of gradus/loss.h that are none have summed up over ranks what they
 *     are made of.
 * (2) Several: later counts are not known yet. Gradients are those of this rank's own mean,
 *     times its count, summed; the count is summed alike, and the update divides by it. For
 *     that all of the loss must be a mean over one and the same count.
 */
#include "base/alloc.h"
#include "gradus/ops.h"
#include "op/gather/gather.h"
#include "op/loss/count.h"
#include "op/loss/loss.h"
#include "op/map/program.h"
#include "op/reduce/reduce.h"
#include "op/shape/shape.h"
#include "op/update/update.h"
#include "pass/pass.h"

#include <string.h>

#define MAX_TERMS 32

typedef struct term {
    gr_node *node;   /* of the mean */
    gr_value *count; /* NULL: the number n */
    int64_t n;
} term;

typedef struct terms {
    term list[MAX_TERMS];
    int n;
    const gr_node *other; /* a part of the loss that is no mean; or NULL */
} terms;

/* ---- finding means ---- */

enum { CONSTANT, LINEAR, OTHER }; /* what a register holds, in terms of the sources */

static int kind_of(gr_scalar_fn fn, int a, int b)
{
    switch ((int)fn) {
    case GR_FN_CONST: return CONSTANT;
    case GR_FN_NEG: return a;
    case GR_FN_ADD:
    case GR_FN_SUB: return a == LINEAR && b == LINEAR ? LINEAR : OTHER;
    case GR_FN_MUL:
        return a == LINEAR && b == CONSTANT   ? LINEAR
               : a == CONSTANT && b == LINEAR ? LINEAR
                                              : OTHER;
    case GR_FN_DIV: return a == LINEAR && b == CONSTANT ? LINEAR : OTHER;
    default: return OTHER;
    }
}

/* Whether the result is a sum of the sources times constants. */
static bool is_linear(const gr_program *p)
{
    int kind[GR_MAP_MAX_SRC + GR_MAP_MAX_INSTR];

    for (int i = 0; i < p->n_src; i++)
        kind[i] = LINEAR;
    for (int i = 0; i < p->n_instr; i++) {
        const gr_instr *in = &p->instr[i];
        int a = in->reg[0] < 0 ? OTHER : kind[in->reg[0]];
        int b = in->reg[1] < 0 ? OTHER : kind[in->reg[1]];

        kind[p->n_src + i] = kind_of((gr_scalar_fn)in->fn, a, b);
    }
    return p->n_src > 0 && kind[p->n_src + p->n_instr - 1] == LINEAR;
}

static bool passes_on(const gr_node *n)
{
    if (n->op == &gr_op_reshape)
        return true;
    return n->op == &gr_op_map && is_linear(n->attr);
}

static bool is_mean(const gr_node *n)
{
    return n->op == &gr_op_reduce && ((const gr_reduce_attr *)n->attr)->fn == GR_MEAN;
}

static gr_status add_term(terms *t, gr_node *n)
{
    term new = { .node = n };

    for (int i = 0; i < t->n; i++)
        if (t->list[i].node == n)
            return GR_OK;
    if (t->n == MAX_TERMS)
        return gr_fail(GR_ERR_ARG, "loss_reduction global: a loss of more than %d means",
                       MAX_TERMS);
    if (is_mean(n))
        new.n = gr_shape_count(&n->src[0]->shape);
    else
        new.count = n->src[1];
    t->list[t->n++] = new;
    return GR_OK;
}

static gr_status find_terms(terms *t, gr_value *v, int depth)
{
    gr_node *n = v->node;

    if (gr_shape_count(&v->shape) == 1 && (is_mean(n) || gr_loss_is_ratio(n)))
        return add_term(t, n);
    if (!passes_on(n) || gr_shape_count(&v->shape) != 1 || depth > 256) {
        t->other = n;
        return GR_OK;
    }
    for (int s = 0; s < n->n_src; s++)
        GR_TRY(find_terms(t, n->src[s], depth + 1));
    return GR_OK;
}

static gr_value *count_of(gr_graph *g, const term *t)
{
    gr_value *c = t->count;

    if (!c)
        return gr_fill_at(t->node->site, g, GR_F32, GR_SCALAR, (double)t->n);
    if (c->dtype != GR_F32)
        c = gr_cast_at(t->node->site, g, c, GR_F32);
    return c && c->shape.n_dims > 0 ? gr_reshape_at(t->node->site, g, c, GR_SCALAR) : c;
}

/* ---- (1) one micro-step ---- */

/* The sum that the mean is of. */
static gr_value *sum_of(gr_graph *g, const term *t)
{
    gr_reduce_attr a;

    if (t->count)
        return t->node->src[0];
    a = *(const gr_reduce_attr *)t->node->attr;
    a.fn = GR_SUM;
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_reduce,
                                              .site = t->node->site,
                                              .src = t->node->src,
                                              .n_src = 1,
                                              .attr = &a,
                                              .attr_bytes = sizeof(a) });
}

static gr_status divide_terms(gr_graph *g, const terms *t, int n_ranks)
{
    gr_count_sync_attr a = { .key = g->loss->node->id, .n_ranks = n_ranks };
    gr_value *counts[MAX_TERMS];
    int n_nodes = g->n_nodes;
    gr_node *sync;

    for (int i = 0; i < t->n; i++)
        counts[i] = count_of(g, &t->list[i]);
    sync = gr_sync_counts_add(g, counts, t->n, &a);
    for (int i = 0; i < t->n && sync; i++) {
        gr_value *old = &t->list[i].node->out[0], *mean;

        mean = gr_loss_ratio(old->node->site, g, sum_of(g, &t->list[i]), &sync->out[i]);
        if (mean)
            gr_graph_replace(g, old, mean, n_nodes);
    }
    return gr_graph_status(g);
}

/* ---- (2) several ---- */

/* Whether the attributes of two nodes of one operator say the same, by their dump. */
static bool is_same_attr(const gr_node *p, const gr_node *q)
{
    gr_text x = GR_TEXT_INIT, y = GR_TEXT_INIT;
    bool same;

    if (p->op->print) {
        p->op->print(p, &x);
        q->op->print(q, &y);
    }
    same = strcmp(gr_text_str(&x), gr_text_str(&y)) == 0;
    gr_text_fini(&x);
    gr_text_fini(&y);
    return same;
}

/* Whether two values are computed alike from the same things: two heads that are compared with
 * the same labels count them twice. */
static bool is_same(const gr_value *a, const gr_value *b, int depth)
{
    const gr_node *p = a->node, *q = b->node;
    bool is_plain = p->op == &gr_op_map || p->op == &gr_op_reduce || p->op == &gr_op_reshape ||
                    p->op == &gr_op_gather;

    if (a == b)
        return true;
    if (!is_plain || p->op != q->op || p->n_src != q->n_src || a->dtype != b->dtype ||
        !gr_shape_equal(&a->shape, &b->shape) || depth > 64 || !is_same_attr(p, q))
        return false;
    for (int s = 0; s < p->n_src; s++)
        if (!is_same(p->src[s], q->src[s], depth + 1))
            return false;
    return true;
}

static gr_status check_one_count(const terms *t)
{
    if (t->other)
        return gr_fail(GR_ERR_ARG,
                       "loss_reduction global with accumulation: all of the loss must be a mean, "
                       "but %s (%s) is not: it cannot be divided by a count that later "
                       "micro-steps add to",
                       t->other->op->name, t->other->site);
    for (int i = 1; i < t->n; i++) {
        const term *a = &t->list[0], *b = &t->list[i];

        if (!a->count != !b->count || a->n != b->n || (a->count && !is_same(a->count, b->count, 0)))
            return gr_fail(GR_ERR_ARG,
                           "loss_reduction global with accumulation: the loss has means over "
                           "different counts (%s and %s); take one micro-step per update",
                           a->node->site, b->node->site);
    }
    return GR_OK;
}

/* A term that is no mean has its sums over all ranks already (op/loss/terms.c). */
static bool has_sums_over_ranks(const gr_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (gr_sync_counts_is_open(g->nodes[i]))
            return true;
    return false;
}

gr_status gr_pass_global(gr_graph *g, int n_ranks, bool accumulates)
{
    terms t = { .n = 0 };

    GR_TRY(find_terms(&t, g->loss, 0));
    if (t.n == 0 && has_sums_over_ranks(g))
        return GR_OK;
    if (t.n == 0)
        return gr_fail(GR_ERR_ARG,
                       "loss_reduction global: the loss (%s) is no mean over elements "
                       "that are counted",
                       g->loss->node->site);
    if (!accumulates)
        return divide_terms(g, &t, n_ranks);
    GR_TRY(check_one_count(&t));
    g->loss_count = count_of(g, &t.list[0]);
    return gr_graph_status(g);
}

/* ---- exchange ---- */

gr_status gr_pass_sync_counts(gr_graph *g, gr_meetings *m, gr_arena *arena, gr_pg *pg)
{
    bool used[GR_MAX_COLLS] = { false };
    int n_nodes = g->n_nodes;

    for (int i = 0; i < n_nodes; i++) {
        gr_node *n = g->nodes[i];
        gr_meeting want = {
            .coll = { .label = "counts of the loss", .dtype = GR_F64, .op = GR_REDUCE_SUM }
        };
        gr_value *share, *reduced = NULL;
        const gr_coll *c = NULL;

        if (!gr_sync_counts_is_open(n))
            continue;
        want.key = ((const gr_count_sync_attr *)n->attr)->key;
        want.coll.n_elem = (size_t)n->n_src * (size_t)gr_shape_count(&n->out[0].shape);
        share = gr_share_counts_add(g, n);
        if (!share)
            return gr_graph_status(g);
        GR_TRY(gr_meetings_get(m, arena, &want, used, &c));
        share->space = GR_SPACE_EXCHANGE;
        share->offset = c->offset;
        GR_TRY(gr_allreduce_nodes(g, pg, c, &share, 1, &reduced));
        gr_sync_counts_close(n, reduced);
    }
    return GR_OK;
}

static gr_value *accumulate(gr_graph *g, gr_value *v, gr_value *factor, size_t offset)
{
    gr_build b = { .op = factor ? &gr_op_accumulate_scaled : &gr_op_accumulate,
                   .site = "loss",
                   .src = (gr_value *[]){ v, factor },
                   .n_src = factor ? 2 : 1 };
    gr_value *sum = gr_graph_add_value(g, &b);

    if (sum) {
        sum->space = GR_SPACE_EXCHANGE;
        sum->offset = offset;
    }
    return sum;
}

/* The mean loss of the whole update, in place of this micro-step's own. */
static void set_loss(gr_graph *g, gr_value *sum, gr_value *count)
{
    gr_value *mean = gr_loss_ratio("loss", g, sum, count);

    for (int i = 0; i < g->n_outputs && mean; i++)
        if (strcmp(g->outputs[i].name, "loss") == 0)
            g->outputs[i].value = mean;
}

/* 0 elements have 0 gradients: divided by 1. */
static gr_value *not_zero(gr_graph *g, gr_value *count)
{
    static const gr_program program = {
        .n_src = 1,
        .n_instr = 2,
        .instr = { { GR_FN_CONST, { -1, -1, -1 }, 1 }, { GR_FN_WHERE, { 0, 0, 1 }, 0 } },
    };

    return gr_loss_map("loss", g, &count, &program);
}

gr_status gr_pass_count(gr_graph *g, gr_meetings *m, gr_arena *arena, gr_pg *pg, bool updates)
{
    bool used[GR_MAX_COLLS] = { false };
    gr_meeting want = { .key = g->loss->node->id,
                        .coll = { .label = "count and sum of the loss",
                                  .n_elem = 2,
                                  .dtype = GR_F32,
                                  .op = GR_REDUCE_AVG } };
    const gr_coll *c = NULL;
    gr_value *v[2], *loss;

    GR_TRY(gr_meetings_get(m, arena, &want, used, &c));
    g->phase = GR_PHASE_BACKWARD;
    loss = gr_reshape_at("loss", g, gr_cast_at("loss", g, g->loss, GR_F32), GR_SCALAR);
    v[0] = accumulate(g, g->loss_count, NULL, c->offset);
    v[1] = accumulate(g, loss, g->loss_count, c->offset + sizeof(float));
    GR_TRY(gr_graph_status(g));
    if (updates && gr_pg_size(pg) > 1)
        GR_TRY(gr_allreduce_nodes(g, pg, c, v, 2, v));
    g->phase = GR_PHASE_UPDATE;
    if (updates) {
        g->grad_scale = not_zero(g, v[0]);
        set_loss(g, v[1], v[0]);
    }
    g->phase = GR_PHASE_FORWARD;
    return gr_graph_status(g);
}
