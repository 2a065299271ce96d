/*
 * Parameters that ranks have in common: in the order in which a step runs, nobody reads a bucket's
 * parameters, or copies of them, after its exchange has begun, and everything common is made before
 * the meeting at the end. (That the results are right, test_zero.c sees; a reader that comes too
 * late would show there only now and then.)
 */
#include "check.h"
#include "step/private.h"
#include "step/world.h"

#define N_LAYERS 6

/* Tied weights: the first layer's are the last one's, too. Two that have one gradient, and so one
 * of their slots is a copy. Each layer is a block. */
static gr_status trace_tied(gr_graph *g, void *user)
{
    gr_value *tied = gr_param(g, "tied", GR_SHAPE(12, 12), gr_init_uniform(-0.3, 0.3));
    gr_value *h = gr_matmul(g, gr_input(g, "x"), tied), *twin[2];

    (void)user;
    twin[0] = gr_param(g, "twin.0", GR_SHAPE(12, 12), gr_init_uniform(-0.3, 0.3));
    twin[1] = gr_param(g, "twin.1", GR_SHAPE(12, 12), gr_init_uniform(-0.3, 0.3));
    for (int i = 0; i < N_LAYERS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "fc%d", i);
        gr_block_begin(g, name);
        h = gr_add(g, h, gr_tanh(g, gr_linear(g, name, h, 12)));
        gr_block_end(g);
    }
    h = gr_matmul(g, gr_matmul(g, h, gr_add(g, twin[0], twin[1])), tied);
    gr_loss(g, gr_cross_entropy(g, gr_linear(g, "head", h, 5), gr_input(g, "y")));
    return gr_graph_status(g);
}

static void check_reads(const gr_step *s, const gr_node *n, const bool *has_begun)
{
    for (int i = 0; i < n->n_src && n->phase != GR_PHASE_UPDATE; i++) {
        const gr_var *v = gr_value_root(n->src[i])->var;
        const gr_var *param = v ? gr_var_param(v) : NULL;
        int k = param ? gr_shard_bucket(&s->shard, param) : -1;

        GR_CHECK(k < 0 || !has_begun[k]);
    }
}

/* An exchange changes its slots from its start on: what is computed must not read them. */
static void check_slots(const gr_node *n)
{
    for (int i = 0; i < n->n_src && n->phase < GR_PHASE_SYNC; i++)
        GR_CHECK(gr_value_root(n->src[i])->space != GR_SPACE_EXCHANGE);
}

static bool makes_common(const gr_node *n)
{
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o].alias && n->out[o].var && n->out[o].var->common)
            return true;
    return false;
}

static void check_order(const gr_step *s, const gr_entry *e)
{
    gr_node *const *order = gr_plan_order(e->plan);
    bool has_begun[64] = { false }, met = false;
    int n_begun = 0;

    for (int i = 0; i < e->graph->n_nodes; i++) {
        const gr_node *n = order[i];

        check_reads(s, n, has_begun);
        check_slots(n);
        if (n->op == &gr_op_reduce_scatter_start) {
            int k = ((const gr_collective_attr *)n->attr)->coll.id;

            GR_CHECK(k < 64 && !has_begun[k]);
            has_begun[k] = true;
            n_begun++;
        }
        GR_CHECK(!makes_common(n) || !met);
        met = met || n->op == &gr_op_meet_start;
    }
    GR_CHECK(met);
    GR_CHECK(n_begun > 3);
    GR_CHECK_EQ(n_begun, s->buckets.n_buckets);
}

/* Small models are not shared unless that is asked for. */
static void choose_rank(gr_pg *pg, void *arg)
{
    gr_step_config c = *(const gr_step_config *)arg;
    batch *b = malloc(sizeof(*b));
    gr_step *s;

    c.pg = pg;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    GR_CHECK_EQ(s->is_common, s->buckets.n_bytes * (size_t)(gr_pg_size(pg) - 1) >= s->common_from);
    GR_CHECK_EQ(s->is_common, s->vars->n_common > 0);
    GR_CHECK_EQ(s->is_common, getenv("GR_COMMON_FROM") && gr_pg_size(pg) == 3);
    gr_step_destroy(s);
    free(b);
}

static void test_choice(const gr_step_config *c)
{
    gr_step_config alone = *c;
    gr_step *s;

    GR_CHECK_EQ(unsetenv("GR_COMMON_FROM"), 0);
    each_rank(2, choose_rank, (void *)(uintptr_t)c);
    GR_CHECK_EQ(setenv("GR_COMMON_FROM", "7000", 1), 0); /* between once and twice the model */
    each_rank(2, choose_rank, (void *)(uintptr_t)c);
    each_rank(3, choose_rank, (void *)(uintptr_t)c);
    GR_CHECK_EQ(setenv("GR_COMMON_FROM", "12M", 1), 0);
    GR_CHECK_EQ(gr_step_create(&s, &alone), GR_ERR_ARG);
    GR_CHECK_EQ(setenv("GR_COMMON_FROM", "0", 1), 0);
}

static void plan_rank(gr_pg *pg, void *arg)
{
    gr_step_config c = *(const gr_step_config *)arg;
    batch *b = malloc(sizeof(*b));
    int n_checked = 0;
    gr_step *s;

    c.pg = pg;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, 8);
    for (int i = 0; i < c.accumulate; i++)
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.01));
    for (int i = 0; i < s->n_entries; i++)
        if (s->entries[i]->purpose.role == GR_ROLE_WHOLE ||
            s->entries[i]->purpose.role == GR_ROLE_LAST) {
            check_order(s, s->entries[i]);
            n_checked++;
        }
    GR_CHECK_EQ(n_checked, 1);
    gr_step_destroy(s);
    free(b);
}

int main(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace_tied;
    c.device = "cpu";
    c.first_bucket_bytes = 64;
    c.bucket_bytes = 512;
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    test_choice(&c);
    each_rank(2, plan_rank, &c);
    c.recompute = GR_RECOMPUTE_ALL;
    c.ema_decay = 0.5;
    each_rank(2, plan_rank, &c);
    c.amp = GR_AMP_F16;
    c.accumulate = 2;
    c.grad_dtype = GR_BF16;
    each_rank(2, plan_rank, &c);
    return 0;
}
