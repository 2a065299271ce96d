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

static const wrong wrongs[] = {
    { param_nine, "variable 'w': a shape has 0 to 8 dimensions, not 9" },
    { param_no_list, "variable 'w': shape [-1, -1, -1]: dimension 0 is negative" },
    { buffer_nine, "variable 'seen': a shape has 0 to 8 dimensions, not 9" },
    { reshape_nine, "a shape has 0 to 8 dimensions, not 9" },
    { broadcast_nine, "a shape has 0 to 8 dimensions, not 9" },
    { fill_nine, "a shape has 0 to 8 dimensions, not 9" },
    { constant_nine, "constant: a shape has 0 to 8 dimensions, not 9" },
    { constant_null, "constant: there are no elements (NULL)" },
    { random_nine, "a shape has 0 to 8 dimensions, not 9" },
    { unpatchify_nine, "unpatchify" },
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

int main(void)
{
    for (size_t k = 0; k < sizeof(wrongs) / sizeof(wrongs[0]); k++) {
        GR_CHECK_FAILS(try_one(&wrongs[k]), GR_ERR_ARG, wrongs[k].part);
        GR_CHECK_FAILS(try_one(&wrongs[k]), GR_ERR_ARG, "test_refused.c:");
    }
    return 0;
}
