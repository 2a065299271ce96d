/*
 * Shapes by other names: what reshape and transpose are most often used for.
 *
 * A patch vector has one of two orders (NHWC images, patch p):
 *   GR_PATCH_CHW   channel, row, column: what JiT's linear embedding takes, and what the
 *                  weight [out, c, p, p] of a PyTorch convolution with stride p gives when
 *                  it is flattened
 *   GR_PATCH_HWC   row, column, channel: the weight [out, p, p, c] of a convolution here
 */
#include "op/part/part.h"
#include "op/shape/shape.h"

#include "gradus/ops.h"

gr_value *gr_squeeze_at(const char *site, gr_graph *g, gr_value *a, int axis)
{
    gr_shape s = gr_value_shape(a), out = { 0 };
    int at = gr_axis_of(axis, s.n_dims);

    if (a && (at < 0 || s.dim[at] != 1)) {
        char text[GR_SHAPE_TEXT];

        gr_graph_fail(g, site, "squeeze of %s: dimension %d is not 1",
                      gr_shape_text(&s, text, sizeof(text)), axis);
        return NULL;
    }
    for (int d = 0; d < s.n_dims; d++)
        if (d != at)
            out.dim[out.n_dims++] = s.dim[d];
    return gr_reshape_at(site, g, a, out);
}

gr_value *gr_unsqueeze_at(const char *site, gr_graph *g, gr_value *a, int axis)
{
    gr_shape s = gr_value_shape(a), out = { 0 };
    int at = gr_axis_of(axis, s.n_dims + 1);

    if (a && (at < 0 || s.n_dims == GR_MAX_DIMS)) {
        char text[GR_SHAPE_TEXT];

        gr_graph_fail(g, site, "unsqueeze of %s: there is no room for dimension %d",
                      gr_shape_text(&s, text, sizeof(text)), axis);
        return NULL;
    }
    for (int d = 0; a && d < s.n_dims + 1; d++)
        out.dim[out.n_dims++] = d == at ? 1 : s.dim[d - (d > at)];
    return gr_reshape_at(site, g, a, out);
}

gr_value *gr_flatten_at(const char *site, gr_graph *g, gr_value *a, int first, int last)
{
    gr_shape s = gr_value_shape(a), out = { 0 };
    int lo = gr_axis_of(first, s.n_dims), hi = gr_axis_of(last, s.n_dims);

    if (a && (lo < 0 || hi < lo)) {
        char text[GR_SHAPE_TEXT];

        gr_graph_fail(g, site, "flatten of %s: %d to %d are no dimensions in order",
                      gr_shape_text(&s, text, sizeof(text)), first, last);
        return NULL;
    }
    for (int d = 0; d < s.n_dims; d++) {
        if (d > lo && d <= hi)
            out.dim[out.n_dims - 1] *= s.dim[d];
        else
            out.dim[out.n_dims++] = s.dim[d];
    }
    return gr_reshape_at(site, g, a, out);
}

/* ---- patches ---- */

static bool fits(gr_graph *g, const char *site, const char *what, const gr_shape *s, bool is_ok)
{
    char text[GR_SHAPE_TEXT];

    if (!is_ok)
        gr_graph_fail(g, site, "%s of %s", what, gr_shape_text(s, text, sizeof(text)));
    return is_ok;
}

static bool is_order(gr_graph *g, const char *site, const char *what, gr_patch_order o)
{
    if (o == GR_PATCH_CHW || o == GR_PATCH_HWC)
        return true;
    gr_graph_fail(g, site, "%s: there is no order %d of patches", what, (int)o);
    return false;
}

gr_value *gr_patchify_at(const char *site, gr_graph *g, gr_value *a, int64_t p, gr_patch_order o)
{
    static const int hwc[] = { 0, 1, 3, 2, 4, 5 }, chw[] = { 0, 1, 3, 5, 2, 4 };
    gr_shape s = gr_value_shape(a);
    gr_value *y;

    if (!gr_graph_given(g, site, "patchify", a) || !is_order(g, site, "patchify", o))
        return NULL;
    if (!fits(g, site, "patchify: no whole patches in NHWC images", &s,
              s.n_dims == 4 && p > 0 && s.dim[1] % p == 0 && s.dim[2] % p == 0))
        return NULL;
    y = gr_reshape_at(site, g, a, GR_SHAPE(s.dim[0], s.dim[1] / p, p, s.dim[2] / p, p, s.dim[3]));
    y = gr_transpose_at(site, g, y, o == GR_PATCH_CHW ? chw : hwc);
    return gr_reshape_at(site, g, y,
                         GR_SHAPE(s.dim[0], s.dim[1] / p * (s.dim[2] / p), p * p * s.dim[3]));
}

gr_value *gr_unpatchify_at(const char *site, gr_graph *g, gr_value *a, gr_shape image,
                           gr_patch_order o)
{
    static const int hwc[] = { 0, 1, 3, 2, 4, 5 }, chw[] = { 0, 1, 4, 2, 5, 3 };
    gr_shape s = gr_value_shape(a);
    int64_t n_elem = s.n_dims == 3 ? s.dim[2] : 0, p = 0, h, w, c;
    gr_value *y;

    if (!gr_graph_given(g, site, "unpatchify", a) || !is_order(g, site, "unpatchify", o))
        return NULL;
    c = image.n_dims == 4 ? image.dim[3] : 0;
    while (c > 0 && p * p * c < n_elem)
        p++;
    if (!fits(g, site, "unpatchify: the images have no such patches: patches", &s,
              p > 0 && p * p * c == n_elem && image.dim[0] == s.dim[0] && image.dim[1] % p == 0 &&
                  image.dim[2] % p == 0 && image.dim[1] / p * (image.dim[2] / p) == s.dim[1]))
        return NULL;
    h = image.dim[1] / p;
    w = image.dim[2] / p;
    y = gr_reshape_at(site, g, a,
                      o == GR_PATCH_CHW ? GR_SHAPE(s.dim[0], h, w, c, p, p)
                                        : GR_SHAPE(s.dim[0], h, w, p, p, c));
    y = gr_transpose_at(site, g, y, o == GR_PATCH_CHW ? chw : hwc);
    return gr_reshape_at(site, g, y, image);
}
