/*
 * Several ranks give what one rank with the joint batch gives: exactly, on data whose
 * sums are exact; they allocate nothing later; and every rank that differs is refused before
 * step 1.
 */
#include <pthread.h>

#include "base/alloc.h"
#include "check.h"
#include "step/world.h"

static job exact_job(int accumulate, gr_optim_kind kind)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    /* The first AdamW step makes weights that are no round numbers any more. */
    job j = { .global_batch = 32, .n_steps = kind == GR_OPTIM_SGD ? 3 : 1, .exact = true };

    c.trace = trace_exact;
    c.accumulate = accumulate;
    c.optim.kind = kind;
    c.optim.momentum = 0.5;
    c.first_bucket_bytes = 64; /* several buckets, so that order and overlap matter */
    c.bucket_bytes = 512;
    j.c = c;
    return j;
}

/* With momentum 0.5, lr 1/8 and power-of-two batches, three steps stay exact in f32. */
static void test_equals_joint_batch(int n_ranks, int accumulate, gr_optim_kind kind)
{
    job one = exact_job(1, kind), many = exact_job(accumulate, kind);

    GR_CHECK_OK(run_rank(&one, NULL));
    run_ranks(&many, n_ranks);
    check_same_state(one.end, many.end);
    gr_snapshot_destroy(one.end);
    gr_snapshot_destroy(many.end);
}

/* A real model: ranks agree with each other bit for bit from run to run, and with one
 * rank up to rounding. */
static void test_mlp_is_close(int n_ranks)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job one = { .global_batch = 36, .n_steps = 20 }, a, b;

    c.trace = trace_mlp;
    c.seed = 1;
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    c.clip_norm = 0.5;
    one.c = c;
    a = b = one;
    GR_CHECK_OK(run_rank(&one, NULL));
    run_ranks(&a, n_ranks);
    run_ranks(&b, n_ranks);
    check_same_state(a.end, b.end);
    for (int i = 0; i < gr_snapshot_count(one.end); i++) {
        const gr_named *x = gr_snapshot_at(one.end, i), *y = gr_snapshot_find(a.end, x->name);

        for (int64_t k = 0; x->dtype == GR_F32 && k < gr_shape_count(&x->shape); k++)
            GR_CHECK_NEAR(((const float *)x->mem)[k], ((const float *)y->mem)[k], 2e-2);
    }
    gr_snapshot_destroy(one.end);
    gr_snapshot_destroy(a.end);
    gr_snapshot_destroy(b.end);
}

/* ---- refusal ---- */

typedef struct rank_args {
    gr_pg *pg;
    gr_step_config c;
    gr_status status;
    char message[600];
} rank_args;

static void *plan_only(void *arg)
{
    rank_args *a = arg;
    batch *b = malloc(sizeof(*b));
    gr_step *s;

    a->c.pg = a->pg;
    GR_CHECK_OK(gr_step_create(&s, &a->c));
    batch_fill(b, false, 0, 0, 8);
    a->status = gr_step_plan(s, true, b->feeds, 2);
    snprintf(a->message, sizeof(a->message), "%s", gr_error_message());
    gr_step_destroy(s);
    gr_pg_destroy(a->pg);
    free(b);
    return NULL;
}

