/* The short forms of calls. */
#include "comm/pg.h"

gr_status gr_pg_allreduce(gr_pg *pg, gr_vec v, gr_reduce op)
{
    gr_pg_call c = {
        .kind = GR_CALL_ALLREDUCE, .dtype = v.dtype, .dst = v.mem, .n_elem = v.n_elem, .op = op
    };

    return gr_pg_run(pg, &c);
}

gr_status gr_pg_reduce(gr_pg *pg, gr_vec v, gr_reduce op, int root)
{
    gr_pg_call c = { .kind = GR_CALL_REDUCE,
                     .dtype = v.dtype,
                     .dst = v.mem,
                     .n_elem = v.n_elem,
                     .op = op,
                     .root = root };

    return gr_pg_run(pg, &c);
}

/* Elements per rank; what does not divide is refused where the call is made. */
static gr_status per_rank(const gr_pg *pg, size_t n_elem, size_t *n)
{
    size_t size = (size_t)gr_pg_size(pg);

    if (n_elem % size != 0)
        return gr_fail(GR_ERR_ARG, "%zu elements cannot be cut into %zu equal blocks", n_elem,
                       size);
    *n = n_elem / size;
    return GR_OK;
}

gr_status gr_pg_reduce_scatter(gr_pg *pg, void *dst, gr_vec src, gr_reduce op)
{
    gr_pg_call c = {
        .kind = GR_CALL_REDUCE_SCATTER, .dtype = src.dtype, .src = src.mem, .dst = dst, .op = op
    };

    GR_TRY(per_rank(pg, src.n_elem, &c.n_elem));
    return gr_pg_run(pg, &c);
}

gr_status gr_pg_allgather(gr_pg *pg, void *dst, gr_vec src)
{
    gr_pg_call c = { .kind = GR_CALL_ALLGATHER,
                     .dtype = src.dtype,
                     .src = src.mem,
                     .dst = dst,
                     .n_elem = src.n_elem };

    return gr_pg_run(pg, &c);
}

gr_status gr_pg_broadcast(gr_pg *pg, gr_vec v, int root)
{
    gr_pg_call c = {
        .kind = GR_CALL_BROADCAST, .dtype = v.dtype, .dst = v.mem, .n_elem = v.n_elem, .root = root
    };

    return gr_pg_run(pg, &c);
}

gr_status gr_pg_gather(gr_pg *pg, void *dst, gr_vec src, int root)
{
    gr_pg_call c = { .kind = GR_CALL_GATHER,
                     .dtype = src.dtype,
                     .src = src.mem,
                     .dst = dst,
                     .n_elem = src.n_elem,
                     .root = root };

    return gr_pg_run(pg, &c);
}

gr_status gr_pg_scatter(gr_pg *pg, gr_vec dst, const void *src, int root)
{
    gr_pg_call c = { .kind = GR_CALL_SCATTER,
                     .dtype = dst.dtype,
                     .src = src,
                     .dst = dst.mem,
                     .n_elem = dst.n_elem,
                     .root = root };

    return gr_pg_run(pg, &c);
}

gr_status gr_pg_alltoall(gr_pg *pg, void *dst, gr_vec src)
{
    gr_pg_call c = { .kind = GR_CALL_ALLTOALL, .dtype = src.dtype, .src = src.mem, .dst = dst };

    GR_TRY(per_rank(pg, src.n_elem, &c.n_elem));
    return gr_pg_run(pg, &c);
}

gr_status gr_pg_barrier(gr_pg *pg)
{
    gr_pg_call c = { .kind = GR_CALL_BARRIER };

    return gr_pg_run(pg, &c);
}

gr_status gr_pg_send(gr_pg *pg, gr_vec v, int to)
{
    gr_pg_call c = {
        .kind = GR_CALL_SEND, .dtype = v.dtype, .src = v.mem, .n_elem = v.n_elem, .root = to
    };

    return gr_pg_run(pg, &c);
}

gr_status gr_pg_recv(gr_pg *pg, gr_vec v, int from)
{
    gr_pg_call c = {
        .kind = GR_CALL_RECV, .dtype = v.dtype, .dst = v.mem, .n_elem = v.n_elem, .root = from
    };

    return gr_pg_run(pg, &c);
}
