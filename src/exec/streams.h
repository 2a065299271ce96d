/*
 * Which stream each node of a plan is queued on, and who waits for whom.
 *
 * Nodes are queued in the running order, each on its stream. One on a side stream forks off:
 * its stream first waits for everything that the compute stream was given before it. Whoever
 * needs what it did, on another stream, waits for it: there it joins. Where a segment ends
 * everything joins the compute stream, so that a segment can be recorded by itself, and a run
 * ends in one order.
 *
 *     compute    A   B ──────────► C   D ──► E (needs X)
 *                     \               /
 *     exchange         X ────────────
 */
#ifndef GR_EXEC_STREAMS_H
#define GR_EXEC_STREAMS_H

#include "backend/backend.h"
#include "exec/depend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_streams_input {
    int n_places;
    const gr_depend *before;
    const bool *runs;         /* by place: false for nodes that call no kernel */
    const gr_stream_kind *of; /* by place */
    const bool *ends;         /* by place: a segment ends behind it; so at the last that runs */
} gr_streams_input;

/* Some numbers for each place. */
typedef struct gr_place_lists {
    int *first; /* of place i: item[first[i]] .. item[first[i + 1] - 1] */
    int *item;
} gr_place_lists;

typedef struct gr_streams {
    const gr_stream_kind *of; /* the input's */
    bool *forks;              /* by place: the stream waits for all that was queued to compute */
    gr_place_lists waits;     /* events that its stream waits for before it */
    int *event;               /* by place: the one that is recorded behind it; -1: none */
    gr_place_lists joins;     /* events that compute waits for behind it */
    int n_events;
    /* By place: where what the node reads, writes and works in may be used anew: at that place
     * the compute stream has waited for it. Its own place for nodes on the compute stream. */
    int *until;
} gr_streams;

/* Everything in `out` is from `arena`. */
gr_status gr_streams_make(gr_arena *arena, const gr_streams_input *in,
                          gr_streams *out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
