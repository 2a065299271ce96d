/*
 * What builders are given that cannot be: shapes that are none, NULL where something is needed,
 * options that do not exist. Each is refused with its reason, and with the line here.
 */
#include "gradus/gradus.h"
#include "gradus/models.h"
#include "gradus/ops.h"

#include "check.h"
#include "src/graph/graph.h"

typedef struct wrong {
    void (*build)(gr_graph *g, gr_value *x); /* x is [2, 6, 6, 12] */
    const char *part;                        /* of the message */
} wrong;

/* ---- shapes ---- */

#define NINE    GR_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1)
#define NO_LIST gr_shape_of(3, NULL)

static void param_nine(gr_graph *g, gr_value *x)
{
    (void)x;
    gr_param(g, "w", NINE, gr_init_const(0));
}

static void param_no_list(gr_graph *g, gr_value *x)
{
    (void)x;
    gr_param(g, "w", NO_LIST, gr_init_const(0));
}

static void buffer_nine(gr_graph *g, gr_value *x)
{
    double in, out;

    (void)x;
    gr_init_fans(NINE, &in, &out);
    gr_buffer(g, "seen", GR_F32, NINE, gr_init_const(in));
}

static void reshape_nine(gr_graph *g, gr_value *x)
{
    gr_reshape(g, x, NINE);
}

static void broadcast_nine(gr_graph *g, gr_value *x)
{
    gr_broadcast(g, x, NINE);
}

static void fill_nine(gr_graph *g, gr_value *x)
{
    (void)x;
    gr_fill(g, GR_F32, NINE, 1);
}

static void constant_nine(gr_graph *g, gr_value *x)
{
    static const float one = 1;

    (void)x;
    gr_constant(g, GR_F32, NINE, &one);
}

static void constant_null(gr_graph *g, gr_value *x)
{
    (void)x;
    gr_constant(g, GR_F32, GR_SHAPE(3), NULL);
}

static void random_nine(gr_graph *g, gr_value *x)
{
    (void)x;
    gr_random_uniform(g, GR_F32, NINE, 0, 1);
}

static void unpatchify_nine(gr_graph *g, gr_value *x)
{
    gr_unpatchify(g, gr_reshape(g, x, GR_SHAPE(2, 36, 12)), NINE, GR_PATCH_CHW);
}

/* ---- NULL ---- */

static void jit_null(gr_graph *g, gr_value *x)
{
    (void)x;
    gr_jit_model(g, "", NULL, NULL);
}

static void protein_null(gr_graph *g, gr_value *x)
{
    (void)x;
    gr_protein_model(g, "p", NULL, NULL);
}

static void batch_norm_null(gr_graph *g, gr_value *x)
{
    gr_batch_norm(g, x, NULL);
}

static void conv_null(gr_graph *g, gr_value *x)
{
    gr_conv_layer_at(GR_HERE, g, "c", x, NULL);
}

static void conv_transpose_null(gr_graph *g, gr_value *x)
{
    gr_conv_transpose_layer_at(GR_HERE, g, "up", x, NULL);
}

static void map_null(gr_graph *g, gr_value *x)
{
    gr_map1_at(GR_HERE, g, NULL, x);
}

static void reduce_null(gr_graph *g, gr_value *x)
{
    gr_reduce_at(GR_HERE, g, NULL, x, GR_AXES_ALL, false);
}

static void gradients_null(gr_graph *g, gr_value *x)
{
    gr_gradients(g, gr_sum(g, x, GR_AXES_ALL, false), NULL, 1, NULL);
}

static void gradients_below(gr_graph *g, gr_value *x)
{
    gr_value *dx;

    gr_gradients(g, gr_sum(g, x, GR_AXES_ALL, false), &x, -1, &dx);
}

/* ---- numbers and options that are none ---- */

static void conv_pad_far(gr_graph *g, gr_value *x)
{
    gr_conv far = GR_CONV_INIT;

    far.pad[1] = INT64_MAX;
    gr_conv_layer(g, "c", x, 8, 3, &far, NULL);
}

