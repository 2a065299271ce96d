/*
 * Calls in which every block has one sender and one receiver: gather, scatter, all-to-all,
 * send, receive. All blocks start at once, nearest rank first, and go one way: one step.
 */
#include "comm/algo/algo.h"

#include <string.h>

gr_status gr_algo_gather(const gr_algo_args *a)
{
    size_t own = gr_call_count(a->call, a->rank) * a->elem_bytes;

    if (a->rank != a->call->root) {
        gr_sched_send(a->sched, a->call->root, a->call->src, own, GR_NONE);
        return GR_OK;
    }
    for (int r = 0; r < a->size; r++) {
        char *to = (char *)a->call->dst + gr_call_first(a->call, r) * a->elem_bytes;

        if (r == a->rank)
            gr_sched_copy(a->sched, to, a->call->src, own, GR_NONE);
        else
            gr_sched_recv(a->sched, r, to, gr_call_count(a->call, r) * a->elem_bytes, GR_NONE);
    }
    return GR_OK;
}

gr_status gr_algo_scatter(const gr_algo_args *a)
{
    size_t own = gr_call_count(a->call, a->rank) * a->elem_bytes;

    if (a->rank != a->call->root) {
        gr_sched_recv(a->sched, a->call->root, a->call->dst, own, GR_NONE);
        return GR_OK;
    }
    for (int r = 0; r < a->size; r++) {
        const char *from = (const char *)a->call->src + gr_call_first(a->call, r) * a->elem_bytes;

        if (r == a->rank)
            gr_sched_copy(a->sched, a->call->dst, from, own, GR_NONE);
        else
            gr_sched_send(a->sched, r, from, gr_call_count(a->call, r) * a->elem_bytes, GR_NONE);
    }
    return GR_OK;
}

static size_t sent_to(const gr_pg_call *c, int k)
{
    return c->send_counts ? c->send_counts[k] : c->n_elem;
}

static size_t sent_before(const gr_pg_call *c, int k)
{
    size_t n = 0;

    for (int i = 0; i < k; i++)
        n += sent_to(c, i);
    return n;
}

/* In place, the blocks go out from a copy. */
gr_status gr_algo_alltoall(const gr_algo_args *a)
{
    const char *src = (const char *)a->call->src;

    if (a->call->src == a->call->dst) {
        size_t n_bytes = sent_before(a->call, a->size) * a->elem_bytes;
        char *copy = gr_sched_scratch(a->sched, n_bytes);

        if (!copy)
            return GR_ERR_NOMEM;
        if (n_bytes > 0)
            memcpy(copy, src, n_bytes);
        src = copy;
    }
    for (int k = 0; k < a->size; k++) {
        int to = (a->rank + k) % a->size, from = (a->rank + a->size - k) % a->size;
        const char *out = src + sent_before(a->call, to) * a->elem_bytes;
        char *in = (char *)a->call->dst + gr_call_first(a->call, from) * a->elem_bytes;
        size_t out_bytes = sent_to(a->call, to) * a->elem_bytes;

        if (k == 0) {
            gr_sched_copy(a->sched, in, out, out_bytes, GR_NONE);
            continue;
        }
        gr_sched_recv(a->sched, from, in, gr_call_count(a->call, from) * a->elem_bytes, GR_NONE);
        gr_sched_send(a->sched, to, out, out_bytes, GR_NONE);
    }
    return GR_OK;
}

gr_status gr_algo_pair(const gr_algo_args *a)
{
    size_t n_bytes = a->call->n_elem * a->elem_bytes;

    if (a->call->kind == GR_CALL_SEND)
        gr_sched_send(a->sched, a->call->root, a->call->src, n_bytes, GR_NONE);
    else
        gr_sched_recv(a->sched, a->call->root, a->call->dst, n_bytes, GR_NONE);
    return GR_OK;
}
