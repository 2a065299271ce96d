/*
 * Nearest neighbours on the CPU, and the list of kernels. Slices take points. A slice turns
 * the coordinates of a sample into columns once, in its own workspace, and keeps the k
 * nearest while it walks the others in stretches: no matrix of pairs exists.
 */
#include "base/alloc.h"
#include "base/half.h"
#include "base/size.h"
#include "op/isa.h"
#include "op/knn/knn_kernels.h"
#include "op/topk/best.h"

#include <math.h>
#include <string.h>

#define SLICE_MIN (16 << 10) /* pairs that are worth a thread */

typedef struct plan {
    int n_threads;
} plan;

static gr_status prepare(gr_prepare *p)
{
    plan *made = gr_calloc(1, sizeof(*made));

    if (!made)
        return GR_ERR_NOMEM;
    made->n_threads = p->n_threads;
    p->data = made;
    return GR_OK;
}

static size_t slice_bytes(const gr_node *n)
{
    const gr_knn_config *at = n->attr;
    const gr_shape *s = &n->src[0]->shape;

    return gr_best_bytes(at->k) + gr_round_up((size_t)(s->dim[1] * s->dim[2]) * sizeof(float), 64);
}

static size_t workspace(const gr_node *n, const void *data)
{
    const plan *p = data;

    return slice_bytes(n) * (size_t)p->n_threads;
}

typedef struct job {
    const gr_launch *launch;
    gr_knn_fn *span;
    const gr_best_isa *isa;
} job;

static void turn_sample(const gr_launch *l, int64_t sample, float *cols)
{
    const gr_value *x = l->node->src[0];
    int64_t n = x->shape.dim[1], d = x->shape.dim[2];

    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < d; c++) {
            int64_t from = (sample * n + i) * d + c;

            if (x->dtype == GR_F32)
                cols[c * n + i] = ((const float *)l->src[0])[from];
            else if (x->dtype == GR_BF16)
                cols[c * n + i] = gr_bf16_to_f32(((const uint16_t *)l->src[0])[from]);
            else
                cols[c * n + i] = gr_f16_to_f32(((const uint16_t *)l->src[0])[from]);
        }
}

/* Offers points [from, to) of the stretch whose keys are given. */
static void offer(const job *j, gr_best *b, const gr_knn_span *s, const int32_t *key,
                  const uint8_t *mask, int64_t from, int64_t to)
{
    if (from < to)
        j->isa->take(b, key + from, mask ? mask + s->at + from : NULL, s->at + from, to - from);
}

/* The k nearest of point i of a sample; mask NULL: all are points. */
static void find(const job *j, gr_knn_span *s, int64_t i, const uint8_t *mask, gr_best *b)
{
    int32_t key[GR_KNN_SPAN];
    float d[GR_KNN_SPAN];

    s->p = s->cols + i;
    for (s->at = 0; s->at < s->l && (!mask || mask[i]); s->at += GR_KNN_SPAN) {
        int64_t self = i - s->at;

        s->n = s->l - s->at < GR_KNN_SPAN ? s->l - s->at : GR_KNN_SPAN;
        j->span(s, d);
        j->isa->keys(key, d, GR_F32, s->n, 0);
        self = self < 0 || self > s->n ? s->n : self;
        offer(j, b, s, key, mask, 0, self);
        offer(j, b, s, key, mask, self + 1, s->n);
    }
    j->isa->finish(b);
}

/* The distance out of its key: one that is not negative is its own bits. */
static float distance_of(int32_t key)
{
    float d;

    memcpy(&d, &key, sizeof(d));
    return d;
}

static void write_out(const gr_launch *l, const gr_knn_span *s, int64_t sample, int64_t i,
                      const gr_best *b)
{
    const gr_knn_config *at = l->node->attr;
    int64_t row = (sample * s->l + i) * at->k, base = at->in_batch ? sample * s->l : 0;

    for (int64_t k = 0; k < at->k; k++) {
        bool is_missing = k >= b->n;

        ((int32_t *)l->out[0])[row + k] = (int32_t)(base + (is_missing ? i : b->at[k]));
        ((float *)l->out[1])[row + k] = is_missing ? INFINITY : distance_of(b->key[k]);
    }
}

static void run_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gr_launch *l = j->launch;
    const gr_knn_config *at = l->node->attr;
    const gr_shape *shape = &l->node->src[0]->shape;
    char *work = (char *)l->work + (size_t)slice * slice_bytes(l->node);
    float *cols = (void *)(work + gr_best_bytes(at->k));
    gr_knn_span s = { .cols = cols, .l = shape->dim[1], .d = shape->dim[2] };
    int64_t lo, hi, have = -1;

    gr_pool_cut(shape->dim[0] * s.l, 1, slice, n_slices, &lo, &hi);
    for (int64_t u = lo; u < hi; u++) {
        int64_t sample = u / s.l, i = u % s.l;
        const uint8_t *mask = l->node->n_src < 2 ? NULL : (const uint8_t *)l->src[1] + sample * s.l;
        gr_best b;

        if (sample != have)
            turn_sample(l, sample, cols);
        have = sample;
        gr_best_start(&b, at->k, work);
        find(j, &s, i, mask, &b);
        write_out(l, &s, sample, i, &b);
    }
}

static gr_status run_with(const gr_launch *l, gr_knn_fn *span, const gr_best_isa *isa)
{
    const plan *p = l->data;
    const gr_shape *s = &l->node->src[0]->shape;
    job j = { .launch = l, .span = span, .isa = isa };
    int n_slices = s->dim[0] * s->dim[1] * s->dim[1] < SLICE_MIN ? 1 : gr_pool_size(l->pool);

    gr_pool_run(l->pool, run_slice, &j, n_slices < p->n_threads ? n_slices : p->n_threads);
    return GR_OK;
}

static gr_status avx512_run(const gr_launch *l)
{
    return run_with(l, gr_knn_avx512, &gr_best_avx512);
}

static gr_status avx2_run(const gr_launch *l)
{
    return run_with(l, gr_knn_avx2, &gr_best_avx2);
}

const gr_kernel gr_knn_cpu[] = {
    {
        .name = "avx512",
        .reject = gr_no_avx512_or_f64,
        .prepare = prepare,
        .workspace = workspace,
        .run = avx512_run,
        .release = gr_free,
    },
    {
        .name = "avx2",
        .reject = gr_no_avx2_or_f64,
        .prepare = prepare,
        .workspace = workspace,
        .run = avx2_run,
        .release = gr_free,
    },
    { .name = "reference", .run = gr_knn_ref_run },
    { .name = NULL },
};
