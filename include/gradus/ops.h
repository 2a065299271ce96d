/*
 * Operators: builders that add nodes to a graph. See graph.h for failures, lifetimes
 * and threads. Each is a macro that passes the caller's file and line.
 *
 * Elementwise operators broadcast as NumPy does: shapes are aligned at the last
 * dimension, and a dimension of 1 stretches. Mixed types give the wider one
 * (f64 > f32 > f16, bf16 > i64 > i32 > u8 > bool; f16 with bf16 gives f32).
 */
#ifndef GRADUS_OPS_H
#define GRADUS_OPS_H

#include "gradus/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* [.., m, k] x [.., k, n] -> [.., m, n]; leading dimensions are equal, or b has none
 * (then a's leading dimensions count as rows). trans_* : that operand is stored
 * transposed. f32, f64, bf16, f16; sums in f32 or wider. */
#define gr_matmul(g, a, b)                     gr_matmul_at(GR_HERE, g, a, b, false, false)
#define gr_matmul_t(g, a, b, trans_a, trans_b) gr_matmul_at(GR_HERE, g, a, b, trans_a, trans_b)
GR_API gr_value *gr_matmul_at(const char *site, gr_graph *g, gr_value *a, gr_value *b, bool trans_a,
                              bool trans_b);

/* Elementwise, one name per row of the table of scalar functions (src/op/map/scalar.h). */
GR_API gr_value *gr_map1_at(const char *site, gr_graph *g, const char *fn, gr_value *a);
GR_API gr_value *gr_map2_at(const char *site, gr_graph *g, const char *fn, gr_value *a,
                            gr_value *b);
GR_API gr_value *gr_map3_at(const char *site, gr_graph *g, const char *fn, gr_value *a, gr_value *b,
                            gr_value *c);
/* fn(a, k) with a constant, "mul" by 2 say. */
GR_API gr_value *gr_mapk_at(const char *site, gr_graph *g, const char *fn, gr_value *a, double k);

#define gr_neg(g, a)        gr_map1_at(GR_HERE, g, "neg", a)
#define gr_exp(g, a)        gr_map1_at(GR_HERE, g, "exp", a)
#define gr_log_e(g, a)      gr_map1_at(GR_HERE, g, "log", a)
#define gr_sqrt(g, a)       gr_map1_at(GR_HERE, g, "sqrt", a)
#define gr_square(g, a)     gr_map1_at(GR_HERE, g, "square", a)
#define gr_abs(g, a)        gr_map1_at(GR_HERE, g, "abs", a)
#define gr_tanh(g, a)       gr_map1_at(GR_HERE, g, "tanh", a)
#define gr_sigmoid(g, a)    gr_map1_at(GR_HERE, g, "sigmoid", a)
#define gr_relu(g, a)       gr_map1_at(GR_HERE, g, "relu", a)
#define gr_add(g, a, b)     gr_map2_at(GR_HERE, g, "add", a, b)
#define gr_sub(g, a, b)     gr_map2_at(GR_HERE, g, "sub", a, b)
#define gr_mul(g, a, b)     gr_map2_at(GR_HERE, g, "mul", a, b)
#define gr_div(g, a, b)     gr_map2_at(GR_HERE, g, "div", a, b)
#define gr_maximum(g, a, b) gr_map2_at(GR_HERE, g, "max", a, b)
#define gr_minimum(g, a, b) gr_map2_at(GR_HERE, g, "min", a, b)
#define gr_add_k(g, a, k)   gr_mapk_at(GR_HERE, g, "add", a, k)
#define gr_mul_k(g, a, k)   gr_mapk_at(GR_HERE, g, "mul", a, k)
/* c != 0 ? a : b */
#define gr_where(g, c, a, b) gr_map3_at(GR_HERE, g, "where", c, a, b)

/* A value of `shape` with every element k; no memory is read. */
#define gr_fill(g, dtype, shape, k) gr_fill_at(GR_HERE, g, dtype, shape, k)
GR_API gr_value *gr_fill_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape, double k);

/* Another element type; values are rounded to nearest even, integers are cut. */
#define gr_cast(g, a, dtype) gr_cast_at(GR_HERE, g, a, dtype)
GR_API gr_value *gr_cast_at(const char *site, gr_graph *g, gr_value *a, gr_dtype t);

/* Stretches dimensions of 1, and adds leading ones, to reach `shape`. */
#define gr_broadcast(g, a, shape) gr_broadcast_at(GR_HERE, g, a, shape)
GR_API gr_value *gr_broadcast_at(const char *site, gr_graph *g, gr_value *a, gr_shape shape);

/* Over the dimensions whose bits are set in `axes` (GR_AXIS(i) | ...; GR_AXES_ALL);
 * keep: they stay as 1. f16 and bf16 are summed in f32. Over no element: sum 0, mean
 * NaN, max -inf (or the least integer). */
#define GR_AXIS(i)                (1u << (i))
#define GR_AXES_ALL               (~0u)
#define gr_sum(g, a, axes, keep)  gr_reduce_at(GR_HERE, g, "sum", a, axes, keep)
#define gr_mean(g, a, axes, keep) gr_reduce_at(GR_HERE, g, "mean", a, axes, keep)
#define gr_max(g, a, axes, keep)  gr_reduce_at(GR_HERE, g, "max", a, axes, keep)
GR_API gr_value *gr_reduce_at(const char *site, gr_graph *g, const char *fn, gr_value *a,
                              unsigned axes, bool keep);

/* Same elements, same order, another shape; one dimension may be -1. Moves nothing. */
#define gr_reshape(g, a, shape) gr_reshape_at(GR_HERE, g, a, shape)
GR_API gr_value *gr_reshape_at(const char *site, gr_graph *g, gr_value *a, gr_shape shape);

/* Dimension i of the result is dimension order[i] of a; n_dims entries. */
#define gr_transpose(g, a, order) gr_transpose_at(GR_HERE, g, a, order)
GR_API gr_value *gr_transpose_at(const char *site, gr_graph *g, gr_value *a, const int *order);

/* out[i..., :] = table[index[i...], :]: rows of a [n, ...] table by i32 or i64 indices.
 * An index outside [0, n) fails the run and is named. The gradient sums rows in the
 * order of the indices, so it is deterministic. */
#define gr_gather(g, table, index) gr_gather_at(GR_HERE, g, table, index)
GR_API gr_value *gr_gather_at(const char *site, gr_graph *g, gr_value *table, gr_value *index);

/* -log softmax(logits)[label] per row: logits [n, c], labels [n] (i32 or i64) -> f32 [n]
 * (f64 for f64 logits). A label outside [0, c) fails the run and is named. */
#define gr_softmax_xent(g, logits, labels) gr_softmax_xent_at(GR_HERE, g, logits, labels)
GR_API gr_value *gr_softmax_xent_at(const char *site, gr_graph *g, gr_value *logits,
                                    gr_value *labels);

/* The mean of gr_softmax_xent over the rows: PyTorch's cross_entropy. */
#define gr_cross_entropy(g, logits, labels) gr_cross_entropy_at(GR_HERE, g, logits, labels)
GR_API gr_value *gr_cross_entropy_at(const char *site, gr_graph *g, gr_value *logits,
                                     gr_value *labels);

#ifdef __cplusplus
}
#endif

#endif
