/* One rank: it learns, repeats bit for bit, allocates nothing later, and says what is wrong. */
#include "alloc_fail.h"
#include "check.h"
#include "step/world.h"

static job mlp_job(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job j = { .global_batch = 16, .n_steps = 40 };

    c.trace = trace_mlp;
    c.seed = 3;
    c.optim.momentum = 0.9;
    j.c = c;
    return j;
}

static void test_learns_and_repeats(void)
{
    job a = mlp_job(), b = mlp_job();

    GR_CHECK_OK(run_rank(&a, NULL));
    GR_CHECK_OK(run_rank(&b, NULL));
    check_same_state(a.end, b.end);
    GR_CHECK_NEAR(a.loss[0], 1.6, 0.3); /* log 5, about */
    gr_snapshot_destroy(a.end);
    gr_snapshot_destroy(b.end);
}

static void test_fits_one_batch(void)
{
    job j = mlp_job();
    gr_step *s;
    batch *b = malloc(sizeof(*b));
    float loss = 9;

    j.c.device = "cpu";
    j.c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    GR_CHECK_OK(gr_step_create(&s, &j.c));
    batch_fill(b, false, 0, 0, 16);
    for (int i = 0; i < 300; i++)
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.01));
    GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    GR_CHECK(loss < 0.01f);
    gr_step_destroy(s);
    free(b);
}

/* Guards P23: memory is planned once; nothing is there that could fall to pieces. */
static void test_second_step_allocates_nothing(void)
{
    job j = mlp_job();
    gr_step *s;
    batch *b = malloc(sizeof(*b));
    long before;

    j.c.device = "cpu";
    j.c.n_threads = 2;
    j.c.accumulate = 2;
    j.c.clip_norm = 1;
    GR_CHECK_OK(gr_step_create(&s, &j.c));
    batch_fill(b, false, 0, 0, 16);
    GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
    GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
    before = gr_alloc_count();
    for (int i = 0; i < 6; i++)
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
    GR_CHECK_EQ(gr_alloc_count() - before, 0);
    gr_step_destroy(s);
    free(b);
}

static void test_plan_cache(void)
{
    job j = mlp_job();
    gr_step *s;
    batch *b = malloc(sizeof(*b));
    gr_step_stats stats;

    j.c.device = "cpu";
    j.c.max_plans = 3;
    GR_CHECK_OK(gr_step_create(&s, &j.c));
    for (int round = 0; round < 3; round++)
        for (int n = 15; n < 17; n++) {
            batch_fill(b, false, 0, 0, n);
            GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
        }
    GR_CHECK_OK(gr_step_get_stats(s, &stats));
    GR_CHECK_EQ(stats.n_plans, 2);
    GR_CHECK_EQ(stats.n_plans_made, 2);
    GR_CHECK_EQ(stats.n_steps, 6);
    GR_CHECK_EQ(stats.n_params, 12 * 16 + 16 + 16 * 8 + 8 + 8 * 5 + 5);
    for (int n = 1; n < 8; n++) {
        batch_fill(b, false, 0, 0, n);
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
    }
    GR_CHECK_OK(gr_step_get_stats(s, &stats));
    GR_CHECK_EQ(stats.n_plans, 3);
    GR_CHECK_EQ(stats.n_plans_made, 9);
    gr_step_destroy(s);
    free(b);
}

static void test_evaluation_shares_state(void)
{
    job j = mlp_job();
    gr_step *s;
    batch *b = malloc(sizeof(*b));
    float before = 0, after = 0, logits[8 * 5];

    j.c.device = "cpu";
    GR_CHECK_OK(gr_step_create(&s, &j.c));
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    GR_CHECK_OK(gr_step_eval(s, b->feeds, 2));
    GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &before, 1, GR_F32 }));
    for (int i = 0; i < 20; i++)
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.05));
    GR_CHECK_OK(gr_step_eval(s, b->feeds, 2));
    GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &after, 1, GR_F32 }));
    GR_CHECK_OK(gr_step_read(s, "logits", (gr_vec){ logits, 40, GR_F32 }));
    GR_CHECK(after < before);
    GR_CHECK_FAILS(gr_step_read(s, "logit", (gr_vec){ logits, 40, GR_F32 }), GR_ERR_ARG,
                   "no output 'logit'");
    GR_CHECK_FAILS(gr_step_read(s, "logits", (gr_vec){ logits, 39, GR_F32 }), GR_ERR_ARG,
                   "output 'logits' is f32 [8, 5], asked for as 39 x f32");
    gr_step_destroy(s);
    free(b);
}

