/*
 * What ranks do together between updates, and what they decide together within one: one rank's
 * state for all, rank 0's buffers for all, drift found and named (P34), a NaN on one rank
 * skips the update on all (P4), micro-steps exchange nothing (P30). And parameters that are frozen
 * or unused cost nothing (P9).
 */

#include "check.h"
#include "step/world.h"

#define MAX_RANKS 4

typedef struct rank_run rank_run;
typedef void rank_fn(rank_run *r);

/* One rank of a test: its step is open and planned when `fn` runs. */
struct rank_run {
    gr_pg *pg;
    gr_step_config c;
    rank_fn *fn;
    gr_step *s;
    int rank;
    batch *b;
    gr_snapshot *end;
};

/* 12-8-5 with a batch norm, and a parameter that the loss does not see. */
static gr_status trace(gr_graph *g, void *user)
{
    gr_value *h = gr_linear(g, "fc1", gr_input(g, "x"), 8);
    gr_batch_norm_args bn = GR_BATCH_NORM_INIT;

    (void)user;
    bn.running_mean = gr_buffer(g, "bn.running_mean", GR_F32, GR_SHAPE(8), gr_init_const(0));
    bn.running_var = gr_buffer(g, "bn.running_var", GR_F32, GR_SHAPE(8), gr_init_const(1));
    bn.weight = gr_param(g, "bn.weight", GR_SHAPE(8), gr_init_const(1));
    h = gr_relu(g, gr_batch_norm(g, h, &bn));
    gr_output(g, "unused", gr_param(g, "unused.weight", GR_SHAPE(1000), gr_init_const(1)));
    gr_loss(g, gr_cross_entropy(g, gr_linear(g, "fc2", h, 5), gr_input(g, "y")));
    return gr_graph_status(g);
}

static void rank_main(gr_pg *pg, void *arg)
{
    rank_run *r = (rank_run *)arg + gr_pg_rank(pg);

    r->pg = r->c.pg = pg;
    r->b = malloc(sizeof(*r->b));
    GR_CHECK_OK(gr_step_create(&r->s, &r->c));
    batch_fill(r->b, false, 0, r->rank * 8, 8);
    GR_CHECK_OK(gr_step_plan(r->s, true, r->b->feeds, 2));
    r->fn(r);
    GR_CHECK_OK(gr_step_save(r->s, &r->end));
    gr_step_destroy(r->s);
    free(r->b);
}

static void run(rank_run *r, int n, gr_step_config c, rank_fn *fn)
{
    for (int i = 0; i < n; i++)
        r[i] = (rank_run){ .c = c, .fn = fn, .rank = i };
    each_rank(n, rank_main, r);
}

/* Two ranks, of which only the first says what it does. */
static void run_one(rank_run *r, gr_step_config c, rank_fn *fn)
{
    for (int i = 0; i < 2; i++)
        r[i] = (rank_run){ .c = c, .fn = fn, .rank = i };
    r[1].c.dump_after = NULL;
    each_rank(2, rank_main, r);
    for (int i = 0; i < 2; i++)
        gr_snapshot_destroy(r[i].end);
}

static void forget(rank_run *r, int n)
{
    for (int i = 0; i < n; i++)
        gr_snapshot_destroy(r[i].end);
}

static gr_step_config config(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace;
    c.device = "cpu";
    c.seed = 3;
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    return c;
}

static void train(rank_run *r, int n_steps)
{
    for (int i = 0; i < n_steps; i++) {
        batch_fill(r->b, false, i, r->rank * 8, 8);
        GR_CHECK_OK(gr_step_train(r->s, r->b->feeds, 2, 0.01));
    }
}

/* Changes one number of this rank's state. */
static void spoil(rank_run *r, const char *name)
{
    gr_snapshot *snap;

    GR_CHECK_OK(gr_step_save(r->s, &snap));
    ((float *)gr_snapshot_find(snap, name)->mem)[1] += 0.5f;
    GR_CHECK_OK(gr_step_restore(r->s, snap));
    gr_snapshot_destroy(snap);
}

/* ---- broadcast ---- */

/* As after a resume: only rank 2 has read the checkpoint, step number and seed with it. */
static void one_rank_restores(rank_run *r)
{
    gr_snapshot *snap;

    train(r, 2);
    if (r->rank == 2) {
        GR_CHECK_OK(gr_step_save(r->s, &snap));
        for (int i = 0; i < gr_snapshot_count(snap); i++)
            if (gr_snapshot_at(snap, i)->dtype == GR_F32)
                ((float *)gr_snapshot_at(snap, i)->mem)[0] = (float)i + 0.25f;
        GR_CHECK_OK(gr_snapshot_set(snap, "gradus.step", "41"));
        GR_CHECK_OK(gr_snapshot_set(snap, "gradus.seed", "77"));
        GR_CHECK_OK(gr_step_restore(r->s, snap));
        gr_snapshot_destroy(snap);
    }
    GR_CHECK_OK(gr_step_broadcast(r->s, 2));
    GR_CHECK_EQ(gr_step_broadcast(r->s, 3), GR_ERR_ARG); /* on all ranks alike: nobody waits */
}

