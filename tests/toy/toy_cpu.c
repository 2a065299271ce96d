/* The toy's CPU kernels. */
#include "toy/toy.h"

#include "base/alloc.h"
#include "op/element.h"
#include "toy/toy_body.h"

#include <string.h>

int toy_n_columns, toy_n_rows;

typedef struct toy_plan {
    toy_args args;
    bool by_rows;
} toy_plan;

static const char *fast_reject(const gr_node *n)
{
    return n->src[1]->dtype == GR_F64 ? "f64 is left to the reference" : NULL;
}

static gr_status fast_variants(const gr_prepare *p, gr_text *out)
{
    (void)p;
    gr_text_add(out, "columns\nrows\n");
    return gr_text_status(out);
}

static gr_status fast_prepare(gr_prepare *p)
{
    toy_plan *t;

    if (p->variant && strcmp(p->variant, "columns") != 0 && strcmp(p->variant, "rows") != 0)
        return gr_decline(p, "there is no variant '%s'", p->variant);
    t = gr_calloc(1, sizeof(*t));
    if (!t)
        return GR_ERR_NOMEM;
    toy_args_init(&t->args, p->node);
    t->by_rows = p->variant && strcmp(p->variant, "rows") == 0;
    toy_n_rows += t->by_rows;
    toy_n_columns += !t->by_rows;
    p->data = t;
    return GR_OK;
}

static gr_status picky_prepare(gr_prepare *p)
{
    int64_t rows = p->node->src[0]->shape.dim[0];

    if (rows % 2 != 0)
        return gr_decline(p, "takes an even number of rows, not %lld", (long long)rows);
    return fast_prepare(p);
}

static void run_rows(const toy_args *a)
{
    for (int e = 0; e < a->n_ends; e++)
        if (a->ends[e].fate != GR_FATE_STORE)
            memset(a->ends[e].out, 0, (size_t)a->cols * sizeof(float));
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++) {
            float *sums[GR_FUSION_MAX_ENDS];

            for (int e = 0; e < a->n_ends; e++)
                sums[e] = a->ends[e].out + j;
            toy_element(a, i, j, sums);
        }
    for (int e = 0; e < a->n_ends; e++)
        for (int64_t j = 0; a->ends[e].fate != GR_FATE_STORE && j < a->cols; j++)
            toy_finish(a, &a->ends[e], j, a->ends[e].out[j]);
}

static gr_status fast_run(const gr_launch *l)
{
    const toy_plan *t = l->data;
    toy_args a = t->args;

    toy_args_place(&a, l);
    if (t->by_rows)
        run_rows(&a);
    for (int64_t j = 0; !t->by_rows && j < a.cols; j++)
        toy_column(&a, j);
    return GR_OK;
}

static gr_status reference_run(const gr_launch *l)
{
    const gr_shape *s = &l->node->src[0]->shape;
    gr_dtype t = l->node->src[0]->dtype;

    for (int64_t i = 0; i < s->dim[0] * s->dim[1]; i++)
        gr_element_put_f64(l->out[0], t, i,
                           gr_element_f64(l->src[0], t, i) *
                               gr_element_f64(l->src[1], t, i % s->dim[1]));
    return GR_OK;
}

const gr_kernel toy_cpu[] = {
    {
        .name = "picky",
        .reject = fast_reject,
        .takes = toy_takes,
        .prepare = picky_prepare,
        .run = fast_run,
        .release = gr_free,
    },
    {
        .name = "fast",
        .reject = fast_reject,
        .takes = toy_takes,
        .variants = fast_variants,
        .prepare = fast_prepare,
        .run = fast_run,
        .release = gr_free,
    },
    { .name = "reference", .run = reference_run },
    { .name = NULL },
};
