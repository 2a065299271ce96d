/*
 * Rotary on the CPU, by vectors and threads, and the list of kernels. Cosines and sines of all
 * positions are computed once per plan, in double; a slice takes whole tokens.
 */
#include "base/alloc.h"
#include "base/cpu.h"
#include "op/rotary/rotary_kernels.h"

#include <math.h>
#include <string.h>

#define SLICE_MIN (16 << 10) /* elements that are worth a thread */

/* Rows of cosines and of sines, by position. */
typedef struct tables {
    const gr_rotary_isa *isa;
    int64_t s;     /* numbers of a part */
    int64_t width; /* of a row */
    float *cos, *sin;
} tables;

typedef struct job {
    const tables *t;
    const gr_launch *l;
} job;

static void fill_row(const tables *t, const gr_rotary_attr *at, int64_t pos)
{
    float *c = t->cos + pos * t->width, *s = t->sin + pos * t->width;

    for (int64_t i = 0; i < t->s / 2; i++) {
        const double angle = gr_rotary_angle(at, pos, i, t->s);

        if (at->interleaved) {
            c[2 * i] = c[2 * i + 1] = (float)cos(angle);
            s[2 * i] = (float)-sin(angle);
            s[2 * i + 1] = (float)sin(angle);
        } else {
            c[i] = (float)cos(angle);
            s[i] = (float)sin(angle);
        }
    }
}

static void tables_destroy(void *data)
{
    tables *t = data;

    if (!t)
        return;
    gr_free(t->cos);
    gr_free(t);
}

static gr_status prepare(gr_prepare *p, const gr_rotary_isa *isa)
{
    const gr_rotary_attr *at = p->node->attr;
    tables *t = gr_calloc(1, sizeof(*t));
    size_t n;

    if (!t)
        return GR_ERR_NOMEM;
    t->isa = isa;
    t->s = p->node->src[0]->shape.dim[3] / at->axes;
    t->width = at->interleaved ? t->s : t->s / 2;
    n = (size_t)(at->max_position * t->width);
    t->cos = gr_calloc(2 * n + 1, sizeof(float));
    if (!t->cos) {
        gr_free(t);
        return GR_ERR_NOMEM;
    }
    t->sin = t->cos + n;
    for (int64_t pos = 0; pos < at->max_position; pos++)
        fill_row(t, at, pos);
    p->data = t;
    return GR_OK;
}

static void turn_token(const job *j, int64_t token)
{
    const gr_launch *l = j->l;
    const gr_rotary_attr *at = l->node->attr;
    const tables *t = j->t;
    const gr_shape *x = &l->node->src[0]->shape;
    const gr_dtype type = l->node->src[0]->dtype;
    const size_t d_bytes = (size_t)x->dim[3] * gr_dtype_bytes(type);
    const size_t from = (size_t)(token * x->dim[2]) * d_bytes, done = (size_t)at->heads * d_bytes;

    for (int axis = 0; axis < at->axes; axis++) {
        const int64_t row = gr_rotary_position(l, token, axis) * t->width;
        gr_rotary_part p = { .type = type, .s = t->s, .cos = t->cos + row, .sin = t->sin + row };

        for (int64_t h = 0; h < at->heads; h++) {
            const size_t part =
                from + (size_t)h * d_bytes + (size_t)axis * (d_bytes / (size_t)at->axes);

            p.x = (const char *)l->src[0] + part;
            p.y = (char *)l->out[0] + part;
            if (at->interleaved)
                t->isa->interleaved(&p);
            else
                t->isa->halves(&p);
        }
    }
    if (at->heads < x->dim[2])
        memcpy((char *)l->out[0] + from + done, (const char *)l->src[0] + from + done,
               (size_t)x->dim[2] * d_bytes - done);
}

static void run_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gr_shape *x = &j->l->node->src[0]->shape;
    int64_t lo, hi;

    gr_pool_cut(x->dim[0] * x->dim[1], 1, slice, n_slices, &lo, &hi);
    for (; lo < hi; lo++)
        turn_token(j, lo);
}

static gr_status run(const gr_launch *l)
{
    job j = { l->data, l };

    gr_pool_run(l->pool, run_slice, &j,
                gr_shape_count(&l->node->src[0]->shape) < SLICE_MIN ? 1 : gr_pool_size(l->pool));
    return GR_OK;
}

static const char *reject(const gr_node *n)
{
    return n->src[0]->dtype == GR_F64 ? "f64 is left to the reference" : NULL;
}

static const char *avx512_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? reject(n) : "needs AVX-512";
}

static gr_status avx512_prepare(gr_prepare *p)
{
    return prepare(p, &gr_rotary_avx512);
}

static const char *avx2_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? reject(n) : "needs AVX2, FMA and F16C";
}

static gr_status avx2_prepare(gr_prepare *p)
{
    return prepare(p, &gr_rotary_avx2);
}

const gr_kernel gr_rotary_cpu[] = {
    {
        .name = "avx512",
        .reject = avx512_reject,
        .prepare = avx512_prepare,
        .run = run,
        .release = tables_destroy,
    },
    {
        .name = "avx2",
        .reject = avx2_reject,
        .prepare = avx2_prepare,
        .run = run,
        .release = tables_destroy,
    },
    { .name = "reference", .run = gr_rotary_ref_run },
    { .name = NULL },
};