static void test_broadcast(void)
{
    rank_run r[3];

    run(r, 3, config(), one_rank_restores);
    for (int i = 0; i < 3; i++) {
        check_same_state(r[2].end, r[i].end);
        GR_CHECK_STR(gr_snapshot_get(r[i].end, "gradus.step"), "41");
        GR_CHECK_STR(gr_snapshot_get(r[i].end, "gradus.seed"), "77");
        GR_CHECK_NEAR(*(const float *)gr_snapshot_find(r[i].end, "fc1.weight")->mem, 0.25, 0);
        GR_CHECK(*(const float *)gr_snapshot_find(r[i].end, "bn.running_var")->mem > 0.3f);
    }
    forget(r, 3);
}

/* ---- buffers ---- */

static void own_buffers(rank_run *r)
{
    train(r, 3);
}

static void shared_buffers(rank_run *r)
{
    train(r, 3);
    GR_CHECK_OK(gr_step_sync_buffers(r->s));
}

static const void *tensor(const rank_run *r, const char *name)
{
    return gr_snapshot_find(r->end, name)->mem;
}

static void test_buffers(void)
{
    static const char *const names[] = { "bn.running_mean", "bn.running_var" };
    rank_run own[2], shared[2];

    run(own, 2, config(), own_buffers);
    run(shared, 2, config(), shared_buffers);
    for (int k = 0; k < 2; k++) {
        GR_CHECK(memcmp(tensor(&own[0], names[k]), tensor(&own[1], names[k]), 32) != 0);
        GR_CHECK(memcmp(tensor(&own[0], names[k]), tensor(&shared[0], names[k]), 32) == 0);
        GR_CHECK(memcmp(tensor(&own[0], names[k]), tensor(&shared[1], names[k]), 32) == 0);
    }
    check_same_state(shared[0].end, shared[1].end);
    forget(own, 2);
    forget(shared, 2);
}

/* ---- drift ---- */

static int odd_rank;

static void drift(rank_run *r)
{
    char rank[32];
    const char *parts[] = { "parameter 'fc2.bias'", "after step 4", rank };

    train(r, 2); /* the check after step 2 finds nothing */
    if (r->rank == odd_rank)
        spoil(r, "fc2.bias");
    train(r, 1); /* step 3 is not checked */
    batch_fill(r->b, false, 3, r->rank * 8, 8);
    GR_CHECK_EQ(gr_step_train(r->s, r->b->feeds, 2, 0), GR_ERR_ARG);
    snprintf(rank, sizeof(rank), "of rank %d is not", odd_rank);
    for (int i = 0; i < 3; i++)
        if (!strstr(gr_error_message(), parts[i])) {
            fprintf(stderr, "'%s' lacks '%s'\n", gr_error_message(), parts[i]);
            exit(1);
        }
}

static void test_drift(int n_ranks, int odd)
{
    gr_step_config c = config();
    rank_run r[MAX_RANKS];

    c.check_every = 2;
    c.without = "common"; /* what ranks have in common cannot drift apart */
    odd_rank = odd;
    run(r, n_ranks, c, drift);
    forget(r, n_ranks);
}

/* ---- what ranks have in common ---- */

/* What rank 1 restores is there for rank 0, too; statistics and counters are each rank's own. */
static void restore_on_rank_1(rank_run *r)
{
    gr_snapshot *before;

    GR_CHECK_OK(gr_step_save(r->s, &before));
    train(r, 2);
    GR_CHECK_OK(gr_pg_barrier(r->pg));
    if (r->rank == 1)
        GR_CHECK_OK(gr_step_restore(r->s, before));
    GR_CHECK_OK(gr_pg_barrier(r->pg));
    gr_snapshot_destroy(before);
}

