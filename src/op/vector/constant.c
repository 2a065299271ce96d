/* Values that never change, and the tables of waves made of them. They carry no gradient. */
#include "op/vector/vector.h"

#include "gradus/index.h"
#include "gradus/ops.h"

#include <math.h>
#include <string.h>

static gr_status constant_infer(gr_node *n)
{
    const gr_constant_attr *at = n->attr;

    n->out[0].shape = at->shape;
    n->out[0].dtype = at->dtype;
    return GR_OK;
}

gr_value *gr_constant_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape, const void *mem)
{
    gr_constant_attr *attr;
    size_t n_bytes;
    gr_status st = gr_shape_check(&shape, t);

    if (st != GR_OK) {
        gr_graph_stick(g, gr_wrap(st, "%s: constant", site));
        return NULL;
    }
    if (!mem) {
        gr_graph_fail(g, site, "constant: there are no elements (NULL)");
        return NULL;
    }
    n_bytes = (size_t)gr_shape_count(&shape) * gr_dtype_bytes(t);
    attr = gr_arena_alloc(g->arena, sizeof(*attr) + n_bytes);
    if (!attr) {
        gr_graph_stick(g, GR_ERR_NOMEM);
        return NULL;
    }
    attr->dtype = t;
    attr->shape = shape;
    memcpy(attr + 1, mem, n_bytes);
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_constant,
                                              .site = site,
                                              .attr = attr,
                                              .attr_bytes = sizeof(*attr) + n_bytes });
}

const gr_op gr_op_constant = {
    .name = "constant",
    .n_src = 0,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = constant_infer,
    .kernels = gr_constant_cpu,
};

/* ---- waves ---- */

static bool is_even_width(gr_graph *g, const char *site, const char *what, int64_t d, int64_t least)
{
    if (d >= least && d % 2 == 0)
        return true;
    gr_graph_fail(g, site, "%s: the width is %lld, not even and at least %lld", what, (long long)d,
                  (long long)least);
    return false;
}

gr_value *gr_sinusoid_at(const char *site, gr_graph *g, int64_t n, int64_t d, double base)
{
    gr_shape shape = GR_SHAPE(n, d);
    float *table;

    if (!is_even_width(g, site, "sinusoid", d, 2))
        return NULL;
    if (gr_shape_check(&shape, GR_F32) != GR_OK) {
        gr_graph_fail(g, site, "sinusoid: %lld positions", (long long)n);
        return NULL;
    }
    table = gr_arena_alloc(g->arena, (size_t)gr_shape_count(&shape) * sizeof(*table) + 1);
    if (!table) {
        gr_graph_stick(g, GR_ERR_NOMEM);
        return NULL;
    }
    for (int64_t p = 0; p < n; p++)
        for (int64_t i = 0; i < d / 2; i++) {
            double x = (double)p * pow(base, -2.0 * (double)i / (double)d);

            table[p * d + 2 * i] = (float)sin(x);
            table[p * d + 2 * i + 1] = (float)cos(x);
        }
    return gr_constant_at(site, g, GR_F32, shape, table);
}

/* In f64: at t = 1000 an f32 product would leave an error of 3e-5 in the angle. There are few
 * of these numbers, one row per sample. */
gr_value *gr_time_waves_at(const char *site, gr_graph *g, gr_value *t, int64_t d, double base)
{
    int64_t half = d / 2;
    gr_value *x;
    double *f;

    if (!is_even_width(g, site, "time_waves", d, 4))
        return NULL;
    f = gr_arena_array(g->arena, (size_t)half, sizeof(*f));
    if (!f) {
        gr_graph_stick(g, GR_ERR_NOMEM);
        return NULL;
    }
    for (int64_t i = 0; i < half; i++)
        f[i] = pow(base, -(double)i / (double)(half - 1));
    x = gr_unsqueeze_at(site, g, gr_cast_at(site, g, t, GR_F64), -1);
    x = gr_map2_at(site, g, "mul", x, gr_constant_at(site, g, GR_F64, GR_SHAPE(half), f));
    x = gr_concat_at(site, g,
                     (gr_value *[]){ gr_map1_at(site, g, "sin", x), gr_map1_at(site, g, "cos", x) },
                     2, -1);
    return gr_cast_at(site, g, x, GR_F32);
}
