/*
 * Softmax cross-entropy on the CPU, by vectors and threads, and the lists of kernels. A
 * slice takes whole rows, so bits do not depend on the thread count.
 */
#include "base/cpu.h"
#include "base/half.h"
#include "op/xent/xent_kernels.h"

#include <string.h>

#define SLICE_MIN (4 << 10) /* elements that are worth a thread */

typedef struct job {
    const gr_launch *launch;
    const gr_xent_isa *isa;
} job;

static gr_xent_row row_of(const gr_launch *l, int64_t r)
{
    const gr_value *x = l->node->src[0];
    int64_t n = x->shape.dim[1];
    const char *mem = l->src[0];

    return (gr_xent_row){ mem + (size_t)(r * n) * gr_dtype_bytes(x->dtype), x->dtype, n };
}

static float logit_at(const gr_xent_row *w, int64_t c)
{
    if (w->type == GR_F32)
        return ((const float *)w->x)[c];
    if (w->type == GR_BF16)
        return gr_bf16_to_f32(((const uint16_t *)w->x)[c]);
    return gr_f16_to_f32(((const uint16_t *)w->x)[c]);
}

/* What all rows share. */
typedef struct options {
    const float *w;     /* NULL: 1 */
    float w_sum, share; /* of the weights; e / C */
    float rest;         /* 1 - e */
} options;

static options options_of(const gr_launch *l, int n_fixed)
{
    const gr_xent_attr *at = (const gr_xent_attr *)l->node->attr;
    int64_t n = l->node->src[0]->shape.dim[1];
    options o = { .rest = (float)(1 - at->smoothing) };
    double sum = 0;

    if (l->node->n_src > n_fixed)
        o.w = (const float *)l->src[n_fixed];
    for (int64_t c = 0; o.w && c < n; c++)
        sum += (double)o.w[c];
    o.w_sum = o.w ? (float)sum : (float)n;
    o.share = n > 0 ? (float)(at->smoothing / (double)n) : 0;
    return o;
}

static void row_loss(const job *j, const options *o, int64_t row, float *loss, float *lse)
{
    gr_xent_row r = row_of(j->launch, row);
    int64_t label = gr_xent_label(j->launch, row);
    float dot = 0;

    *loss = *lse = 0;
    if (label == GR_XENT_IGNORED)
        return;
    *lse = j->isa->lse(&r, o->w, o->share != 0 ? &dot : NULL);
    if (label < 0)
        return;
    *loss = (*lse - logit_at(&r, label)) * (o->w ? o->rest * o->w[label] : o->rest);
    if (o->share != 0)
        *loss += o->share * (o->w_sum * *lse - dot);
}

static void loss_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gr_launch *l = j->launch;
    options o = options_of(l, 2);
    float *loss = l->out[0], *lse = l->out[1];
    int64_t lo, hi;

    gr_pool_cut(l->node->src[0]->shape.dim[0], 1, slice, n_slices, &lo, &hi);
    for (int64_t r = lo; r < hi; r++)
        row_loss(j, &o, r, &loss[r], &lse[r]);
}

static void grad_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gr_launch *l = j->launch;
    options o = options_of(l, 4);
    const float *lse = l->src[2], *d_loss = l->src[3];
    gr_dtype to = l->node->out[0].dtype;
    int64_t lo, hi;

    gr_pool_cut(l->node->src[0]->shape.dim[0], 1, slice, n_slices, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        gr_xent_row w = row_of(l, r);
        gr_xent_row_grad d = { .type = to, .lse = lse[r], .label = gr_xent_label(l, r), .w = o.w };
        float hit;

        d.dx = (char *)l->out[0] + (size_t)(r * w.n) * gr_dtype_bytes(to);
        if (d.label < 0) {
            memset(d.dx, 0, (size_t)w.n * gr_dtype_bytes(to));
            continue;
        }
        hit = o.w ? o.rest * o.w[d.label] : o.rest;
        d.whole = (hit + o.share * o.w_sum) * d_loss[r];
        d.hit = hit * d_loss[r];
        d.each = o.share * d_loss[r];
        j->isa->grad(&w, &d);
    }
}

static gr_status run_with(const gr_launch *l, const gr_xent_isa *isa, gr_pool_fn *fn)
{
    int64_t n = gr_shape_count(&l->node->src[0]->shape);
    job j = { l, isa };

    gr_pool_run(l->pool, fn, &j, n < SLICE_MIN ? 1 : gr_pool_size(l->pool));
    return GR_OK;
}

static const char *reject_f64(const gr_node *n)
{
    if (n->src[0]->dtype == GR_F64 || n->out[0].dtype == GR_F64)
        return "f64 is left to the reference";
    return NULL;
}

static const char *avx512_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? reject_f64(n) : "needs AVX-512";
}

static const char *avx2_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? reject_f64(n) : "needs AVX2 and F16C";
}

static gr_status avx512_run(const gr_launch *l)
{
    return run_with(l, &gr_xent_avx512, loss_slice);
}

static gr_status avx2_run(const gr_launch *l)
{
    return run_with(l, &gr_xent_avx2, loss_slice);
}

static gr_status avx512_grad_run(const gr_launch *l)
{
    return run_with(l, &gr_xent_avx512, grad_slice);
}

static gr_status avx2_grad_run(const gr_launch *l)
{
    return run_with(l, &gr_xent_avx2, grad_slice);
}

const gr_kernel gr_softmax_xent_cpu[] = {
    { .name = "avx512", .reject = avx512_reject, .run = avx512_run },
    { .name = "avx2", .reject = avx2_reject, .run = avx2_run },
    { .name = "reference", .run = gr_xent_ref_run },
    { .name = NULL },
};

const gr_kernel gr_softmax_xent_grad_cpu[] = {
    { .name = "avx512", .reject = avx512_reject, .run = avx512_grad_run },
    { .name = "avx2", .reject = avx2_reject, .run = avx2_grad_run },
    { .name = "reference", .run = gr_xent_grad_ref_run },
    { .name = NULL },
};
