/*
 * loss_reduction global: where labels are ignored, ranks and micro-steps that have different
 * numbers of valid ones give what one rank with the joint batch gives; exactly where the
 * numbers are whole. Clipping, fp16 and the loss that is reported among it.
 */
#include <math.h>
#include <pthread.h>

#include "check.h"
#include "step/world.h"

#define MAX_RANKS 4
#define BATCH     32
#define N_STEPS   3

typedef enum kind { EXACT, ONE_COUNT, TWO_HEADS, MIXED, ALL_IGNORED, NO_MEAN, TERMS } kind;

typedef struct setup {
    gr_step_config c;
    int world;
    kind kind;
} setup;

typedef struct rank_run {
    const setup *s;
    gr_pg *pg;
    gr_snapshot *end;
    float loss[N_STEPS];
    double norm;
    pthread_t thread;
} rank_run;

static gr_value *entropy(gr_graph *g, gr_value *logits, gr_value *y)
{
    gr_cross_entropy_options o = GR_CROSS_ENTROPY_INIT;

    return gr_cross_entropy_mean(g, logits, y, &o);
}

static gr_status trace(gr_graph *g, void *user)
{
    kind k = *(const kind *)user;
    gr_value *x = gr_input(g, "x"), *h, *z, *y, *loss;

    if (k == EXACT) {
        gr_value *w = gr_param(g, "w1", GR_SHAPE(12, 5), gr_init_const(1));

        gr_loss(g, gr_masked_mse(g, gr_matmul(g, x, w), gr_input(g, "t"), gr_input(g, "mask")));
        return gr_graph_status(g);
    }
    y = gr_input(g, "y");
    h = gr_tanh(g, gr_linear(g, "fc1", x, 16));
    z = gr_linear(g, "fc2", h, 5);
    if (k == TERMS) { /* a mean, and a quotient of sums over all ranks, which is none */
        gr_loss_add_cross_entropy(g, "ce", 0.5, z, y,
                                  &(gr_cross_entropy_options)GR_CROSS_ENTROPY_INIT);
        gr_loss_add_dice(g, "dice", 2, z, gr_one_hot(g, y, 5, GR_F32), 0.5);
        return gr_graph_status(g);
    }
    loss = entropy(g, z, y);
    if (k == TWO_HEADS) /* its count is computed a second time from the same labels */
        loss = gr_add(g, loss, gr_mul_k(g, entropy(g, gr_linear(g, "aux", h, 5), y), 0.5));
    if (k == MIXED) { /* another count, plain means, and a part that is no mean */
        loss = gr_add(g, loss, gr_masked_mse(g, z, gr_input(g, "t"), gr_input(g, "mask")));
        loss = gr_sub(g, loss, gr_mul_k(g, gr_mse(g, h, gr_tanh(g, h)), 0.25));
        loss = gr_add(
            g, loss,
            gr_mul_k(g,
                     gr_sum(g, gr_square(g, gr_param(g, "fc2.bias", GR_SHAPE(5), gr_init_const(0))),
                            GR_AXES_ALL, false),
                     0.125));
    }
    if (k == NO_MEAN)
        loss = gr_sum(g, gr_square(g, z), GR_AXES_ALL, false);
    gr_loss(g, loss);
    return gr_graph_status(g);
}

/* Which samples count: 16 of 32, most of them late; a whole quarter has none. */
static bool counts(const setup *s, int step, int sample)
{
    sample = (sample + step) % BATCH;
    return s->kind != ALL_IGNORED && (sample < 3 || sample >= 19);
}

typedef struct data {
    batch b;
    float mask[BATCH];
    gr_named feeds[4];
} data;

static void fill(data *d, const setup *s, int step, int first, int n)
{
    batch_fill(&d->b, true, step, first, n);
    for (int i = 0; i < n; i++) {
        d->mask[i] = counts(s, step, first + i) ? 1 : 0;
        if (!counts(s, step, first + i))
            d->b.y[i] = -100;
        for (int k = 0; s->kind != EXACT && k < 12; k++)
            d->b.x[i * 12 + k] /= 3;
    }
    d->feeds[0] = d->b.feeds[0];
    d->feeds[1] = (gr_named){ "y", GR_I64, GR_SHAPE(n), d->b.y };
    d->feeds[2] = (gr_named){ "t", GR_F32, GR_SHAPE(n, 5), d->b.t };
    d->feeds[3] = (gr_named){ "mask", GR_F32, GR_SHAPE(n, 1), d->mask };
}

