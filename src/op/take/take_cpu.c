/*
 * take and take_grad on the CPU, and their lists of kernels. Slices take stretches of the
 * outer dimensions; where there are few of those, stretches of the inner ones.
 */
#include "base/half.h"
#include "op/take/take_kernels.h"

#include <string.h>

#define SLICE_MIN (8 << 10) /* elements that are worth a thread */
#define COLS_CUT  16        /* a cache line of f32 */

typedef struct job {
    gr_taken t;
    size_t bytes; /* of an element */
    bool by_cols;
} job;

/* What a slice does: outer [o_lo, o_hi), inner [c_lo, c_hi). */
typedef struct part {
    int64_t o_lo, o_hi, c_lo, c_hi;
} part;

static part cut(const job *j, int slice, int n_slices)
{
    part p = { 0, j->t.outer, 0, j->t.inner };

    if (j->by_cols)
        gr_pool_cut(j->t.inner, COLS_CUT, slice, n_slices, &p.c_lo, &p.c_hi);
    else
        gr_pool_cut(j->t.outer, 1, slice, n_slices, &p.o_lo, &p.o_hi);
    return p;
}

static void run(const gr_launch *l, gr_pool_fn *fn, job *j)
{
    int n = j->t.outer * (j->t.m + j->t.n) * j->t.inner < SLICE_MIN ? 1 : gr_pool_size(l->pool);

    j->by_cols = j->t.outer < 2 * n && j->t.inner >= (int64_t)COLS_CUT * n;
    gr_pool_run(l->pool, fn, j, n);
}

/* ---- take ---- */

static void take_rows(const job *j, const part *p, int64_t o)
{
    const gr_taken *t = &j->t;
    size_t n_bytes = (size_t)(p->c_hi - p->c_lo) * j->bytes;

    for (int64_t i = 0; i < t->m; i++) {
        int64_t from = gr_taken_at(t, o, i, 0);
        size_t to = (size_t)((o * t->m + i) * t->inner + p->c_lo) * j->bytes;
        size_t at = (size_t)((o * t->n + from) * t->inner + p->c_lo) * j->bytes;

        if (from < 0)
            memset((char *)t->launch->out[0] + to, 0, n_bytes);
        else
            memcpy((char *)t->launch->out[0] + to, (const char *)t->launch->src[0] + at, n_bytes);
    }
}

static void take_each(const job *j, const part *p, int64_t o)
{
    const gr_taken *t = &j->t;

    for (int64_t i = 0; i < t->m; i++)
        for (int64_t c = p->c_lo; c < p->c_hi; c++) {
            int64_t from = gr_taken_at(t, o, i, c);
            size_t to = (size_t)((o * t->m + i) * t->inner + c) * j->bytes;
            size_t at = (size_t)((o * t->n + (from < 0 ? 0 : from)) * t->inner + c) * j->bytes;
            const char *x = (const char *)t->launch->src[0] + at;
            char *y = (char *)t->launch->out[0] + to;

            if (from < 0)
                memset(y, 0, j->bytes);
            else if (j->bytes == 4)
                memcpy(y, x, 4);
            else
                memcpy(y, x, j->bytes);
        }
}

static void take_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    part p = cut(j, slice, n_slices);

    for (int64_t o = p.o_lo; o < p.o_hi; o++)
        if (j->t.is_each)
            take_each(j, &p, o);
        else
            take_rows(j, &p, o);
}

static gr_status take_run(const gr_launch *l)
{
    job j = { .t = gr_taken_of(l, &l->node->src[0]->shape) };

    j.bytes = gr_dtype_bytes(l->node->out[0].dtype);
    run(l, take_slice, &j);
    return GR_OK;
}

/* ---- take_grad ---- */

static float element(const void *src, gr_dtype t, int64_t i)
{
    if (t == GR_F32)
        return ((const float *)src)[i];
    return t == GR_BF16 ? gr_bf16_to_f32(((const uint16_t *)src)[i])
                        : gr_f16_to_f32(((const uint16_t *)src)[i]);
}

static void grad_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gr_taken *t = &j->t;
    const gr_launch *l = t->launch;
    gr_dtype type = l->node->src[0]->dtype;
    part p = cut(j, slice, n_slices);

    for (int64_t o = p.o_lo; o < p.o_hi; o++) {
        float *out = (float *)l->out[0] + o * t->n * t->inner;

        for (int64_t i = 0; i < t->n; i++)
            memset(out + i * t->inner + p.c_lo, 0, (size_t)(p.c_hi - p.c_lo) * sizeof(float));
        for (int64_t i = 0; i < t->m; i++)
            for (int64_t c = p.c_lo; c < p.c_hi; c++) {
                int64_t to = gr_taken_at(t, o, i, c);

                if (to >= 0)
                    out[to * t->inner + c] +=
                        element(l->src[0], type, (o * t->m + i) * t->inner + c);
            }
    }
}

static gr_status grad_run(const gr_launch *l)
{
    job j = { .t = gr_taken_of(l, &l->node->out[0].shape) };

    run(l, grad_slice, &j);
    return GR_OK;
}

static const char *grad_reject(const gr_node *n)
{
    if (n->src[0]->dtype == GR_F64 || n->out[0].dtype != GR_F32)
        return "only f32, bf16 and f16 to f32";
    return NULL;
}

const gr_kernel gr_take_cpu[] = {
    { .name = "threads", .run = take_run },
    { .name = "reference", .run = gr_take_ref_run },
    { .name = NULL },
};

const gr_kernel gr_take_grad_cpu[] = {
    { .name = "threads", .reject = grad_reject, .run = grad_run },
    {
        .name = "reference",
        .workspace = gr_take_grad_ref_workspace,
        .run = gr_take_grad_ref_run,
    },
    { .name = NULL },
};
