/*
 * Layers start with the numbers that PyTorch's would: drawn from one stream, in its order
 * (tests/golden/make_draws.py). Uniform ones to the last bit but one, normal ones nearly.
 */
#include "gradus/gradus.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"

#include <stdlib.h>

static gr_status trace(gr_graph *g, void *user)
{
    gr_conv two = GR_CONV_INIT;
    gr_transformer_opts o = { .heads = 3, .hidden = 20 };
    gr_value *x = gr_input(g, "x"), *y;

    (void)user;
    two.groups = 2;
    x = gr_conv_layer(g, "conv", x, 6, 3, &two, NULL);
    x = gr_batch_norm_layer(g, "bn", x);
    x = gr_conv_transpose_layer(g, "up", x, 4, 2, NULL, NULL);
    x = gr_linear(g, "fc", gr_flatten(g, x, 1, 2), 12);
    x = gr_multihead_attention(g, "attn", x, NULL, &(gr_attention_opts){ .heads = 3 });
    x = gr_encoder_layer(g, "enc", x, &o);
    y = gr_decoder_layer(g, "dec", x, x, &o);
    y = gr_add(g, y, gr_embedding_layer(g, "embed", gr_input(g, "i"), 7, 12, NULL));
    y = gr_mean(g, gr_linear(g, "last", y, 3), GR_AXES_ALL, false);
    x = gr_embedding_layer_padded(g, "padded", gr_input(g, "i"), 7, 12, -1, NULL);
    y = gr_add(g, y, gr_mean(g, x, GR_AXES_ALL, false));
    x = gr_conv_layer_hw(g, "wide", gr_input(g, "x"), 6, 1, 3, NULL, NULL);
    x = gr_conv_transpose_layer_hw(g, "high", x, 4, 3, 2, NULL, NULL);
    gr_loss(g, gr_add(g, y, gr_mean(g, x, GR_AXES_ALL, false)));
    return gr_graph_status(g);
}

/* "name element value": that element of that tensor. Returns the next line. */
static const char *check_line(const gr_snapshot *snap, const char *line)
{
    const char *space = strchr(line, ' ');
    char name[64], *end;
    const gr_named *t;
    double value;
    long i;

    GR_CHECK(space && (size_t)(space - line) < sizeof(name));
    snprintf(name, sizeof(name), "%.*s", (int)(space - line), line);
    t = gr_snapshot_find(snap, name);
    GR_CHECK(t != NULL && t->dtype == GR_F32);
    i = strtol(space, &end, 10);
    value = strtod(end, &end);
    GR_CHECK(i >= 0 && i < gr_shape_count(&t->shape) && *end == '\n');
    GR_CHECK_NEAR((double)((const float *)t->mem)[i], value, 4e-7);
    return end + 1;
}

int main(void)
{
    const gr_named feeds[] = { { .name = "x", .dtype = GR_F32, .shape = GR_SHAPE(2, 5, 5, 4) },
                               { .name = "i", .dtype = GR_I64, .shape = GR_SHAPE(2, 16) } };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_snapshot *snap;
    const char *line;
    size_t n_bytes;
    gr_step *s;
    char *text;
    int n = 0;

    c.trace = trace;
    c.device = "cpu";
    c.seed = 1234;
    GR_CHECK_OK(gr_file_read(GR_TESTS_DIR "/golden/draws.txt", &text, &n_bytes));
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_plan(s, true, feeds, 2));
    GR_CHECK_OK(gr_step_save(s, &snap));
    line = strchr(text, '\n');
    GR_CHECK(line != NULL);
    for (line++; *line; n++)
        line = check_line(snap, line);
    GR_CHECK_EQ(n, 3 * 50);
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
    gr_free(text);
    return 0;
}
