/*
 * Frozen parts of a trace: in evaluation mode and out of training, with gradients that pass
 * through them to what is trained below (P24). Their running statistics and weights stay, nothing
 * is kept, exchanged or averaged for them, and the same network trained whole takes their
 * checkpoint.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "step/world.h"

#define WIDTH 16
#define BATCH 16

/* Numbers of the three parts. Those of the second are whole cache lines each. */
#define N_FC1 (12 * WIDTH + WIDTH)
#define N_MID (2 * (WIDTH + 1) * WIDTH + 2 * WIDTH)
#define N_FC2 (WIDTH * 5 + 5)

typedef struct net {
    bool whole;  /* nothing is frozen */
    bool bottom; /* nothing is trained below the part */
} net;

/* Everything that tells training from evaluation. Its activations are smooth, for differences. */
static gr_value *middle(gr_graph *g, gr_value *h)
{
    gr_value *calls = gr_buffer(g, "mid.calls", GR_I64, GR_SCALAR, gr_init_const(0));

    h = gr_tanh(g, gr_batch_norm_layer(g, "mid.bn", gr_linear(g, "mid.fc", h, WIDTH)));
    h = gr_drop_path(g, gr_dropout(g, h, 0.5), 0.25);
    gr_assign(g, calls, gr_add_k(g, calls, 1));
    return gr_linear(g, "mid.out", h, WIDTH);
}

static gr_status trace(gr_graph *g, void *user)
{
    const net *n = user;
    bool trains = gr_is_training(g);
    gr_value *h = gr_input(g, "x");

    if (!n->bottom)
        h = gr_tanh(g, gr_linear(g, "fc1", h, WIDTH));
    if (!n->whole)
        gr_frozen_begin(g);
    GR_CHECK(gr_is_training(g) == (trains && n->whole));
    gr_block_begin(g, "mid");
    h = middle(g, h);
    gr_block_end(g);
    if (!n->whole)
        gr_frozen_end(g);
    GR_CHECK(gr_is_training(g) == trains);
    gr_loss(g, gr_cross_entropy(g, gr_linear(g, "fc2", h, 5), gr_input(g, "y")));
    return gr_graph_status(g);
}

static gr_step_config config(net *n)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace;
    c.user = n;
    c.device = "cpu";
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    c.seed = 5;
    return c;
}

static gr_step *open_step(gr_step_config c, batch *b)
{
    gr_step *s;

    batch_fill(b, false, 0, 0, BATCH);
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    return s;
}

static float loss_of(gr_step *s)
{
    float loss;

    GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    return loss;
}

static const gr_named *find(const gr_snapshot *s, const char *name)
{
    const gr_named *t = gr_snapshot_find(s, name);

    if (!t) {
        fprintf(stderr, "no '%s' in the snapshot\n", name);
        exit(1);
    }
    return t;
}

static size_t bytes_of(const gr_named *t)
{
    return (size_t)gr_shape_count(&t->shape) * gr_dtype_bytes(t->dtype);
}

static bool is_same(const gr_snapshot *a, const gr_snapshot *b, const char *name)
{
    const gr_named *x = find(a, name), *y = find(b, name);

    return bytes_of(x) == bytes_of(y) && memcmp(x->mem, y->mem, bytes_of(x)) == 0;
}

/* Statistics as after a long training, not the ones that a batch norm starts with. */
static void use_statistics(gr_step *s)
{
    gr_snapshot *snap;

    GR_CHECK_OK(gr_step_save(s, &snap));
    for (int c = 0; c < WIDTH; c++) {
        ((float *)find(snap, "mid.bn.running_mean")->mem)[c] = 0.05f * (float)(c % 5 - 2);
        ((float *)find(snap, "mid.bn.running_var")->mem)[c] = 0.25f + 0.1f * (float)(c % 7);
        ((float *)find(snap, "mid.bn.weight")->mem)[c] = 0.75f + 0.05f * (float)(c % 4);
    }
    GR_CHECK_OK(gr_step_restore(s, snap));
    gr_snapshot_destroy(snap);
}

/* ---- what stays, and what the loss is ---- */

static const char *const kept[] = { "mid.fc.weight",       "mid.fc.bias",
                                    "mid.bn.weight",       "mid.bn.bias",
                                    "mid.bn.running_mean", "mid.bn.running_var",
                                    "mid.out.weight",      "mid.out.bias",
                                    "mid.calls",           "mid.bn.num_batches_tracked" };
#define N_KEPT (int)(sizeof(kept) / sizeof(kept[0]))

