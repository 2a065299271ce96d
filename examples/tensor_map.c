/*
 * Tensors and elementwise operators: write a computation down once, run it on data.
 *
 *     y = max(2 x - 1, 0)          elementwise; numbers and rows broadcast as in NumPy
 *     s = sum of y over columns
 *
 * cc tensor_map.c $(pkg-config --cflags --libs gradus)
 */
#include <gradus/gradus.h>

#include <stdio.h>

/* Called once for each set of input shapes. Builders return NULL after a failure and go on;
 * the first failure, with this file and line, is kept by the graph. */
static gr_status trace(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_value *y = gr_relu(g, gr_add_k(g, gr_mul_k(g, x, 2), -1));

    (void)user;
    gr_output(g, "y", y);
    gr_output(g, "s", gr_sum(g, y, GR_AXIS(1), false));
    return gr_graph_status(g);
}

static gr_status run(gr_step *step)
{
    float x[2][3] = { { 0, 1, 2 }, { -1, 0.5f, 4 } }, y[2][3], s[2];
    gr_named feed = { "x", GR_F32, GR_SHAPE(2, 3), x };

    GR_TRY(gr_step_eval(step, &feed, 1));
    GR_TRY(gr_step_read(step, "y", (gr_vec){ y, 6, GR_F32 }));
    GR_TRY(gr_step_read(step, "s", (gr_vec){ s, 2, GR_F32 }));
    for (int i = 0; i < 2; i++)
        printf("y[%d] = %g %g %g   sum %g\n", i, (double)y[i][0], (double)y[i][1], (double)y[i][2],
               (double)s[i]);
    return GR_OK;
}

int main(void)
{
    gr_step_config config = GR_STEP_CONFIG_INIT;
    gr_step *step = NULL;
    gr_status st;

    config.trace = trace;
    config.device = "cpu"; /* "auto" takes a GPU if there is one */
    st = gr_step_create(&step, &config);
    if (st == GR_OK)
        st = run(step);
    if (st != GR_OK)
        fprintf(stderr, "%s: %s\n", gr_status_text(st), gr_error_message());
    gr_step_destroy(step);
    return gr_exit_code(st);
}
