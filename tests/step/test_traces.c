/*
 * Evaluation traces by name: they share the state that the training trace lays out, each has
 * plans of its own, and what is misspelt or needs other state is refused.
 */
#include "check.h"
#include "step/world.h"

#include <stdlib.h>

#define N 8

static gr_value *weight(gr_graph *g)
{
    return gr_param(g, "w", GR_SHAPE(12, 5), gr_init_uniform(-0.3, 0.3));
}

static gr_status train(gr_graph *g, void *user)
{
    gr_value *logits = gr_matmul(g, gr_input(g, "x"), weight(g));

    (void)user;
    GR_CHECK(gr_is_training(g));
    gr_output(g, "logits", logits);
    gr_loss(g, gr_cross_entropy(g, logits, gr_input(g, "y")));
    return gr_graph_status(g);
}

/* Twice the logits. */
static gr_status eval(gr_graph *g, void *user)
{
    (void)user;
    GR_CHECK(!gr_is_training(g));
    gr_output(g, "logits", gr_mul_k(g, gr_matmul(g, gr_input(g, "x"), weight(g)), 2));
    return gr_graph_status(g);
}

/* The sum of the weights: it reads no feed. */
static gr_status sum(gr_graph *g, void *user)
{
    (void)user;
    gr_output(g, "sum", gr_sum(g, weight(g), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static gr_status other(gr_graph *g, void *user)
{
    (void)user;
    gr_output(g, "sum", gr_param(g, "other", GR_SHAPE(2), gr_init_const(1)));
    return gr_graph_status(g);
}

static const gr_named_trace traces[] = {
    { "train", train }, { "eval", eval }, { "sum", sum }, { "other", other }
};

static void check_weights(gr_step *s, const batch *b, const float *w)
{
    double want = 0;
    float logits[N * 5], total;

    for (int i = 0; i < 12 * 5; i++)
        want += (double)w[i];
    GR_CHECK_OK(gr_step_eval_named(s, "sum", NULL, 0));
    GR_CHECK_OK(gr_step_read(s, "sum", (gr_vec){ &total, 1, GR_F32 }));
    GR_CHECK_NEAR((double)total, want, 1e-5);
    for (int way = 0; way < 2; way++) { /* both are the trace "eval" */
        GR_CHECK_OK(way ? gr_step_eval(s, b->feeds, 2)
                        : gr_step_eval_named(s, "eval", b->feeds, 2));
        GR_CHECK_OK(gr_step_read(s, "logits", (gr_vec){ logits, N * 5, GR_F32 }));
        for (int i = 0; i < N * 5; i++) {
            want = 0;
            for (int k = 0; k < 12; k++)
                want += 2 * (double)b->x[i / 5 * 12 + k] * (double)w[k * 5 + i % 5];
            GR_CHECK_NEAR((double)logits[i], want, 1e-5);
        }
    }
}

static void check_run(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    batch *b = malloc(sizeof(*b));
    gr_step_stats stats;
    gr_snapshot *snap;
    gr_step *s;

    c.traces = traces;
    c.n_traces = 4;
    c.device = "cpu";
    c.ema_decay = 0.5;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, N);
    for (int i = 0; i < 3; i++)
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 1.0));
    GR_CHECK_OK(gr_step_plan_named(s, "eval", b->feeds, 2));
    GR_CHECK_OK(gr_step_save(s, &snap));
    check_weights(s, b, (const float *)gr_snapshot_find(snap, "w")->mem);
    GR_CHECK_OK(gr_step_get_stats(s, &stats));
    GR_CHECK_EQ(stats.n_plans, 3); /* a training step, "eval", "sum" */
    GR_CHECK_OK(gr_step_use_ema(s, true));
    check_weights(s, b, (const float *)gr_snapshot_find(snap, "ema.w")->mem);
    GR_CHECK_OK(gr_step_use_ema(s, false));
    check_weights(s, b, (const float *)gr_snapshot_find(snap, "w")->mem);

    GR_CHECK_FAILS(gr_step_eval_named(s, "sample", b->feeds, 2), GR_ERR_ARG,
                   "there is no trace 'sample' to evaluate; there are: eval sum other");
    GR_CHECK_FAILS(gr_step_eval_named(s, "train", b->feeds, 2), GR_ERR_ARG, "no trace 'train'");
    GR_CHECK_FAILS(gr_step_eval_named(s, "other", b->feeds, 2), GR_ERR_ARG,
                   "variable 'other' is new");
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
    free(b);
}

static void check_refused(void)
{
    static const gr_named_trace twice[] = { { "train", train }, { "a", sum }, { "a", other } };
    static const gr_named_trace none[] = { { "eval", eval }, { "a", NULL } };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;

    c.traces = twice;
    c.n_traces = 3;
    GR_CHECK_FAILS(gr_step_create(&s, &c), GR_ERR_ARG, "two traces are called 'a'");
    c.traces = none;
    c.n_traces = 2;
    GR_CHECK_FAILS(gr_step_create(&s, &c), GR_ERR_ARG, "trace 1 has no name or no function");
    c.n_traces = 1;
    GR_CHECK_FAILS(gr_step_create(&s, &c), GR_ERR_ARG, "trace is NULL");
}

int main(void)
{
    check_run();
    check_refused();
    return 0;
}
