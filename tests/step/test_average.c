/*
 * Evaluation with averaged parameters: every reader gets the average, one that reads a view of the
 * parameter as well.
 */
#include "check.h"
#include "step/world.h"

#include <stdlib.h>

#define N 8

/* Logits of one layer, whose weight is a parameter of one dimension. */
static gr_status trace_view(gr_graph *g, void *user)
{
    gr_value *v = gr_param(g, "v", GR_SHAPE(12 * 5), gr_init_uniform(-0.3, 0.3));
    gr_value *logits = gr_matmul(g, gr_input(g, "x"), gr_reshape(g, v, GR_SHAPE(12, 5)));

    (void)user;
    gr_output(g, "logits", logits);
    gr_loss(g, gr_cross_entropy(g, logits, gr_input(g, "y")));
    return gr_graph_status(g);
}

static double logit(const batch *b, const float *w, int row, int col)
{
    double sum = 0;

    for (int k = 0; k < 12; k++)
        sum += (double)b->x[row * 12 + k] * (double)w[k * 5 + col];
    return sum;
}

static void check_logits(gr_step *s, const batch *b, const float *w)
{
    float logits[N * 5];

    GR_CHECK_OK(gr_step_eval(s, b->feeds, 2));
    GR_CHECK_OK(gr_step_read(s, "logits", (gr_vec){ logits, N * 5, GR_F32 }));
    for (int i = 0; i < N * 5; i++)
        GR_CHECK_NEAR((double)logits[i], logit(b, w, i / 5, i % 5), 1e-5);
}

int main(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    batch *b = malloc(sizeof(*b));
    gr_snapshot *snap;
    gr_step *s;

    c.trace = trace_view;
    c.device = "cpu";
    c.ema_decay = 0.75;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, N);
    for (int i = 0; i < 4; i++)
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 1.0));
    GR_CHECK_OK(gr_step_save(s, &snap));
    check_logits(s, b, (const float *)gr_snapshot_find(snap, "v")->mem);
    GR_CHECK_OK(gr_step_use_ema(s, true));
    check_logits(s, b, (const float *)gr_snapshot_find(snap, "ema.v")->mem);
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
    free(b);
    return 0;
}
