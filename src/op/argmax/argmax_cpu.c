/*
 * arg_reduce and arg_scatter on the CPU by vectors and threads, and the lists of kernels. The
 * vector code finds places; values are then taken from there, whatever their type.
 */
#include "base/cpu.h"
#include "op/argmax/argmax_kernels.h"

#include <string.h>

#define SLICE_MIN  (4 << 10) /* elements that are worth a thread */
#define MAX_PLACES (1 << 24)

typedef struct job {
    const gr_launch *l;
    const gr_arg_isa *isa;
    gr_around x;
    int64_t lanes, n_units; /* units: rows, or groups of columns */
    size_t size;            /* of an element */
} job;

static int slices_for(const gr_launch *l, const gr_shape *s)
{
    return gr_shape_count(s) < SLICE_MIN ? 1 : gr_pool_size(l->pool);
}

/* Copies the elements that indices [lo, hi) point at. */
static void take(const job *j, int64_t lo, int64_t hi)
{
    const int64_t *index = j->l->out[1];
    const char *src = j->l->src[0];
    char *out = j->l->out[0];

    for (int64_t i = lo; i < hi; i++) {
        int64_t outer = j->x.inner == 1 ? i : i / j->x.inner;
        int64_t at = (outer * j->x.n + index[i]) * j->x.inner + (i - outer * j->x.inner);

        memcpy(out + (size_t)i * j->size, src + (size_t)at * j->size, j->size);
    }
}

static void reduce_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gr_arg_reduce_attr *a = j->l->node->attr;
    gr_arg_lines k = { .type = j->l->node->src[0]->dtype, .is_min = a->is_min, .n = j->x.n };
    int64_t per_outer = j->n_units / j->x.outer, lo, hi;

    gr_pool_cut(j->n_units, 1, slice, n_slices, &lo, &hi);
    k.step = j->x.inner;
    if (j->x.inner == 1) {
        k.src = (const char *)j->l->src[0] + (size_t)(lo * j->x.n) * j->size;
        k.index = (int64_t *)j->l->out[1] + lo;
        k.count = hi - lo;
        j->isa->rows(&k);
        take(j, lo, hi);
        return;
    }
    for (int64_t u = lo; u < hi; u++) {
        int64_t outer = u / per_outer, first = u % per_outer * j->lanes;
        int64_t left = j->x.inner - first, to = outer * j->x.inner + first;

        k.src =
            (const char *)j->l->src[0] + (size_t)(outer * j->x.n * j->x.inner + first) * j->size;
        k.index = (int64_t *)j->l->out[1] + to;
        k.count = left < j->lanes ? left : j->lanes;
        j->isa->columns(&k);
        take(j, to, to + k.count);
    }
}

static gr_status run_reduce(const gr_launch *l, const gr_arg_isa *isa, int64_t lanes)
{
    const gr_arg_reduce_attr *a = l->node->attr;
    const gr_value *x = l->node->src[0];
    job j = { .l = l, .isa = isa, .lanes = lanes, .size = gr_dtype_bytes(x->dtype) };

    j.x = gr_around_axis(&x->shape, a->axis);
    j.n_units = j.x.outer * (j.x.inner == 1 ? 1 : (j.x.inner + lanes - 1) / lanes);
    if (j.n_units > 0)
        gr_pool_run(l->pool, reduce_slice, &j, slices_for(l, &x->shape));
    return GR_OK;
}

/* ---- scatter ---- */

/* Whole outer indices: zeros, then what the indices point at. */
static void scatter_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const int64_t *index = j->l->src[0];
    const char *d = j->l->src[1];
    int64_t lo, hi;

    gr_pool_cut(j->x.outer, 1, slice, n_slices, &lo, &hi);
    for (int64_t o = lo; o < hi; o++) {
        char *out = (char *)j->l->out[0] + (size_t)(o * j->x.n * j->x.inner) * j->size;

        memset(out, 0, (size_t)(j->x.n * j->x.inner) * j->size);
        for (int64_t i = 0; i < j->x.inner; i++) {
            int64_t place = index[o * j->x.inner + i];

            if (place >= 0 && place < j->x.n)
                memcpy(out + (size_t)(place * j->x.inner + i) * j->size,
                       d + (size_t)(o * j->x.inner + i) * j->size, j->size);
        }
    }
}

static gr_status threads_scatter(const gr_launch *l)
{
    const gr_arg_scatter_attr *a = l->node->attr;
    const gr_value *dx = &l->node->out[0];
    job j = { .l = l, .size = gr_dtype_bytes(dx->dtype) };

    j.x = gr_around_axis(&dx->shape, a->axis);
    gr_pool_run(l->pool, scatter_slice, &j, slices_for(l, &dx->shape));
    return GR_OK;
}

/* ---- the lists ---- */

static const char *reject(const gr_node *n)
{
    const gr_arg_reduce_attr *a = n->attr;
    gr_dtype t = n->src[0]->dtype;

    if (t != GR_F32 && t != GR_BF16 && t != GR_F16)
        return "only f32, bf16 and f16";
    return n->src[0]->shape.dim[a->axis] > MAX_PLACES ? "more than 2^24 places" : NULL;
}

static const char *avx512_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? reject(n) : "needs AVX-512";
}

static const char *avx2_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? reject(n) : "needs AVX2 and F16C";
}

static gr_status avx512_run(const gr_launch *l)
{
    return run_reduce(l, &gr_arg_avx512, 16);
}

static gr_status avx2_run(const gr_launch *l)
{
    return run_reduce(l, &gr_arg_avx2, 8);
}

const gr_kernel gr_arg_reduce_cpu[] = {
    { .name = "avx512", .reject = avx512_reject, .run = avx512_run },
    { .name = "avx2", .reject = avx2_reject, .run = avx2_run },
    { .name = "reference", .run = gr_arg_reduce_ref_run },
    { .name = NULL },
};

const gr_kernel gr_arg_scatter_cpu[] = {
    { .name = "threads", .run = threads_scatter },
    { .name = "reference", .run = gr_arg_scatter_ref_run },
    { .name = NULL },
};