static void check_kept(gr_step_config c)
{
    gr_snapshot *before, *after;
    batch b;
    gr_step *s = open_step(c, &b);

    use_statistics(s);
    GR_CHECK_OK(gr_step_save(s, &before));
    for (int i = 0; i < 4; i++) {
        float evaluated;

        GR_CHECK_OK(gr_step_eval(s, b.feeds, 2));
        evaluated = loss_of(s);
        GR_CHECK_OK(gr_step_train(s, b.feeds, 2, 0.01));
        GR_CHECK(loss_of(s) == evaluated); /* no batch's statistics, nothing dropped */
    }
    GR_CHECK_OK(gr_step_save(s, &after));
    for (int i = 0; i < N_KEPT; i++)
        GR_CHECK(is_same(before, after, kept[i]));
    GR_CHECK(!is_same(before, after, "fc1.weight") && !is_same(before, after, "fc2.bias"));
    for (int i = 0; i < gr_snapshot_count(after); i++) {
        const char *name = gr_snapshot_at(after, i)->name;

        GR_CHECK(strncmp(name, "mid.", 4) == 0 || !strstr(name, "mid."));
    }
    GR_CHECK(gr_snapshot_find(after, "optimizer.exp_avg.fc1.weight") != NULL);
    gr_snapshot_destroy(before);
    gr_snapshot_destroy(after);
    gr_step_destroy(s);
}

static void test_kept(void)
{
    net n = { 0 };
    gr_step_config c = config(&n);

    check_kept(c);
    c.ema_decay = 0.9;
    c.clip_norm = 1;
    check_kept(c);
    c.amp = GR_AMP_BF16;
    check_kept(c);
    c.amp = GR_AMP_NONE;
    c.recompute = GR_RECOMPUTE_ALL;
    check_kept(c);
}

/* ---- gradients ---- */

static double loss_at(gr_step *s, const gr_snapshot *at, batch *b)
{
    GR_CHECK_OK(gr_step_restore(s, at));
    GR_CHECK_OK(gr_step_eval(s, b->feeds, 2));
    return (double)loss_of(s);
}

/* Central differences of the loss beside what one step of plain SGD took off. */
static void test_gradients(void)
{
    static const char *const names[] = { "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias" };
    const double h = 0x1p-6;
    net n = { 0 };
    gr_step_config c = config(&n);
    gr_snapshot *before, *after;
    double largest = 0;
    batch b;
    gr_step *s;

    c.optim = (gr_optim)GR_OPTIM_INIT; /* plain SGD */
    s = open_step(c, &b);
    use_statistics(s);
    GR_CHECK_OK(gr_step_save(s, &before));
    GR_CHECK_OK(gr_step_train(s, b.feeds, 2, 1));
    GR_CHECK_OK(gr_step_save(s, &after));
    for (int k = 0; k < 4; k++) {
        const gr_named *p = find(before, names[k]), *q = find(after, names[k]);
        float *x = p->mem;

        for (int64_t i = 0; i < gr_shape_count(&p->shape); i += 3) {
            const float was = x[i];
            double up, down, grad = (double)was - (double)((const float *)q->mem)[i];

            x[i] = was + (float)h;
            up = loss_at(s, before, &b);
            x[i] = was - (float)h;
            down = loss_at(s, before, &b);
            x[i] = was;
            /* h^2 / 6 times a third derivative of order 1, and two losses of 2^-24 * 2 over 2 h. */
            GR_CHECK_NEAR((up - down) / (2 * h), grad, h * h / 6 + 0x1p-23 / h);
            largest = fmax(largest, fabs(grad));
        }
    }
    GR_CHECK(largest > 0.01);
    gr_snapshot_destroy(before);
    gr_snapshot_destroy(after);
    gr_step_destroy(s);
}

/* ---- what it costs ---- */

static void count_products(void *arg, const char *pass, const char *text)
{
    int *n = arg;

    (void)pass;
    *n = 0;
    for (const char *at = strstr(text, "= matmul("); at; at = strstr(at + 1, "= matmul("))
        ++*n;
}

static gr_step_stats stats_of(net *n, int *products)
{
    gr_step_config c = config(n);
    gr_step_stats stats;
    batch b;
    gr_step *s;

    c.ema_decay = 0.9;
    c.dump_after = "prune";
    c.dump = count_products;
    c.dump_arg = products;
    s = open_step(c, &b);
    GR_CHECK_OK(gr_step_train(s, b.feeds, 2, 0.01));
    GR_CHECK_OK(gr_step_get_stats(s, &stats));
    gr_step_destroy(s);
    return stats;
}

