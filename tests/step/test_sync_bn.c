/*
 * Synchronised batch norm: W ranks with parts of a batch give what one rank gives with the
 * joint batch, forward and backward, with parts of different sizes, over micro-steps, in mixed
 * precision and with blocks computed anew. Statistics of whole numbers are the same bits.
 */
#include <math.h>
#include <pthread.h>

#include "check.h"
#include "step/world.h"

#define MAX_RANKS 4
#define N_STEPS   4
#define BATCH     32 /* of all ranks, in one micro-step */

typedef struct setup {
    gr_step_config c;
    int world;
    bool uneven; /* parts differ, by rank and from step to step */
    const char *transport;
} setup;

typedef struct rank_run {
    const setup *s;
    gr_pg *pg;
    double k; /* of the loss */
    gr_snapshot *end;
    float loss;
    pthread_t thread;
} rank_run;

/* The first norm sees whole numbers; the second has neither weights nor buffers; then one over
 * places as well as samples, twice, with the same weights. The loss is a sum, so that parts of
 * different sizes weigh what they should. */
static gr_status trace(gr_graph *g, void *user)
{
    const double *k = user;
    gr_value *x = gr_input(g, "x"), *h, *d;
    gr_batch_norm_args none = GR_BATCH_NORM_INIT;

    h = gr_batch_norm_layer(g, "bn1", x);
    gr_block_begin(g, "a");
    h = gr_relu(g, gr_batch_norm(g, gr_linear(g, "fc1", h, 16), &none));
    gr_block_end(g);
    gr_block_begin(g, "b");
    h = gr_reshape(g, gr_linear(g, "fc2", h, 16), GR_SHAPE(-1, 4, 4));
    none.weight = gr_param(g, "bn2.weight", GR_SHAPE(4), gr_init_const(1.5));
    h = gr_relu(g, gr_batch_norm(g, h, &none));
    h = gr_tanh(g, gr_batch_norm(g, gr_add(g, h, h), &none));
    h = gr_reshape(g, h, GR_SHAPE(-1, 16));
    gr_block_end(g);
    d = gr_sub(g, gr_linear(g, "fc3", h, 5), gr_input(g, "t"));
    gr_loss(g, gr_mul_k(g, gr_sum(g, gr_square(g, d), GR_AXES_ALL, false), *k));
    return gr_graph_status(g);
}

/* This rank's part of [0, BATCH). */
static void part(const setup *s, int rank, int step, int *first, int *n)
{
    static const int cuts[2][MAX_RANKS + 1] = { { 0, 9, 10, 25, BATCH }, { 0, 3, 20, 29, BATCH } };

    *first = BATCH / s->world * rank;
    *n = rank + 1 == s->world ? BATCH - *first : BATCH / s->world;
    if (s->uneven && s->world > 1) {
        *first = cuts[step % 2][rank];
        *n = (rank + 1 == s->world ? BATCH : cuts[step % 2][rank + 1]) - *first;
    }
}

static void run_steps(rank_run *r, gr_step *s)
{
    batch *b = malloc(sizeof(*b));
    int first, n;

    for (int i = 0; i < N_STEPS; i++)
        for (int m = 0; m < r->s->c.accumulate; m++) {
            part(r->s, gr_pg_rank(r->pg), i + m, &first, &n);
            batch_fill(b, true, i, m * BATCH + first, n);
            GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.125));
        }
    GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &r->loss, 1, GR_F32 }));
    free(b);
}

static void *rank_main(void *arg)
{
    rank_run *r = arg;
    gr_step_config c = r->s->c;
    gr_step *s;

    r->k = (double)r->s->world / (BATCH * 5);
    c.user = &r->k;
    c.pg = r->pg;
    GR_CHECK_OK(gr_step_create(&s, &c));
    run_steps(r, s);
    GR_CHECK_OK(gr_step_save(s, &r->end));
    gr_step_destroy(s);
    gr_pg_destroy(r->pg);
    return NULL;
}

static void run(const setup *s, rank_run *r)
{
    gr_pg_config pc = GR_PG_CONFIG_INIT;
    gr_pg *pg[MAX_RANKS] = { NULL };

    pc.timeout_ms = 240000;
    pc.transport = s->transport;
    if (s->world > 1)
        GR_CHECK_OK(gr_pg_create_threads(pg, s->world, &pc));
    for (int i = 0; i < s->world; i++) {
        r[i] = (rank_run){ .s = s, .pg = pg[i] };
        GR_CHECK_EQ(pthread_create(&r[i].thread, NULL, rank_main, &r[i]), 0);
    }
    for (int i = 0; i < s->world; i++)
        pthread_join(r[i].thread, NULL);
    for (int i = 1; i < s->world && !s->c.zero; i++) /* buffers among it */
        check_same_state(r[0].end, r[i].end);
}

