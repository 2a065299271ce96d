/*
 * Gradients: they are more of the same graph. Here of
 *
 *     f(a, b) = sum((a b)^2) / 2       a: 2 x 2, b: 2 x 1
 *
 * for which df/da = (a b) b^T and df/db = a^T (a b). With any argument the graph is printed
 * too, one node a line; gr_gradients() has added what follows "-- backward".
 */
#include <gradus/gradus.h>

#include <stdio.h>
#include <stdlib.h>

static gr_status trace(gr_graph *g, void *user)
{
    gr_value *x[2] = { gr_input(g, "a"), gr_input(g, "b") }, *dx[2];
    gr_value *f =
        gr_mul_k(g, gr_sum(g, gr_square(g, gr_matmul(g, x[0], x[1])), GR_AXES_ALL, false), 0.5);

    gr_gradients(g, f, x, 2, dx);
    gr_output(g, "f", f);
    gr_output(g, "df/da", dx[0]);
    gr_output(g, "df/db", dx[1]);
    GR_TRY(gr_graph_status(g));
    return gr_graph_text(g, user);
}

static gr_status run(gr_step *step)
{
    float a[4] = { 1, 2, 3, 4 }, b[2] = { 5, 6 }, f, da[4], db[2];
    gr_named feeds[2] = { { "a", GR_F32, GR_SHAPE(2, 2), a }, { "b", GR_F32, GR_SHAPE(2, 1), b } };

    GR_TRY(gr_step_eval(step, feeds, 2));
    GR_TRY(gr_step_read(step, "f", (gr_vec){ &f, 1, GR_F32 }));
    GR_TRY(gr_step_read(step, "df/da", (gr_vec){ da, 4, GR_F32 }));
    GR_TRY(gr_step_read(step, "df/db", (gr_vec){ db, 2, GR_F32 }));
    printf("f     = %g\n", (double)f);
    printf("df/da = %g %g / %g %g\n", (double)da[0], (double)da[1], (double)da[2], (double)da[3]);
    printf("df/db = %g / %g\n", (double)db[0], (double)db[1]);
    return GR_OK;
}

int main(int argc, char **argv)
{
    gr_step_config config = GR_STEP_CONFIG_INIT;
    gr_step *step = NULL;
    char *text = NULL; /* the trace leaves the graph's text here */
    gr_status st;

    config.trace = trace;
    config.user = &text;
    config.device = "cpu";
    st = gr_step_create(&step, &config);
    if (st == GR_OK)
        st = run(step);
    if (st != GR_OK)
        fprintf(stderr, "%s: %s\n", gr_status_text(st), gr_error_message());
    (void)argv;
    if (text && argc > 1)
        printf("\n%s", text);
    free(text);
    gr_step_destroy(step);
    return gr_exit_code(st);
}