static void test_costs(void)
{
    enum {
        FC1 = 12 * WIDTH + WIDTH,
        FC2 = WIDTH * 5 + 5,
        MID = 2 * (WIDTH + 1) * WIDTH + 2 * WIDTH
    };
    net part = { 0 }, bottom = { .bottom = true }, whole = { .whole = true };
    net head = { .bottom = true, .whole = true };
    int products;
    gr_step_stats is = stats_of(&part, &products), all;

    /* Forward 4; gradients of what is trained 2; and of what is passed on to fc1, 3. */
    GR_CHECK_EQ(products, 9);
    GR_CHECK_EQ(is.n_params, N_FC1 + N_FC2);
    all = stats_of(&whole, &products);
    GR_CHECK_EQ(products, 11);
    GR_CHECK_EQ(all.n_params, N_FC1 + N_FC2 + N_MID);
    /* Two moments and an average of each, in whole cache lines. */
    GR_CHECK(all.state_bytes >= is.state_bytes + 3 * sizeof(float) * N_MID);

    is = stats_of(&bottom, &products);
    GR_CHECK_EQ(products, 3 + 1); /* nothing goes back into the part */
    GR_CHECK_EQ(is.n_params, N_FC2);
    all = stats_of(&head, &products);
    GR_CHECK_EQ(products, 3 + 5);
    GR_CHECK(all.state_bytes >= is.state_bytes + 3 * sizeof(float) * (N_MID - 4 * WIDTH));
}

/* ---- ranks ---- */

static job make_job(net *n, int n_steps)
{
    job j = { .global_batch = BATCH, .n_steps = n_steps };

    j.c = config(n);
    j.c.optim = (gr_optim)GR_OPTIM_INIT;
    j.c.optim.momentum = 0.5;
    return j;
}

/* Without a batch's statistics two ranks with half of the batch each are one with all of it. */
static void test_ranks(void)
{
    static const char *const trained[] = { "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias" };
    net n = { 0 };
    job one = make_job(&n, 3);

    run_ranks(&one, 1);
    for (int how = 0; how < 4; how++) {
        job two = make_job(&n, 3);

        two.c.sync_bn = how == 1;
        two.c.zero = how == 2;
        two.c.without = how == 3 ? "common" : NULL;
        run_ranks(&two, 2);
        for (int i = 0; i < N_KEPT; i++)
            GR_CHECK(is_same(one.end, two.end, kept[i]));
        for (int i = 0; i < 4; i++) {
            const gr_named *a = find(one.end, trained[i]), *b = find(two.end, trained[i]);

            for (int64_t k = 0; k < gr_shape_count(&a->shape); k++)
                GR_CHECK_NEAR(((const float *)a->mem)[k], (double)((const float *)b->mem)[k], 1e-6);
        }
        gr_snapshot_destroy(two.end);
    }
    gr_snapshot_destroy(one.end);
}

typedef struct exchange {
    net n;
    size_t n_bytes;
} exchange;

static void measure(gr_pg *pg, void *arg)
{
    exchange *e = arg;
    gr_step_config c = config(&e->n);
    gr_step_stats stats;
    gr_step *s;
    batch b;

    c.pg = pg;
    s = open_step(c, &b);
    GR_CHECK_OK(gr_step_get_stats(s, &stats));
    if (gr_pg_rank(pg) == 0)
        e->n_bytes = stats.exchange_bytes;
    gr_step_destroy(s);
}

static void test_exchange(void)
{
    exchange part = { .n = { 0 } }, whole = { .n = { .whole = true } };

    each_rank(2, measure, &part);
    each_rank(2, measure, &whole);
    GR_CHECK_EQ(whole.n_bytes, part.n_bytes + sizeof(float) * N_MID);
}

/* What each rank freezes is compared: one that trained on would wait for exchanges for ever. */
static void one_differs(gr_pg *pg, void *arg)
{
    net n = { .whole = gr_pg_rank(pg) == 1 };
    gr_step_config c = config(&n);
    gr_step *s;
    batch b;

    (void)arg;
    c.pg = pg;
    batch_fill(&b, false, 0, 0, BATCH);
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_FAILS(gr_step_plan(s, true, b.feeds, 2), GR_ERR_ARG, "frozen");
    gr_step_destroy(s);
}

/* ---- resuming ---- */

static void test_resume(void)
{
    net n = { 0 };
    job all = make_job(&n, 6), first = make_job(&n, 3), second = make_job(&n, 3);

    run_ranks(&all, 2);
    run_ranks(&first, 2);
    second.start = first.end;
    second.first = 3;
    run_ranks(&second, 2);
    check_same_state(all.end, second.end);
    gr_snapshot_destroy(all.end);
    gr_snapshot_destroy(first.end);
    gr_snapshot_destroy(second.end);
}