static void forget(const setup *s, rank_run *r)
{
    for (int i = 0; i < s->world; i++)
        gr_snapshot_destroy(r[i].end);
}

static setup make(int world, int accumulate)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace;
    c.device = "cpu";
    c.accumulate = accumulate;
    c.seed = 7;
    c.optim.momentum = 0.5;
    c.sync_bn = true;
    c.first_bucket_bytes = 64; /* several buckets, between the norms' exchanges */
    c.bucket_bytes = 512;
    return (setup){ .c = c, .world = world };
}

/* The furthest that two states are apart, relative to the largest number of the tensor. */
static double distance(const gr_snapshot *a, const gr_snapshot *b)
{
    double most = 0;

    for (int i = 0; i < gr_snapshot_count(a); i++) {
        const gr_named *x = gr_snapshot_at(a, i), *y = gr_snapshot_find(b, x->name);
        double scale = 0.1, off = 0; /* some gradients are 0 but for rounding */

        GR_CHECK(y != NULL);
        for (int64_t k = 0; x->dtype == GR_F32 && k < gr_shape_count(&x->shape); k++) {
            double p = (double)((const float *)x->mem)[k], q = (double)((const float *)y->mem)[k];

            scale = fmax(scale, fabs(p));
            off = fmax(off, fabs(p - q));
        }
        most = fmax(most, off / scale);
    }
    return most;
}

static bool same_tensor(const gr_snapshot *a, const gr_snapshot *b, const char *name)
{
    const gr_named *x = gr_snapshot_find(a, name), *y = gr_snapshot_find(b, name);

    return memcmp(x->mem, y->mem, (size_t)gr_shape_count(&x->shape) * gr_dtype_bytes(x->dtype)) ==
           0;
}

/* Rounding of f32 sums in another order: 2^-24 of numbers near 1, over a few steps. */
#define NEAR 1e-5

static void test_equals_joint(setup many, double near)
{
    setup one = make(1, many.c.accumulate);
    rank_run a[1], b[MAX_RANKS];
    double off;

    one.c.amp = many.c.amp;
    run(&one, a);
    run(&many, b);
    off = distance(a[0].end, b[0].end);
    printf("%d ranks, %d micro-steps, %s%s: %.1e off\n", many.world, many.c.accumulate,
           many.uneven ? "uneven" : "even", many.c.amp ? ", low" : "", off);
    GR_CHECK(off <= near);
    /* Whole numbers: parts of 16 and 8 have exact means, and so has their union. */
    if (!many.uneven && many.world != 3) {
        GR_CHECK(same_tensor(a[0].end, b[0].end, "bn1.running_mean"));
        GR_CHECK(same_tensor(a[0].end, b[0].end, "bn1.running_var"));
        GR_CHECK(same_tensor(a[0].end, b[0].end, "bn1.num_batches_tracked"));
    }
    forget(&one, a);
    forget(&many, b);
}

