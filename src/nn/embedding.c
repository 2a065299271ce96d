/* A table of rows, looked up by index, as torch.nn.Embedding. */
#include "nn/layer.h"

#include "gradus/index.h"
#include "gradus/ops.h"

#include <inttypes.h>

/* False, and a failure, when the layer cannot be. */
static bool check(const gr_layer *l, const gr_value *index, int64_t n, int64_t d)
{
    if (!gr_layer_has_name(l, "embedding"))
        return false;
    if (n < 1 || d < 1) {
        gr_graph_fail(l->g, l->site,
                      "embedding '%s' of %" PRId64 " rows of %" PRId64 ": both must be at least 1",
                      l->name, n, d);
        return false;
    }
    if (index && gr_value_dtype(index) != GR_I32 && gr_value_dtype(index) != GR_I64) {
        gr_graph_fail(l->g, l->site, "embedding '%s': the index is %s, must be i32 or i64", l->name,
                      gr_dtype_name(gr_value_dtype(index)));
        return false;
    }
    return true;
}

gr_value *gr_embedding_layer_at(const char *site, gr_graph *g, const char *name, gr_value *index,
                                int64_t n, int64_t d, const gr_init *init)
{
    gr_layer l = { site, g, name };

    if (!check(&l, index, n, d))
        return NULL;
    return gr_gather_at(
        site, g, gr_layer_param(&l, "weight", GR_SHAPE(n, d), init, gr_init_normal(0, 1)), index);
}

gr_value *gr_embedding_layer_padded_at(const char *site, gr_graph *g, const char *name,
                                       gr_value *index, const gr_embedding_spec *s)
{
    gr_layer l = { site, g, name };
    gr_init init;
    int64_t row;

    if (!check(&l, index, s->n, s->d))
        return NULL;
    row = s->padding_idx < 0 ? s->n + s->padding_idx : s->padding_idx;
    if (row < 0 || row >= s->n) {
        gr_graph_fail(g, site,
                      "embedding '%s': padding_idx %" PRId64 " is none of %" PRId64 " rows", name,
                      s->padding_idx, s->n);
        return NULL;
    }
    init = gr_init_zero_row(s->init ? *s->init : gr_init_normal(0, 1), row);
    return gr_embedding_at(site, g, gr_layer_param(&l, "weight", GR_SHAPE(s->n, s->d), &init, init),
                           index, row);
}
