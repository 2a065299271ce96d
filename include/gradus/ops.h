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
#define gr_expm1(g, a)      gr_map1_at(GR_HERE, g, "expm1", a)
#define gr_log_e(g, a)      gr_map1_at(GR_HERE, g, "log", a)
#define gr_log1p(g, a)      gr_map1_at(GR_HERE, g, "log1p", a)
#define gr_sqrt(g, a)       gr_map1_at(GR_HERE, g, "sqrt", a)
#define gr_rsqrt(g, a)      gr_map1_at(GR_HERE, g, "rsqrt", a)
#define gr_reciprocal(g, a) gr_map1_at(GR_HERE, g, "reciprocal", a)
#define gr_square(g, a)     gr_map1_at(GR_HERE, g, "square", a)
#define gr_abs(g, a)        gr_map1_at(GR_HERE, g, "abs", a)
#define gr_sign(g, a)       gr_map1_at(GR_HERE, g, "sign", a)
#define gr_floor(g, a)      gr_map1_at(GR_HERE, g, "floor", a)
#define gr_ceil(g, a)       gr_map1_at(GR_HERE, g, "ceil", a)
#define gr_round(g, a)      gr_map1_at(GR_HERE, g, "round", a) /* halves to even */
#define gr_sin(g, a)        gr_map1_at(GR_HERE, g, "sin", a)
#define gr_cos(g, a)        gr_map1_at(GR_HERE, g, "cos", a)
#define gr_acos(g, a)       gr_map1_at(GR_HERE, g, "acos", a)
#define gr_erf(g, a)        gr_map1_at(GR_HERE, g, "erf", a)
#define gr_add(g, a, b)     gr_map2_at(GR_HERE, g, "add", a, b)
#define gr_sub(g, a, b)     gr_map2_at(GR_HERE, g, "sub", a, b)
#define gr_mul(g, a, b)     gr_map2_at(GR_HERE, g, "mul", a, b)
#define gr_div(g, a, b)     gr_map2_at(GR_HERE, g, "div", a, b)
#define gr_maximum(g, a, b) gr_map2_at(GR_HERE, g, "max", a, b)
#define gr_minimum(g, a, b) gr_map2_at(GR_HERE, g, "min", a, b)
#define gr_atan2(g, y, x)   gr_map2_at(GR_HERE, g, "atan2", y, x)
#define gr_add_k(g, a, k)   gr_mapk_at(GR_HERE, g, "add", a, k)
#define gr_mul_k(g, a, k)   gr_mapk_at(GR_HERE, g, "mul", a, k)
/* Integers, towards minus infinity; by 0: 0. */
#define gr_floor_div(g, a, b) gr_map2_at(GR_HERE, g, "floor_div", a, b)
#define gr_mod(g, a, b)       gr_map2_at(GR_HERE, g, "mod", a, b)
/* c != 0 ? a : b */
#define gr_where(g, c, a, b) gr_map3_at(GR_HERE, g, "where", c, a, b)
/* a + t (b - a) */
#define gr_lerp(g, a, b, t) gr_map3_at(GR_HERE, g, "lerp", a, b, t)

/* a to the power of the constant k. */
#define gr_pow(g, a, k) gr_pow_at(GR_HERE, g, a, k)
GR_API gr_value *gr_pow_at(const char *site, gr_graph *g, gr_value *a, double k);

/* No less than lo and no more than hi; NaN stays. The gradient passes from lo to hi, both
 * included. */
#define gr_clamp(g, a, lo, hi) gr_clamp_at(GR_HERE, g, a, lo, hi)
GR_API gr_value *gr_clamp_at(const char *site, gr_graph *g, gr_value *a, double lo, double hi);

/* mask != 0 ? k : a. k may be infinite. The result has the type of a. */
#define gr_masked_fill(g, a, mask, k) gr_masked_fill_at(GR_HERE, g, a, mask, k)
GR_API gr_value *gr_masked_fill_at(const char *site, gr_graph *g, gr_value *a, gr_value *mask,
                                   double k);

