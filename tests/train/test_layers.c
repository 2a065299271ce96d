/* The table of layers: counts, frozen parameters, arithmetic of one sample. */
#include "train/layers.h"

#include "gradus/nn.h"
#include "gradus/ops.h"
#include "gradus/step.h"
#include "step/inspect.h"

#include "check.h"

static gr_status trace(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");

    (void)user;
    x = gr_relu(g, gr_linear(g, "body.fc", x, 8));
    x = gr_linear(g, "head", x, 2);
    gr_loss(g, gr_mean(g, x, GR_AXES_ALL, false));
    return gr_graph_status(g);
}

int main(void)
{
    gr_named feed = { .name = "x", .dtype = GR_F32, .shape = GR_SHAPE(4, 16) };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_text text = GR_TEXT_INIT;
    gr_step *s;

    c.trace = trace;
    c.device = "cpu";
    c.freeze = "body.*";
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_plan(s, true, &feed, 1));
    GR_CHECK_OK(gr_layers_text(gr_step_first_graph(s), gr_step_vars(s), 4, &text));
    /* 16 x 8 + 8 and 8 x 2 + 2 parameters; 2 x 16 x 8 and 2 x 8 x 2 operations. */
    GR_CHECK(strstr(gr_text_str(&text),
                    "body.fc                                           136      "
                    "    136          0        256\n"));
    GR_CHECK(strstr(gr_text_str(&text),
                    "head                                               18      "
                    "      0          0         32\n"));
    GR_CHECK(strstr(gr_text_str(&text),
                    "all                                               154      "
                    "    136          0        288\n"));
    gr_text_fini(&text);
    gr_layers_count(1.8244e9, &text);
    GR_CHECK(strcmp(gr_text_str(&text), "1.82 G") == 0);
    gr_text_fini(&text);
    gr_step_destroy(s);
    return 0;
}
