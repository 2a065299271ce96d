/* Reductions that are compositions (min, count_nonzero), and results without the dimension
 * (argmax, logsumexp), run as a step's evaluation. */
#include <math.h>

#include "check.h"
#include "gradus/gradus.h"

static gr_status trace(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x"), *u = gr_input(g, "u"), *least, *index, *dx;

    (void)user;
    least = gr_min(g, x, GR_AXIS(1), false);
    gr_output(g, "min", least);
    gr_output(g, "min all", gr_min(g, x, GR_AXES_ALL, true));
    gr_output(g, "min u8", gr_min(g, u, GR_AXIS(0), false));
    gr_output(g, "count", gr_count_nonzero(g, x, GR_AXIS(0), false));
    gr_output(g, "count u8", gr_count_nonzero(g, u, GR_AXES_ALL, false));
    gr_output(g, "argmax", gr_argmax(g, x, 1, false));
    gr_output(g, "argmin", gr_argmin(g, x, -1, true));
    gr_output(g, "most", gr_max_index(g, x, 1, false, &index));
    gr_output(g, "lse", gr_logsumexp(g, x, 0, false));
    GR_CHECK(gr_value_shape(index).n_dims == 1 && gr_value_dtype(index) == GR_I64);
    gr_gradients(g, gr_sum(g, least, GR_AXES_ALL, false), &x, 1, &dx);
    gr_output(g, "dmin", dx);
    return gr_graph_status(g);
}

static void read(gr_step *s, const char *name, void *to, size_t n, gr_dtype t)
{
    GR_CHECK_OK(gr_step_read(s, name, (gr_vec){ to, n, t }));
}

int main(void)
{
    float x[6] = { 3, -1, 2, 0, 5, -7 }, f[6];
    uint8_t u[6] = { 9, 0, 200, 4, 0, 7 }, b[3];
    gr_named feeds[2] = { { "x", GR_F32, GR_SHAPE(2, 3), x }, { "u", GR_U8, GR_SHAPE(2, 3), u } };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    int64_t i[3];
    gr_step *s;

    c.trace = trace;
    c.device = "cpu";
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_eval(s, feeds, 2));
    read(s, "min", f, 2, GR_F32);
    GR_CHECK(f[0] == -1 && f[1] == -7);
    read(s, "min all", f, 1, GR_F32);
    GR_CHECK(f[0] == -7);
    read(s, "min u8", b, 3, GR_U8);
    GR_CHECK(b[0] == 4 && b[1] == 0 && b[2] == 7);
    read(s, "count", i, 3, GR_I64);
    GR_CHECK(i[0] == 1 && i[1] == 2 && i[2] == 2);
    read(s, "count u8", i, 1, GR_I64);
    GR_CHECK(i[0] == 4);
    read(s, "argmax", i, 2, GR_I64);
    GR_CHECK(i[0] == 0 && i[1] == 1);
    read(s, "argmin", i, 2, GR_I64);
    GR_CHECK(i[0] == 1 && i[1] == 2);
    read(s, "most", f, 2, GR_F32);
    GR_CHECK(f[0] == 3 && f[1] == 5);
    read(s, "lse", f, 3, GR_F32);
    GR_CHECK_NEAR(f[0], log(exp(3) + 1), 1e-5);
    read(s, "dmin", f, 6, GR_F32);
    GR_CHECK(f[0] == 0 && f[1] == 1 && f[2] == 0 && f[5] == 1);
    gr_step_destroy(s);
    return 0;
}