/* Tests give bool: 1 where it holds. *_k compares with a constant. */
#define gr_eq(g, a, b)    gr_map2_at(GR_HERE, g, "eq", a, b)
#define gr_ne(g, a, b)    gr_map2_at(GR_HERE, g, "ne", a, b)
#define gr_lt(g, a, b)    gr_map2_at(GR_HERE, g, "lt", a, b)
#define gr_le(g, a, b)    gr_map2_at(GR_HERE, g, "le", a, b)
#define gr_gt(g, a, b)    gr_map2_at(GR_HERE, g, "gt", a, b)
#define gr_ge(g, a, b)    gr_map2_at(GR_HERE, g, "ge", a, b)
#define gr_eq_k(g, a, k)  gr_mapk_at(GR_HERE, g, "eq", a, k)
#define gr_ne_k(g, a, k)  gr_mapk_at(GR_HERE, g, "ne", a, k)
#define gr_lt_k(g, a, k)  gr_mapk_at(GR_HERE, g, "lt", a, k)
#define gr_le_k(g, a, k)  gr_mapk_at(GR_HERE, g, "le", a, k)
#define gr_gt_k(g, a, k)  gr_mapk_at(GR_HERE, g, "gt", a, k)
#define gr_ge_k(g, a, k)  gr_mapk_at(GR_HERE, g, "ge", a, k)
#define gr_and(g, a, b)   gr_map2_at(GR_HERE, g, "and", a, b)
#define gr_or(g, a, b)    gr_map2_at(GR_HERE, g, "or", a, b)
#define gr_not(g, a)      gr_map1_at(GR_HERE, g, "not", a)
#define gr_isnan(g, a)    gr_map1_at(GR_HERE, g, "isnan", a)
#define gr_isfinite(g, a) gr_map1_at(GR_HERE, g, "isfinite", a)

/* Activations. gelu is the exact one, x (1 + erf(x / sqrt 2)) / 2; gelu_tanh PyTorch's
 * approximate="tanh"; silu x sigmoid(x); softplus log(1 + e^x); leaky_relu k x and elu
 * k (e^x - 1) below 0. */
#define gr_relu(g, a)          gr_map1_at(GR_HERE, g, "relu", a)
#define gr_leaky_relu(g, a, k) gr_mapk_at(GR_HERE, g, "leaky_relu", a, k)
#define gr_elu(g, a, k)        gr_mapk_at(GR_HERE, g, "elu", a, k)
#define gr_gelu(g, a)          gr_map1_at(GR_HERE, g, "gelu", a)
#define gr_gelu_tanh(g, a)     gr_map1_at(GR_HERE, g, "gelu_tanh", a)
#define gr_silu(g, a)          gr_map1_at(GR_HERE, g, "silu", a)
#define gr_softplus(g, a)      gr_map1_at(GR_HERE, g, "softplus", a)
#define gr_tanh(g, a)          gr_map1_at(GR_HERE, g, "tanh", a)
#define gr_sigmoid(g, a)       gr_map1_at(GR_HERE, g, "sigmoid", a)

/* silu(a) b, a and b the halves of the last dimension: [.., 2 n] -> [.., n]. */
#define gr_swiglu(g, x) gr_swiglu_at(GR_HERE, g, x)
GR_API gr_value *gr_swiglu_at(const char *site, gr_graph *g, gr_value *x);

/* x * scale + shift in one node, both stretched over x ([b, 1, d] over tokens, say). The
 * result has the type of x. */
#define gr_scale_shift(g, x, scale, shift) gr_scale_shift_at(GR_HERE, g, x, scale, shift)
GR_API gr_value *gr_scale_shift_at(const char *site, gr_graph *g, gr_value *x, gr_value *scale,
                                   gr_value *shift);

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
#define gr_min(g, a, axes, keep)  gr_reduce_at(GR_HERE, g, "min", a, axes, keep)
GR_API gr_value *gr_reduce_at(const char *site, gr_graph *g, const char *fn, gr_value *a,
                              unsigned axes, bool keep);

/* How many elements are not 0 (NaN is not 0), i64; over the dimensions in `axes`. */
#define gr_count_nonzero(g, a, axes, keep) gr_count_nonzero_at(GR_HERE, g, a, axes, keep)
GR_API gr_value *gr_count_nonzero_at(const char *site, gr_graph *g, gr_value *a, unsigned axes,
                                     bool keep);

