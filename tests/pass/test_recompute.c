/*
 * Values computed anew: the same bits as values kept, with dropout, mixed precision and
 * ranks; less memory; as many blocks as a limit asks for; and what may not be cloned is
 * not.
 */
#include "alloc_fail.h"
#include "check.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "step/inspect.h"
#include "step/world.h"

#define N_BLOCKS 4

/* Residual blocks of two layers with an activation and dropout between them. */
static gr_status trace_blocks(gr_graph *g, void *user)
{
    gr_value *h = gr_linear(g, "in", gr_input(g, "x"), 64);

    for (int i = 0; i < N_BLOCKS; i++) {
        char name[32], fc[48];
        gr_value *y;

        snprintf(name, sizeof(name), "blocks.%d", i);
        gr_block_begin(g, name);
        snprintf(fc, sizeof(fc), "%s.fc1", name);
        y = gr_tanh(g, gr_linear(g, fc, h, 128));
        y = gr_dropout(g, gr_square(g, y), 0.25);
        snprintf(fc, sizeof(fc), "%s.fc2", name);
        y = gr_relu(g, gr_linear(g, fc, y, 64));
        h = gr_add(g, h, gr_exp(g, gr_mul_k(g, y, -0.5)));
        gr_block_end(g);
    }
    (void)user;
    gr_loss(g, gr_cross_entropy(g, gr_linear(g, "out", h, 5), gr_input(g, "y")));
    return gr_graph_status(g);
}

static job make_job(gr_recompute how, gr_amp amp, int threads)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job j = { .global_batch = 32, .n_steps = 3 };

    c.trace = trace_blocks;
    c.seed = 11;
    c.amp = amp;
    c.n_threads = threads;
    c.recompute = how;
    c.optim.momentum = 0.9;
    j.c = c;
    return j;
}

static void run(job *j, int ranks)
{
    if (ranks == 1)
        GR_CHECK_OK(run_rank(j, NULL));
    else
        run_ranks(j, ranks);
}

static void test_same_bits(gr_amp amp, int threads, int ranks)
{
    job kept = make_job(GR_RECOMPUTE_NONE, amp, threads);
    job anew = make_job(GR_RECOMPUTE_ALL, amp, threads);

    run(&kept, ranks);
    run(&anew, ranks);
    check_same_state(kept.end, anew.end);
    for (int i = 0; i < 3; i++)
        GR_CHECK(kept.loss[i] == anew.loss[i]);
    gr_snapshot_destroy(kept.end);
    gr_snapshot_destroy(anew.end);
}

static gr_memory_report report_of(const gr_step_config *c)
{
    batch *b = malloc(sizeof(*b));
    gr_memory_report r;
    gr_step_config config = *c;
    gr_step *s;

    config.device = "cpu";
    batch_fill(b, false, 0, 0, 64);
    GR_CHECK_OK(gr_step_create(&s, &config));
    GR_CHECK_OK(gr_step_memory_report(s, true, b->feeds, 2, &r));
    gr_step_destroy(s);
    free(b);
    return r;
}

static gr_status plan_with_limit(size_t limit)
{
    gr_step_config c = make_job(GR_RECOMPUTE_LIMIT, GR_AMP_NONE, 1).c;
    batch *b = malloc(sizeof(*b));
    gr_step *s = NULL;
    gr_status st;

    c.device = "cpu";
    c.memory_limit = limit;
    batch_fill(b, false, 0, 0, 64);
    st = gr_step_create(&s, &c);
    if (st == GR_OK)
        st = gr_step_plan(s, true, b->feeds, 2);
    gr_step_destroy(s);
    free(b);
    return st;
}

static void test_memory(void)
{
    gr_step_config c = make_job(GR_RECOMPUTE_NONE, GR_AMP_NONE, 1).c;
    gr_memory_report kept = report_of(&c), anew, some;

    GR_CHECK_EQ(kept.n_blocks, N_BLOCKS);
    GR_CHECK_EQ(kept.n_recomputed, 0);
    c.recompute = GR_RECOMPUTE_ALL;
    anew = report_of(&c);
    GR_CHECK_EQ(anew.n_recomputed, N_BLOCKS);
    GR_CHECK(anew.recomputed > 0);
    GR_CHECK(anew.kept + anew.recomputed <= kept.kept + 4 * 64 * 64 * 4);
    GR_CHECK(anew.kept < kept.kept && anew.arena < kept.arena);
    /* A limit between the two: some blocks, no more than needed. */
    c.recompute = GR_RECOMPUTE_LIMIT;
    c.memory_limit = kept.total - 1;
    some = report_of(&c);
    GR_CHECK(some.n_recomputed > 0 && some.n_recomputed < N_BLOCKS);
    GR_CHECK(some.total <= c.memory_limit);
    c.memory_limit = kept.total;
    GR_CHECK_EQ(report_of(&c).n_recomputed, 0);
    GR_CHECK_OK(plan_with_limit(anew.total));
    GR_CHECK_FAILS(plan_with_limit(anew.total / 2), GR_ERR_NOMEM,
                   "though all of 4 blocks are computed again");
    GR_CHECK_FAILS(plan_with_limit(0), GR_ERR_ARG, "needs memory_limit");
}

static gr_status trace_open(gr_graph *g, void *user)
{
    (void)user;
    gr_block_begin(g, "never ended");
    gr_loss(g, gr_mean(g, gr_linear(g, "fc", gr_input(g, "x"), 1), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static gr_status trace_closed(gr_graph *g, void *user)
{
    (void)user;
    gr_block_end(g);
    return gr_graph_status(g);
}

static void test_refused(void)
{
    gr_step_config c = make_job(GR_RECOMPUTE_ALL, GR_AMP_NONE, 1).c;
    batch *b = malloc(sizeof(*b));
    gr_step *s;

    c.device = "cpu";
    batch_fill(b, false, 0, 0, 8);
    c.trace = trace_open;
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_FAILS(gr_step_plan(s, true, b->feeds, 1), GR_ERR_ARG, "'never ended' was begun");
    gr_step_destroy(s);
    c.trace = trace_closed;
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_FAILS(gr_step_plan(s, true, b->feeds, 1), GR_ERR_ARG, "that was not begun");
    gr_step_destroy(s);
    c.recompute = (gr_recompute)7;
    GR_CHECK_FAILS(gr_step_create(&s, &c), GR_ERR_ARG, "unknown recompute 7");
    free(b);
}

static gr_status plan_once(void *arg)
{
    gr_step_config c = make_job(GR_RECOMPUTE_ALL, GR_AMP_BF16, 1).c;
    gr_step *s;
    gr_status st;

    c.device = "cpu";
    GR_TRY(gr_step_create(&s, &c));
    st = gr_step_plan(s, true, ((batch *)arg)->feeds, 2);
    gr_step_destroy(s);
    return st;
}

int main(void)
{
    batch *b = malloc(sizeof(*b));

    for (int threads = 1; threads <= 2; threads++) {
        test_same_bits(GR_AMP_NONE, threads, 1);
        test_same_bits(GR_AMP_BF16, threads, 1);
        test_same_bits(GR_AMP_F16, threads, 1);
    }
    test_same_bits(GR_AMP_NONE, 1, 2);
    test_same_bits(GR_AMP_BF16, 1, 2);
    test_memory();
    test_refused();
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK(gr_alloc_fail_each(plan_once, b) > 20);
    free(b);
    return 0;
}