/* Parts of different sizes as well, where ranks are three. */
static void part(const setup *s, int rank, int micro, int *first, int *n)
{
    static const int cuts[4] = { 0, 5, 22, BATCH };
    int stretch = BATCH / (s->world * s->c.accumulate);

    *first = (micro * s->world + rank) * stretch;
    *n = stretch;
    if (s->world == 3) {
        *first = cuts[rank];
        *n = cuts[rank + 1] - cuts[rank];
    }
}

static void *rank_main(void *arg)
{
    rank_run *r = arg;
    gr_step_config c = r->s->c;
    data *d = malloc(sizeof(*d));
    kind k = r->s->kind;
    gr_step_stats stats;
    int first, n;
    gr_step *s;

    c.user = &k;
    c.pg = r->pg;
    GR_CHECK_OK(gr_step_create(&s, &c));
    for (int i = 0; i < N_STEPS; i++) {
        for (int m = 0; m < c.accumulate; m++) {
            part(r->s, gr_pg_rank(r->pg), m, &first, &n);
            fill(d, r->s, i, first, n);
            GR_CHECK_OK(gr_step_train(s, d->feeds, 4, 0.125));
        }
        GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &r->loss[i], 1, GR_F32 }));
    }
    GR_CHECK_OK(gr_step_get_stats(s, &stats));
    r->norm = stats.grad_norm;
    GR_CHECK_EQ(stats.n_skipped, 0);
    GR_CHECK_OK(gr_step_save(s, &r->end));
    gr_step_destroy(s);
    gr_pg_destroy(r->pg);
    free(d);
    return NULL;
}

static void run(const setup *s, rank_run *r)
{
    gr_pg_config pc = GR_PG_CONFIG_INIT;
    gr_pg *pg[MAX_RANKS] = { NULL };

    pc.timeout_ms = 240000;
    if (s->world > 1)
        GR_CHECK_OK(gr_pg_create_threads(pg, s->world, &pc));
    for (int i = 0; i < s->world; i++) {
        r[i] = (rank_run){ .s = s, .pg = pg[i] };
        GR_CHECK_EQ(pthread_create(&r[i].thread, NULL, rank_main, &r[i]), 0);
    }
    for (int i = 0; i < s->world; i++)
        pthread_join(r[i].thread, NULL);
    for (int i = 1; i < s->world; i++)
        check_same_state(r[0].end, r[i].end);
}

static void forget(const setup *s, rank_run *r)
{
    for (int i = 0; i < s->world; i++)
        gr_snapshot_destroy(r[i].end);
}

static setup make(kind k, int world, int accumulate)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace;
    c.device = "cpu";
    c.seed = 11;
    c.accumulate = accumulate;
    c.loss_reduction = GR_LOSS_GLOBAL;
    c.optim.momentum = 0.5;
    c.first_bucket_bytes = 64;
    c.bucket_bytes = 512;
    return (setup){ .c = c, .world = world, .kind = k };
}

static double distance(const gr_snapshot *a, const gr_snapshot *b)
{
    double most = 0;

    for (int i = 0; i < gr_snapshot_count(a); i++) {
        const gr_named *x = gr_snapshot_at(a, i), *y = gr_snapshot_find(b, x->name);

        for (int64_t k = 0; x->dtype == GR_F32 && k < gr_shape_count(&x->shape); k++)
            most =
                fmax(most, fabs((double)(((const float *)x->mem)[k] - ((const float *)y->mem)[k])));
    }
    return most;
}

#define NEAR 2e-6 /* sums of f32 in another order, over three steps */

