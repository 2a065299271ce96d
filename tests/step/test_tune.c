/*
 * Kernels chosen by measuring: every rank chooses alike, the model that is trained is the
 * same within rounding, and the choices of a run repeat its bits.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "step/world.h"

#define SIDE 64 /* large enough for the fast kernels */

static float input[SIDE * SIDE];

static gr_status trace(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_value *w = gr_param(g, "w", GR_SHAPE(SIDE, SIDE), gr_init_uniform(-0.1, 0.1));

    (void)user;
    x = gr_matmul(g, gr_tanh(g, gr_matmul(g, x, w)), w);
    gr_loss(g, gr_mean(g, gr_mul(g, x, x), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

/* Trains three steps and gives the loss and the choices. */
static float train(const char *choices, bool tune, char **out)
{
    gr_named feed = { "x", GR_F32, GR_SHAPE(SIDE, SIDE), input };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;
    float loss;

    c.trace = trace;
    c.device = "cpu";
    c.tune = tune;
    c.choices = choices;
    GR_CHECK_OK(gr_step_create(&s, &c));
    for (int i = 0; i < 3; i++)
        GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.5));
    GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    GR_CHECK_OK(gr_step_choices(s, out));
    gr_step_destroy(s);
    return loss;
}

static void test_choices_repeat(void)
{
    char *plain, *chosen, *again;
    float a = train(NULL, false, &plain), b = train(NULL, true, &chosen), c;

    GR_CHECK_STR(plain, "");
    GR_CHECK_NEAR(a, b, 1e-5);
    c = train(chosen, true, &again);
    GR_CHECK(memcmp(&b, &c, sizeof(b)) == 0);
    GR_CHECK_STR(chosen, again);
    free(plain);
    free(chosen);
    free(again);
}

/* A choice that is given counts, also one that no measuring would make. */
static void test_given_choice(void)
{
    static const char given[] = "matmul f32 [64, 64], f32 [64, 64] > f32 [64, 64] = reference\n";
    gr_named feed = { "x", GR_F32, GR_SHAPE(SIDE, SIDE), input };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;
    char *text;

    c.trace = trace;
    c.device = "cpu";
    c.choices = given;
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.5));
    GR_CHECK_OK(gr_step_describe(s, &text));
    GR_CHECK(strstr(text, "reference"));
    free(text);
    gr_step_destroy(s);

    c.choices = "no mark in this line\n";
    GR_CHECK(gr_step_create(&s, &c) == GR_ERR_ARG);
    GR_CHECK(strstr(gr_error_message(), "has no ' = '"));
}

/* Ranks that chose differently would end with different weights: run_ranks() compares. */
static void test_ranks_agree(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job j = { .global_batch = 36, .n_steps = 4 };

    c.trace = trace_mlp;
    c.seed = 1;
    c.tune = true;
    j.c = c;
    run_ranks(&j, 3);
    gr_snapshot_destroy(j.end);
}

int main(void)
{
    for (int i = 0; i < SIDE * SIDE; i++)
        input[i] = (float)(i % 17 - 8) / 8.0F;
    test_choices_repeat();
    test_given_choice();
    test_ranks_agree();
    return 0;
}
