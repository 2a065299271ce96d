/*
 * What a loss makes of its sums: "ce / count", "mean(1 - (2 * py + 1) / (p + y + 1))". Parsed
 * once; then it becomes nodes of a graph, or is computed in double from totals.
 *
 *     sum:     product { (+ | -) product }
 *     product: signed { (* | /) signed }
 *     signed:  [-] (number | name | name(sum) | (sum))
 *
 * A name is one of the sums, a number or a vector; what is applied to one is mean, sum, sqrt, exp
 * or log. Numbers join with vectors element by element. A quotient of two numbers that are computed
 * is its dividend where the divisor is 0: a mean over nothing is 0.
 */
#ifndef GR_OP_LOSS_FORMULA_H
#define GR_OP_LOSS_FORMULA_H

#include "graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_FORMULA_MAX 64 /* numbers, names and operations */

typedef enum gr_formula_kind {
    GR_FORMULA_NUMBER,
    GR_FORMULA_SUM,
    GR_FORMULA_ADD,
    GR_FORMULA_SUB,
    GR_FORMULA_MUL,
    GR_FORMULA_DIV,
    GR_FORMULA_NEG,
    GR_FORMULA_SQRT,
    GR_FORMULA_EXP,
    GR_FORMULA_LOG,
    GR_FORMULA_MEAN, /* of a vector's elements */
    GR_FORMULA_TOTAL
} gr_formula_kind;

/* Its arguments come before it. */
typedef struct gr_formula_op {
    gr_formula_kind kind;
    int a, b;  /* arguments; SUM: a is its number */
    double k;  /* NUMBER */
    int64_t n; /* elements of the result; 1: a number */
} gr_formula_op;

typedef struct gr_formula {
    int n; /* the last one is the result */
    gr_formula_op op[GR_FORMULA_MAX];
} gr_formula;

/* The sums that a text may name; length[i] of names[i]. */
typedef struct gr_formula_names {
    const char *const *names;
    const int64_t *length;
    int n;
} gr_formula_names;

/* GR_ERR_ARG with the text and the place when it makes no sense or is no single number. */
gr_status gr_formula_parse(gr_formula *f, const char *text,
                           const gr_formula_names *names) GR_MUST_CHECK;
/* From sums[i], as long as the parser was told. */
double gr_formula_compute(const gr_formula *f, const double *const *sums);
/* Whether it is made of quotients of two sums that are numbers by addition and constant factors:
 * means over what the divisors count. */
bool gr_formula_is_mean(const gr_formula *f);
/* Whether operation i is a quotient of two numbers neither of which is written in the text. */
bool gr_formula_is_ratio(const gr_formula *f, int i);
/* Nodes; NULL after a failure. */
gr_value *gr_formula_build(const gr_formula *f, const char *site, gr_graph *g,
                           gr_value *const *sums);

#ifdef __cplusplus
}
#endif

#endif
