/*
 * What ranks do together between updates: one rank's state for all, rank 0's buffers for all,
 * and the check that parameters have not drifted apart.
 *
 * Everything goes over the host group, on a GPU through host memory. Ranks hold the same
 * table of variables (fingerprint.c saw to it), so the same bytes mean the same on each.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/outfile.h"
#include "step/private.h"

static size_t var_bytes(const gr_var *v)
{
    return (size_t)gr_shape_count(&v->shape) * gr_dtype_bytes(v->dtype);
}

static gr_status check_call(const gr_step *s, const char *what)
{
    GR_TRY(gr_step_check_idle(s, what));
    if (!s->can_train)
        return gr_fail(GR_ERR_ARG, "%s: plan a training shape first; ranks are compared then",
                       what);
    return s->device->ops->sync(s->device);
}

/* ---- one rank's state ---- */

static gr_status broadcast_bytes(gr_step *s, void *mem, size_t n_bytes, int root)
{
    gr_pg_call bytes = { .kind = GR_CALL_BROADCAST,
                         .dtype = GR_U8,
                         .dst = mem,
                         .n_elem = n_bytes,
                         .root = root,
                         .label = "state" };

    return gr_pg_run(s->c.pg, &bytes);
}

/* What is cut up between ranks stays where it is: only together they have all of it. */
static gr_status broadcast_whole_vars(gr_step *s, char *mem, int root)
{
    for (int i = 0; i < s->vars->n; i++) {
        const gr_var *v = s->vars->list[i];

        if (!v->part_of)
            GR_TRY(broadcast_bytes(s, mem + v->offset, var_bytes(v), root));
    }
    return GR_OK;
}

/* What is common is everybody's already. */
static gr_status broadcast_host(gr_step *s, void *mem, int root)
{
    int64_t numbers[3] = { s->n_updates, 0, s->saw_bad_data };
    size_t first = s->vars->n_common;

    memcpy(&numbers[1], &s->c.seed, sizeof(s->c.seed));
    GR_TRY(gr_step_shards(s)
               ? broadcast_whole_vars(s, mem, root)
               : broadcast_bytes(s, (char *)mem + first, gr_step_state_bytes(s) - first, root));
    GR_TRY(gr_pg_broadcast(s->c.pg, (gr_vec){ numbers, 3, GR_I64 }, root));
    s->n_updates = numbers[0];
    memcpy(&s->c.seed, &numbers[1], sizeof(s->c.seed));
    s->saw_bad_data = numbers[2] != 0;
    return GR_OK;
}

static gr_status broadcast_device(gr_step *s, int root)
{
    const gr_backend_ops *ops = s->device->ops;
    size_t n_bytes = gr_step_state_bytes(s);
    void *host;
    gr_status st;

    GR_TRY(ops->host_alloc(s->device, n_bytes, &host));
    st = ops->download(s->device, host, s->bases.state, n_bytes);
    if (st == GR_OK)
        st = ops->sync(s->device);
    if (st == GR_OK)
        st = broadcast_host(s, host, root);
    if (st == GR_OK)
        st = ops->upload(s->device, s->bases.state, host, n_bytes);
    if (st == GR_OK)
        st = ops->sync(s->device);
    ops->host_free(s->device, host);
    return st;
}

gr_status gr_step_broadcast(gr_step *s, int root)
{
    GR_TRY(gr_step_check_given(s));
    GR_TRY(check_call(s, "broadcast"));
    gr_step_put_back_params(s);
    if (root < 0 || root >= gr_pg_size(s->c.pg))
        return gr_fail(GR_ERR_ARG, "broadcast: there is no rank %d among %d", root,
                       gr_pg_size(s->c.pg));
    if (gr_pg_size(s->c.pg) == 1)
        return GR_OK;
    return s->device->ops->has_host_memory ? broadcast_host(s, s->bases.state, root)
                                           : broadcast_device(s, root);
}

/* ---- rank 0's buffers ---- */

/* Buffers of the state into `mem`, side by side, or back; returns their bytes in *total. */
static gr_status move_buffers(gr_step *s, char *mem, bool back, size_t *total)
{
    size_t at = 0;

    for (int i = 0; i < s->vars->n; i++) {
        const gr_var *v = s->vars->list[i];
        char *own = (char *)s->bases.state + v->offset;

        if (v->kind != GR_VAR_BUFFER)
            continue;
        if (mem && back)
            GR_TRY(s->device->ops->upload(s->device, own, mem + at, var_bytes(v)));
        else if (mem)
            GR_TRY(s->device->ops->download(s->device, mem + at, own, var_bytes(v)));
        at += var_bytes(v);
    }
    *total = at;
    return s->device->ops->sync(s->device);
}

static gr_status share_buffers(gr_step *s, char *mem, size_t n_bytes)
{
    gr_pg_call bytes = {
        .kind = GR_CALL_BROADCAST, .dtype = GR_U8, .dst = mem, .n_elem = n_bytes, .label = "buffers"
    };

    GR_TRY(move_buffers(s, mem, false, &n_bytes));
    GR_TRY(gr_pg_run(s->c.pg, &bytes));
    return move_buffers(s, mem, true, &n_bytes);
}

