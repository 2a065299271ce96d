/*
 * Row normalisation and softmax in whole training runs: gradients of weights and biases go to
 * their slots, so two ranks or two micro-steps give what one does, up to rounding; mixed
 * precision trains alike; and a resumed run has the same bits.
 */
#include <math.h>

#include "check.h"
#include "step/world.h"

/* 12-16-16-5 with layer norm, rms norm and both kinds of softmax. */
static gr_status trace(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x"), *h, *p;
    gr_value *w1 = gr_param(g, "ln.weight", GR_SHAPE(16), gr_init_const(1));
    gr_value *b1 = gr_param(g, "ln.bias", GR_SHAPE(16), gr_init_const(0));
    gr_value *w2 = gr_param(g, "rms.weight", GR_SHAPE(16), gr_init_const(1));

    (void)user;
    h = gr_relu(g, gr_layer_norm(g, gr_linear(g, "fc1", x, 16), w1, b1, 1e-5));
    h = gr_rms_norm_clamped(g, gr_linear(g, "fc2", h, 16), w2, 1e-6);
    h = gr_mul(g, h, gr_softmax(g, h, -1));
    p = gr_log_softmax(g, gr_linear(g, "fc3", h, 5), 1);
    gr_output(g, "argmax", gr_argmax(g, p, 1, false));
    /* The cross entropy of log shares is that of what they were made of. */
    gr_loss(g, gr_cross_entropy(g, p, gr_input(g, "y")));
    return gr_graph_status(g);
}

static job make_job(gr_amp amp, int accumulate)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job j = { .global_batch = 32, .n_steps = 8 };

    c.trace = trace;
    c.amp = amp;
    c.accumulate = accumulate;
    c.optim.momentum = 0.9;
    c.seed = 5;
    j.c = c;
    return j;
}

static void check_near(const job *a, const job *b, double most)
{
    for (int i = 0; i < gr_snapshot_count(a->end); i++) {
        const gr_named *x = gr_snapshot_at(a->end, i), *y = gr_snapshot_find(b->end, x->name);

        for (int64_t k = 0; x->dtype == GR_F32 && y && k < gr_shape_count(&x->shape); k++)
            GR_CHECK_NEAR(((const float *)x->mem)[k], ((const float *)y->mem)[k], most);
    }
}

static void test_resume(gr_amp amp)
{
    job whole = make_job(amp, 1), half = whole, rest = whole;

    half.n_steps = 4;
    rest.first = rest.n_steps = 4;
    GR_CHECK_OK(run_rank(&whole, NULL));
    GR_CHECK_OK(run_rank(&half, NULL));
    rest.start = half.end;
    GR_CHECK_OK(run_rank(&rest, NULL));
    check_same_state(whole.end, rest.end);
    gr_snapshot_destroy(whole.end);
    gr_snapshot_destroy(half.end);
    gr_snapshot_destroy(rest.end);
}

int main(void)
{
    job one = make_job(GR_AMP_NONE, 1), two = one, micro = make_job(GR_AMP_NONE, 2);
    job bf16 = make_job(GR_AMP_BF16, 1), f16 = make_job(GR_AMP_F16, 2);

    GR_CHECK_OK(run_rank(&one, NULL));
    run_ranks(&two, 2);
    GR_CHECK_OK(run_rank(&micro, NULL));
    GR_CHECK_OK(run_rank(&bf16, NULL));
    GR_CHECK_OK(run_rank(&f16, NULL));
    GR_CHECK(one.loss[0] > 0.5f && one.loss[7] > 0.5f); /* labels are random: near log 5 */
    check_near(&one, &two, 1e-4);
    check_near(&one, &micro, 1e-4);
    for (int i = 0; i < 8; i++) { /* 2^-8 and 2^-11 of losses near 2, over 8 steps */
        GR_CHECK_NEAR(one.loss[i], bf16.loss[i], 0.05);
        GR_CHECK_NEAR(one.loss[i], f16.loss[i], 0.01);
    }
    test_resume(GR_AMP_NONE);
    test_resume(GR_AMP_BF16);
    gr_snapshot_destroy(one.end);
    gr_snapshot_destroy(two.end);
    gr_snapshot_destroy(micro.end);
    gr_snapshot_destroy(bf16.end);
    gr_snapshot_destroy(f16.end);
    return 0;
}
