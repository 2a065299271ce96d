/*
 * Losses, which are compositions, against PyTorch: value and gradients of the whole, by the
 * best kernels and by the references, on one thread and on two. Records are in
 * tests/golden/loss.txt; what is refused says why.
 */
#include "check.h"
#include "op/composed.h"

#include "gradus/loss.h"

/* ---- builders ---- */

static gr_value *images(gr_graph *g, gr_value *const *x)
{
    gr_cross_entropy_options o = GR_CROSS_ENTROPY_INIT;

    return gr_cross_entropy_mean(g, x[0], x[1], &o);
}

static gr_value *all_options(gr_graph *g, gr_value *const *x)
{
    gr_cross_entropy_options o = { .ignore_index = 3, .label_smoothing = 0.1, .weight = x[2] };

    return gr_cross_entropy_mean(g, x[0], x[1], &o);
}

static gr_value *sum_of(gr_graph *g, gr_value *const *x)
{
    gr_cross_entropy_options o = { .ignore_index = 3 };
    gr_value *count;

    return gr_cross_entropy_parts(g, x[0], x[1], &o, &count);
}

static gr_value *each_of(gr_graph *g, gr_value *const *x)
{
    gr_cross_entropy_options o = { .ignore_index = 3 };

    return gr_cross_entropy_each(g, x[0], x[1], &o);
}

static gr_value *soft(gr_graph *g, gr_value *const *x)
{
    return gr_soft_cross_entropy(g, x[0], x[1]);
}

static gr_value *entropy(gr_graph *g, gr_value *const *x)
{
    return gr_entropy_loss(g, x[0], x[1]);
}

static gr_value *kl(gr_graph *g, gr_value *const *x)
{
    return gr_sum(g, gr_kl_each(g, x[0], x[1]), GR_AXIS(1), false);
}

static gr_value *bce(gr_graph *g, gr_value *const *x)
{
    return gr_bce_logits(g, x[0], x[1]);
}

static gr_value *bce_weighted(gr_graph *g, gr_value *const *x)
{
    return gr_mean(g, gr_bce_logits_each(g, x[0], x[1], x[2]), GR_AXES_ALL, false);
}

static gr_value *focal(gr_graph *g, gr_value *const *x)
{
    return gr_focal(g, x[0], x[1], 0.25, 2);
}

static gr_value *focal_unweighted(gr_graph *g, gr_value *const *x)
{
    return gr_focal(g, x[0], x[1], -1, 1.5);
}

static gr_value *dice(gr_graph *g, gr_value *const *x)
{
    return gr_dice(g, x[0], x[1], 1e-6);
}

static gr_value *mse(gr_graph *g, gr_value *const *x)
{
    return gr_mse(g, x[0], x[1]);
}

static gr_value *l1(gr_graph *g, gr_value *const *x)
{
    return gr_l1(g, x[0], x[1]);
}

static gr_value *smooth_l1(gr_graph *g, gr_value *const *x)
{
    return gr_smooth_l1(g, x[0], x[1], 0.5);
}

static gr_value *huber(gr_graph *g, gr_value *const *x)
{
    return gr_huber(g, x[0], x[1], 1.25);
}

static gr_value *masked_mse(gr_graph *g, gr_value *const *x)
{
    return gr_masked_mse(g, x[0], x[1], x[2]);
}

static gr_value *jpeg_mse(gr_graph *g, gr_value *const *x)
{
    return gr_jpeg_mse(g, x[0], x[1], NULL, 75);
}

static gr_value *jpeg_mse_stretched(gr_graph *g, gr_value *const *x)
{
    return gr_jpeg_mse(g, x[0], x[1], NULL, 30);
}

static gr_value *jpeg_mse_masked(gr_graph *g, gr_value *const *x)
{
    return gr_jpeg_mse(g, x[0], x[1], x[2], 52);
}

static gr_value *jpeg_mse_of_nothing(gr_graph *g, gr_value *const *x)
{
    return gr_jpeg_mse(g, x[0], x[1], x[2], 75);
}

/* One mask for all channels alone is none of a channel each. */
static gr_value *jpeg_mse_bad_mask(gr_graph *g, gr_value *const *x)
{
    return gr_jpeg_mse(g, x[0], x[1], x[1], 75);
}

