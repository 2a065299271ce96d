/*
 * A plan: a graph made runnable on one device. Kernels chosen and prepared, places of
 * all arena values decided, addresses resolved, so that a run only calls kernels.
 *
 * The plan knows three base addresses and nothing of ranks. It borrows the graph.
 */
#ifndef GR_EXEC_PLAN_H
#define GR_EXEC_PLAN_H

#include "backend/backend.h"
#include "exec/layout.h"
#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_plan gr_plan;

typedef struct gr_plan_config {
    gr_device *device;            /* borrowed */
    const gr_kernel_set *kernels; /* of the device's module; NULL: CPU kernels */
    int n_threads;                /* CPU pool size, for prepare() */
    const char *only;             /* kernel name to force where it exists (tests); or NULL */
    size_t work_limit;            /* bytes of workspace for kernels that can use more; 0: usual */
    bool reserve; /* room for measuring kernels, and for whatever is chosen by that (tune.h) */
    /* "kernel" or "kernel:variant" for the node, or NULL to leave it to the list. NULL slot:
     * always so. */
    const char *(*choose)(void *arg, const gr_node *n);
    void *choose_arg;
} gr_plan_config;

typedef struct gr_bases {
    void *arena; /* gr_plan_arena_bytes() at least */
    void *state;
    void *exchange;
    const gr_scalars *scalars; /* device memory */
    gr_fault *fault;           /* device-visible */
} gr_bases;

typedef struct gr_run {
    void *const *inputs; /* device addresses, one per "input" node in graph order */
    gr_pool *pool;
    /* Called between nodes where the device can poll, to move collectives on; or NULL. */
    gr_status (*poll)(void *arg);
    void *poll_arg;
} gr_run;

/* Picks kernels, prepares them, lays out the arena. */
gr_status gr_plan_create(gr_plan **out, const gr_graph *g, const gr_plan_config *c) GR_MUST_CHECK;
void gr_plan_destroy(gr_plan *p);

size_t gr_plan_arena_bytes(const gr_plan *p);
/* Where everything lies and when it lives: extents, by places in the running order. */
const gr_layout *gr_plan_layout(const gr_plan *p);
gr_node *const *gr_plan_order(const gr_plan *p); /* all nodes of the graph */
int gr_plan_n_inputs(const gr_plan *p);
const gr_value *gr_plan_input(const gr_plan *p, int i);

/* Resolves addresses. Again whenever a base moved (recorded graphs are dropped then). */
gr_status gr_plan_bind(gr_plan *p, const gr_bases *b) GR_MUST_CHECK;

/*
 * Runs all nodes in order, on a device with streams each on its own (streams.h); behind the
 * run all have joined the compute stream. On a device that can capture, the first run is plain, the
 * second records and launches, later ones launch; nodes whose kernel cannot be captured
 * cut the recording into segments. On such devices the inputs' addresses must be the
 * same at every run. A failure names the node and its site.
 */
gr_status gr_plan_run(gr_plan *p, const gr_run *r) GR_MUST_CHECK;

/*
 * GR_ERR_ARG with operator, site and index when `f` is set. gr_plan_run() asks on
 * devices that run at once; for others call it once the device was waited for. Whoever owns the
 * fault clears it: until then every run fails.
 */
gr_status gr_plan_check_fault(const gr_plan *p, const gr_fault *f) GR_MUST_CHECK;

/* The address of a value after a run (device memory); outputs stay until the next run. */
void *gr_plan_address(const gr_plan *p, const gr_value *v);

/* Runs n_runs times (real runs: state changes), each node timed by itself, and prints a
 * table, slowest first. The plan must be bound. */
gr_status gr_plan_profile(gr_plan *p, const gr_run *r, int n_runs, gr_text *out) GR_MUST_CHECK;

/* For runs that look at each node: how many run, which they are, in running order; the
 * inputs' addresses once, then node after node. */
int gr_plan_n_nodes(const gr_plan *p);
const gr_node *gr_plan_node(const gr_plan *p, int i);
gr_status gr_plan_begin_nodes(gr_plan *p, const gr_run *r) GR_MUST_CHECK;
gr_status gr_plan_run_node(gr_plan *p, const gr_run *r, int i) GR_MUST_CHECK;

/* One line per node: kernel, place, bytes; and the sum. */
void gr_plan_print(const gr_plan *p, gr_text *out);

#ifdef __cplusplus
}
#endif

#endif
