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
 *             INT: integers only
 *   formula   over a, b, c (CONST: k) and the compute type T. The same tokens compile in
 *             C, where <tgmath.h> picks the function for T, and as CUDA C++ source, where
 *             overloading does. Whole numbers, or (T)0.5, so that no double creeps into f32.
 *   da db dc  the gradient rule of each argument, "" where it is 0: postfix over function
 *             names, whole or decimal numbers, and
 *               g  the gradient of the result       y  the result
 *               a b c  the arguments
 *             A rule written through y rather than a lets a map node forget its source.
 *
 * NaN goes through max, min, clamp and relu, and relu's gradient is 0 at 0, as in PyTorch;
 * the gradient of max and min is shared by equal arguments, and clamp passes it on at its
 * ends. The gradient of pow is 0 for a power of 0, and that of the power for 0 to one that is
 * not negative. gelu is written through erfc and gelu_tanh through exp, so that nothing cancels
 * where the result is small.
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

/* gelu_tanh = x s(w) with w = x (c + k x^2) and s the sigmoid; the second derivative is
 * s (1 - s) (2 w' + x w'' + x w'^2 (1 - 2 s)), w' = c + 3 k x^2, x w'' = 6 k x^2. */
#define GR_SCALAR_TANH_S "b square 0.071354816272600248 mul 1.5957691216057308 add b mul sigmoid"
#define GR_SCALAR_TANH_W "b square 0.21406444881780075 mul 1.5957691216057308 add"
#define GR_SCALAR_TANH_CURVE                                                               \
    "1 " GR_SCALAR_TANH_S " sigmoid_grad " GR_SCALAR_TANH_W " 2 mul b square "             \
    "0.42812889763560149 mul add 1 " GR_SCALAR_TANH_S " 2 mul sub b mul " GR_SCALAR_TANH_W \
    " square mul add mul a mul g mul"

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
    X(RELU_GRAD, "relu_grad", 2, ANY, b <= 0 ? 0 : a, "g b relu_grad", "", "")                   \
    X(RSQRT, "rsqrt", 1, FLOAT, 1 / sqrt(a), "y square y mul g mul -0.5 mul", "", "")            \
    X(RECIPROCAL, "reciprocal", 1, FLOAT, 1 / a, "y square g mul neg", "", "")                   \
    X(POW, "pow", 2, FLOAT, pow(a, b), "b 0 eq 0 a b 1 sub pow b mul g mul where",               \
      "a 0 eq b 0 ge and 0 a log y mul g mul where", "")                                         \
    X(LOG1P, "log1p", 1, FLOAT, log1p(a), "g a 1 add div", "", "")                               \
    X(EXPM1, "expm1", 1, FLOAT, expm1(a), "y 1 add g mul", "", "")                               \
    X(SIN, "sin", 1, FLOAT, sin(a), "a cos g mul", "", "")                                       \
    X(COS, "cos", 1, FLOAT, cos(a), "a sin g mul neg", "", "")                                   \
    X(ACOS, "acos", 1, FLOAT, acos(a), "g 1 a square sub sqrt div neg", "", "")               \
    X(ATAN2, "atan2", 2, FLOAT, atan2(a, b), "g b mul a square b square add div",                \
      "g a mul a square b square add div neg", "")                                               \
    X(ERF, "erf", 1, FLOAT, erf(a), "a square neg exp 1.1283791670955126 mul g mul", "", "")     \
    X(FLOOR, "floor", 1, FLOAT, floor(a), "", "", "")                                            \
    X(CEIL, "ceil", 1, FLOAT, ceil(a), "", "", "")                                               \
    X(ROUND, "round", 1, FLOAT, rint(a), "", "", "") /* halves to even */                        \
    X(CLAMP, "clamp", 3, ANY, a < b ? b : (a > c ? c : a), "a b ge a c le and g 0 where",        \
      "a b lt g 0 where", "a c gt a b ge and g 0 where")                                         \
    X(LERP, "lerp", 3, FLOAT, a + c * (b - a), "1 c sub g mul", "g c mul", "b a sub g mul")      \
    X(SOFTPLUS, "softplus", 1, FLOAT, (a > 0 ? a : 0) + log1p(exp(a > 0 ? -a : a)),              \
      "a sigmoid g mul", "", "")                                                                 \
    X(LEAKY_RELU, "leaky_relu", 2, FLOAT, a > 0 ? a : a * b, "a 0 gt g g b mul where",           \
      "a 0 gt 0 g a mul where", "")                                                              \
    X(ELU, "elu", 2, FLOAT, a > 0 ? a : b * expm1(a), "a 0 gt g y b add g mul where",            \
      "a 0 gt 0 a expm1 g mul where", "")                                                        \
    X(SILU, "silu", 1, FLOAT, a / (1 + exp(-a)), "g a silu_grad", "", "")                        \
    X(GELU, "gelu", 1, FLOAT, a * (T)0.5 * erfc(a * (T)-0.70710678118654752),                    \
      "g a gelu_grad", "", "")                                                                   \
    X(GELU_TANH, "gelu_tanh", 1, FLOAT,                                                          \
      a / (1 + exp(a * ((T)-1.5957691216057308 - (T)0.071354816272600248 * a * a))),             \
      "g a gelu_tanh_grad", "", "")                                                              \
    /* Gradients by the argument, in one instruction: a is g, b is x. */                         \
    X(SILU_GRAD, "silu_grad", 2, FLOAT, a / (1 + exp(-b)) * (1 + b / (1 + exp(b))),              \
      "g b silu_grad",                                                                           \
      "1 b sigmoid sigmoid_grad 2 1 b sigmoid 2 mul sub b mul add mul a mul g mul", "")          \
    X(GELU_GRAD, "gelu_grad", 2, FLOAT,                                                          \
      a * ((T)0.5 * erfc(b * (T)-0.70710678118654752) +                                          \
           b * (T)0.39894228040143268 * exp(b * b * (T)-0.5)),                                   \
      "g b gelu_grad",                                                                           \
      "2 b square sub b square -0.5 mul exp mul 0.3989422804014327 mul a mul g mul", "")         \
    X(GELU_TANH_GRAD, "gelu_tanh_grad", 2, FLOAT,                                                \
      a / (1 + exp(b * ((T)-1.5957691216057308 - (T)0.071354816272600248 * b * b))) *            \
          (1 + b * ((T)1.5957691216057308 + (T)0.21406444881780075 * b * b) /                    \
                   (1 + exp(b * ((T)1.5957691216057308 + (T)0.071354816272600248 * b * b)))),    \
      "g b gelu_tanh_grad", GR_SCALAR_TANH_CURVE, "")                                            \
    X(AND, "and", 2, TEST, (T)((a != 0) & (b != 0)), "", "", "")                                 \
    X(OR, "or", 2, TEST, (T)((a != 0) | (b != 0)), "", "", "")                                   \
    X(NOT, "not", 1, TEST, (T)(a == 0), "", "", "")                                              \
    X(ISNAN, "isnan", 1, TEST, (T)(a != a), "", "", "")                                          \
    X(ISFINITE, "isfinite", 1, TEST, (T)(a - a == 0), "", "", "")                                \
    /* Towards minus infinity; by 0: 0. */                                                       \
    X(FLOOR_DIV, "floor_div", 2, INT,                                                          \
      b == 0 ? 0 : (b == -1 ? (T)(0 - (unsigned long long)a)                                     \
                            : a / b - ((a % b != 0) & ((a < 0) != (b < 0)))), "", "", "")        \
    X(MOD, "mod", 2, INT,                                                                      \
      b == 0 || b == -1 ? 0                                                                      \
                        : a % b + (((a % b != 0) & ((a < 0) != (b < 0))) ? b : 0), "", "", "")
/* clang-format on */

typedef enum gr_scalar_fn {
#define X(id, ...) GR_FN_##id,
    GR_SCALAR_MAP(X)
#undef X
        GR_FN_COUNT
} gr_scalar_fn;

typedef enum gr_scalar_kind {
    GR_SCALAR_FLOAT,
    GR_SCALAR_ANY,
    GR_SCALAR_TEST,
    GR_SCALAR_INT
} gr_scalar_kind;

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