/* The weights and statistics of a run with a frozen part, in a network that trains all of it. */
static void test_unfrozen(void)
{
    net part = { 0 }, whole = { .whole = true };
    gr_step_config c = config(&part);
    gr_snapshot *from, *to;
    float loss;
    batch b;
    gr_step *s = open_step(c, &b);

    use_statistics(s);
    for (int i = 0; i < 3; i++)
        GR_CHECK_OK(gr_step_train(s, b.feeds, 2, 0.01));
    GR_CHECK_OK(gr_step_eval(s, b.feeds, 2));
    loss = loss_of(s);
    GR_CHECK_OK(gr_step_save(s, &from));
    GR_CHECK(strstr(gr_snapshot_get(from, "gradus.frozen"), "mid.bn.weight") != NULL);
    gr_step_destroy(s);

    s = open_step(config(&whole), &b);
    GR_CHECK_FAILS(gr_step_restore(s, from), GR_ERR_ARG, "has no 'optimizer.exp_avg.mid");
    GR_CHECK_OK(gr_step_save(s, &to));
    for (int i = 0; i < gr_snapshot_count(to); i++) {
        const gr_named *t = gr_snapshot_at(to, i);

        if (strncmp(t->name, "optimizer.", 10) == 0)
            continue;
        GR_CHECK_EQ(bytes_of(t), bytes_of(find(from, t->name)));
        memcpy(t->mem, find(from, t->name)->mem, bytes_of(t));
    }
    GR_CHECK_OK(gr_step_restore(s, to));
    GR_CHECK_OK(gr_step_eval(s, b.feeds, 2));
    GR_CHECK(loss_of(s) == loss);
    GR_CHECK_OK(gr_step_train(s, b.feeds, 2, 0.01));
    gr_snapshot_destroy(from);
    gr_snapshot_destroy(to);
    gr_step_destroy(s);
}

/* ---- scopes ---- */

typedef enum scope { SHARED, NESTED, NOT_ENDED, NOT_BEGUN, LATE } scope;

static gr_status trace_scope(gr_graph *g, void *user)
{
    scope s = *(const scope *)user;
    gr_value *h = gr_input(g, "x"), *again;

    h = gr_linear(g, "fc1", h, 12);
    if (s == NOT_BEGUN)
        gr_frozen_end(g);
    if (s != LATE || !gr_is_training(g))
        gr_frozen_begin(g);
    if (s == NESTED) {
        gr_frozen_begin(g);
        gr_frozen_end(g);
        GR_CHECK(!gr_is_training(g));
    }
    again = gr_linear(g, s == SHARED || s == LATE ? "fc1" : "mid", h, 12);
    if (s != NOT_ENDED && (s != LATE || gr_graph_status(g) != GR_OK))
        gr_frozen_end(g);
    gr_loss(g, gr_cross_entropy(g, gr_linear(g, "fc2", again, 5), gr_input(g, "y")));
    return gr_graph_status(g);
}

static gr_status plan_scope(scope how, int64_t *n_params)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step_stats stats;
    gr_status st;
    gr_step *s;
    batch b;

    c.trace = trace_scope;
    c.user = &how;
    c.device = "cpu";
    batch_fill(&b, false, 0, 0, BATCH);
    GR_CHECK_OK(gr_step_create(&s, &c));
    st = gr_step_plan(s, true, b.feeds, 2);
    if (st == GR_OK) {
        GR_CHECK_OK(gr_step_get_stats(s, &stats));
        *n_params = stats.n_params;
    }
    if (st == GR_OK && how == LATE)
        st = gr_step_eval(s, b.feeds, 2);
    gr_step_destroy(s);
    return st;
}

static void test_scopes(void)
{
    int64_t n;

    GR_CHECK_OK(plan_scope(NESTED, &n));
    GR_CHECK_EQ(n, 12 * 12 + 12 + 12 * 5 + 5);
    GR_CHECK_OK(plan_scope(SHARED, &n)); /* frozen wherever it is used */
    GR_CHECK_EQ(n, 12 * 5 + 5);
    GR_CHECK_FAILS(plan_scope(NOT_ENDED, &n), GR_ERR_ARG,
                   "the frozen part that begins here was not ended");
    GR_CHECK_FAILS(plan_scope(NOT_BEGUN, &n), GR_ERR_ARG,
                   "a frozen part ends here that was not begun");
    GR_CHECK_FAILS(plan_scope(LATE, &n), GR_ERR_ARG,
                   "'fc1.weight' was trainable in the first plan and cannot be frozen now");
}

int main(void)
{
    test_kept();
    test_gradients();
    test_costs();
    test_ranks();
    test_exchange();
    each_rank(2, one_differs, NULL);
    test_resume();
    test_unfrozen();
    test_scopes();
    return 0;
}