static void test_common(void)
{
    gr_step_config c = config();
    rank_run r[2], whole[2];

    run(r, 2, c, restore_on_rank_1);
    c.without = "common";
    run(whole, 2, c, restore_on_rank_1);
    GR_CHECK(memcmp(tensor(&r[0], "fc2.weight"), tensor(&r[1], "fc2.weight"), 160) == 0);
    GR_CHECK(memcmp(tensor(&r[0], "fc2.weight"), tensor(&whole[1], "fc2.weight"), 160) == 0);
    GR_CHECK(memcmp(tensor(&r[0], "fc2.weight"), tensor(&whole[0], "fc2.weight"), 160) != 0);
    GR_CHECK(memcmp(tensor(&r[0], "optimizer.exp_avg.fc2.weight"),
                    tensor(&whole[1], "optimizer.exp_avg.fc2.weight"), 160) == 0);
    for (int i = 0; i < 2; i++) {
        GR_CHECK(memcmp(tensor(&r[i], "bn.running_mean"), tensor(&whole[i], "bn.running_mean"),
                        32) == 0);
        GR_CHECK_EQ(*(const int64_t *)tensor(&r[i], "optimizer.step"), i == 0 ? 2 : 0);
    }
    forget(r, 2);
    forget(whole, 2);
}

/* A second model on the same group has memory of its own. */
static void train_two_models(rank_run *r)
{
    gr_snapshot *first, *second;
    gr_step *s;

    train(r, 3);
    GR_CHECK_OK(gr_step_create(&s, &r->c));
    batch_fill(r->b, false, 0, r->rank * 8, 8);
    GR_CHECK_OK(gr_step_train(s, r->b->feeds, 2, 0.01));
    GR_CHECK_OK(gr_step_save(s, &second));
    train(r, 1);
    gr_step_destroy(s);
    GR_CHECK_OK(gr_step_save(r->s, &first));
    GR_CHECK_EQ(*(const int64_t *)gr_snapshot_find(second, "optimizer.step")->mem, 1);
    GR_CHECK_EQ(*(const int64_t *)gr_snapshot_find(first, "optimizer.step")->mem, 4);
    gr_snapshot_destroy(first);
    gr_snapshot_destroy(second);
}

static void train_one_model(rank_run *r)
{
    train(r, 3);
    train(r, 1);
}

static void test_two_models(void)
{
    rank_run one[2], two[2];

    run(one, 2, config(), train_one_model);
    run(two, 2, config(), train_two_models);
    check_same_state(one[0].end, two[0].end);
    forget(one, 2);
    forget(two, 2);
}

/* ---- decisions inside the step ---- */

/* Rank 1's second batch is broken: nobody updates, and everybody goes on. */
static void one_bad_batch(rank_run *r)
{
    gr_snapshot *before, *after;
    gr_step_stats stats;

    train(r, 1);
    GR_CHECK_OK(gr_step_save(r->s, &before));
    batch_fill(r->b, false, 1, r->rank * 8, 8);
    if (r->rank == 1)
        r->b->x[3] = NAN;
    GR_CHECK_OK(gr_step_train(r->s, r->b->feeds, 2, 0.01));
    GR_CHECK_OK(gr_step_get_stats(r->s, &stats));
    GR_CHECK_EQ(stats.n_skipped, 1);
    GR_CHECK_OK(gr_step_save(r->s, &after));
    for (int i = 0; i < gr_snapshot_count(before); i++) {
        const gr_named *x = gr_snapshot_at(before, i);

        if (strncmp(x->name, "fc", 2) == 0 || strncmp(x->name, "optimizer.exp", 13) == 0)
            GR_CHECK(memcmp(x->mem, gr_snapshot_find(after, x->name)->mem,
                            (size_t)gr_shape_count(&x->shape) * sizeof(float)) == 0);
    }
    train(r, 2);
    GR_CHECK_OK(gr_step_get_stats(r->s, &stats));
    GR_CHECK_EQ(stats.n_skipped, 1);
    GR_CHECK_EQ(stats.n_steps, 4);
    gr_snapshot_destroy(before);
    gr_snapshot_destroy(after);
}

/* P4: with clipping, and with fp16, whose scale is halved on all ranks alike. */
static void test_one_decision(gr_amp amp)
{
    gr_step_config c = config();
    rank_run r[2];

    c.amp = amp;
    c.clip_norm = amp == GR_AMP_F16 ? 0 : 1;
    run(r, 2, c, one_bad_batch);
    if (amp == GR_AMP_F16)
        GR_CHECK_NEAR(*(const float *)tensor(&r[0], "optimizer.loss_scale"), 32768, 0);
    for (int i = 0; i < gr_snapshot_count(r[0].end); i++) {
        const gr_named *x = gr_snapshot_at(r[0].end, i);

        if (!strstr(x->name, "running"))
            GR_CHECK(memcmp(x->mem, tensor(&r[1], x->name),
                            (size_t)gr_shape_count(&x->shape) * gr_dtype_bytes(x->dtype)) == 0);
    }
    forget(r, 2);
}

/* ---- what is not trained costs nothing ---- */

static void plan_only(rank_run *r)
{
    train(r, 2);
}

static size_t exchange_bytes, n_params;

