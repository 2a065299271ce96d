/*
 * Guards a step that is watched, on a device whose results are late (cpu:late): the same bits as
 * on the CPU; requests to stop and numbers that are not finite reach the host two updates later,
 * on every rank alike, and no host goes further ahead; what a bad update did is undone before it
 * is done, on all ranks, and nothing changes any more until the host restores a state.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "op/vote/vote.h"
#include "step/vote.h"
#include "step/world.h"

#define BATCH 6

/* Batch norms, whose running statistics must not take a bad batch either. With x of zeros the
 * loss is 0, and gradients are not finite: the root is taken there. */
static gr_status trace(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_value *w = gr_param(g, "w", GR_SHAPE(12, 5), gr_init_uniform(-1, 1));
    gr_value *h = gr_batch_norm_layer(g, "bn", x), *root;

    (void)user;
    h = gr_relu(g, gr_linear(g, "fc", h, 16));
    h = gr_sub(g, gr_linear(g, "out", h, 5), gr_input(g, "t"));
    root = gr_sqrt(g, gr_sum(g, gr_square(g, gr_matmul(g, x, w)), 1u << 1, false));
    gr_loss(g, gr_add(g, gr_mean(g, gr_square(g, h), GR_AXES_ALL, false),
                      gr_mean(g, root, GR_AXES_ALL, false)));
    return gr_graph_status(g);
}

enum { FINE, NAN_IN, INF_IN, ZEROS }; /* what is done to the last rank's batch */

typedef struct rank {
    gr_step *s;
    gr_pg *pg;
    int accumulate;
    int bad_micro;
} rank;

static bool is_last(const rank *r)
{
    return gr_pg_rank(r->pg) + 1 == gr_pg_size(r->pg);
}

static void spoil(batch *b, int how)
{
    for (int i = 0; i < BATCH * 12 && how == ZEROS; i++)
        b->x[i] = 0;
    if (how == NAN_IN)
        b->t[3] = (float)NAN;
    if (how == INF_IN)
        b->t[3] = (float)INFINITY;
}

static gr_status update(rank *r, int number, int how)
{
    batch *b = malloc(sizeof(*b));
    gr_status st = GR_OK;

    for (int m = 0; m < r->accumulate && st == GR_OK; m++) {
        batch_fill(b, true, number, (m * gr_pg_size(r->pg) + gr_pg_rank(r->pg)) * BATCH, BATCH);
        if (is_last(r) && m == r->bad_micro)
            spoil(b, how);
        st = gr_step_train(r->s, b->feeds, 2, 0.03125);
    }
    free(b);
    return st;
}

static gr_verdict next(rank *r, bool drain)
{
    gr_verdict v;

    GR_CHECK_OK(gr_step_next_verdict(r->s, drain, &v));
    return v;
}

static gr_step_config config(const char *device, int accumulate)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace;
    c.device = device;
    c.accumulate = accumulate;
    c.seed = 7;
    c.optim.momentum = 0.5;
    c.ema_decay = 0.75;
    c.first_bucket_bytes = 64;
    c.bucket_bytes = 512;
    return c;
}

static void open_rank(rank *r, const gr_step_config *config, gr_pg *pg, bool watch)
{
    gr_step_config c = *config;

    *r = (rank){ .pg = pg, .accumulate = c.accumulate };
    c.pg = pg;
    GR_CHECK_OK(gr_step_create(&r->s, &c));
    if (watch)
        GR_CHECK_OK(gr_step_watch(r->s));
}

static void run(each_rank_fn *fn, int world, void *arg)
{
    if (world == 1)
        fn(NULL, arg);
    else
        each_rank(world, fn, arg);
}

/* ---- the same bits ---- */

static gr_snapshot *trained(const gr_step_config *c, gr_pg *pg, bool watch, int how)
{
    gr_snapshot *end;
    rank r;

    open_rank(&r, c, pg, watch);
    for (int i = 0; i < 5; i++) {
        GR_CHECK_OK(update(&r, i, i == 2 ? how : FINE));
        if (watch)
            next(&r, false);
    }
    GR_CHECK_OK(gr_step_save(r.s, &end));
    GR_CHECK(!gr_snapshot_find(end, "vote.record") && !gr_snapshot_find(end, "vote.code"));
    gr_step_destroy(r.s);
    return end;
}

static void each_same(gr_pg *pg, void *arg)
{
    gr_step_config c = *(gr_step_config *)arg;
    int how = c.clip_norm > 0 || c.amp == GR_AMP_F16 ? NAN_IN : FINE; /* skipped, and gone on */
    gr_snapshot *late, *cpu;

    c.device = "cpu:late";
    late = trained(&c, pg, true, how);
    c.device = "cpu";
    cpu = trained(&c, pg, false, how);
    if (c.zero == 0 || gr_pg_rank(pg) == 0) /* what is cut up, rank 0 saves for all */
        check_same_state(late, cpu);
    gr_snapshot_destroy(late);
    gr_snapshot_destroy(cpu);
}

