/* Parsing formulas, and computing them on the host. */
#include "op/loss/formula.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    const char *text, *at;
    const gr_formula_names *names;
    gr_formula *f;
    int depth;
} parser;

#define MAX_DEPTH 32 /* of parentheses and signs */

static gr_status fail(const parser *p, const char *what)
{
    return gr_fail(GR_ERR_ARG, "the formula '%s' %s at '%.20s'", p->text, what,
                   *p->at ? p->at : "its end");
}

static void skip_blanks(parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static bool takes(parser *p, char c)
{
    skip_blanks(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

static gr_status add(parser *p, gr_formula_op op, int *out)
{
    if (p->f->n == GR_FORMULA_MAX)
        return gr_fail(GR_ERR_ARG, "the formula '%s' has more than %d parts", p->text,
                       GR_FORMULA_MAX);
    *out = p->f->n;
    p->f->op[p->f->n++] = op;
    return GR_OK;
}

/* Of two arguments: numbers and vectors of one length. */
static gr_status add_two(parser *p, gr_formula_kind kind, int a, int b, int *out)
{
    int64_t x = p->f->op[a].n, y = p->f->op[b].n;

    if (x != y && x != 1 && y != 1)
        return gr_fail(GR_ERR_ARG, "the formula '%s' joins vectors of %lld and %lld elements",
                       p->text, (long long)x, (long long)y);
    return add(p, (gr_formula_op){ .kind = kind, .a = a, .b = b, .n = x > y ? x : y }, out);
}

static gr_status parse_sum(parser *p, int *out);

static const struct {
    const char *name;
    gr_formula_kind kind;
} functions[] = {
    { "mean", GR_FORMULA_MEAN }, { "sum", GR_FORMULA_TOTAL }, { "sqrt", GR_FORMULA_SQRT },
    { "exp", GR_FORMULA_EXP },   { "log", GR_FORMULA_LOG },
};

/* What stands behind the name of a function and its parenthesis. */
static gr_status parse_call(parser *p, const char *name, size_t n, int *out)
{
    gr_formula_op op = { .kind = GR_FORMULA_NUMBER };

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (strlen(functions[i].name) == n && strncmp(functions[i].name, name, n) == 0)
            op.kind = functions[i].kind;
    if (op.kind == GR_FORMULA_NUMBER) {
        p->at = name;
        return fail(p, "names no function (mean, sum, sqrt, exp, log)");
    }
    GR_TRY(parse_sum(p, &op.a));
    if (!takes(p, ')'))
        return fail(p, "lacks a ')'");
    op.n = op.kind == GR_FORMULA_MEAN || op.kind == GR_FORMULA_TOTAL ? 1 : p->f->op[op.a].n;
    return add(p, op, out);
}

static gr_status parse_name(parser *p, int *out)
{
    const char *name = p->at;
    size_t n = 0;

    while (isalnum((unsigned char)name[n]) || name[n] == '_')
        n++;
    p->at += n;
    if (takes(p, '('))
        return parse_call(p, name, n, out);
    for (int i = 0; i < p->names->n; i++)
        if (strlen(p->names->names[i]) == n && strncmp(p->names->names[i], name, n) == 0)
            return add(p,
                       (gr_formula_op){ .kind = GR_FORMULA_SUM, .a = i, .n = p->names->length[i] },
                       out);
    p->at = name;
    return fail(p, "names no sum of the loss");
}

static gr_status parse_atom(parser *p, int *out)
{
    skip_blanks(p);
    if (isdigit((unsigned char)*p->at) || *p->at == '.') {
        gr_formula_op op = { .kind = GR_FORMULA_NUMBER, .n = 1 };
        char *end;

        op.k = strtod(p->at, &end);
        if (end == p->at)
            return fail(p, "has a dot that is no number");
        p->at = end;
        return add(p, op, out);
    }
    if (isalpha((unsigned char)*p->at) || *p->at == '_')
        return parse_name(p, out);
    if (!takes(p, '('))
        return fail(p, "expects a number or a name");
    GR_TRY(parse_sum(p, out));
    return takes(p, ')') ? GR_OK : fail(p, "lacks a ')'");
}

static gr_status parse_signed(parser *p, int *out)
{
    gr_status st;
    int a;

    if (p->depth >= MAX_DEPTH)
        return fail(p, "nests too deeply");
    p->depth++;
    if (!takes(p, '-')) {
        st = parse_atom(p, out);
    } else {
        st = parse_signed(p, &a);
        if (st == GR_OK)
            st = add(p, (gr_formula_op){ .kind = GR_FORMULA_NEG, .a = a, .n = p->f->op[a].n }, out);
    }
    p->depth--;
    return st;
}

static gr_status parse_product(parser *p, int *out)
{
    GR_TRY(parse_signed(p, out));
    for (;;) {
        bool times = takes(p, '*');
        int b;

        if (!times && !takes(p, '/'))
            return GR_OK;
        GR_TRY(parse_signed(p, &b));
        GR_TRY(add_two(p, times ? GR_FORMULA_MUL : GR_FORMULA_DIV, *out, b, out));
    }
}

static gr_status parse_sum(parser *p, int *out)
{
    GR_TRY(parse_product(p, out));
    for (;;) {
        bool plus = takes(p, '+');
        int b;

        if (!plus && !takes(p, '-'))
            return GR_OK;
        GR_TRY(parse_product(p, &b));
        GR_TRY(add_two(p, plus ? GR_FORMULA_ADD : GR_FORMULA_SUB, *out, b, out));
    }
}

gr_status gr_formula_parse(gr_formula *f, const char *text, const gr_formula_names *names)
{
    parser p = { .text = text ? text : "", .names = names, .f = f };
    int last;

    f->n = 0;
    p.at = p.text;
    GR_TRY(parse_sum(&p, &last));
    skip_blanks(&p);
    if (*p.at)
        return fail(&p, "does not end");
    if (f->op[last].n != 1)
        return gr_fail(GR_ERR_ARG,
                       "the formula '%s' is a vector of %lld elements; a loss is one number: take "
                       "mean(...) or sum(...)",
                       p.text, (long long)f->op[last].n);
    return GR_OK;
}

/* ---- computing ---- */

typedef struct run {
    const gr_formula *f;
    const double *const *sums;
} run;

static double element(const run *r, int i, int64_t e);

static double total(const run *r, int i)
{
    double sum = 0;

    for (int64_t e = 0; e < r->f->op[i].n; e++)
        sum += element(r, i, e);
    return sum;
}

bool gr_formula_is_ratio(const gr_formula *f, int i)
{
    const gr_formula_op *o = &f->op[i];

    return o->kind == GR_FORMULA_DIV && o->n == 1 && f->op[o->a].kind != GR_FORMULA_NUMBER &&
           f->op[o->b].kind != GR_FORMULA_NUMBER;
}

static double divide(const run *r, int i, int64_t e)
{
    const gr_formula_op *o = &r->f->op[i];
    double x = element(r, o->a, e), y = element(r, o->b, e);

    return gr_formula_is_ratio(r->f, i) && fpclassify(y) == FP_ZERO ? x : x / y;
}

/* Element e; a number has one, whatever is asked for. */
static double element(const run *r, int i, int64_t e)
{
    const gr_formula_op *o = &r->f->op[i];

    e = o->n == 1 ? 0 : e;
    switch (o->kind) {
    case GR_FORMULA_NUMBER: return o->k;
    case GR_FORMULA_SUM: return r->sums[o->a][e];
    case GR_FORMULA_ADD: return element(r, o->a, e) + element(r, o->b, e);
    case GR_FORMULA_SUB: return element(r, o->a, e) - element(r, o->b, e);
    case GR_FORMULA_MUL: return element(r, o->a, e) * element(r, o->b, e);
    case GR_FORMULA_DIV: return divide(r, i, e);
    case GR_FORMULA_NEG: return -element(r, o->a, e);
    case GR_FORMULA_SQRT: return sqrt(element(r, o->a, e));
    case GR_FORMULA_EXP: return exp(element(r, o->a, e));
    case GR_FORMULA_LOG: return log(element(r, o->a, e));
    case GR_FORMULA_MEAN: return total(r, o->a) / (double)r->f->op[o->a].n;
    case GR_FORMULA_TOTAL: return total(r, o->a);
    }
    GR_BUG_IF(true);
}

double gr_formula_compute(const gr_formula *f, const double *const *sums)
{
    return element(&(run){ f, sums }, f->n - 1, 0);
}

/* ---- means ---- */

static bool is_number(const gr_formula *f, int i)
{
    return f->op[i].kind == GR_FORMULA_NUMBER;
}

static bool is_one_sum(const gr_formula *f, int i)
{
    return f->op[i].kind == GR_FORMULA_SUM && f->op[i].n == 1;
}

static bool is_mean(const gr_formula *f, int i)
{
    const gr_formula_op *o = &f->op[i];

    switch ((int)o->kind) {
    case GR_FORMULA_ADD:
    case GR_FORMULA_SUB: return is_mean(f, o->a) && is_mean(f, o->b);
    case GR_FORMULA_MUL:
        return (is_mean(f, o->a) && is_number(f, o->b)) || (is_number(f, o->a) && is_mean(f, o->b));
    case GR_FORMULA_DIV:
        return (is_one_sum(f, o->a) && is_one_sum(f, o->b)) ||
               (is_mean(f, o->a) && is_number(f, o->b));
    case GR_FORMULA_NEG: return is_mean(f, o->a);
    default: return false;
    }
}

bool gr_formula_is_mean(const gr_formula *f)
{
    return is_mean(f, f->n - 1);
}