/* Without it the result is another one: the test above can fail. */
static void test_makes_a_difference(void)
{
    setup with = make(2, 1), without = with;
    rank_run a[2], b[2];
    gr_pg_config pc = GR_PG_CONFIG_INIT;
    gr_pg *pg[2];

    without.c.sync_bn = false;
    run(&with, a);
    pc.timeout_ms = 240000;
    GR_CHECK_OK(gr_pg_create_threads(pg, 2, &pc));
    for (int i = 0; i < 2; i++) {
        b[i] = (rank_run){ .s = &without, .pg = pg[i] };
        GR_CHECK_EQ(pthread_create(&b[i].thread, NULL, rank_main, &b[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(b[i].thread, NULL);
    GR_CHECK(distance(a[0].end, b[0].end) > 100 * NEAR);
    GR_CHECK(!same_tensor(b[0].end, b[1].end, "bn1.running_mean"));
    forget(&with, a);
    forget(&without, b);
}

/* The same bits with blocks computed anew, over tcp, in one bucket, and with ZeRO. */
static void test_same_bits(void)
{
    setup plain = make(3, 2), other;
    rank_run a[3], b[3];

    plain.uneven = true;
    run(&plain, a);
    for (int k = 0; k < 4; k++) {
        other = plain;
        if (k == 0)
            other.c.recompute = GR_RECOMPUTE_ALL;
        else if (k == 1)
            other.transport = "tcp";
        else if (k == 2)
            other.c.zero = 1;
        else
            other.c.first_bucket_bytes = other.c.bucket_bytes = 1 << 20;
        run(&other, b);
        check_same_state(a[0].end, b[0].end);
        forget(&other, b);
    }
    forget(&plain, a);
}

/* ---- refusal and cost ---- */

typedef struct lines {
    int n_starts;
} lines;

static void count_starts(void *arg, const char *pass, const char *text)
{
    lines *l = arg;

    (void)pass;
    l->n_starts = 0;
    for (const char *at = strstr(text, "allreduce_start"); at;
         at = strstr(at + 1, "allreduce_start"))
        l->n_starts++;
}

/* Four norms forward, and backward all but the first, before which nothing is trained, and one
 * bucket of gradients; one rank has none at all, nor has an evaluation. */
static void *count_main(void *arg)
{
    rank_run *r = arg;
    gr_step_config c = r->s->c;
    batch *b = malloc(sizeof(*b));
    lines l = { -1 };
    gr_step *s;

    r->k = 1;
    c.user = &r->k;
    c.pg = r->pg;
    c.bucket_bytes = c.first_bucket_bytes = 1 << 20;
    c.dump_after = "in_place";
    c.dump = count_starts;
    c.dump_arg = &l;
    c.recompute = GR_RECOMPUTE_ALL;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, true, 0, 0, 4);
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    GR_CHECK_EQ(l.n_starts, r->pg ? 4 + 3 + 1 : 0);
    GR_CHECK_OK(gr_step_plan(s, false, b->feeds, 2));
    GR_CHECK_EQ(l.n_starts, 0);
    /* One value per channel is enough where others have some, too. */
    batch_fill(b, true, 0, 0, 1);
    GR_CHECK_EQ(gr_step_plan(s, true, b->feeds, 2), r->pg ? GR_OK : GR_ERR_ARG);
    gr_step_destroy(s);
    gr_pg_destroy(r->pg);
    free(b);
    return NULL;
}

static void test_count(int world)
{
    gr_pg *pg[2] = { NULL, NULL };
    gr_pg_config pc = GR_PG_CONFIG_INIT;
    setup s = make(world, 1);
    rank_run r[2];

    if (world > 1)
        GR_CHECK_OK(gr_pg_create_threads(pg, world, &pc));
    for (int i = 0; i < world; i++) {
        r[i] = (rank_run){ .s = &s, .pg = pg[i] };
        GR_CHECK_EQ(pthread_create(&r[i].thread, NULL, count_main, &r[i]), 0);
    }
    for (int i = 0; i < world; i++)
        pthread_join(r[i].thread, NULL);
}

/* One rank with, one without: refused before step 1. */
static void *differ_main(void *arg)
{
    rank_run *r = arg;
    gr_step_config c = r->s->c;
    batch *b = malloc(sizeof(*b));
    gr_step *s;

    r->k = 1;
    c.user = &r->k;
    c.pg = r->pg;
    c.sync_bn = gr_pg_rank(r->pg) == 0;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, true, 0, 0, 4);
    GR_CHECK_EQ(gr_step_plan(s, true, b->feeds, 2), GR_ERR_ARG);
    GR_CHECK(strstr(gr_error_message(), "'synchronised batch norm'") != NULL);
    gr_step_destroy(s);
    gr_pg_destroy(r->pg);
    free(b);
    return NULL;
}

static void test_differ(void)
{
    gr_pg_config pc = GR_PG_CONFIG_INIT;
    setup s = make(2, 1);
    rank_run r[2];
    gr_pg *pg[2];

    GR_CHECK_OK(gr_pg_create_threads(pg, 2, &pc));
    for (int i = 0; i < 2; i++) {
        r[i] = (rank_run){ .s = &s, .pg = pg[i] };
        GR_CHECK_EQ(pthread_create(&r[i].thread, NULL, differ_main, &r[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(r[i].thread, NULL);
}

int main(void)
{
    for (int world = 2; world <= 4; world++)
        for (int accumulate = 1; accumulate <= 2; accumulate++) {
            setup s = make(world, accumulate);

            test_equals_joint(s, NEAR);
            s.uneven = true;
            test_equals_joint(s, NEAR);
        }
    for (int k = 0; k < 2; k++) {
        setup s = make(2, 2);

        s.uneven = true;
        s.c.amp = k == 0 ? GR_AMP_BF16 : GR_AMP_F16;
        test_equals_joint(s, k == 0 ? 0.1 : 0.02); /* 2^-8 and 2^-11 of each number */
    }
    test_makes_a_difference();
    test_same_bits();
    test_count(1);
    test_count(2);
    test_differ();
    return 0;
}
