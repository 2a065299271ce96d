/*
 * Operators with indices: rows and elements by index, sums by index, the greatest k, the
 * nearest neighbours; vectors in space, and tables of waves and bumps. Indices are i32 or
 * i64; one outside its range fails the run and is named. Sums by index are done in the
 * order of the indices, so they are deterministic. See graph.h for failures, lifetimes and
 * threads.
 */
#ifndef GRADUS_INDEX_H
#define GRADUS_INDEX_H

#include "gradus/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out[j, :] = sum of rows[i..., :] over the i with index[i...] == j: a segment sum. rows
 * [i..., ...] begins with the shape of index; the result is [n_rows, ...], zero where no
 * index points. f16 and bf16 rows give f32. The gradient is gr_gather (ops.h). */
#define gr_scatter_add(g, rows, index, n_rows) gr_scatter_add_at(GR_HERE, g, rows, index, n_rows)
GR_API gr_value *gr_scatter_add_at(const char *site, gr_graph *g, gr_value *rows, gr_value *index,
                                   int64_t n_rows);

/* gr_gather, but for the gradient of row `padding`, which stays zero: torch.nn.Embedding
 * with padding_idx. padding -1: there is none. */
#define gr_embedding(g, table, index, padding) gr_embedding_at(GR_HERE, g, table, index, padding)
GR_API gr_value *gr_embedding_at(const char *site, gr_graph *g, gr_value *table, gr_value *index,
                                 int64_t padding);

/* a with dimension `axis` replaced by those of its elements that index [m] names. */
#define gr_index_select(g, a, axis, index) gr_index_select_at(GR_HERE, g, a, axis, index)
GR_API gr_value *gr_index_select_at(const char *site, gr_graph *g, gr_value *a, int axis,
                                    gr_value *index);

/* out[.., i, ..] = a[.., index[.., i, ..], ..]: elements along `axis`, an index for each.
 * index has a's shape but along the axis (torch.gather). */
#define gr_take_along(g, a, axis, index) gr_take_along_at(GR_HERE, g, a, axis, index)
GR_API gr_value *gr_take_along_at(const char *site, gr_graph *g, gr_value *a, int axis,
                                  gr_value *index);

/* The k greatest (or smallest) elements along the last dimension, best first; of equals
 * the first comes first; NaN is greatest. *index (may be NULL): where they were, i32. The
 * gradient goes to the chosen elements. Floating types. */
#define gr_top_k(g, a, k, smallest, index) gr_top_k_at(GR_HERE, g, a, k, smallest, index)
GR_API gr_value *gr_top_k_at(const char *site, gr_graph *g, gr_value *a, int64_t k, bool smallest,
                             gr_value **index);

/*
 * The k nearest others of each point: points [b, l, d] -> i32 [b, l, k], nearest first,
 * equal distances in the order of points. A point is not its own neighbour. Distances are
 * sums of squared differences in f32 (f64 for f64) and go to *distance, [b, l, k].
 * mask [b, l] (bool or u8; may be NULL): points with 0 are nobody's neighbours and have
 * none. Where there are too few neighbours, the rest names the point itself, at distance
 * infinity. in_batch: indices count through the whole batch, rows of [b * l, d], as
 * gr_gather and gr_scatter_add want them. No gradient; not all pairs are stored at once.
 */
typedef struct gr_knn_config {
    int64_t k;
    bool in_batch;
} gr_knn_config;
#define gr_knn(g, points, mask, config, ...) \
    gr_knn_at(GR_HERE, g, points, mask, config, __VA_ARGS__)
GR_API gr_value *gr_knn_at(const char *site, gr_graph *g, gr_value *points, gr_value *mask,
                           gr_knn_config config, gr_value **distance);

/* ---- vectors: the last dimension ---- */

/* a x b, both [..., 3] of one shape and floating type. */
#define gr_cross(g, a, b) gr_cross_at(GR_HERE, g, a, b)
GR_API gr_value *gr_cross_at(const char *site, gr_graph *g, gr_value *a, gr_value *b);
/* Sum of products, and the length; [..., n] -> [..., 1] with keep, else [...]. The gradient
 * of a length 0 is 0. f16 and bf16 give f32. */
#define gr_dot(g, a, b, keep) gr_dot_at(GR_HERE, g, a, b, keep)
#define gr_norm(g, a, keep)   gr_norm_at(GR_HERE, g, a, keep)
GR_API gr_value *gr_dot_at(const char *site, gr_graph *g, gr_value *a, gr_value *b, bool keep);
GR_API gr_value *gr_norm_at(const char *site, gr_graph *g, gr_value *a, bool keep);

/* exp(-factor ((a - c_j) / width)^2) for n centres c_j evenly from `from` to `to`:
 * [...] -> [..., n]. */
typedef struct gr_rbf_config {
    int n;
    double from, to, width, factor;
} gr_rbf_config;
#define gr_rbf(g, a, ...) gr_rbf_at(GR_HERE, g, a, __VA_ARGS__)
GR_API gr_value *gr_rbf_at(const char *site, gr_graph *g, gr_value *a, gr_rbf_config config);

/* ---- tables ---- */

/* A value that is the same in every run: `mem` holds its elements and is copied now. */
#define gr_constant(g, dtype, shape, mem) gr_constant_at(GR_HERE, g, dtype, shape, mem)
GR_API gr_value *gr_constant_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape,
                                const void *mem);

/* Positions 0..n-1 as waves, f32 [n, d], d even:
 *   [p, 2i] = sin(p / base^(2i / d)), [p, 2i + 1] = cos of the same   ("Attention is all
 *   you need", interleaved) */
#define gr_sinusoid(g, n, d, base) gr_sinusoid_at(GR_HERE, g, n, d, base)
GR_API gr_value *gr_sinusoid_at(const char *site, gr_graph *g, int64_t n, int64_t d, double base);

/* Times [b] of any type as waves, f32 [b, d], d even and at least 4: with h = d / 2 and
 * f_i = base^(-i / (h - 1)) the first half is sin(t f_i), the second cos(t f_i) (JiT). */
#define gr_time_waves(g, t, d, base) gr_time_waves_at(GR_HERE, g, t, d, base)
GR_API gr_value *gr_time_waves_at(const char *site, gr_graph *g, gr_value *t, int64_t d,
                                  double base);

#ifdef __cplusplus
}
#endif

#endif
