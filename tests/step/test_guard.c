/*
 * Guards P4: a skipped step leaves buffers alone as it does parameters. One rank's batch, or one
 * micro-step of it, has a NaN, or gradients that fp16 does not hold: running statistics and
 * counts are afterwards what they were before the whole step, on every rank, and what follows is
 * as if that step had not been.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "step/world.h"

#define BATCH 8

/* Statistics of whole numbers over a batch, and over places as well. */
static gr_status trace(gr_graph *g, void *user)
{
    gr_value *h = gr_batch_norm_layer(g, "bn1", gr_input(g, "x"));
    gr_value *d;

    (void)user;
    gr_block_begin(g, "a");
    h = gr_relu(g, gr_linear(g, "fc1", h, 16));
    h = gr_batch_norm_layer(g, "bn2", gr_reshape(g, h, GR_SHAPE(-1, 4, 4)));
    gr_block_end(g);
    h = gr_linear(g, "fc2", gr_reshape(g, h, GR_SHAPE(-1, 16)), 5);
    d = gr_sub(g, h, gr_input(g, "t"));
    gr_loss(g, gr_mean(g, gr_square(g, d), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

typedef struct plan {
    gr_step_config c;
    int bad_micro;  /* of the second step, on the last rank */
    float bad_with; /* what stands in it */
} plan;

static void step(gr_step *s, const plan *p, gr_pg *pg, int number, bool bad)
{
    batch *b = malloc(sizeof(*b));

    for (int m = 0; m < p->c.accumulate; m++) {
        int place = m * gr_pg_size(pg) + gr_pg_rank(pg);

        batch_fill(b, true, number, place * BATCH, BATCH);
        if (bad && m == p->bad_micro && gr_pg_rank(pg) + 1 == gr_pg_size(pg))
            b->x[3] = p->bad_with;
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.125));
    }
    free(b);
}

static bool is_counter(const char *name)
{
    return strcmp(name, "optimizer.skipped") == 0 || strcmp(name, "optimizer.loss_scale") == 0 ||
           strcmp(name, "optimizer.good_steps") == 0;
}

/* All but what counts skips. */
static void check_unchanged(const gr_snapshot *a, const gr_snapshot *b)
{
    GR_CHECK(gr_snapshot_find(a, "bn2.running_var"));
    GR_CHECK_EQ(gr_snapshot_count(a), gr_snapshot_count(b));
    for (int i = 0; i < gr_snapshot_count(a); i++) {
        const gr_named *x = gr_snapshot_at(a, i), *y = gr_snapshot_find(b, x->name);
        size_t n_bytes = (size_t)gr_shape_count(&x->shape) * gr_dtype_bytes(x->dtype);

        GR_CHECK(y != NULL);
        if (!is_counter(x->name) && memcmp(x->mem, y->mem, n_bytes) != 0)
            GR_CHECK(!x->name);
    }
}

static int64_t count_in(const gr_snapshot *snap, const char *name)
{
    return *(const int64_t *)gr_snapshot_find(snap, name)->mem;
}

/* Steps 0, (bad), 2; *end of them, on this rank. */
static void run_steps(const plan *p, gr_pg *pg, bool with_bad, gr_snapshot **end)
{
    gr_snapshot *before, *after;
    gr_step_config c = p->c;
    gr_step *s;

    c.pg = pg;
    GR_CHECK_OK(gr_step_create(&s, &c));
    step(s, p, pg, 0, false);
    GR_CHECK_OK(gr_step_save(s, &before));
    GR_CHECK(!gr_snapshot_find(before, "held.bn1.running_mean"));
    GR_CHECK_EQ(count_in(before, "bn1.num_batches_tracked"), c.accumulate);
    if (with_bad) {
        step(s, p, pg, 1, true);
        GR_CHECK_OK(gr_step_save(s, &after));
        GR_CHECK_EQ(count_in(after, "optimizer.skipped"), 1);
        check_unchanged(before, after);
        gr_snapshot_destroy(after);
    }
    step(s, p, pg, 2, false);
    GR_CHECK_OK(gr_step_save(s, end));
    GR_CHECK_EQ(count_in(*end, "bn1.num_batches_tracked"), 2 * c.accumulate);
    gr_snapshot_destroy(before);
    gr_step_destroy(s);
}

static void each(gr_pg *pg, void *arg)
{
    const plan *p = arg;
    gr_snapshot *with, *without;

    run_steps(p, pg, true, &with);
    if (p->c.amp != GR_AMP_F16) { /* there the scale has changed */
        run_steps(p, pg, false, &without);
        check_unchanged(without, with);
        gr_snapshot_destroy(without);
    }
    gr_snapshot_destroy(with);
}

static void run(plan *p, int world)
{
    if (world == 1)
        each(NULL, p);
    else
        each_rank(world, each, p);
}

static plan make(int accumulate)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace;
    c.device = "cpu";
    c.accumulate = accumulate;
    c.seed = 7;
    c.optim.momentum = 0.5;
    c.first_bucket_bytes = 64;
    c.bucket_bytes = 512;
    c.clip_norm = 1e9;
    return (plan){ .c = c, .bad_with = NAN };
}