static void expect_difference(void (*change)(gr_step_config *c), const char *const part[3])
{
    gr_pg_config pc = GR_PG_CONFIG_INIT;
    gr_pg *pg[2];
    rank_args a[2];
    pthread_t t[2];

    pc.timeout_ms = 240000;
    GR_CHECK_OK(gr_pg_create_threads(pg, 2, &pc));
    for (int i = 0; i < 2; i++) {
        gr_step_config c = GR_STEP_CONFIG_INIT;

        c.trace = trace_mlp;
        c.device = "cpu";
        if (i == 1)
            change(&c);
        a[i] = (rank_args){ .pg = pg[i], .c = c };
        GR_CHECK_EQ(pthread_create(&t[i], NULL, plan_only, &a[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < 2; i++) {
        GR_CHECK_EQ(a[i].status, GR_ERR_ARG);
        for (int k = 0; k < 3; k++)
            if (!strstr(a[i].message, part[k])) {
                fprintf(stderr, "rank %d: '%s' lacks '%s'\n", i, a[i].message, part[k]);
                exit(1);
            }
    }
}

/* Two ranks that train with different learning rates are stopped at the first exchange. */
static void *train_at_own_rate(void *arg)
{
    rank_args *a = arg;
    batch *b = malloc(sizeof(*b));
    gr_step *s;

    a->c.pg = a->pg;
    GR_CHECK_OK(gr_step_create(&s, &a->c));
    batch_fill(b, false, 0, 0, 8);
    a->status = gr_step_train(s, b->feeds, 2, gr_pg_rank(a->pg) == 0 ? 0.1 : 0.01);
    snprintf(a->message, sizeof(a->message), "%s", gr_error_message());
    gr_step_destroy(s);
    gr_pg_destroy(a->pg);
    free(b);
    return NULL;
}

static void test_learning_rates_differ(void)
{
    gr_pg_config pc = GR_PG_CONFIG_INIT;
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_pg *pg[2];
    rank_args a[2];
    pthread_t t[2];

    c.trace = trace_mlp;
    c.device = "cpu";
    GR_CHECK_OK(gr_pg_create_threads(pg, 2, &pc));
    for (int i = 0; i < 2; i++) {
        a[i] = (rank_args){ .pg = pg[i], .c = c };
        GR_CHECK_EQ(pthread_create(&t[i], NULL, train_at_own_rate, &a[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    /* Whoever sees it first breaks the group; the other gets that reason. */
    for (int i = 0; i < 2; i++) {
        GR_CHECK(a[i].status == GR_ERR_ARG || a[i].status == GR_ERR_PEER);
        GR_CHECK(strstr(a[i].message, "the learning rate") != NULL);
    }
}

static void other_seed(gr_step_config *c)
{
    c->seed = 12345;
}

static void other_clip(gr_step_config *c)
{
    c->clip_norm = 2.5;
}

static void other_zero(gr_step_config *c)
{
    c->zero = 1;
}

static gr_status trace_wider(gr_graph *g, void *user)
{
    gr_value *h = gr_relu(g, gr_linear(g, "fc1", gr_input(g, "x"), 17));

    (void)user;
    gr_loss(g, gr_cross_entropy(g, gr_linear(g, "fc3", h, 5), gr_input(g, "y")));
    return gr_graph_status(g);
}

static void other_model(gr_step_config *c)
{
    c->trace = trace_wider;
}

static void other_config(gr_step_config *c)
{
    c->config_text = "epochs: 3\nbatch: 9\n";
}

/* The count is of the whole process, so of both ranks: between barriers nobody else works. */
static void count_allocations(gr_pg *pg, void *config)
{
    gr_step_config c = *(gr_step_config *)config;
    batch *b = malloc(sizeof(*b));
    gr_step *s;
    long before;

    c.pg = pg;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, 16);
    for (int i = 0; i < 2 * c.accumulate; i++)
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
    GR_CHECK_OK(gr_pg_barrier(pg));
    before = gr_alloc_count();
    GR_CHECK_OK(gr_pg_barrier(pg));
    for (int i = 0; i < 6; i++)
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
    GR_CHECK_OK(gr_pg_barrier(pg));
    GR_CHECK_EQ(gr_alloc_count() - before, 0);
    GR_CHECK_OK(gr_pg_barrier(pg));
    gr_step_destroy(s);
    free(b);
}

static void test_later_steps_allocate_nothing(const char *without)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace_mlp;
    c.device = "cpu";
    c.amp = GR_AMP_F16;
    c.accumulate = 2;
    c.clip_norm = 1;
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    c.first_bucket_bytes = 64;
    c.bucket_bytes = 512;
    c.without = without;
    GR_CHECK_EQ(setenv("GR_COMMON_FROM", "0", 1), 0); /* small models, too */
    each_rank(2, count_allocations, &c);
    GR_CHECK_EQ(unsetenv("GR_COMMON_FROM"), 0);
}

int main(void)
{
    test_equals_joint_batch(2, 1, GR_OPTIM_SGD);
    test_equals_joint_batch(4, 1, GR_OPTIM_SGD);
    test_equals_joint_batch(2, 4, GR_OPTIM_SGD);
    test_equals_joint_batch(1, 4, GR_OPTIM_SGD);
    test_equals_joint_batch(2, 2, GR_OPTIM_ADAMW);
    test_mlp_is_close(2);
    test_mlp_is_close(3);
    test_later_steps_allocate_nothing(NULL);
    test_later_steps_allocate_nothing("common");
    expect_difference(other_seed, (const char *const[]){ "seed", "12345", "rank 1" });
    expect_difference(other_clip, (const char *const[]){ "optimiser", "clip norm 2.5", "rank 1" });
    expect_difference(other_zero, (const char *const[]){ "'zero'", "rank 0 has '0'", "rank 1" });
    expect_difference(other_model, (const char *const[]){ "variable", "rank 0", "rank 1" });
    expect_difference(other_config, (const char *const[]){ "config line", "rank 0", "rank 1" });
    test_learning_rates_differ();
    return 0;
}
