/*
 * Synchronised batch norm on the CPU: a few numbers per channel, by one thread.
 *
 * sync_stats, of parts r with n_r > 0 values each:
 *     mean = sum of n_r mean_r / n        m2 = sum of m2_r + n_r (mean_r - mean)^2
 * in f64, in rank order, rounded at the end. So data whose sums are exact in f32 gives what
 * one rank with the joint batch gives.
 */
#include "op/norm/sync.h"

#include <string.h>

static double get(const void *mem, gr_dtype t, int64_t i)
{
    return t == GR_F64 ? ((const double *)mem)[i] : (double)((const float *)mem)[i];
}

static void put(void *mem, gr_dtype t, int64_t i, double x)
{
    if (t == GR_F64)
        ((double *)mem)[i] = x;
    else
        ((float *)mem)[i] = (float)x;
}

/* Row r: means, squared distances, count. */
static gr_status run_share_stats(const gr_launch *l)
{
    const gr_sync_attr *a = l->node->attr;
    size_t size = gr_dtype_bytes(l->node->out[0].dtype);
    size_t c = (size_t)l->node->src[0]->shape.dim[0], row = (2 * c + 1) * size;
    char *own = (char *)l->out[0] + (size_t)a->rank * row;

    memset(l->out[0], 0, (size_t)a->n_ranks * row);
    memcpy(own, l->src[0], c * size);
    memcpy(own + c * size, l->src[1], c * size);
    memcpy(own + 2 * c * size, l->src[2], size);
    return GR_OK;
}

typedef struct parts {
    const void *mem;
    gr_dtype t;
    int64_t n, c, row; /* parts, channels, elements of a row */
} parts;

static double count_of(const parts *p, int64_t r)
{
    return get(p->mem, p->t, r * p->row + 2 * p->c);
}

static void join_channel(const parts *p, int64_t k, double n, double *mean, double *m2)
{
    *mean = *m2 = 0;
    for (int64_t r = 0; r < p->n; r++)
        *mean += count_of(p, r) * get(p->mem, p->t, r * p->row + k);
    *mean = n > 0 ? *mean / n : 0;
    for (int64_t r = 0; r < p->n; r++) {
        double d = get(p->mem, p->t, r * p->row + k) - *mean;

        if (count_of(p, r) > 0)
            *m2 += get(p->mem, p->t, r * p->row + p->c + k) + count_of(p, r) * d * d;
    }
}

static gr_status run_sync_stats(const gr_launch *l)
{
    const gr_value *src = l->node->src[0];
    parts p = { l->src[0], src->dtype, src->shape.dim[0], (src->shape.dim[1] - 1) / 2,
                src->shape.dim[1] };
    double n = 0;

    for (int64_t r = 0; r < p.n; r++)
        n += count_of(&p, r);
    for (int64_t k = 0; k < p.c; k++) {
        double mean, m2;

        join_channel(&p, k, n, &mean, &m2);
        put(l->out[0], p.t, k, mean);
        put(l->out[1], p.t, k, m2);
    }
    put(l->out[2], p.t, 0, n);
    return GR_OK;
}

static gr_status run_share_sums(const gr_launch *l)
{
    size_t n_bytes = gr_value_bytes(l->node->src[0]);

    memcpy(l->out[0], l->src[0], n_bytes);
    memcpy((char *)l->out[0] + n_bytes, l->src[1], n_bytes);
    return GR_OK;
}

static gr_status run_sync_sums(const gr_launch *l)
{
    size_t n_bytes = gr_value_bytes(&l->node->out[0]);

    memcpy(l->out[0], l->src[0], n_bytes);
    memcpy(l->out[1], (const char *)l->src[0] + n_bytes, n_bytes);
    return GR_OK;
}

static const char *reject_open(const gr_node *n)
{
    return gr_sync_is_open(n) ? "its numbers have not been exchanged" : NULL;
}

const gr_kernel gr_share_stats_cpu[] = {
    { .name = "reference", .run = run_share_stats },
    { .name = NULL },
};

const gr_kernel gr_sync_stats_cpu[] = {
    { .name = "reference", .reject = reject_open, .run = run_sync_stats },
    { .name = NULL },
};

const gr_kernel gr_share_sums_cpu[] = {
    { .name = "reference", .run = run_share_sums },
    { .name = NULL },
};

const gr_kernel gr_sync_sums_cpu[] = {
    { .name = "reference", .reject = reject_open, .run = run_sync_sums },
    { .name = NULL },
};