static const composed_case cases[] = {
    { "cross_entropy of images", images, 2, 1, 70 * 21 },
    { "cross_entropy, all options", all_options, 3, 1, 70 * 21 },
    { "cross_entropy, sum", sum_of, 2, 1, 70 * 21 },
    { "cross_entropy, each", each_of, 2, 1, 21 },
    { "cross_entropy of nothing", images, 2, 1, 1 },
    { "soft_cross_entropy", soft, 2, 1, 12 * 72 },
    { "entropy_loss", entropy, 2, 1, 84 * 21 },
    { "kl", kl, 2, 1, 9 },
    { "bce", bce, 2, 1, 150 },
    { "bce, weighted", bce_weighted, 3, 1, 150 },
    { "focal", focal, 2, 1, 132 },
    { "focal, unweighted", focal_unweighted, 2, 1, 132 },
    { "dice", dice, 2, 1, 144 },
    { "dice of one class", dice, 2, 1, 180 },
    { "mse", mse, 2, 2, 205 },
    { "l1", l1, 2, 2, 205 },
    { "smooth_l1", smooth_l1, 2, 2, 205 },
    { "huber", huber, 2, 2, 205 },
    { "masked_mse", masked_mse, 3, 2, 180 },
    { "masked_mse of nothing", masked_mse, 3, 2, 180 },
    { "jpeg_mse", jpeg_mse, 2, 2, 256 * 3 },
    { "jpeg_mse, stretched", jpeg_mse_stretched, 2, 2, 143 * 3 },
    { "jpeg_mse, masked", jpeg_mse_masked, 3, 2, 210 * 3 },
    { "jpeg_mse of nothing", jpeg_mse_of_nothing, 3, 2, 64 * 3 },
};

/* ---- what is refused ---- */

static void check_refused(composed_fn *build, gr_shape a, gr_shape b, const char *want)
{
    gr_named feed[] = { { "s0", GR_F32, a, NULL }, { "s1", GR_F32, b, NULL } };
    gr_value *x[3] = { NULL };
    gr_graph *g;
    gr_vars *vars;

    GR_CHECK_OK(gr_vars_create(&vars));
    GR_CHECK_OK(gr_graph_create(&g, vars, true, feed, 2));
    for (int i = 0; i < 2; i++)
        x[i] = gr_input(g, feed[i].name);
    GR_CHECK(!build(g, x));
    GR_CHECK_EQ(gr_graph_status(g), GR_ERR_ARG);
    if (!strstr(gr_error_message(), want)) {
        fprintf(stderr, "'%s' does not say '%s'\n", gr_error_message(), want);
        exit(1);
    }
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
}

static gr_value *huber_bad(gr_graph *g, gr_value *const *x)
{
    return gr_huber(g, x[0], x[1], 0);
}

static gr_value *smooth_l1_bad(gr_graph *g, gr_value *const *x)
{
    return gr_smooth_l1(g, x[0], x[1], -1);
}

static gr_value *focal_bad(gr_graph *g, gr_value *const *x)
{
    return gr_focal(g, x[0], x[1], 0.5, -1);
}

static void test_refusals(void)
{
    check_refused(images, GR_SHAPE(2, 3, 5), GR_SHAPE(2, 4), "[2, 4]");
    check_refused(images, GR_SCALAR, GR_SCALAR, "without the last dimension");
    check_refused(mse, GR_SHAPE(2, 3), GR_SHAPE(2), "does not broadcast");
    check_refused(huber_bad, GR_SHAPE(2, 3), GR_SHAPE(2, 3), "delta is 0");
    check_refused(smooth_l1_bad, GR_SHAPE(2, 3), GR_SHAPE(2, 3), "beta is -1");
    check_refused(focal_bad, GR_SHAPE(2, 3), GR_SHAPE(2, 3), "gamma is -1");
    check_refused(jpeg_mse, GR_SHAPE(2, 8, 8, 4), GR_SHAPE(2, 8, 8, 4), "[2, 8, 8, 4]");
    check_refused(jpeg_mse_bad_mask, GR_SHAPE(2, 8, 8, 3), GR_SHAPE(2, 8, 8, 3),
                  "the mask of images [2, 8, 8, 3] must be [n, h, w, 1], not [2, 8, 8, 3]");
}

int main(void)
{
    composed_check("loss", cases, (int)(sizeof(cases) / sizeof(cases[0])));
    test_refusals();
    return 0;
}