static void test_nan(int world)
{
    for (int accumulate = 1; accumulate <= 3; accumulate += 2)
        for (int bad = 0; bad < accumulate; bad++) {
            plan p = make(accumulate);

            p.bad_micro = bad;
            run(&p, world);
        }
}

/* An infinity in the sum of squares; 1e30 overflows f16 in the forward pass. */
static void test_overflow(int world)
{
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        plan p = make(accumulate);

        p.c.clip_norm = 0;
        p.c.amp = GR_AMP_F16;
        p.bad_with = 1e30f;
        run(&p, world);
    }
}

/* With what else hangs on the step: all ranks' statistics, the count of the loss, blocks
 * computed anew, averages. */
static void test_company(int world)
{
    for (int i = 0; i < 5; i++) {
        plan p = make(i % 2 ? 2 : 1);

        p.c.sync_bn = i == 0 || i == 1;
        p.c.loss_reduction = i == 3 ? GR_LOSS_GLOBAL : GR_LOSS_LOCAL;
        p.c.clip_norm = i == 3 ? 0 : p.c.clip_norm; /* the count makes it look anyway */
        p.c.recompute = i == 2 ? GR_RECOMPUTE_ALL : GR_RECOMPUTE_NONE;
        p.c.ema_decay = i == 4 ? 0.5 : 0;
        run(&p, world);
    }
}

/* Rank 0 has the snapshot of all. */
static void each_zero(gr_pg *pg, void *arg)
{
    const plan *p = arg;
    gr_snapshot *snap[3];
    gr_step_config c = p->c;
    gr_step *s;

    c.pg = pg;
    GR_CHECK_OK(gr_step_create(&s, &c));
    for (int i = 0; i < 3; i++) {
        step(s, p, pg, i, i == 1);
        GR_CHECK_OK(gr_step_save(s, &snap[i]));
    }
    if (gr_pg_rank(pg) == 0) {
        GR_CHECK_EQ(count_in(snap[2], "optimizer.skipped"), 1);
        check_unchanged(snap[0], snap[1]);
        GR_CHECK_EQ(count_in(snap[2], "bn1.num_batches_tracked"), 2 * c.accumulate);
    }
    for (int i = 0; i < 3; i++)
        gr_snapshot_destroy(snap[i]);
    gr_step_destroy(s);
}

static void test_zero(void)
{
    for (int zero = 1; zero <= 2; zero++)
        for (int accumulate = 1; accumulate <= 2; accumulate++) {
            plan p = make(accumulate);

            p.c.zero = zero;
            each_rank(2, each_zero, &p);
        }
}

/* Without a look at the gradients nothing is skipped, and nothing held. */
static void test_no_control(void)
{
    plan p = make(2);
    gr_snapshot *end;
    gr_step *s;

    p.c.clip_norm = 0;
    GR_CHECK_OK(gr_step_create(&s, &p.c));
    step(s, &p, NULL, 0, true);
    GR_CHECK_OK(gr_step_save(s, &end));
    GR_CHECK(isnan(((const float *)gr_snapshot_find(end, "bn1.running_mean")->mem)[3]));
    GR_CHECK_EQ(count_in(end, "bn1.num_batches_tracked"), 2);
    gr_snapshot_destroy(end);
    gr_step_destroy(s);
}

int main(void)
{
    static const int worlds[] = { 1, 2, 4 };

    for (int i = 0; i < 3; i++) {
        test_nan(worlds[i]);
        test_overflow(worlds[i]);
        test_company(worlds[i]);
    }
    test_zero();
    test_no_control();
    return 0;
}
