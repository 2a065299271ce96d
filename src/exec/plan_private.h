/*
 * The inside of a plan, shared by plan.c (making and printing), run.c (binding and
 * running) and profile.c.
 *
 * (1) Everything but the plan itself lies in its arena; nothing grows after creation.
 * (2) An entry's src and out hold addresses once bound, except those of inputs, which
 *     each run writes through `patches`.
 * (3) A segment is a stretch of entries that are recorded together, or one that is not
 *     recorded at all. Together they are all entries, in order. Behind each, all streams
 *     have joined the compute stream.
 *
 * A plan belongs to one thread.
 */
#ifndef GR_EXEC_PLAN_PRIVATE_H
#define GR_EXEC_PLAN_PRIVATE_H

#include "exec/layout.h"
#include "exec/plan.h"
#include "exec/streams.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One node that runs. */
typedef struct gr_entry {
    gr_ready ready;
    gr_launch launch; /* its src and out are the arrays below */
    void **src, **out;
    gr_stream_kind stream;
    int place;       /* of the node in the order */
    bool has_effect; /* changes something that outlives the run */
} gr_entry;

/* An input of the graph, and every address that depends on it. */
typedef struct gr_plan_feed {
    const gr_value *value;
    void *mem; /* of the last run; NULL before */
    void ***patches;
    int n_patches;
} gr_plan_feed;

typedef struct gr_segment {
    int first, end; /* entries [first, end) */
    bool can_capture;
    void *recorded; /* owned through the backend; NULL: not recorded */
} gr_segment;

struct gr_plan {
    gr_arena *arena;       /* owned */
    const gr_graph *graph; /* borrowed */
    gr_device *device;     /* borrowed */

    gr_node **order; /* graph->n_nodes of them */
    gr_entry *entries;
    int n_entries;
    gr_layout layout;
    size_t tune_bytes; /* with gr_plan_config.reserve: the arena has at least so much */
    gr_plan_feed *feeds;
    int n_feeds;
    int *feed_of;         /* by id of a root value: its feed; -1: none */
    gr_segment *segments; /* none where the device cannot capture */
    int n_segments;
    bool forks;         /* some nodes run on another stream than compute */
    gr_streams streams; /* then */
    void **events;      /* owned through the backend: of the streams, then one per stream's forks */
    int n_events;

    gr_bases bases;
    bool is_bound;
    long n_runs; /* since the last bind */
};

/* Context for messages about a node: "matmul (node 7, mlp.c:12)". Returns `st`. */
gr_status gr_plan_wrap(gr_status st, const gr_node *n);

/* Writes the inputs' addresses where they are used. */
gr_status gr_plan_place_inputs(gr_plan *p, void *const *inputs) GR_MUST_CHECK;
/* Runs entries [first, end) one by one. */
gr_status gr_plan_run_entries(gr_plan *p, const gr_run *r, int first, int end) GR_MUST_CHECK;

/* Ends what was recorded; the next run is a plain first one again. */
void gr_plan_drop_recorded(gr_plan *p);

#ifdef __cplusplus
}
#endif

#endif
