/*
 * Joined updates against single ones: the same bits after several steps, for each
 * optimiser, with and without clipping, on one and two ranks and threads; and fewer nodes.
 */
#include "check.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "step/inspect.h"
#include "step/world.h"

/* Parameters of 7200, 600, 180000, 300, 1500 and 5 elements: cut in all kinds of ways. */
static gr_status trace_wide(gr_graph *g, void *user)
{
    gr_value *h = gr_tanh(g, gr_linear(g, "fc1", gr_input(g, "x"), 600));
    gr_value *logits;

    (void)user;
    h = gr_tanh(g, gr_linear(g, "fc2", h, 300));
    logits = gr_linear(g, "fc3", h, 5);
    gr_loss(g, gr_cross_entropy(g, logits, gr_input(g, "y")));
    return gr_graph_status(g);
}

static job make_job(gr_optim_kind kind, double clip, const char *without)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job j = { .global_batch = 16, .n_steps = 4 };

    c.trace = trace_wide;
    c.optim = kind == GR_OPTIM_SGD ? (gr_optim)GR_OPTIM_INIT : (gr_optim)GR_OPTIM_ADAMW_INIT;
    c.optim.momentum = 0.9;
    c.optim.weight_decay = 0.01;
    c.clip_norm = clip;
    c.seed = 3;
    c.without = without;
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

static void test_same_bits(gr_optim_kind kind, double clip, int ranks)
{
    job single = make_job(kind, clip, "join,hoist");

    run(&single, ranks);
    for (int threads = 1; threads <= 2; threads++) {
        job joined = make_job(kind, clip, NULL);

        joined.c.n_threads = threads;
        run(&joined, ranks);
        check_same_state(single.end, joined.end);
        gr_snapshot_destroy(joined.end);
    }
    gr_snapshot_destroy(single.end);
}

static int count_nodes(const char *op, double clip)
{
    gr_step_config c = make_job(GR_OPTIM_ADAMW, clip, NULL).c;
    const gr_graph *g;
    gr_step *s;
    batch *b = malloc(sizeof(*b));
    int n = 0;

    c.device = "cpu";
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    g = gr_step_first_graph(s);
    for (int i = 0; i < g->n_nodes; i++)
        n += strcmp(g->nodes[i]->op->name, op) == 0;
    gr_step_destroy(s);
    free(b);
    return n;
}

int main(void)
{
    gr_step_config c = make_job(GR_OPTIM_SGD, 0, "join,autodiff").c;
    gr_step *s;

    for (int ranks = 1; ranks <= 2; ranks++) {
        test_same_bits(GR_OPTIM_SGD, 0, ranks);
        test_same_bits(GR_OPTIM_SGD, 0.1, ranks);
        test_same_bits(GR_OPTIM_ADAMW, 0, ranks);
        test_same_bits(GR_OPTIM_ADAMW, 0.1, ranks);
    }
    /* With clipping one node does all six; without, the first 720 kB close a group. */
    GR_CHECK_EQ(count_nodes("adamw", 0.1), 0);
    GR_CHECK_EQ(count_nodes("many_updates", 0.1), 1);
    GR_CHECK_EQ(count_nodes("adamw", 0), 0);
    GR_CHECK_EQ(count_nodes("many_updates", 0), 2);
    GR_CHECK_FAILS(gr_step_create(&s, &c), GR_ERR_ARG, "'autodiff' is not among the passes");
    return 0;
}