/* The greatest (or least) element over one dimension, of a's type, and in *index, unless NULL,
 * where it stands (i64; of equal ones the first; NaN counts as the greatest and the least).
 * Unlike gr_max, the gradient goes to that one element alone. Negative axes count from the
 * end; there must be an element. */
#define gr_max_index(g, a, axis, keep, index) \
    gr_arg_reduce_at(GR_HERE, g, "max", a, axis, keep, index)
#define gr_min_index(g, a, axis, keep, index) \
    gr_arg_reduce_at(GR_HERE, g, "min", a, axis, keep, index)
GR_API gr_value *gr_arg_reduce_at(const char *site, gr_graph *g, const char *fn, gr_value *a,
                                  int axis, bool keep, gr_value **index);

/* The index alone. */
#define gr_argmax(g, a, axis, keep) gr_arg_index_at(GR_HERE, g, "max", a, axis, keep)
#define gr_argmin(g, a, axis, keep) gr_arg_index_at(GR_HERE, g, "min", a, axis, keep)
GR_API gr_value *gr_arg_index_at(const char *site, gr_graph *g, const char *fn, gr_value *a,
                                 int axis, bool keep);

/* Same elements, same order, another shape; one dimension may be -1. Moves nothing. */
#define gr_reshape(g, a, shape) gr_reshape_at(GR_HERE, g, a, shape)
GR_API gr_value *gr_reshape_at(const char *site, gr_graph *g, gr_value *a, gr_shape shape);

/* Dimension i of the result is dimension order[i] of a; n_dims entries. */
#define gr_transpose(g, a, ...) gr_transpose_at(GR_HERE, g, a, __VA_ARGS__)
GR_API gr_value *gr_transpose_at(const char *site, gr_graph *g, gr_value *a, const int *order);

/* A dimension of 1 taken away or put in, dimensions first..last joined: reshapes. Axes may
 * count from the end: -1 is the last. */
#define gr_squeeze(g, a, axis)        gr_squeeze_at(GR_HERE, g, a, axis)
#define gr_unsqueeze(g, a, axis)      gr_unsqueeze_at(GR_HERE, g, a, axis)
#define gr_flatten(g, a, first, last) gr_flatten_at(GR_HERE, g, a, first, last)
GR_API gr_value *gr_squeeze_at(const char *site, gr_graph *g, gr_value *a, int axis);
GR_API gr_value *gr_unsqueeze_at(const char *site, gr_graph *g, gr_value *a, int axis);
GR_API gr_value *gr_flatten_at(const char *site, gr_graph *g, gr_value *a, int first, int last);

/* n >= 1 tensors one behind the other along `axis` (-1: the last), equal elsewhere; stack:
 * along a new dimension. Floating types of several kinds give the wider one; other types
 * must be equal. */
#define gr_concat(g, src, n, ...) gr_concat_at(GR_HERE, g, src, n, __VA_ARGS__)
#define gr_stack(g, src, n, ...)  gr_stack_at(GR_HERE, g, src, n, __VA_ARGS__)
GR_API gr_value *gr_concat_at(const char *site, gr_graph *g, gr_value *const *src, int n, int axis);
GR_API gr_value *gr_stack_at(const char *site, gr_graph *g, gr_value *const *src, int n, int axis);

/* The reverse of concat: n parts of `sizes` (NULL: equal ones) along `axis` into out[0..n).
 * One node, whose gradient is one concat: better than n slices. */
#define gr_split(g, a, axis, n, sizes, ...) gr_split_at(GR_HERE, g, a, axis, n, sizes, __VA_ARGS__)
GR_API void gr_split_at(const char *site, gr_graph *g, gr_value *a, int axis, int n,
                        const int64_t *sizes, gr_value **out);

/* Elements start, start + step, .. before stop, one range per dimension. Negative numbers
 * count from the end, GR_END is the end; the step is at least 1. A stop beyond the
 * dimension is refused. */
typedef struct gr_range {
    int64_t start, stop, step;
} gr_range;
#define GR_END INT64_MAX
#define GR_RANGE_ALL \
    {                \
        0, GR_END, 1 \
    }
