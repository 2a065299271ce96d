/*
 * The table of scalar functions: what one instruction of a map program can compute.
 *
 * A row gives:
 *   id        GR_FN_<id>
 *   name      for builders, dumps and gradient rules
 *   arity     how many of the arguments a, b, c it takes
 *   kind      FLOAT: floating compute types only
 *             ANY: also on integers
 *             TEST: as ANY, gives 0 or 1, and builders make the result bool
 *   formula   over a, b, c (CONST: k) and the compute type T. The same tokens compile in
 *             C, where <tgmath.h> picks the function for T, and as CUDA C++ source, where
 *             overloading does. Whole numbers only, so that no double creeps into f32.
 *   da db dc  the gradient rule of each argument, "" where it is 0: postfix over function
 *             names, whole or decimal numbers, and
 *               g  the gradient of the result       y  the result
 *               a b c  the arguments
 *             A rule written through y rather than a lets a map node forget its source.
 *
 * NaN goes through max, min and relu, and relu's gradient is 0 at 0, as in PyTorch; the
 * gradient of max and min is shared by equal arguments.
 *
 * A new function is a new row, a vector loop in map_loops.h if the formula's own loop is
 * too slow, and a case in tests/op/cases_map.c, which a test asks for.
 */
#ifndef GR_OP_MAP_SCALAR_H
#define GR_OP_MAP_SCALAR_H

#include <stdbool.h>

#include "gradus/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(id, name, arity, kind, formula, da, db, dc) */
/* clang-format off */
#define GR_SCALAR_MAP(X)                                                                         \
    X(CONST, "const", 0, ANY, k, "", "", "")                                                     \
    X(ADD, "add", 2, ANY, a + b, "g", "g", "")                                                   \
    X(SUB, "sub", 2, ANY, a - b, "g", "g neg", "")                                               \
    X(MUL, "mul", 2, ANY, a * b, "g b mul", "g a mul", "")                                       \
    X(DIV, "div", 2, FLOAT, a / b, "g b div", "g y mul b div neg", "")                           \
    X(NEG, "neg", 1, ANY, -a, "g neg", "", "")                                                   \
    X(EXP, "exp", 1, FLOAT, exp(a), "g y mul", "", "")                                           \
    X(LOG, "log", 1, FLOAT, log(a), "g a div", "", "")                                           \
    X(SQRT, "sqrt", 1, FLOAT, sqrt(a), "g 0.5 mul y div", "", "")                                \
    X(SQUARE, "square", 1, ANY, a * a, "g a mul 2 mul", "", "")                                  \
    X(ABS, "abs", 1, ANY, a > 0 ? a : 0 - a, "g a sign mul", "", "")                             \
    X(SIGN, "sign", 1, ANY, (T)((a > 0) - (a < 0)), "", "", "")                                  \
    X(TANH, "tanh", 1, FLOAT, tanh(a), "g y tanh_grad", "", "")                                  \
    X(SIGMOID, "sigmoid", 1, FLOAT, 1 / (1 + exp(-a)), "g y sigmoid_grad", "", "")               \
    X(RELU, "relu", 1, ANY, a < 0 ? 0 : a, "g y relu_grad", "", "")                              \
    X(MAX, "max", 2, ANY, b > a ? b : (a >= b ? a : a + b),                                      \
      "a b gt a b ge add 0.5 mul g mul", "b a gt b a ge add 0.5 mul g mul", "")                  \
    X(MIN, "min", 2, ANY, b < a ? b : (a <= b ? a : a + b),                                      \
      "a b lt a b le add 0.5 mul g mul", "b a lt b a le add 0.5 mul g mul", "")                  \
    X(WHERE, "where", 3, ANY, a != 0 ? b : c, "", "a g 0 where", "a 0 g where")                  \
    X(EQ, "eq", 2, TEST, (T)(a == b), "", "", "")                                                \
    X(NE, "ne", 2, TEST, (T)(a != b), "", "", "")                                                \
    X(LT, "lt", 2, TEST, (T)(a < b), "", "", "")                                                 \
    X(LE, "le", 2, TEST, (T)(a <= b), "", "", "")                                                \
    X(GT, "gt", 2, TEST, (T)(a > b), "", "", "")                                                 \
    X(GE, "ge", 2, TEST, (T)(a >= b), "", "", "")                                                \
    /* Gradients by the result, in one instruction: a is g, b is y. */                           \
    X(TANH_GRAD, "tanh_grad", 2, FLOAT, a * (1 - b * b),                                         \
      "g b tanh_grad", "g a mul b mul -2 mul", "")                                               \
    X(SIGMOID_GRAD, "sigmoid_grad", 2, FLOAT, a * (b * (1 - b)),                                 \
      "g b sigmoid_grad", "1 b sub b sub a mul g mul", "")                                       \
    X(RELU_GRAD, "relu_grad", 2, ANY, b <= 0 ? 0 : a, "g b relu_grad", "", "")
/* clang-format on */

typedef enum gr_scalar_fn {
#define X(id, ...) GR_FN_##id,
    GR_SCALAR_MAP(X)
#undef X
        GR_FN_COUNT
} gr_scalar_fn;

typedef enum gr_scalar_kind { GR_SCALAR_FLOAT, GR_SCALAR_ANY, GR_SCALAR_TEST } gr_scalar_kind;

const char *gr_scalar_name(gr_scalar_fn fn);
int gr_scalar_arity(gr_scalar_fn fn);
gr_scalar_kind gr_scalar_kind_of(gr_scalar_fn fn);

/* The formula as C++ source, an expression over a, b, c (CONST: k) and the type T. */
GR_API const char *gr_scalar_source(gr_scalar_fn fn);

/* The gradient rule of argument 0, 1 or 2; "" when it is 0. */
const char *gr_scalar_grad(gr_scalar_fn fn, int arg);

/* False when no function has that name. */
bool gr_scalar_find(const char *name, gr_scalar_fn *fn);

#ifdef __cplusplus
}
#endif

#endif
