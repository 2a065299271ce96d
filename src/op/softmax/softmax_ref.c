/* The references, in double. */
#include "op/element.h"
#include "op/softmax/softmax_kernels.h"

#include <math.h>

typedef struct line {
    const gr_launch *l;
    int64_t first, n, step;
} line;

static double at(const line *w, int s, int64_t i)
{
    return gr_element_f64(w->l->src[s], w->l->node->src[s]->dtype, w->first + i * w->step);
}

static void put(const line *w, int64_t i, double x)
{
    gr_element_put_f64(w->l->out[0], w->l->node->out[0].dtype, w->first + i * w->step, x);
}

/* -inf when all are, or there are none. */
static double lse_of(const line *w)
{
    double top = -(double)INFINITY, sum = 0;

    for (int64_t i = 0; i < w->n; i++)
        if (!(at(w, 0, i) <= top) && !isnan(top))
            top = at(w, 0, i);
    if (isinf(top) && top < 0)
        return top;
    for (int64_t i = 0; i < w->n; i++)
        sum += exp(at(w, 0, i) - top);
    return top + log(sum);
}

static void line_run(const line *w, int64_t place)
{
    const gr_op *op = w->l->node->op;
    double lse = lse_of(w);

    if (op == &gr_op_logsumexp) {
        gr_element_put_f64(w->l->out[0], w->l->node->out[0].dtype, place, lse);
        return;
    }
    for (int64_t i = 0; i < w->n; i++) {
        /* All -inf: none of them has a share. */
        double y = isinf(lse) && lse < 0 ? lse : at(w, 0, i) - lse;

        put(w, i, op == &gr_op_softmax ? exp(y) : y);
    }
}

static void line_grad(const line *w)
{
    bool is_log = w->l->node->op == &gr_op_log_softmax_grad;
    double sum = 0;

    for (int64_t i = 0; i < w->n; i++)
        sum += is_log ? at(w, 1, i) : at(w, 0, i) * at(w, 1, i);
    for (int64_t i = 0; i < w->n; i++) {
        double y = at(w, 0, i), dy = at(w, 1, i);

        put(w, i, is_log ? dy - exp(y) * sum : y * (dy - sum));
    }
}

static line line_at(const gr_launch *l, const gr_axis *x, int64_t i)
{
    return (line){ l, i / x->inner * x->n * x->inner + i % x->inner, x->n, x->inner };
}

static gr_axis axis_of(const gr_launch *l)
{
    return gr_axis_of(&l->node->src[0]->shape, ((const gr_softmax_attr *)l->node->attr)->axis);
}

gr_status gr_softmax_ref_run(const gr_launch *l)
{
    gr_axis x = axis_of(l);

    for (int64_t i = 0; i < x.outer * x.inner; i++) {
        line w = line_at(l, &x, i);

        line_run(&w, i);
    }
    return GR_OK;
}

gr_status gr_softmax_grad_ref_run(const gr_launch *l)
{
    gr_axis x = axis_of(l);

    for (int64_t i = 0; i < x.outer * x.inner; i++) {
        line w = line_at(l, &x, i);

        line_grad(&w);
    }
    return GR_OK;
}
