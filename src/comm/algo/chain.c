/*
 * All-reduce along the ranks: each adds its elements to the sum of all lower ranks.
 *
 *              rank 0             rank 1                    rank 2
 *   piece i    a0            ->   a0+a1                ->   (a0+a1)+a2
 *              a             <-   a                    <-   a = the result
 *
 *   Pieces flow: while piece i goes up, piece i - 1 goes up one rank further and results
 *   come down. n bytes per link and direction at the same time, W - 1 pieces of delay each
 *   way. Between f16 and bf16 sums go up as f32, so twice the bytes.
 *   Good for long vectors on many ranks whose neighbours are near.
 */
#include "comm/algo/algo.h"

/* One piece on its way up: returns the step after which it may go down. */
static int up(const gr_algo_args *a, char *wide, size_t at, size_t n)
{
    size_t wide_bytes = gr_fold_wide_bytes(a->call->dtype);
    bool is_last = a->rank == a->size - 1;
    const void *src = (const char *)a->call->src + at * a->elem_bytes;
    void *dst = is_last ? (char *)a->call->dst + at * a->elem_bytes : wide;
    gr_fold f = gr_algo_fold(a, n);
    int lo = a->sched->n_steps, step;

    f.src = &src;
    f.n_src = 1;
    f.dst = &dst;
    f.n_dst = 1;
    f.is_wide = !is_last;
    if (a->rank > 0) {
        f.prefix = wide;
        gr_sched_recv(a->sched, a->rank - 1, wide, n * wide_bytes, GR_NONE);
    }
    step = gr_sched_fold(a->sched, &f, lo, a->sched->n_steps);
    if (!is_last)
        gr_sched_send(a->sched, a->rank + 1, wide, n * wide_bytes, step);
    return step;
}

static void down(const gr_algo_args *a, size_t at, size_t n, int need)
{
    char *dst = (char *)a->call->dst + at * a->elem_bytes;

    if (a->rank < a->size - 1)
        need = gr_sched_recv(a->sched, a->rank + 1, dst, n * a->elem_bytes, GR_NONE);
    if (a->rank > 0)
        gr_sched_send(a->sched, a->rank - 1, dst, n * a->elem_bytes, need);
}

gr_status gr_algo_sum_chain(const gr_algo_args *a)
{
    size_t n = a->call->n_elem, piece = gr_piece_elems(a);
    size_t wide_bytes = gr_fold_wide_bytes(a->call->dtype);
    char *wide = gr_sched_scratch(a->sched, n * wide_bytes);

    if (!wide)
        return GR_ERR_NOMEM;
    for (size_t at = 0; at < n; at += piece) {
        size_t m = gr_least(piece, n - at);

        down(a, at, m, up(a, wide + at * wide_bytes, at, m));
    }
    return GR_OK;
}
