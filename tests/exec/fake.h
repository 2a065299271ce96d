/*
 * Operators for tests of the executor, and random graphs of them. They work on bytes:
 * what a kernel writes depends on its node, on every byte of its sources and on nothing
 * else, so a value that was overwritten too early changes the outputs.
 */
#ifndef GR_TESTS_EXEC_FAKE_H
#define GR_TESTS_EXEC_FAKE_H

#include "base/random.h"
#include "graph/op.h"

typedef struct fake_attr {
    int64_t n; /* bytes of the output */
    size_t work_bytes;
} fake_attr;

extern const gr_op fake_work;   /* any sources, one output of n bytes */
extern const gr_op fake_aside;  /* the same on the exchange stream */
extern const gr_op fake_view;   /* the first source under another name; runs nothing */
extern const gr_op fake_write;  /* changes the first source in place */
extern const gr_op fake_start;  /* early: changes its sources, gives a token */
extern const gr_op fake_finish; /* late: token and sources of the start; changes them again */

gr_value *fake_add(gr_graph *g, const gr_op *op, const char *site, fake_attr a,
                   gr_value *const *src, int n_src);
/* fake_node(g, &fake_work, "A", 16, x, y) */
#define fake_node(g, op, site, n_bytes, ...)                                               \
    fake_add(g, op, site, (fake_attr){ (n_bytes), 0 }, (gr_value *const[]){ __VA_ARGS__ }, \
             (int)(sizeof((gr_value *const[]){ __VA_ARGS__ }) / sizeof(gr_value *)))
#define fake_source(g, site, n_bytes) \
    fake_add(g, &fake_work, site, (fake_attr){ (n_bytes), 0 }, NULL, 0)

/* A graph with its own table of variables. */
typedef struct fake_world {
    gr_vars *vars;
    gr_graph *g;
    size_t exchange_bytes;
} fake_world;

void fake_world_init(fake_world *w);
/* About n_nodes nodes of all kinds, with inputs "in0" and "in1" of 40 bytes. */
void fake_world_random(fake_world *w, uint32_t seed, int n_nodes);
void fake_world_fini(fake_world *w);

/* Whether the node at place a of the graph must run before the one at place b > a. */
bool fake_must_precede(const gr_graph *g, int a, int b);

#endif
