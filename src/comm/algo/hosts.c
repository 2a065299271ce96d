/*
 * All-reduce over several hosts: sums flow from host to host, and inside a host everybody
 * takes a share, so that every byte crosses the network once up and once down.
 *
 *     host 0: ranks 0 1                     host 1: ranks 2 3
 *     rank 0 gets share a of rank 1         rank 2 gets share a of rank 3
 *     a0+a1 ---------- network ---------->  ((a0+a1)+a2)+a3 = a
 *     a     <--------- network -----------  a
 *     rank 0 gives a to rank 1              rank 2 gives a to rank 3
 *     ranks 1 and 3 do the same with share b, at the same time
 *
 *   The sum of the lower hosts comes in before this host's own terms are added, in rank
 *   order: the bits are those of every other algorithm. Needs ranks in the order of hosts.
 *   There are as many shares as the smallest host has ranks.
 *   n bytes in each direction between neighbouring hosts, H - 1 pieces of delay each way.
 */
#include "comm/algo/algo.h"

#include "base/alloc.h"

typedef struct hosts {
    const gr_algo_args *a;
    int n_shares;
    int first, n_local, local; /* this host's ranks, and which of them this one is */
    const void **src;          /* one address per local rank */
    char *room;                /* raw elements of the other local ranks, then sums */
    size_t stride;             /* of the raw elements */
} hosts;

static int smallest_host(const gr_hosts *h)
{
    int least = h->first[1] - h->first[0];

    for (int i = 1; i < h->n; i++)
        if (h->first[i + 1] - h->first[i] < least)
            least = h->first[i + 1] - h->first[i];
    return least;
}

/* This rank carries share `local`: piece [at, at + n) of it. Returns the step after which
 * the result lies in dst. */
static int carry_up(const hosts *h, size_t first, size_t at, size_t n)
{
    const gr_algo_args *a = h->a;
    size_t wide_bytes = gr_fold_wide_bytes(a->call->dtype);
    char *wide = h->room + (size_t)h->n_local * h->stride + at * wide_bytes;
    char *dst = (char *)a->call->dst + (first + at) * a->elem_bytes;
    bool is_last = a->hosts.here == a->hosts.n - 1;
    void *to = is_last ? dst : wide;
    int lo = a->sched->n_steps, step;
    gr_fold f = gr_algo_fold(a, n);

    for (int i = 0; i < h->n_local; i++) {
        char *raw = h->room + (size_t)i * h->stride + at * a->elem_bytes;

        h->src[i] = i == h->local ? (const char *)a->call->src + (first + at) * a->elem_bytes : raw;
        if (i != h->local)
            gr_sched_recv(a->sched, h->first + i, raw, n * a->elem_bytes, GR_NONE);
    }
    if (a->hosts.here > 0) {
        f.prefix = wide;
        gr_sched_recv(a->sched, a->hosts.first[a->hosts.here - 1] + h->local, wide, n * wide_bytes,
                      GR_NONE);
    }
    f.src = h->src;
    f.n_src = h->n_local;
    f.dst = &to;
    f.n_dst = 1;
    f.is_wide = !is_last;
    step = gr_sched_fold(a->sched, &f, lo, a->sched->n_steps);
    if (is_last)
        return step;
    gr_sched_send(a->sched, a->hosts.first[a->hosts.here + 1] + h->local, wide, n * wide_bytes,
                  step);
    return gr_sched_recv(a->sched, a->hosts.first[a->hosts.here + 1] + h->local, dst,
                         n * a->elem_bytes, GR_NONE);
}

static void carry_down(const hosts *h, size_t first, size_t at, size_t n, int need)
{
    const gr_algo_args *a = h->a;
    const char *dst = (const char *)a->call->dst + (first + at) * a->elem_bytes;

    if (a->hosts.here > 0)
        gr_sched_send(a->sched, a->hosts.first[a->hosts.here - 1] + h->local, dst,
                      n * a->elem_bytes, need);
    for (int i = 0; i < h->n_local; i++)
        if (i != h->local)
            gr_sched_send(a->sched, h->first + i, dst, n * a->elem_bytes, need);
}

static void carry(const hosts *h, size_t lo, size_t hi)
{
    size_t piece = gr_piece_elems(h->a);

    for (size_t at = 0; at < hi - lo; at += piece) {
        size_t n = gr_least(piece, hi - lo - at);

        carry_down(h, lo, at, n, carry_up(h, lo, at, n));
    }
}

/* Another rank of this host carries the share: raw elements out, the result back. */
static void hand_in(const hosts *h, int carrier, size_t lo, size_t hi)
{
    const gr_algo_args *a = h->a;
    size_t piece = gr_piece_elems(a);

    for (size_t at = lo; at < hi; at += piece) {
        size_t n_bytes = gr_least(piece, hi - at) * a->elem_bytes;

        gr_sched_send(a->sched, carrier, (const char *)a->call->src + at * a->elem_bytes, n_bytes,
                      GR_NONE);
        gr_sched_recv(a->sched, carrier, (char *)a->call->dst + at * a->elem_bytes, n_bytes,
                      GR_NONE);
    }
}

gr_status gr_algo_sum_hosts(const gr_algo_args *a)
{
    hosts h = { .a = a, .n_shares = smallest_host(&a->hosts) };
    size_t wide_bytes = gr_fold_wide_bytes(a->call->dtype), n = a->call->n_elem, lo, hi;

    h.first = a->hosts.first[a->hosts.here];
    h.n_local = a->hosts.first[a->hosts.here + 1] - h.first;
    h.local = a->rank - h.first;
    gr_share(n, a->elem_bytes, h.local < h.n_shares ? h.local : 0, h.n_shares, &lo, &hi);
    h.stride = ((hi - lo) * a->elem_bytes + 63) & ~(size_t)63;
    h.room = gr_sched_scratch(a->sched, (size_t)h.n_local * h.stride + (hi - lo) * wide_bytes);
    h.src = (const void **)gr_calloc((size_t)h.n_local, sizeof(*h.src));
    if (!h.room || !h.src) {
        gr_free(h.src);
        return GR_ERR_NOMEM;
    }
    for (int k = 0; k < h.n_shares; k++) {
        gr_share(n, a->elem_bytes, k, h.n_shares, &lo, &hi);
        if (k == h.local)
            carry(&h, lo, hi);
        else
            hand_in(&h, h.first + k, lo, hi);
    }
    gr_free(h.src);
    return GR_OK;
}