static void conv_stride_zero(gr_graph *g, gr_value *x)
{
    gr_conv none = GR_CONV_INIT;

    none.stride[0] = 0;
    gr_conv_layer(g, "c", x, 8, 3, &none, NULL);
}

static void slice_far(gr_graph *g, gr_value *x)
{
    gr_slice_axis(g, x, 0, -100, 100);
}

static void slice_to_end(gr_graph *g, gr_value *x)
{
    gr_slice_axis(g, x, -1, 13, GR_END);
}

static void mean_of_many(gr_graph *g, gr_value *x)
{
    gr_counted_mean(g, x, gr_sum(g, x, GR_AXES_ALL, false));
}

static void normal_below(gr_graph *g, gr_value *x)
{
    (void)x;
    gr_param(g, "w", GR_SHAPE(3), gr_init_normal(0, -0.5));
}

static void patchify_order(gr_graph *g, gr_value *x)
{
    gr_patchify(g, x, 2, (gr_patch_order)5);
}

static void unpatchify_order(gr_graph *g, gr_value *x)
{
    gr_value *patches = gr_reshape(g, x, GR_SHAPE(2, 36, 12));

    gr_unpatchify(g, patches, GR_SHAPE(2, 6, 6, 12), (gr_patch_order)5);
}

static const wrong wrongs[] = {
    { param_nine, "variable 'w': a shape has 0 to 8 dimensions, not 9" },
    { param_no_list, "variable 'w': shape [-2, -2, -2]: dimension 0 is negative" },
    { buffer_nine, "variable 'seen': a shape has 0 to 8 dimensions, not 9" },
    { reshape_nine, "a shape has 0 to 8 dimensions, not 9" },
    { broadcast_nine, "a shape has 0 to 8 dimensions, not 9" },
    { fill_nine, "a shape has 0 to 8 dimensions, not 9" },
    { constant_nine, "constant: a shape has 0 to 8 dimensions, not 9" },
    { constant_null, "constant: there are no elements (NULL)" },
    { random_nine, "a shape has 0 to 8 dimensions, not 9" },
    { unpatchify_nine, "unpatchify" },
    { jit_null, "JiT: its inputs are NULL" },
    { protein_null, "protein model 'p': its inputs are NULL" },
    { batch_norm_null, "batch_norm: its arguments are NULL" },
    { conv_null, "convolution 'c': its spec is NULL" },
    { conv_transpose_null, "convolution 'up': its spec is NULL" },
    { map_null, "map: the name of its function is NULL" },
    { reduce_null, "reduce: the name of its function is NULL" },
    { gradients_null, "gradients: of 1 values, and x or dx is NULL" },
    { gradients_below, "gradients: of -1 values" },
    { conv_pad_far, "must be below 2^31, and padding too, but axis 1 has 1, 1 and 9223372036854" },
    { conv_stride_zero, "must be 1 or more and padding 0 or more, but axis 0 has 0" },
    { slice_far, "slice of [2, 6, 6, 12]: -100 to 100 by 1 of dimension 0, which has 2 elements" },
    { slice_to_end, "13 to the end by 1 of dimension 3, which has 12 elements" },
    { mean_of_many, "counted_mean: of a sum [2, 6, 6, 12] and a count []" },
    { normal_below, "variable 'w': starts with a deviation of -0.5" },
    { patchify_order, "patchify: there is no order 5 of patches" },
    { unpatchify_order, "unpatchify: there is no order 5 of patches" },
};

static gr_status try_one(const wrong *w)
{
    const gr_named feed = { .name = "x", .dtype = GR_F32, .shape = GR_SHAPE(2, 6, 6, 12) };
    gr_vars *vars;
    gr_graph *g;
    gr_status st;

    GR_CHECK_OK(gr_vars_create(&vars));
    GR_CHECK_OK(gr_graph_create(&g, vars, true, &feed, 1));
    w->build(g, gr_input(g, "x"));
    st = gr_graph_status(g);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
    return st;
}

