/* The references, in double. */
#include "op/element.h"
#include "op/xent/xent_kernels.h"

#include <math.h>

/* What all rows share. */
typedef struct options {
    const void *w; /* NULL: 1 */
    gr_dtype type;
    double w_sum, share, rest; /* of the weights; e / C; 1 - e */
} options;

static double weight_of(const options *o, int64_t c)
{
    return o->w ? gr_element_f64(o->w, o->type, c) : 1;
}

static options options_of(const gr_launch *l, int n_fixed)
{
    const gr_xent_attr *at = (const gr_xent_attr *)l->node->attr;
    int64_t n = l->node->src[0]->shape.dim[1];
    options o = { .rest = 1 - at->smoothing, .share = at->smoothing / (double)n };

    if (l->node->n_src > n_fixed) {
        o.w = l->src[n_fixed];
        o.type = l->node->src[n_fixed]->dtype;
    }
    for (int64_t c = 0; c < n; c++)
        o.w_sum += weight_of(&o, c);
    return o;
}

static double lse_of(const gr_launch *l, int64_t row)
{
    gr_dtype t = l->node->src[0]->dtype;
    int64_t cols = l->node->src[0]->shape.dim[1];
    double top = -(double)INFINITY, sum = 0;

    for (int64_t c = 0; c < cols; c++) {
        double x = gr_element_f64(l->src[0], t, row * cols + c);

        if (!(x <= top) && !isnan(top))
            top = x;
    }
    for (int64_t c = 0; c < cols; c++)
        sum += exp(gr_element_f64(l->src[0], t, row * cols + c) - top);
    return top + log(sum);
}

static double loss_of(const gr_launch *l, const options *o, int64_t row, double lse, int64_t label)
{
    gr_dtype t = l->node->src[0]->dtype;
    int64_t cols = l->node->src[0]->shape.dim[1];
    double y = lse - gr_element_f64(l->src[0], t, row * cols + label);
    double dot = 0;

    y *= o->rest * weight_of(o, label);
    if (o->share == 0)
        return y;
    for (int64_t c = 0; c < cols; c++)
        dot += weight_of(o, c) * gr_element_f64(l->src[0], t, row * cols + c);
    return y + o->share * (o->w_sum * lse - dot);
}

gr_status gr_xent_ref_run(const gr_launch *l)
{
    gr_dtype to = l->node->out[0].dtype;
    options o = options_of(l, 2);

    for (int64_t r = 0; r < l->node->src[0]->shape.dim[0]; r++) {
        int64_t label = gr_xent_label(l, r);
        double lse = label == GR_XENT_IGNORED ? 0 : lse_of(l, r);

        gr_element_put_f64(l->out[1], to, r, lse);
        gr_element_put_f64(l->out[0], to, r, label < 0 ? 0 : loss_of(l, &o, r, lse, label));
    }
    return GR_OK;
}

gr_status gr_xent_grad_ref_run(const gr_launch *l)
{
    const gr_node *n = l->node;
    gr_dtype t = n->src[0]->dtype, t_row = n->src[2]->dtype, to = n->out[0].dtype;
    int64_t rows = n->src[0]->shape.dim[0], cols = n->src[0]->shape.dim[1];
    options o = options_of(l, 4);

    for (int64_t r = 0; r < rows; r++) {
        int64_t label = gr_xent_label(l, r);
        double lse = gr_element_f64(l->src[2], t_row, r);
        double d_loss = gr_element_f64(l->src[3], t_row, r);
        double hit = label < 0 ? 0 : o.rest * weight_of(&o, label);

        for (int64_t c = 0; c < cols; c++) {
            double p = exp(gr_element_f64(l->src[0], t, r * cols + c) - lse);
            double y = (hit + o.share * o.w_sum) * p - hit * (c == label);

            y -= o.share * weight_of(&o, c);
            gr_element_put_f64(l->out[0], to, r * cols + c, label < 0 ? 0 : y * d_loss);
        }
    }
    return GR_OK;
}
