/*
 * One rank's data to all, everybody's to all, and the barrier.
 *
 * broadcast, tree: in step i the 2^i ranks that have it pass it on; log2 W steps.
 * broadcast, chain: root, root + 1, ... pass pieces along; n bytes per rank, W - 1 pieces
 *   of delay.
 * all-gather, direct: everybody to everybody, one step.
 * all-gather, ring: W - 1 times everybody passes on to the right what came from the left:
 *   only neighbours talk.
 * barrier: in step i rank r hears from r - 2^i; after log2 W steps from all, directly or
 *   not.
 */
#include "comm/algo/algo.h"

/* The rank that is k places after the root, and the reverse. */
static int from_root(const gr_algo_args *a, int k)
{
    return (a->call->root + k) % a->size;
}

gr_status gr_algo_broadcast_tree(const gr_algo_args *a)
{
    size_t n_bytes = a->call->n_elem * a->elem_bytes;
    int me = (a->rank + a->size - a->call->root) % a->size, need = GR_NONE, bit = 1;

    if (me == 0) {
        need = gr_sched_copy(a->sched, a->call->dst, a->call->src, n_bytes, GR_NONE);
        while (bit < a->size)
            bit *= 2;
    } else {
        while (!(me & bit))
            bit *= 2;
        need = gr_sched_recv(a->sched, from_root(a, me - bit), a->call->dst, n_bytes, GR_NONE);
    }
    if (me == 0)
        need = GR_NONE;
    for (bit /= 2; bit > 0; bit /= 2)
        if (me + bit < a->size)
            gr_sched_send(a->sched, from_root(a, me + bit), me == 0 ? a->call->src : a->call->dst,
                          n_bytes, need);
    return GR_OK;
}

gr_status gr_algo_broadcast_chain(const gr_algo_args *a)
{
    int me = (a->rank + a->size - a->call->root) % a->size;
    size_t first = 0, n = gr_lane_part(a, a->call->n_elem, &first), piece = gr_piece_elems(a);
    char *dst = (char *)a->call->dst + first * a->elem_bytes;
    const char *src = (const char *)a->call->src + first * a->elem_bytes;

    if (me == 0)
        gr_sched_copy(a->sched, dst, src, n * a->elem_bytes, GR_NONE);
    for (size_t at = 0; at < n; at += piece) {
        size_t n_bytes = gr_least(piece, n - at) * a->elem_bytes, from = at * a->elem_bytes;
        int need = GR_NONE;

        if (me > 0)
            need = gr_sched_recv(a->sched, from_root(a, me - 1), dst + from, n_bytes, GR_NONE);
        if (me + 1 < a->size)
            gr_sched_send(a->sched, from_root(a, me + 1), (me == 0 ? src : dst) + from, n_bytes,
                          need);
    }
    return GR_OK;
}

static char *block(const gr_algo_args *a, int k)
{
    return (char *)a->call->dst + gr_call_first(a->call, k) * a->elem_bytes;
}

static size_t block_bytes(const gr_algo_args *a, int k)
{
    return gr_call_count(a->call, k) * a->elem_bytes;
}

gr_status gr_algo_allgather_direct(const gr_algo_args *a)
{
    size_t at = 0, n_bytes = gr_lane_part(a, gr_call_count(a->call, a->rank), &at) * a->elem_bytes;
    const char *src = (const char *)a->call->src + at * a->elem_bytes;

    gr_sched_copy(a->sched, block(a, a->rank) + at * a->elem_bytes, src, n_bytes, GR_NONE);
    for (int k = 1; k < a->size; k++) {
        int to = (a->rank + k) % a->size, from = (a->rank + a->size - k) % a->size;
        size_t first = 0, n = gr_lane_part(a, gr_call_count(a->call, from), &first);

        gr_sched_recv(a->sched, from, block(a, from) + first * a->elem_bytes, n * a->elem_bytes,
                      GR_NONE);
        gr_sched_send(a->sched, to, src, n_bytes, GR_NONE);
    }
    return GR_OK;
}

gr_status gr_algo_allgather_ring(const gr_algo_args *a)
{
    int right = (a->rank + 1) % a->size, left = (a->rank + a->size - 1) % a->size;
    int need = GR_NONE;

    gr_sched_copy(a->sched, block(a, a->rank), a->call->src, block_bytes(a, a->rank), GR_NONE);
    for (int k = 0; k < a->size - 1; k++) {
        int out = (a->rank + a->size - k) % a->size, in = (out + a->size - 1) % a->size;

        gr_sched_send(a->sched, right, k == 0 ? a->call->src : block(a, out), block_bytes(a, out),
                      need);
        need = gr_sched_recv(a->sched, left, block(a, in), block_bytes(a, in), GR_NONE);
    }
    return GR_OK;
}

/* What is passed on counts only after everything that was heard before it. */
gr_status gr_algo_barrier(const gr_algo_args *a)
{
    int first = a->sched->n_steps;

    for (int step = 1; step < a->size; step *= 2) {
        int so_far = a->sched->n_steps;
        int out = gr_sched_send(a->sched, (a->rank + step) % a->size, NULL, 0, GR_NONE);

        gr_sched_need(a->sched, out, first, so_far);
        gr_sched_recv(a->sched, (a->rank + a->size - step) % a->size, NULL, 0, GR_NONE);
    }
    return GR_OK;
}
