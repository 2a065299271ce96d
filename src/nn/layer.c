#include "nn/layer.h"

#include "graph/op.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LEAST_SIDE 16 /* of a picture whose channels can be told from its sides */

const char *gr_name(gr_graph *g, const char *fmt, ...)
{
    char text[512];
    va_list args;
    int n;
    char *name;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (n < 0 || n >= (int)sizeof(text)) {
        gr_graph_fail(g, "gr_name", "a name is longer than %zu characters", sizeof(text) - 1);
        return NULL;
    }
    name = gr_arena_printf(g->arena, "%s", text);
    if (!name)
        gr_graph_stick(g, GR_ERR_NOMEM);
    return name;
}

gr_value *gr_layer_param(const gr_layer *l, const char *suffix, gr_shape shape, const gr_init *init,
                         gr_init otherwise)
{
    const char *name = l->name ? gr_name(l->g, "%s.%s", l->name, suffix) : NULL;

    return name ? gr_param_at(l->site, l->g, name, shape, init ? *init : otherwise) : NULL;
}

gr_value *gr_layer_buffer(const gr_layer *l, const char *suffix, gr_dtype t, gr_shape shape,
                          double start)
{
    const char *name = l->name ? gr_name(l->g, "%s.%s", l->name, suffix) : NULL;

    return name ? gr_buffer_at(l->site, l->g, name, t, shape, gr_init_const(start)) : NULL;
}

bool gr_layer_has_name(const gr_layer *l, const char *kind)
{
    if (!l->name)
        gr_graph_fail(l->g, l->site,
                      "%s: the name is NULL; its parameters are called after it: \"fc1\" has "
                      "fc1.weight",
                      kind);
    return l->name != NULL;
}

/* What is fed, or fed and scaled; a map of features may have any shape. */
static bool is_fed(const gr_value *x)
{
    while (strcmp(x->node->op->name, "map") == 0 && x->node->n_src > 0 &&
           gr_shape_equal(&x->node->src[0]->shape, &x->shape))
        x = x->node->src[0];
    return strcmp(x->node->op->name, "input") == 0;
}

/* Three rows of so many pixels with as many channels each are no picture, nor is one row whose
 * channels are as many as its pixels. */
static bool is_nchw(const gr_shape *s)
{
    bool is_large = s->n_dims == 4 && s->dim[2] >= LEAST_SIDE && s->dim[3] >= LEAST_SIDE;

    return is_large &&
           (s->dim[1] == 3 || s->dim[1] == 4 || (s->dim[1] == 1 && s->dim[2] == s->dim[3]));
}

bool gr_layer_is_nhwc(const gr_layer *l, const char *kind, const gr_value *x)
{
    gr_shape s = gr_value_shape(x), right;
    char text[GR_SHAPE_TEXT], want[GR_SHAPE_TEXT];

    if (!x || !is_nchw(&s) || !is_fed(x))
        return true;
    right = GR_SHAPE(s.dim[0], s.dim[2], s.dim[3], s.dim[1]);
    gr_graph_fail(
        l->g, l->site,
        "%s '%s': input %s looks like NCHW, and pictures are NHWC: feed %s, or turn it by "
        "gr_transpose(); if it is meant as it is, pass it through gr_reshape() first",
        kind, l->name, gr_shape_text(&s, text, sizeof(text)),
        gr_shape_text(&right, want, sizeof(want)));
    return false;
}

int64_t gr_layer_channels(const gr_layer *l, const char *kind, const gr_value *x, int min_dims)
{
    gr_shape shape = gr_value_shape(x);
    char text[GR_SHAPE_TEXT];

    if (!gr_layer_has_name(l, kind))
        return 0;
    if (!x) {
        gr_graph_fail(l->g, l->site, "%s '%s': the input is NULL", kind, l->name);
        return 0;
    }
    if (shape.n_dims >= min_dims && shape.dim[shape.n_dims - 1] > 0)
        return shape.dim[shape.n_dims - 1];
    gr_graph_fail(l->g, l->site,
                  "%s '%s': input %s, expected at least %d dimensions, the last of them the "
                  "channels and not empty",
                  kind, l->name, gr_shape_text(&shape, text, sizeof(text)), min_dims);
    return 0;
}

int64_t gr_layer_tokens(const gr_layer *l, const char *kind, const gr_value *x, int64_t heads)
{
    int64_t d = gr_layer_channels(l, kind, x, 3);
    gr_shape shape = gr_value_shape(x);
    char text[GR_SHAPE_TEXT];

    if (d < 1)
        return 0;
    if (shape.n_dims == 3 && heads > 0 && d % heads == 0)
        return d;
    gr_graph_fail(l->g, l->site,
                  "%s '%s': input %s, %" PRId64 " heads; expected [b, n, d], and heads that divide "
                  "d",
                  kind, l->name, gr_shape_text(&shape, text, sizeof(text)), heads);
    return 0;
}

gr_value *gr_layer_xavier_linear(const gr_layer *l, gr_value *x, int64_t n_out)
{
    int64_t k = gr_layer_channels(l, "linear", x, 1);
    gr_init weight, zero = gr_init_const(0);

    if (k < 1)
        return NULL;
    weight = gr_init_xavier_uniform((double)k, (double)n_out, 1);
    return gr_linear_at(l->site, l->g, l->name, x, n_out,
                        &(gr_layer_opts){ .weight = &weight, .bias = &zero });
}

gr_layer gr_layer_inside(const gr_layer *l, const char *name)
{
    gr_layer inner = *l;

    inner.name = l->name ? gr_name(l->g, "%s.%s", l->name, name) : NULL;
    return inner;
}
