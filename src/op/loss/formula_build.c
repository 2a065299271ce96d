/*
 * Formulas as nodes. What is computed element by element becomes one map, so that it costs one pass
 * forward and one backward; sums, quotients of two numbers and reductions are its sources.
 */
#include "gradus/ops.h"
#include "op/loss/formula.h"
#include "op/loss/loss.h"

#include <string.h>

typedef struct maker {
    const gr_formula *f;
    const char *site;
    gr_graph *g;
    gr_value *const *sums;
} maker;

/* The map that is being written. */
typedef struct writer {
    gr_program program;
    gr_value *src[GR_MAP_MAX_SRC];
    int of[GR_MAP_MAX_SRC]; /* the operation that each source is */
} writer;

static gr_value *value_of(const maker *m, int i);

/* Whether it is a node of its own, not an instruction. */
static bool is_source(const maker *m, int i)
{
    const gr_formula_op *o = &m->f->op[i];

    return o->kind == GR_FORMULA_SUM || o->kind == GR_FORMULA_MEAN || o->kind == GR_FORMULA_TOTAL ||
           gr_formula_is_ratio(m->f, i);
}

static bool has_two(gr_formula_kind kind)
{
    return kind >= GR_FORMULA_ADD && kind <= GR_FORMULA_DIV;
}

static gr_status find_sources(const maker *m, int i, writer *w)
{
    const gr_formula_op *o = &m->f->op[i];

    if (o->kind == GR_FORMULA_NUMBER)
        return GR_OK;
    if (!is_source(m, i)) {
        GR_TRY(find_sources(m, o->a, w));
        return has_two(o->kind) ? find_sources(m, o->b, w) : GR_OK;
    }
    if (w->program.n_src == GR_MAP_MAX_SRC)
        return gr_fail(GR_ERR_ARG, "a formula joins more than %d sums element by element",
                       GR_MAP_MAX_SRC);
    w->of[w->program.n_src] = i;
    w->src[w->program.n_src++] = value_of(m, i);
    return GR_OK;
}

static int16_t add(writer *w, gr_scalar_fn fn, int a, int b, double k)
{
    gr_program *p = &w->program;

    p->instr[p->n_instr] = (gr_instr){ (int16_t)fn, { (int16_t)a, (int16_t)b, -1 }, k };
    return (int16_t)(p->n_src + p->n_instr++);
}

/* The register of operation i. A formula has fewer operations than a map has room for. */
static int16_t emit(const maker *m, int i, writer *w)
{
    static const gr_scalar_fn fn[] = {
        [GR_FORMULA_ADD] = GR_FN_ADD, [GR_FORMULA_SUB] = GR_FN_SUB, [GR_FORMULA_MUL] = GR_FN_MUL,
        [GR_FORMULA_DIV] = GR_FN_DIV, [GR_FORMULA_NEG] = GR_FN_NEG, [GR_FORMULA_SQRT] = GR_FN_SQRT,
        [GR_FORMULA_EXP] = GR_FN_EXP, [GR_FORMULA_LOG] = GR_FN_LOG,
    };
    const gr_formula_op *o = &m->f->op[i];
    int a;

    for (int s = 0; s < w->program.n_src; s++)
        if (w->of[s] == i)
            return (int16_t)s;
    if (o->kind == GR_FORMULA_NUMBER)
        return add(w, GR_FN_CONST, -1, -1, o->k);
    a = emit(m, o->a, w);
    return add(w, fn[o->kind], a, has_two(o->kind) ? emit(m, o->b, w) : -1, 0);
}

static gr_value *map_of(const maker *m, int i)
{
    writer w = { .program = { .n_src = 0 } };
    gr_status st = find_sources(m, i, &w);

    if (st != GR_OK) {
        gr_graph_stick(m->g, st);
        return NULL;
    }
    if (w.program.n_src == 0) {
        gr_graph_fail(m->g, m->site, "a formula of constants alone is no loss");
        return NULL;
    }
    emit(m, i, &w);
    return gr_loss_map(m->site, m->g, w.src, &w.program);
}

static gr_value *value_of(const maker *m, int i)
{
    const gr_formula_op *o = &m->f->op[i];

    if (o->kind == GR_FORMULA_SUM)
        return m->sums[o->a];
    if (o->kind == GR_FORMULA_MEAN || o->kind == GR_FORMULA_TOTAL) {
        gr_value *v = value_of(m, o->a);

        return v ? gr_reduce_at(m->site, m->g, o->kind == GR_FORMULA_MEAN ? "mean" : "sum", v,
                                GR_AXES_ALL, false)
                 : NULL;
    }
    if (gr_formula_is_ratio(m->f, i)) {
        gr_value *a = value_of(m, o->a), *b = value_of(m, o->b);

        return gr_loss_ratio(m->site, m->g, a, b);
    }
    return map_of(m, i);
}

gr_value *gr_formula_build(const gr_formula *f, const char *site, gr_graph *g,
                           gr_value *const *sums)
{
    return value_of(&(maker){ f, site, g, sums }, f->n - 1);
}
