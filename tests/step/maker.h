/*
 * What the makers of random graphs share: drawing, the pool of values that operators take from
 * and add to, and the operators themselves. Everything drawn comes from the maker's own state.
 */
#ifndef GR_TESTS_STEP_MAKER_H
#define GR_TESTS_STEP_MAKER_H

#include "step/random_graph.h"

#define MAKER_POOL 48

typedef struct maker {
    gr_graph *g;
    random_graph *how;
    uint64_t state;
    gr_value *pool[MAKER_POOL];
    int n, n_params;
} maker;

/* ---- drawing ---- */

/* In [lo, hi]. */
int64_t maker_rnd(maker *m, int64_t lo, int64_t hi);
bool maker_coin(maker *m, int one_in);
int64_t maker_size(maker *m);
int64_t maker_divisor(maker *m, int64_t of);
/* A shape that stretches to s. */
gr_shape maker_narrower(maker *m, gr_shape s);

int64_t maker_count_of(const gr_value *v);
/* To the log, if there is one. */
void maker_note(maker *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- values: new ones ---- */

gr_value *maker_leaf(maker *m, gr_shape shape);
gr_value *maker_constant(maker *m, gr_shape shape);
gr_value *maker_indices(maker *m, gr_shape shape, int64_t below);

/* ---- values: of the pool ---- */

/* Casts to the graph's type and cuts what is too large. */
void maker_push(maker *m, gr_value *v);
gr_value *maker_any(maker *m);
/* In another shape, of n_dims dimensions. */
gr_value *maker_with_dims(maker *m, int n_dims);
/* The same, but never without elements. */
gr_value *maker_filled(maker *m, int n_dims);
/* One that stretches to the shape of v. */
gr_value *maker_beside(maker *m, gr_value *v);
/* y with some of: bias, activation, residual or gate. */
gr_value *maker_finish(maker *m, gr_value *y, bool bias);

/* ---- operators: each takes from the pool and adds to it ---- */

void maker_op_map1(maker *m);
void maker_op_map2(maker *m);
void maker_op_map3(maker *m);
void maker_op_matmul(maker *m);
void maker_op_reduce(maker *m);
void maker_op_softmax(maker *m);
void maker_op_norm(maker *m);
void maker_op_conv(maker *m);
void maker_op_image(maker *m);
void maker_op_join(maker *m);
void maker_op_move(maker *m);
void maker_op_index(maker *m);
void maker_op_attention(maker *m);
void maker_op_random(maker *m);
void maker_op_vector(maker *m);
void maker_op_cast(maker *m);

#endif
