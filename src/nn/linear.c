/*
 * Linear: y = x W^T + b, as torch.nn.Linear.
 *
 * W is stored [n_out, k], as PyTorch stores it. Weight and bias are made in this order:
 * random numbers are drawn in the order of the variable table.
 */
#include "gradus/nn.h"

#include "gradus/ops.h"
#include "graph/graph.h"

#include <inttypes.h>
#include <math.h>

static gr_value *make_param(gr_graph *g, const char *site, const char *name, gr_shape shape,
                            double bound)
{
    if (!name) { /* made by gr_arena_printf() */
        gr_graph_stick(g, GR_ERR_NOMEM);
        return NULL;
    }
    return gr_param_at(site, g, name, shape, gr_init_uniform(-bound, bound));
}

gr_value *gr_linear_at(const char *site, gr_graph *g, const char *name, gr_value *x, int64_t n_out)
{
    gr_shape in = gr_value_shape(x);
    int64_t k = in.n_dims > 0 ? in.dim[in.n_dims - 1] : 0;
    char text[GR_SHAPE_TEXT];
    gr_value *weight, *bias, *y;
    double bound;

    if (!x) {
        gr_graph_fail(g, site, "linear '%s': the input is NULL", name);
        return NULL;
    }
    if (k < 1 || n_out < 1) {
        gr_graph_fail(g, site,
                      "linear '%s' of %" PRId64 " outputs: input %s, expected [.., k] with at "
                      "least one feature and at least one output",
                      name, n_out, gr_shape_text(&in, text, sizeof(text)));
        return NULL;
    }
    /* kaiming_uniform_(a=sqrt(5)), which PyTorch draws weights with, comes to the same bound:
     * the same float for every k up to two million. */
    bound = 1.0 / sqrt((double)k);
    weight = make_param(g, site, gr_arena_printf(g->arena, "%s.weight", name), GR_SHAPE(n_out, k),
                        bound);
    bias = make_param(g, site, gr_arena_printf(g->arena, "%s.bias", name), GR_SHAPE(n_out), bound);
    if (in.n_dims == 1) /* one sample: the product wants rows */
        x = gr_reshape_at(site, g, x, GR_SHAPE(1, k));
    y = gr_map2_at(site, g, "add", gr_matmul_at(site, g, x, weight, false, true), bias);
    return in.n_dims == 1 ? gr_reshape_at(site, g, y, GR_SHAPE(n_out)) : y;
}
