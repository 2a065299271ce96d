/*
 * Randomness inside a step. See graph.h for failures, lifetimes and threads.
 *
 * Numbers come from Philox 4x32-10. They depend on the seed of the step's configuration, the
 * number of the update, the place of the node in the trace, and on the sample: its position
 * in the global batch. They depend neither on the rank nor on the number of threads, so that
 * two ranks with half a batch each, one rank that accumulates over two halves, and one rank
 * with all of it draw the same. A run that is resumed goes on with the same numbers.
 *
 * Which samples a value holds follows from its shape: with a batch of n (dimension 0 of the
 * first feed that has one) a value whose dimension 0 is n, or a multiple of n, holds n samples
 * one after the other. Any other value belongs to the whole batch: every rank draws the same
 * for it. (What is meant for all but has such a dimension 0 by chance gets a leading dimension
 * of 1, by gr_reshape or in its shape.)
 *
 * All types draw the same numbers, rounded: uniform numbers have 24 bits (bf16: 8, f16: 11).
 */
#ifndef GRADUS_RANDOM_H
#define GRADUS_RANDOM_H

#include "gradus/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Uniform in [from, to), of a floating type; without a gradient, as all of these. */
#define gr_random_uniform(g, dtype, shape, from, to) \
    gr_random_uniform_at(GR_HERE, g, dtype, shape, from, to)
GR_API gr_value *gr_random_uniform_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape,
                                      double from, double to);

/* Normal, of a floating type; no number is further than 5.8 std from the mean. */
#define gr_random_normal(g, dtype, shape, mean, std) \
    gr_random_normal_at(GR_HERE, g, dtype, shape, mean, std)
GR_API gr_value *gr_random_normal_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape,
                                     double mean, double std);

/* 1 with probability p, else 0; of any type, bool among them. */
#define gr_random_bernoulli(g, dtype, shape, p) gr_random_bernoulli_at(GR_HERE, g, dtype, shape, p)
GR_API gr_value *gr_random_bernoulli_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape,
                                        double p);

/* Whole numbers in [from, to), i32 or i64; to - from is at most 2^32. */
#define gr_random_int(g, dtype, shape, from, to) \
    gr_random_int_at(GR_HERE, g, dtype, shape, from, to)
GR_API gr_value *gr_random_int_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape,
                                  int64_t from, int64_t to);

/* Along the last dimension a permutation of 0 .. n-1 each, i32 or i64; n is below 2^31. */
#define gr_random_perm(g, dtype, shape) gr_random_perm_at(GR_HERE, g, dtype, shape)
GR_API gr_value *gr_random_perm_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape);

/*
 * The same with a key for each sample, i64 [n], for what must not depend on where a sample stands
 * in a batch and how many updates there were: pictures that are drawn from noise, masks that are
 * filled in over many runs. Numbers depend on the seed, the place of the node and the key alone;
 * another run of the same sample takes another key, as number * 1000 + run. The first dimension of
 * `shape` is n or a multiple of it.
 */
#define gr_random_uniform_keyed(g, key, dtype, shape, from, to) \
    gr_random_uniform_keyed_at(GR_HERE, g, key, dtype, shape, from, to)
#define gr_random_normal_keyed(g, key, dtype, shape, mean, std) \
    gr_random_normal_keyed_at(GR_HERE, g, key, dtype, shape, mean, std)
#define gr_random_int_keyed(g, key, dtype, shape, from, to) \
    gr_random_int_keyed_at(GR_HERE, g, key, dtype, shape, from, to)
#define gr_random_perm_keyed(g, key, dtype, shape) \
    gr_random_perm_keyed_at(GR_HERE, g, key, dtype, shape)
GR_API gr_value *gr_random_uniform_keyed_at(const char *site, gr_graph *g, gr_value *key,
                                            gr_dtype t, gr_shape shape, double from, double to);
GR_API gr_value *gr_random_normal_keyed_at(const char *site, gr_graph *g, gr_value *key, gr_dtype t,
                                           gr_shape shape, double mean, double std);
GR_API gr_value *gr_random_int_keyed_at(const char *site, gr_graph *g, gr_value *key, gr_dtype t,
                                        gr_shape shape, int64_t from, int64_t to);
GR_API gr_value *gr_random_perm_keyed_at(const char *site, gr_graph *g, gr_value *key, gr_dtype t,
                                         gr_shape shape);

/* Elements become 0 with probability p (in [0, 1), taken to the nearest 1/65536), the others are
 * scaled by 1 / (1 - p). x itself in evaluation and for p = 0. No mask is kept: the backward
 * pass draws it again. */
#define gr_dropout(g, x, p) gr_dropout_at(GR_HERE, g, x, p)
GR_API gr_value *gr_dropout_at(const char *site, gr_graph *g, gr_value *x, double p);

/* The same by whole samples (stochastic depth): a sample is dropped as one. */
#define gr_drop_path(g, x, p) gr_drop_path_at(GR_HERE, g, x, p)
GR_API gr_value *gr_drop_path_at(const char *site, gr_graph *g, gr_value *x, double p);

#ifdef __cplusplus
}
#endif

#endif