/* Against one rank, one micro-step, the joint batch. */
static void test_equals_joint(setup many, double near)
{
    setup one = many;
    rank_run a[1], b[MAX_RANKS];
    double off;

    one.world = one.c.accumulate = 1;
    run(&one, a);
    run(&many, b);
    off = distance(a[0].end, b[0].end);
    printf("kind %d, %d ranks, %d micro-steps: %.1e off\n", (int)many.kind, many.world,
           many.c.accumulate, off);
    if (near == 0)
        check_same_state(a[0].end, b[0].end);
    GR_CHECK(off <= near);
    for (int i = 0; i < N_STEPS; i++) {
        double mean = 0;

        for (int r = 0; r < many.world; r++)
            mean += (double)b[r].loss[i] / many.world;
        GR_CHECK_NEAR(mean, a[0].loss[i], fmax(10 * near, 2e-6));
        for (int r = 1; r < many.world && many.c.accumulate > 1; r++)
            GR_CHECK_NEAR(b[r].loss[i], b[0].loss[i], 0);
    }
    if (many.c.clip_norm > 0)
        GR_CHECK_NEAR(a[0].norm, b[0].norm, fmax(10 * near, 1e-5));
    forget(&one, a);
    forget(&many, b);
}

/* The mean of means is something else: the test above can fail. */
static void test_local_differs(kind k, int world, int accumulate)
{
    setup all = make(k, world, accumulate), own = all;
    rank_run a[MAX_RANKS], b[MAX_RANKS];

    own.c.loss_reduction = GR_LOSS_LOCAL;
    run(&all, a);
    run(&own, b);
    GR_CHECK(distance(a[0].end, b[0].end) > 1000 * NEAR);
    forget(&all, a);
    forget(&own, b);
}

/* Nothing counts: nothing changes, and nothing is broken. */
static void test_all_ignored(int world, int accumulate)
{
    setup s = make(ALL_IGNORED, world, accumulate);
    rank_run r[MAX_RANKS];

    run(&s, r);
    for (int i = 0; i < gr_snapshot_count(r[0].end); i++) {
        const gr_named *x = gr_snapshot_at(r[0].end, i);

        for (int64_t k = 0; x->dtype == GR_F32 && k < gr_shape_count(&x->shape); k++)
            GR_CHECK(isfinite(((const float *)x->mem)[k]));
        if (strstr(x->name, "momentum"))
            GR_CHECK_NEAR(*(const float *)x->mem, 0, 0);
    }
    GR_CHECK_NEAR(r[0].loss[0], 0, 0);
    forget(&s, r);
}

static void test_refused(kind k, int accumulate, const char *say)
{
    setup s = make(k, 1, accumulate);
    data *d = malloc(sizeof(*d));
    gr_step *step;

    s.c.user = &k;
    fill(d, &s, 0, 0, 8);
    GR_CHECK_OK(gr_step_create(&step, &s.c));
    GR_CHECK_EQ(gr_step_plan(step, true, d->feeds, 4), GR_ERR_ARG);
    if (!strstr(gr_error_message(), say)) {
        fprintf(stderr, "'%s' lacks '%s'\n", gr_error_message(), say);
        exit(1);
    }
    gr_step_destroy(step);
    free(d);
}

int main(void)
{
    test_equals_joint(make(EXACT, 2, 1), 0);
    test_equals_joint(make(EXACT, 4, 1), 0);
    for (int world = 1; world <= 4; world++)
        for (int accumulate = 1; accumulate <= (world == 3 ? 1 : 4); accumulate *= 2) {
            setup s = make(ONE_COUNT, world, accumulate);

            test_equals_joint(s, NEAR);
            s.kind = TWO_HEADS;
            s.c.clip_norm = 0.05;
            test_equals_joint(s, NEAR);
        }
    test_equals_joint(make(MIXED, 2, 1), NEAR);
    test_equals_joint(make(MIXED, 3, 1), NEAR);
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        setup s = make(TWO_HEADS, 2, accumulate);

        s.c.amp = GR_AMP_F16;
        test_equals_joint(s, 2e-3); /* 2^-11 of numbers near 1 */
        s.c.amp = GR_AMP_NONE;
        s.c.grad_dtype = GR_BF16;
        test_equals_joint(s, 1e-2);
    }
    for (int world = 1; world <= 4; world++)
        test_equals_joint(make(TERMS, world, 1), NEAR);
    test_local_differs(ONE_COUNT, 2, 1);
    test_local_differs(TERMS, 2, 1);
    test_local_differs(ONE_COUNT, 1, 2);
    test_all_ignored(2, 1);
    test_all_ignored(2, 2);
    test_refused(MIXED, 2, "is not");
    test_refused(NO_MEAN, 2, "is no mean");
    test_refused(TERMS, 2, "the term 'dice' is no mean");
    return 0;
}