static gr_status trace_wrong(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_value *w = gr_param(g, "w", GR_SHAPE(7, 16), gr_init_const(1));

    (void)user;
    gr_loss(g, gr_mean(g, gr_matmul(g, x, w), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_bad_input_is_named(void)
{
    job j = mlp_job();
    gr_step *s;
    batch *b = malloc(sizeof(*b));

    j.c.device = "cpu";
    GR_CHECK_OK(gr_step_create(&s, &j.c));
    batch_fill(b, false, 0, 0, 8);
    b->y[3] = 17;
    GR_CHECK_FAILS(gr_step_train(s, b->feeds, 2, 0.1), GR_ERR_ARG,
                   "index 17 at row 3 is outside [0, 5)");
    b->feeds[1].name = "z";
    GR_CHECK_FAILS(gr_step_train(s, b->feeds, 2, 0.1), GR_ERR_ARG, "input 'y' is not among");
    gr_step_destroy(s);
    j.c.trace = trace_wrong;
    GR_CHECK_OK(gr_step_create(&s, &j.c));
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK_FAILS(gr_step_train(s, b->feeds, 2, 0.1), GR_ERR_ARG, "tests/step/test_train.c:");
    GR_CHECK(strstr(gr_error_message(), "matmul f32 [8, 12], f32 [7, 16]"));
    gr_step_destroy(s);
    free(b);
}

static gr_status trace_frozen(gr_graph *g, void *user)
{
    gr_value *w = gr_param(g, "w", GR_SHAPE(12, 1), gr_init_const(1));

    (void)user;
    gr_freeze(g, w);
    gr_loss(g, gr_mean(g, gr_matmul(g, gr_input(g, "x"), w), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

/* Calls that would ruin or skip training in silence. */
static void test_senseless_training(void)
{
    job j = mlp_job();
    gr_step *s = NULL;
    batch *b = malloc(sizeof(*b));

    j.c.device = "cpu";
    GR_CHECK_FAILS(gr_step_create(&s, NULL), GR_ERR_ARG, "config is NULL");
    GR_CHECK_OK(gr_step_create(&s, &j.c));
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK_FAILS(gr_step_train(s, b->feeds, 2, (double)NAN), GR_ERR_ARG, "the learning rate is");
    GR_CHECK_FAILS(gr_step_train(s, b->feeds, 2, -1), GR_ERR_ARG, "the learning rate is -1");
    GR_CHECK_FAILS(gr_step_train(s, NULL, 2, 0.1), GR_ERR_ARG, "2 feeds at address");
    b->feeds[1].name = "x";
    GR_CHECK_FAILS(gr_step_train(s, b->feeds, 2, 0.1), GR_ERR_ARG,
                   "feeds 0 and 1 are both called 'x'");
    GR_CHECK_FAILS(gr_step_plan(s, false, b->feeds, 2), GR_ERR_ARG, "both called 'x'");
    b->feeds[1].name = "y";
    b->feeds[0].shape.dim[0] = 0;
    GR_CHECK_FAILS(gr_step_train(s, b->feeds, 2, 0.1), GR_ERR_ARG, "feed 'x' is empty");
    b->feeds[0].shape.dim[0] = 8;
    b->feeds[0].dtype = (gr_dtype)77;
    GR_CHECK_FAILS(gr_step_train(s, b->feeds, 2, 0.1), GR_ERR_ARG, "no element type 77");
    gr_step_destroy(s);
    j.c.trace = trace_frozen;
    GR_CHECK_OK(gr_step_create(&s, &j.c));
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK_FAILS(gr_step_train(s, b->feeds, 1, 0.1), GR_ERR_ARG, "nothing to train");
    gr_step_destroy(s);
    free(b);
}

static void expect_refused(void (*change)(gr_step_config *c), const char *part)
{
    job j = mlp_job();
    gr_step *s = NULL;

    j.c.device = "cpu";
    change(&j.c);
    GR_CHECK_FAILS(gr_step_create(&s, &j.c), GR_ERR_ARG, part);
}

static void no_trace(gr_step_config *c)
{
    c->trace = NULL;
}

static void no_micro(gr_step_config *c)
{
    c->accumulate = 0;
}

static void bad_device(gr_step_config *c)
{
    c->device = "gpu";
}

static void bad_beta(gr_step_config *c)
{
    c->optim.beta1 = 2;
}

static void bad_pass(gr_step_config *c)
{
    c->dump_after = "autodif";
}

static void bad_clip(gr_step_config *c)
{
    c->clip_norm = -1;
}

static void test_bad_settings(void)
{
    expect_refused(no_trace, "trace is NULL");
    expect_refused(no_micro, "accumulate is 0");
    expect_refused(bad_device, "device 'gpu': use cpu, cuda, cuda:N or auto");
    expect_refused(bad_beta, "beta1 is 2");
    expect_refused(bad_pass, "no pass is called 'autodif'; there are trace, average, outputs");
    expect_refused(bad_clip, "clip_norm is -1");
}

/* A name that no parameter has is more likely misspelt than meant so. */
static void test_patterns(void)
{
    static const struct {
        gr_param_group group;
        const char *freeze, *part; /* NULL: fine */
    } rows[] = {
        { { "fc1.*|*.bias", 1, 0, NULL }, "fc2.*", NULL },
        { { "fc1.*|*.bais", 1, 0, NULL },
          NULL,
          "optimiser: group 0: no parameter is called '*.bais'; the nearest: 'fc1.bias', "
          "'fc2.bias'" },
        { { "fcl.*", 1, 0, "a.yaml:7: no_decay" },
          NULL,
          "a.yaml:7: no_decay: no parameter is called 'fcl.*'; the nearest: 'fc1.weight', "
          "'fc1.bias', 'fc2.weight'" },
        { { "*", 1, 0, NULL },
          "fc2.*, fc4.weight",
          "freeze: no parameter is called 'fc4.weight'; the nearest: 'fc1.weight', 'fc2.weight'" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        job j = mlp_job();
        batch *b = malloc(sizeof(*b));
        gr_step *s;

        j.c.device = "cpu";
        j.c.freeze = rows[i].freeze;
        j.c.optim.groups = &rows[i].group;
        j.c.optim.n_groups = 1;
        GR_CHECK_OK(gr_step_create(&s, &j.c));
        batch_fill(b, false, 0, 0, 8);
        if (rows[i].part)
            GR_CHECK_FAILS(gr_step_plan(s, true, b->feeds, 2), GR_ERR_ARG, rows[i].part);
        else
            GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
        GR_CHECK_OK(gr_step_plan(s, false, b->feeds, 2)); /* nothing learns there */
        gr_step_destroy(s);
        free(b);
    }
}

static gr_status train_once(void *arg)
{
    job j = mlp_job();
    gr_status st;

    (void)arg;
    j.n_steps = 2;
    j.c.accumulate = 2;
    j.c.clip_norm = 1;
    j.c.amp = GR_AMP_F16;
    st = run_rank(&j, NULL);
    gr_snapshot_destroy(j.end);
    return st;
}

int main(void)
{
    test_learns_and_repeats();
    test_fits_one_batch();
    test_second_step_allocates_nothing();
    test_plan_cache();
    test_evaluation_shares_state();
    test_bad_input_is_named();
    test_bad_settings();
    test_senseless_training();
    test_patterns();
    GR_CHECK(gr_alloc_fail_each(train_once, NULL) > 50);
    return 0;
}
