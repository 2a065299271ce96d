/*
 * Algorithms: how ranks carry out a call with messages, each a function that writes this
 * rank's schedule (sched.h). They know no transport. Which one is taken when is the
 * business of choose.c.
 *
 * The order of sums is rank order, always: whoever combines elements has all terms, or the
 * sum of all lower ranks. That rules out the usual rings and trees for sums; what takes
 * their place costs the same bytes (see each file).
 */
#ifndef GR_COMM_ALGO_ALGO_H
#define GR_COMM_ALGO_ALGO_H

#include "comm/call.h"
#include "comm/sched.h"

/* Who is where. Ranks of a host follow each other when `hosts` is used. */
typedef struct gr_hosts {
    int n;            /* 1: all ranks on one host, or nothing is known */
    int here;         /* this rank's host */
    const int *first; /* n + 1 numbers: ranks first[h] .. first[h + 1] - 1 are on host h */
} gr_hosts;

typedef struct gr_algo_args {
    gr_sched *sched;
    const gr_pg_call *call; /* checked, src in place */
    int rank, size;
    gr_hosts hosts;
    size_t elem_bytes;
    size_t piece_bytes;
    bool has_patience; /* of the wire */
    int lane, n_lanes; /* which part of everything this schedule carries (lanes.h) */
} gr_algo_args;

typedef gr_status gr_algo_fn(const gr_algo_args *a);

/* sums.c */
gr_algo_fn gr_algo_sum_all, gr_algo_sum_shares, gr_algo_reduce_root, gr_algo_reduce_shares,
    gr_algo_reduce_scatter;
/* chain.c */
gr_algo_fn gr_algo_sum_chain;
/* hosts.c */
gr_algo_fn gr_algo_sum_hosts;
/* spread.c */
gr_algo_fn gr_algo_broadcast_tree, gr_algo_broadcast_chain, gr_algo_allgather_direct,
    gr_algo_allgather_ring, gr_algo_barrier;
/* blocks.c */
gr_algo_fn gr_algo_gather, gr_algo_scatter, gr_algo_alltoall, gr_algo_pair;

/* Pieces in which data flows through a schedule; GR_COMM_PIECE (bytes) says otherwise. */
#define GR_PIECE_BYTES ((size_t)256 << 10)
static inline size_t gr_piece_elems(const gr_algo_args *a)
{
    return a->piece_bytes / a->elem_bytes;
}

static inline size_t gr_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A fold without sources: fill in src and n_src, or prefix. */
gr_fold gr_algo_fold(const gr_algo_args *a, size_t n_elem);
/* [*lo, *hi) of n elements: share k of n_shares, cut at cache lines. */
void gr_share(size_t n, size_t elem_bytes, int k, int n_shares, size_t *lo, size_t *hi);
/* Of n elements from *first on those of this lane: returns their count, moves *first. */
size_t gr_lane_part(const gr_algo_args *a, size_t n, size_t *first);

#endif
