/* Laying parts of parameters into a bucket and taking them out: copies, cut between threads. */
#include "op/collective/collective_cpu.h"
#include "op/collective/shard.h"
#include "op/collective/wire_kernels.h"
#include "op/isa.h"

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

typedef struct keep_job {
    const gr_launch *l;
    const gr_wire_loops *loops;
} keep_job;

static void keep_slice(void *arg, int slice, int n_slices)
{
    const keep_job *j = (const keep_job *)arg;
    const gr_value *share = j->l->node->src[0];
    int64_t lo, hi, n = share->shape.dim[0];
    float *dst = (float *)j->l->out[0];

    if (share->dtype == GR_F32) {
        copy_slice(dst, (const float *)j->l->src[0], n, slice, n_slices);
        return;
    }
    gr_pool_cut(n, GRAIN, slice, n_slices, &lo, &hi);
    j->loops->unpack[share->dtype == GR_F16](dst + lo, (const uint16_t *)j->l->src[0] + lo,
                                             (size_t)(hi - lo));
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

static gr_status run_keep(const gr_launch *l, const gr_wire_loops *loops)
{
    keep_job j = { l, loops };

    gr_pool_run(l->pool, keep_slice, &j, gr_pool_size(l->pool));
    return GR_OK;
}

static gr_status run_keep_avx2(const gr_launch *l)
{
    return run_keep(l, &gr_wire_loops_avx2);
}

static gr_status run_keep_ref(const gr_launch *l)
{
    return run_keep(l, &gr_wire_loops_ref);
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
    { .name = "avx2", .reject = gr_no_avx2, .run = run_keep_avx2 },
    { .name = "reference", .run = run_keep_ref },
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