gr_status gr_step_sync_buffers(gr_step *s)
{
    const gr_backend_ops *ops;
    size_t n_bytes = 0;
    void *mem;
    gr_status st;

    GR_TRY(gr_step_check_given(s));
    ops = s->device->ops;
    if (gr_pg_size(s->c.pg) == 1)
        return GR_OK;
    GR_TRY(check_call(s, "sync_buffers"));
    GR_TRY(move_buffers(s, NULL, false, &n_bytes));
    if (n_bytes == 0)
        return GR_OK;
    GR_TRY(ops->host_alloc(s->device, n_bytes, &mem));
    st = share_buffers(s, mem, n_bytes);
    ops->host_free(s->device, mem);
    return st;
}

/* ---- drift ---- */

/* One checksum per variable, 0 for those that are no parameters, or common; `mem` has room for the
 * largest where the state cannot be read in place. */
static gr_status sum_params(gr_step *s, void *mem, int32_t *sums)
{
    for (int i = 0; i < s->vars->n; i++) {
        const gr_var *v = s->vars->list[i];
        const void *own = (const char *)s->bases.state + v->offset;
        uint32_t crc;

        sums[i] = 0;
        if (v->kind != GR_VAR_PARAM || v->common)
            continue;
        if (mem) {
            GR_TRY(s->device->ops->download(s->device, mem, own, var_bytes(v)));
            GR_TRY(s->device->ops->sync(s->device));
            own = mem;
        }
        crc = gr_crc32c(0, own, var_bytes(v));
        memcpy(&sums[i], &crc, sizeof(crc));
    }
    return GR_OK;
}

/* -1: all have the same. Else the rank that stands alone: rank 0 when all others agree
 * against it, else the first that differs from rank 0. `sum` is rank 0's of the variable,
 * those of the others follow n_vars apart. */
static int odd_rank(const int32_t *sum, int n_ranks, int n_vars)
{
    bool is_rank_0 = n_ranks > 2;
    int first = -1;

    for (int r = 1; r < n_ranks; r++) {
        if (first < 0 && sum[r * n_vars] != sum[0])
            first = r;
        is_rank_0 = is_rank_0 && sum[r * n_vars] != sum[0] && sum[r * n_vars] == sum[n_vars];
    }
    return is_rank_0 ? 0 : first;
}

static gr_status compare_sums(const gr_step *s, const int32_t *all)
{
    int n = s->vars->n;

    for (int i = 0; i < n; i++) {
        int odd = odd_rank(all + i, gr_pg_size(s->c.pg), n);
        int other = odd == 0 ? 1 : 0;

        if (odd >= 0)
            return gr_fail(GR_ERR_ARG,
                           "ranks have drifted apart: after step %lld parameter '%s' of rank %d "
                           "is not that of rank %d (checksums %08x and %08x); restart from a "
                           "checkpoint, and look for what changes one rank only",
                           (long long)s->n_updates, s->vars->list[i]->name, odd, other,
                           (unsigned)all[odd * n + i], (unsigned)all[other * n + i]);
    }
    return GR_OK;
}

static gr_status gather_sums(gr_step *s, int32_t *all, void *mem)
{
    int n = s->vars->n;
    int32_t *own = all + (size_t)gr_pg_rank(s->c.pg) * (size_t)n;
    gr_pg_call sums = { .kind = GR_CALL_ALLGATHER,
                        .dtype = GR_I32,
                        .dst = all,
                        .n_elem = (size_t)n,
                        .label = "checksums of parameters" };

    GR_TRY(sum_params(s, mem, own));
    GR_TRY(gr_pg_run(s->c.pg, &sums));
    return compare_sums(s, all);
}

static size_t largest_param(const gr_vars *vars)
{
    size_t most = 1;

    for (int i = 0; i < vars->n; i++)
        if (vars->list[i]->kind == GR_VAR_PARAM && var_bytes(vars->list[i]) > most)
            most = var_bytes(vars->list[i]);
    return most;
}

gr_status gr_step_check_drift(gr_step *s)
{
    const gr_backend_ops *ops = s->device->ops;
    size_t n_ranks = (size_t)gr_pg_size(s->c.pg);
    void *mem = NULL;
    int32_t *all;
    gr_status st = GR_OK;

    if (s->c.check_every == 0 || n_ranks == 1 || s->n_updates % s->c.check_every != 0)
        return GR_OK;
    all = gr_malloc(n_ranks * (size_t)s->vars->n * sizeof(*all));
    if (!all)
        return GR_ERR_NOMEM;
    if (!ops->has_host_memory)
        st = ops->host_alloc(s->device, largest_param(s->vars), &mem);
    if (st == GR_OK)
        st = gather_sums(s, all, mem);
    if (mem)
        ops->host_free(s->device, mem);
    gr_free(all);
    return st;
}
