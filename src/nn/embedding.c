/* A table of rows, looked up by index, as torch.nn.Embedding. */
#include "nn/layer.h"

#include "gradus/ops.h"

#include <inttypes.h>

gr_value *gr_embedding_layer_at(const char *site, gr_graph *g, const char *name, gr_value *index,
                                int64_t n, int64_t d, const gr_init *init)
{
    gr_layer l = { site, g, name };

    if (n < 1 || d < 1) {
        gr_graph_fail(g, site,
                      "embedding '%s' of %" PRId64 " rows of %" PRId64 ": both must be at least 1",
                      name, n, d);
        return NULL;
    }
    if (index && gr_value_dtype(index) != GR_I32 && gr_value_dtype(index) != GR_I64) {
        gr_graph_fail(g, site, "embedding '%s': the index is %s, must be i32 or i64", name,
                      gr_dtype_name(gr_value_dtype(index)));
        return NULL;
    }
    return gr_gather_at(
        site, g, gr_layer_param(&l, "weight", GR_SHAPE(n, d), init, gr_init_normal(0, 1)), index);
}