static void measure(rank_run *r)
{
    gr_step_stats stats;

    train(r, 2);
    GR_CHECK_OK(gr_step_get_stats(r->s, &stats));
    if (r->rank == 0) {
        exchange_bytes = stats.exchange_bytes;
        n_params = (size_t)stats.n_params;
    }
}

/* P9: no slot, no moments; and the gradients of others are as before. */
static void test_unused(void)
{
    rank_run r[2];

    run(r, 2, config(), measure);
    /* fc1 12 x 8 and 8, bn 8, fc2 8 x 5 and 5: each in whole cache lines; the last meeting */
    GR_CHECK_EQ(exchange_bytes, (96 + 16 + 16 + 48 + 16) * sizeof(float) + 2 * 64);
    GR_CHECK(!gr_snapshot_find(r[0].end, "optimizer.exp_avg.unused.weight"));
    GR_CHECK(gr_snapshot_find(r[0].end, "optimizer.exp_avg.fc1.weight") != NULL);
    forget(r, 2);
}

/* P24: no gradient, no bucket and no moments for what does not learn. */
static void test_freeze(void)
{
    gr_step_config c = config();
    rank_run free_run[2], r[2];

    run(free_run, 2, c, plan_only);
    c.freeze = "fc1.*, bn.w?ight";
    run(r, 2, c, measure);
    GR_CHECK_EQ(exchange_bytes, (48 + 16) * sizeof(float) + 2 * 64);
    GR_CHECK_EQ(n_params, 45 + 1000); /* unused is not frozen */
    GR_CHECK(!gr_snapshot_find(r[0].end, "optimizer.exp_avg.fc1.weight"));
    GR_CHECK(memcmp(tensor(&r[0], "fc1.weight"), tensor(&free_run[0], "fc1.weight"), 384) != 0);
    for (int k = 0; k < 8; k++) /* as they started */
        GR_CHECK_NEAR(((const float *)tensor(&r[0], "bn.weight"))[k], 1, 0);
    /* As in PyTorch, frozen weights do not stop a layer from tracking its batches. */
    GR_CHECK(*(const float *)tensor(&r[0], "bn.running_var") != 1.0f);
    forget(free_run, 2);
    forget(r, 2);
}

/* Starts of exchanges in the plans of a step, in the order they are made. */
typedef struct starts {
    int n[8], n_plans;
} starts;

static void count_starts(void *arg, const char *pass, const char *text)
{
    starts *k = arg;

    (void)pass;
    GR_CHECK(k->n_plans < 8);
    k->n[k->n_plans] = 0;
    for (const char *at = strstr(text, "_start("); at; at = strstr(at + 1, "_start("))
        k->n[k->n_plans]++;
    k->n_plans++;
}

static void plan_nothing(rank_run *r)
{
    (void)r;
}

/* P30: micro-steps exchange nothing; the last one does, as often as without accumulation. */
static void test_micro_steps(void)
{
    gr_step_config c = config();
    starts whole = { { 0 }, 0 }, micro = { { 0 }, 0 };
    rank_run r[2];

    c.first_bucket_bytes = 64;
    c.bucket_bytes = 256;
    c.dump_after = "in_place";
    c.dump = count_starts;
    c.dump_arg = &whole;
    run_one(r, c, plan_nothing);
    GR_CHECK_EQ(whole.n_plans, 1);
    GR_CHECK(whole.n[0] > 1);
    c.accumulate = 4;
    c.dump_arg = &micro;
    run_one(r, c, plan_nothing);
    GR_CHECK_EQ(micro.n_plans, 2);
    GR_CHECK_EQ(micro.n[0], whole.n[0]);
    GR_CHECK_EQ(micro.n[1], 0);
}

static void test_freeze_nothing(const char *freeze, const char *say)
{
    gr_step_config c = config();
    batch *b = malloc(sizeof(*b));
    gr_step *s;

    c.freeze = freeze;
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_EQ(gr_step_plan(s, true, b->feeds, 2), GR_ERR_ARG);
    GR_CHECK(strstr(gr_error_message(), say) != NULL);
    gr_step_destroy(s);
    free(b);
}

int main(void)
{
    GR_CHECK_EQ(setenv("GR_COMMON_FROM", "0", 1), 0); /* small models, too */
    test_broadcast();
    test_buffers();
    test_common();
    test_two_models();
    test_drift(2, 1);
    test_drift(3, 1);
    test_drift(4, 0);
    test_one_decision(GR_AMP_NONE);
    test_one_decision(GR_AMP_F16);
    test_unused();
    test_freeze();
    test_micro_steps();
    test_freeze_nothing("fc2.*,fc9.*", "'fc9.*'");
    test_freeze_nothing("*", "nothing to train");
    return 0;
}