#define gr_slice(g, a, ...) gr_slice_at(GR_HERE, g, a, __VA_ARGS__)
GR_API gr_value *gr_slice_at(const char *site, gr_graph *g, gr_value *a, const gr_range *ranges);
/* The elements [start, stop) of one dimension, all of the others. */
#define gr_slice_axis(g, a, axis, start, stop) gr_slice_axis_at(GR_HERE, g, a, axis, start, stop)
GR_API gr_value *gr_slice_axis_at(const char *site, gr_graph *g, gr_value *a, int axis,
                                  int64_t start, int64_t stop);

/* lo[d] elements of `value` before dimension d and hi[d] behind it; n_dims entries each. */
#define gr_pad(g, a, lo, hi, ...) gr_pad_at(GR_HERE, g, a, lo, hi, __VA_ARGS__)
GR_API gr_value *gr_pad_at(const char *site, gr_graph *g, gr_value *a, const int64_t *lo,
                           const int64_t *hi, double value);

/* Backwards along the dimensions whose bits are set (GR_AXIS(i) | ...). */
#define gr_flip(g, a, axes) gr_flip_at(GR_HERE, g, a, axes)
GR_API gr_value *gr_flip_at(const char *site, gr_graph *g, gr_value *a, unsigned axes);

/* Images [n, h, w, c] as vectors of patches of p x p, row by row: [n, h/p * w/p, p*p*c], and
 * back to images of the given shape. The order of elements inside a patch:
 *   GR_PATCH_CHW   channel, row, column: as JiT has it, and a flattened weight
 *                  [out, c, p, p] of a PyTorch convolution
 *   GR_PATCH_HWC   row, column, channel: a flattened weight [out, p, p, c] */
typedef enum gr_patch_order { GR_PATCH_CHW, GR_PATCH_HWC } gr_patch_order;
#define gr_patchify(g, a, p, order)       gr_patchify_at(GR_HERE, g, a, p, order)
#define gr_unpatchify(g, a, image, order) gr_unpatchify_at(GR_HERE, g, a, image, order)
GR_API gr_value *gr_patchify_at(const char *site, gr_graph *g, gr_value *a, int64_t p,
                                gr_patch_order order);
GR_API gr_value *gr_unpatchify_at(const char *site, gr_graph *g, gr_value *a, gr_shape image,
                                  gr_patch_order order);

/* out[i..., :] = table[index[i...], :]: rows of a [n, ...] table by i32 or i64 indices.
 * An index outside [0, n) fails the run and is named. The gradient sums rows in the
 * order of the indices, so it is deterministic. */
#define gr_gather(g, table, index) gr_gather_at(GR_HERE, g, table, index)
GR_API gr_value *gr_gather_at(const char *site, gr_graph *g, gr_value *table, gr_value *index);

/* exp(x) / sum of exp(x) over dimension `axis`; negative ones count from the end (-1: the
 * last, which is the fastest). Result of x's type; f16 and bf16 are computed in f32. Where x
 * is -inf along the whole axis the result is 0 (PyTorch: NaN). */
#define gr_softmax(g, x, axis) gr_softmax_at(GR_HERE, g, x, axis)
GR_API gr_value *gr_softmax_at(const char *site, gr_graph *g, gr_value *x, int axis);

/* x - log of the sum of exp(x) over dimension `axis`; f32, or f64 for f64 x. Where x is -inf
 * along the whole axis the result is -inf (PyTorch: NaN). */
#define gr_log_softmax(g, x, axis) gr_log_softmax_at(GR_HERE, g, x, axis)
GR_API gr_value *gr_log_softmax_at(const char *site, gr_graph *g, gr_value *x, int axis);

/* Log of the sum of exp(x) over dimension `axis`, which stays as 1 (keep) or goes; f32, or
 * f64 for f64 x. Over no element: -inf. */
#define gr_logsumexp(g, x, axis, keep) gr_logsumexp_at(GR_HERE, g, x, axis, keep)
GR_API gr_value *gr_logsumexp_at(const char *site, gr_graph *g, gr_value *x, int axis, bool keep);

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