/* ---- channels first ---- */

/* A picture of that shape, scaled as people do, into a network. */
static gr_status look(gr_vars *vars, gr_shape shape, bool reshaped)
{
    const gr_named feed = { .name = "x", .dtype = GR_F32, .shape = shape };
    gr_resnet net = { .depth = 18, .n_classes = 10 };
    gr_graph *g;
    gr_value *x;
    gr_status st;

    GR_CHECK_OK(gr_graph_create(&g, vars, true, &feed, 1));
    x = gr_sub(g, gr_input(g, "x"), gr_fill(g, GR_F32, GR_SCALAR, 0.5));
    gr_resnet_model(g, "", reshaped ? gr_reshape(g, x, shape) : x, &net, NULL);
    st = gr_graph_status(g);
    gr_graph_destroy(g);
    return st;
}

static gr_status look_new(gr_shape shape, bool reshaped)
{
    gr_vars *vars;
    gr_status st;

    GR_CHECK_OK(gr_vars_create(&vars));
    st = look(vars, shape, reshaped);
    gr_vars_destroy(vars);
    return st;
}

/* A network that begins with the statistics of its pictures. */
static void normed_first(void)
{
    const gr_named feed = { .name = "x", .dtype = GR_F32, .shape = GR_SHAPE(2, 3, 48, 64) };
    gr_vars *vars;
    gr_graph *g;

    GR_CHECK_OK(gr_vars_create(&vars));
    GR_CHECK_OK(gr_graph_create(&g, vars, true, &feed, 1));
    gr_batch_norm_layer(g, "bn0", gr_input(g, "x"));
    GR_CHECK_FAILS(gr_graph_status(g), GR_ERR_ARG,
                   "batch norm 'bn0': input [2, 3, 48, 64] looks like NCHW, and pictures are NHWC: "
                   "feed [2, 48, 64, 3]");
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
}

static void channels_first(void)
{
    gr_vars *vars;

    GR_CHECK_FAILS(look_new(GR_SHAPE(2, 3, 64, 64), false), GR_ERR_ARG,
                   "convolution 'conv1': input [2, 3, 64, 64] looks like NCHW, and pictures are "
                   "NHWC: feed [2, 64, 64, 3]");
    GR_CHECK_FAILS(look_new(GR_SHAPE(2, 3, 48, 64), false), GR_ERR_ARG, "feed [2, 48, 64, 3]");
    GR_CHECK_FAILS(look_new(GR_SHAPE(2, 1, 28, 28), false), GR_ERR_ARG, "feed [2, 28, 28, 1]");
    GR_CHECK_OK(look_new(GR_SHAPE(2, 64, 64, 3), false));
    GR_CHECK_OK(look_new(GR_SHAPE(2, 48, 64, 12), false));
    GR_CHECK_OK(look_new(GR_SHAPE(2, 1, 500, 64), false)); /* a row of 64 values, 500 times */
    GR_CHECK_OK(look_new(GR_SHAPE(2, 3, 64, 64), true));   /* who insists */
    /* Too small to tell by itself; but the model is there already. */
    GR_CHECK_OK(gr_vars_create(&vars));
    GR_CHECK_OK(look(vars, GR_SHAPE(2, 12, 12, 3), false));
    GR_CHECK_FAILS(
        look(vars, GR_SHAPE(2, 3, 12, 12), false), GR_ERR_ARG,
        "input [2, 3, 12, 12] has 12 channels (images are NHWC), and the model was built "
        "for others: its weight is [64, 3, 7, 7]");
    gr_vars_destroy(vars);
}

int main(void)
{
    channels_first();
    normed_first();
    for (size_t k = 0; k < sizeof(wrongs) / sizeof(wrongs[0]); k++) {
        GR_CHECK_FAILS(try_one(&wrongs[k]), GR_ERR_ARG, wrongs[k].part);
        GR_CHECK_FAILS(try_one(&wrongs[k]), GR_ERR_ARG, "test_refused.c:");
    }
    return 0;
}
