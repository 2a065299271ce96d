/*
 * Random graphs out of the public builders, each the function of a number: the same seed
 * traces the same graph, whatever the size of the batch. For tests that compare ways to run
 * one graph.
 */
#ifndef GR_TESTS_STEP_RANDOM_GRAPH_H
#define GR_TESTS_STEP_RANDOM_GRAPH_H

#include <stdio.h>

#include "gradus/gradus.h"

typedef struct random_graph {
    uint64_t seed;
    gr_dtype type; /* of the values; parameters are f32 */
    int n_ops;
    int only;    /* a number of random_graph_op_name(): that operator alone; -1: all */
    bool smooth; /* nothing that jumps: for gradients by differences */
    bool large;  /* values that are worth several threads */
    bool empty;  /* some dimensions are 0 */
    FILE *log;   /* one line per operator; or NULL */
    bool mixed;  /* out: there are values of other types than `type` */
} random_graph;

/* Feeds: "x" [n, 5] f32, "y" [n] i64 in [0, 7). Outputs: "loss", f32 or f64. user: a
 * random_graph. */
gr_status random_graph_trace(gr_graph *g, void *user);

int random_graph_n_ops(void);
const char *random_graph_op_name(int i);

/* Xorshift; a number in [lo, hi]. */
int64_t random_graph_pick(uint64_t *state, int64_t lo, int64_t hi);

#endif
