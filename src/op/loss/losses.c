/* The usual losses as terms. */
#include "gradus/index.h"
#include "gradus/loss.h"
#include "graph/graph.h"

/* What each label counts: 1, or the weight of its class; ignored ones nothing. Computed from
 * integers and constants, so that no gradient passes here. */
static gr_value *count_of(const char *site, gr_graph *g, gr_value *labels,
                          const gr_cross_entropy_options *o)
{
    gr_value *valid = gr_mapk_at(site, g, "ne", labels, (double)o->ignore_index), *w;

    if (!o->weight || !valid)
        return valid;
    labels = gr_map2_at(site, g, "mul", labels, valid); /* ignored ones: class 0, then nothing */
    w = labels ? gr_gather_at(site, g, o->weight, labels) : NULL;
    return w ? gr_map2_at(site, g, "mul", w, valid) : NULL;
}

/* One loss per label, all of which count. */
static gr_value *plain(const char *site, gr_graph *g, gr_value *logits, gr_value *labels)
{
    gr_shape x = gr_value_shape(logits), y = gr_value_shape(labels);
    gr_value *each;

    if (x.n_dims <= 2 || x.n_dims != y.n_dims + 1)
        return gr_softmax_xent_at(site, g, logits, labels); /* or it says what is wrong */
    logits = gr_reshape_at(site, g, logits, GR_SHAPE(gr_shape_count(&y), x.dim[x.n_dims - 1]));
    labels = gr_reshape_at(site, g, labels, GR_SHAPE(gr_shape_count(&y)));
    each = logits && labels ? gr_softmax_xent_at(site, g, logits, labels) : NULL;
    return each ? gr_reshape_at(site, g, each, y) : NULL;
}

void gr_loss_add_cross_entropy_at(const char *site, gr_graph *g, const char *name, double weight,
                                  gr_value *logits, gr_value *labels,
                                  const gr_cross_entropy_options *options)
{
    gr_loss_sum sums[] = { { .name = "each" }, { .name = "count" } };

    if (!options) {
        gr_loss_add_mean_at(site, g, name, weight, plain(site, g, logits, labels), NULL);
        return;
    }
    sums[0].each = gr_cross_entropy_each_at(site, g, logits, labels, options);
    sums[1].each = sums[0].each ? count_of(site, g, labels, options) : NULL;
    gr_loss_add_at(site, g, &(gr_loss_term){ name, weight, sums, 2, "each / count" });
}

void gr_loss_add_mean_at(const char *site, gr_graph *g, const char *name, double weight,
                         gr_value *each, gr_value *mask)
{
    gr_loss_sum sums[] = { { .name = "each", .each = each }, { .name = "count" } };
    const char *formula = "each / count";
    gr_shape all = gr_value_shape(each), some = gr_value_shape(mask);

    if (!gr_graph_given(g, site, "loss", each))
        return;
    if (!mask) {
        sums[1].constant = all.n_dims > 0 && all.dim[0] > 0
                               ? (double)gr_shape_count(&all) / (double)all.dim[0]
                               : 1;
    } else {
        mask = gr_cast_at(site, g, mask, GR_F32);
        sums[0].each = mask ? gr_map2_at(site, g, "mul", each, mask) : NULL;
        sums[1].each = mask;
        if (gr_shape_count(&some) != gr_shape_count(&all))
            formula = gr_arena_printf(
                g->arena, "each / count * %.17g",
                1.0 / ((double)gr_shape_count(&all) / (double)gr_shape_count(&some)));
    }
    gr_loss_add_at(site, g, &(gr_loss_term){ name, weight, sums, 2, formula });
}

void gr_loss_add_dice_at(const char *site, gr_graph *g, const char *name, double weight,
                         gr_value *logits, gr_value *target, double smooth)
{
    gr_value *p = gr_map1_at(site, g, "sigmoid", logits);
    gr_value *y = p ? gr_cast_at(site, g, target, gr_value_dtype(p)) : NULL;
    gr_loss_sum sums[] = { { .name = "both", .by_class = true },
                           { .name = "p", .each = p, .by_class = true },
                           { .name = "y", .each = y, .by_class = true } };

    sums[0].each = y ? gr_map2_at(site, g, "mul", p, y) : NULL;
    gr_loss_add_at(
        site, g,
        &(gr_loss_term){ name, weight, sums, 3,
                         gr_arena_printf(g->arena, "mean(1 - (2 * both + %.17g) / (p + y + %.17g))",
                                         smooth, smooth) });
}