static void test_same(int world)
{
    for (int i = 0; i < 9; i++) {
        gr_step_config c = config("cpu", i % 2 ? 3 : 1);

        c.optim.kind = i == 2 ? GR_OPTIM_ADAMW : GR_OPTIM_SGD;
        c.clip_norm = i == 3 || i == 5 ? 0.5 : 0;
        c.amp = i == 4 ? GR_AMP_F16 : GR_AMP_NONE;
        c.loss_reduction = i == 6 ? GR_LOSS_GLOBAL : GR_LOSS_LOCAL;
        c.sync_bn = i == 5 || i == 1;
        c.zero = i == 7 ? 1 : i == 8 ? 2 : 0;
        run(each_same, world, &c);
    }
}

/* ---- requests to stop ---- */

/* The last rank asks in update 2, rank 0 in update 3, for something less. */
static void each_stop(gr_pg *pg, void *arg)
{
    const gr_step_config *c = arg;
    rank r;

    open_rank(&r, c, pg, true);
    for (int i = 0; i < 6; i++) {
        gr_verdict v;

        gr_step_ask_to_stop(r.s, i >= 2 && is_last(&r)           ? 15
                                 : i >= 3 && gr_pg_rank(pg) == 0 ? 2
                                                                 : 0);
        GR_CHECK_OK(update(&r, i, FINE));
        v = next(&r, false);
        GR_CHECK_EQ(v.is_there, i >= 2);
        GR_CHECK_EQ(v.behind, i >= 2 ? 2 : 0);
        GR_CHECK_EQ(v.stop, i >= 4 ? 15 : 0);
        GR_CHECK(v.loss == 0 && !v.grad && !v.halted);
        GR_CHECK(!next(&r, false).is_there);
    }
    for (int behind = 1; behind >= 0; behind--) {
        gr_verdict v = next(&r, true);

        GR_CHECK(v.is_there && v.behind == behind && v.stop == 15);
    }
    GR_CHECK(!next(&r, true).is_there);
    gr_step_destroy(r.s);
}

/* Three records fill the ring: the host cannot go on without looking. */
static void test_ahead(void)
{
    gr_step_config c = config("cpu:late", 1);
    rank r;

    open_rank(&r, &c, NULL, true);
    for (int i = 0; i < 3; i++)
        GR_CHECK_OK(update(&r, i, FINE));
    GR_CHECK_EQ(update(&r, 3, FINE), GR_ERR_ARG);
    GR_CHECK(strstr(gr_error_message(), "records of 3 updates were not taken"));
    GR_CHECK(next(&r, false).is_there);
    GR_CHECK_OK(update(&r, 3, FINE));
    GR_CHECK_EQ(gr_step_watch(r.s), GR_ERR_ARG);
    gr_step_destroy(r.s);
}

/* ---- numbers that are not finite ---- */

static bool is_counter(const char *name)
{
    return strcmp(name, "optimizer.skipped") == 0;
}

static bool is_same(const gr_snapshot *a, const gr_snapshot *b)
{
    GR_CHECK_EQ(gr_snapshot_count(a), gr_snapshot_count(b));
    for (int i = 0; i < gr_snapshot_count(a); i++) {
        const gr_named *x = gr_snapshot_at(a, i), *y = gr_snapshot_find(b, x->name);

        if (!is_counter(x->name) &&
            memcmp(x->mem, y->mem, (size_t)gr_shape_count(&x->shape) * gr_dtype_bytes(x->dtype)) !=
                0)
            return false;
    }
    return true;
}

static gr_snapshot *saved(rank *r)
{
    gr_snapshot *snap;

    GR_CHECK_OK(gr_step_save(r->s, &snap));
    return snap;
}

typedef struct bad_case {
    gr_step_config c;
    int how, micro;
} bad_case;

static void check_bad(const gr_verdict *v, const rank *r, int how)
{
    int32_t want =
        how == ZEROS ? 0 : gr_loss_code(gr_pg_rank(r->pg), gr_pg_size(r->pg), how == NAN_IN);

    GR_CHECK(v->is_there && v->behind == 2 && v->halted);
    if (how == ZEROS)
        GR_CHECK(v->loss == 0 && v->grad);
    else if (is_last(r))
        GR_CHECK_EQ(v->loss, want);
    GR_CHECK_EQ(gr_loss_code_rank(v->loss, gr_pg_size(r->pg)),
                how == ZEROS ? 0 : gr_pg_size(r->pg) - 1);
}

