/* Laying parts of parameters into a bucket and taking them out: copies, cut between threads. */
#include "op/collective/collective_cpu.h"
#include "op/collective/shard.h"

#include <string.h>

#define GRAIN 4096 /* elements: where work is cut */

typedef struct copies {
    const gr_launch *l;
    const gr_shard_attr *a;
} copies;

/* One slice's part of a copy of n elements. */
static void copy_slice(float *dst, const float *src, int64_t n, int slice, int n_slices)
{
    int64_t lo, hi;

    gr_pool_cut(n, GRAIN, slice, n_slices, &lo, &hi);
    if (lo < hi)
        memcpy(dst + lo, src + lo, (size_t)(hi - lo) * sizeof(float));
}

static void keep_slice(void *arg, int slice, int n_slices)
{
    const gr_launch *l = (const gr_launch *)arg;

    copy_slice((float *)l->out[0], (const float *)l->src[0], l->node->src[0]->shape.dim[0], slice,
               n_slices);
}

static void give_slice(void *arg, int slice, int n_slices)
{
    const copies *c = (const copies *)arg;

    for (int i = 0; i < c->a->n_items; i++) {
        const gr_shard_item *m = &c->a->item[i];

        if (m->part.n == 0)
            continue; /* it has no place in the own share */
        copy_slice((float *)c->l->out[0] + (m->at + m->part.first - c->a->first),
                   (const float *)c->l->src[i] + m->part.first, m->part.n, slice, n_slices);
    }
}

/* The own part is new already; what lies before and behind it comes from others. */
static void take_slice(void *arg, int slice, int n_slices)
{
    const copies *c = (const copies *)arg;

    for (int i = 0; i < c->a->n_items; i++) {
        const gr_shard_item *m = &c->a->item[i];
        const float *src = (const float *)c->l->src[0] + m->at;
        float *param = (float *)c->l->out[i];
        int64_t count = gr_shape_count(&c->l->node->out[i].shape);
        int64_t before = m->part.n > 0 ? m->part.first : 0, end = before + m->part.n;

        copy_slice(param, src, before, slice, n_slices);
        copy_slice(param + end, src + end, count - end, slice, n_slices);
    }
}

static gr_status run_keep(const gr_launch *l)
{
    gr_launch copy = *l;

    gr_pool_run(l->pool, keep_slice, &copy, gr_pool_size(l->pool));
    return GR_OK;
}

static gr_status run_give(const gr_launch *l)
{
    copies c = { l, (const gr_shard_attr *)l->node->attr };

    gr_pool_run(l->pool, give_slice, &c, gr_pool_size(l->pool));
    return GR_OK;
}

static gr_status run_take(const gr_launch *l)
{
    copies c = { l, (const gr_shard_attr *)l->node->attr };

    gr_pool_run(l->pool, take_slice, &c, gr_pool_size(l->pool));
    return GR_OK;
}

const gr_kernel gr_shard_keep_cpu[] = {
    { .name = "reference", .run = run_keep },
    { .name = NULL },
};

const gr_kernel gr_shard_give_cpu[] = {
    { .name = "reference", .run = run_give },
    { .name = NULL },
};

const gr_kernel gr_shard_take_cpu[] = {
    { .name = "reference", .run = run_take },
    { .name = NULL },
};