/* Update 2 is bad, 3 and 4 are not: nothing of any of them is there until the state before them
 * is restored; then they come out as if 2 had been fine. */
static void each_bad(gr_pg *pg, void *arg)
{
    const bad_case *k = arg;
    gr_snapshot *before, *after, *end, *want;
    rank r;

    open_rank(&r, &k->c, pg, true);
    r.bad_micro = k->micro;
    for (int i = 0; i < 2; i++)
        GR_CHECK_OK(update(&r, i, FINE));
    before = saved(&r);
    while (next(&r, true).is_there)
        ;
    for (int i = 2; i < 5; i++) {
        gr_verdict v;

        GR_CHECK_OK(update(&r, i, i == 2 ? k->how : FINE));
        v = next(&r, false);
        if (i == 4)
            check_bad(&v, &r, k->how);
        else
            GR_CHECK(!v.is_there);
    }
    after = saved(&r);
    GR_CHECK(is_same(before, after));
    for (int i = 0; i < 2; i++) { /* later ones were fine, and did nothing */
        gr_verdict v = next(&r, true);

        GR_CHECK(v.is_there && v.halted && v.loss == 0 && !v.grad);
    }
    if (pg)
        GR_CHECK_OK(gr_pg_barrier(pg));
    GR_CHECK_OK(gr_step_restore(r.s, before));
    for (int i = 2; i < 5; i++) {
        GR_CHECK_OK(update(&r, i, FINE));
        next(&r, false);
    }
    end = saved(&r);
    want = trained(&k->c, pg, true, FINE);
    check_same_state(want, end);
    gr_snapshot_destroy(before);
    gr_snapshot_destroy(after);
    gr_snapshot_destroy(end);
    gr_snapshot_destroy(want);
    gr_step_destroy(r.s);
}

static void test_bad(int world)
{
    for (int how = NAN_IN; how <= ZEROS; how++)
        for (int accumulate = 1; accumulate <= 3; accumulate += 2)
            for (int micro = 0; micro < accumulate; micro++) {
                bad_case k = { config("cpu:late", accumulate), how, micro };

                run(each_bad, world, &k);
            }
}

/* Where a step is skipped by its gradients, it alone is: the record tells, and nothing halts. */
static void each_skip(gr_pg *pg, void *arg)
{
    const gr_step_config *c = arg;
    gr_step_stats stats;
    rank r;

    open_rank(&r, c, pg, true);
    for (int i = 0; i < 4; i++) {
        gr_verdict v;

        GR_CHECK_OK(update(&r, i, i == 1 ? NAN_IN : FINE));
        v = next(&r, false);
        GR_CHECK(!v.halted);
        GR_CHECK_EQ(v.grad, i == 3);
        GR_CHECK_EQ(v.loss != 0, i == 3);
    }
    GR_CHECK_OK(gr_step_get_stats(r.s, &stats));
    GR_CHECK_EQ(stats.n_skipped, 1);
    GR_CHECK(!isnan(stats.grad_norm));
    gr_step_destroy(r.s);
}

static void test_skip(int world)
{
    for (int i = 0; i < 4; i++) {
        gr_step_config c = config("cpu:late", i % 2 ? 2 : 1);

        c.clip_norm = i < 2 ? 1 : 0;
        c.amp = i < 2 ? GR_AMP_NONE : GR_AMP_F16;
        run(each_skip, world, &c);
    }
}

/* Nobody asked for the norm, so it is not told. */
static void test_stats(void)
{
    gr_step_config c = config("cpu:late", 1);
    gr_step_stats stats;
    rank r;

    open_rank(&r, &c, NULL, true);
    GR_CHECK_OK(update(&r, 0, FINE));
    GR_CHECK_OK(gr_step_get_stats(r.s, &stats));
    GR_CHECK(isnan(stats.grad_norm) && stats.n_skipped == 0);
    gr_step_destroy(r.s);
}

/* Results that nobody waited for are not there. */
static void test_late(void)
{
    gr_step_config c = config("cpu:late", 1);
    float loss = 0;
    rank r;

    open_rank(&r, &c, NULL, false);
    GR_CHECK_OK(update(&r, 0, FINE));
    GR_CHECK_OK(gr_step_read(r.s, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    GR_CHECK(loss > 0);
    GR_CHECK(!next(&r, true).is_there); /* not watched: no records */
    gr_step_destroy(r.s);
}

int main(void)
{
    for (int world = 1; world <= 3; world++) {
        for (int accumulate = 1; accumulate <= 2; accumulate++) {
            gr_step_config c = config("cpu:late", accumulate);

            run(each_stop, world, &c);
        }
        test_same(world);
        test_bad(world);
        test_skip(world);
    }
    test_ahead();
    test_stats();
    test_late();
    return 0;
}
