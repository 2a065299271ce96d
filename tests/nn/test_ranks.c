/*
 * W ranks with batch B give the gradients of one rank with batch W B, for every kind of model:
 * with sync_bn, which does nothing where there is no batch norm; with micro-steps where there
 * is none (each has statistics of its own, as in PyTorch); with loss_reduction global for
 * batches of different sizes. Only the order of sums differs: all gradients together are NEAR
 * of their length away, or no more than four times what one rounding of the input does to them
 * (DeepLab's norm over four pixels multiplies it by 10^5). Where numbers are whole, a
 * convolution's are the same bits; tests/step/test_ranks.c has that of an MLP.
 *
 * usage: test_ranks [MODEL]
 */
#include <math.h>
#include <pthread.h>

#include "base/alloc.h"
#include "check.h"
#include "nn/models.h"

#define MAX_RANKS 4
#define BATCH     4 /* of all ranks and micro-steps */

#define NEAR 1e-5 /* the furthest seen: 2.4e-6, ResNet */

typedef struct setup {
    int world, accumulate;
    bool uneven;
} setup;

typedef struct rank_run {
    const model *m;
    const setup *s;
    const gr_named *joint; /* the feeds of the whole batch */
    gr_pg *pg;
    gr_snapshot *end;
    float loss;
    pthread_t thread;
} rank_run;

static size_t row_bytes(const gr_named *f)
{
    return (size_t)(gr_shape_count(&f->shape) / f->shape.dim[0]) * gr_dtype_bytes(f->dtype);
}

/* Samples [first, first + n) of the joint batch. */
static void take(const rank_run *r, int first, int n, gr_named *feeds)
{
    for (int i = 0; i < r->m->n_feeds; i++) {
        feeds[i] = r->joint[i];
        feeds[i].shape.dim[0] = n;
        feeds[i].mem = (char *)r->joint[i].mem + (size_t)first * row_bytes(&r->joint[i]);
    }
}

static void part(const setup *s, int rank, int micro, int *first, int *n)
{
    static const int cuts[MAX_RANKS] = { 0, 2, 3, BATCH };

    *n = BATCH / (s->world * s->accumulate);
    *first = (micro * s->world + rank) * *n;
    if (s->uneven) {
        *first = cuts[rank];
        *n = cuts[rank + 1] - cuts[rank];
    }
}

static void *rank_main(void *arg)
{
    rank_run *r = arg;
    gr_step_config c = GR_STEP_CONFIG_INIT;
    model own = *r->m;
    gr_named feeds[MODEL_MAX_FEEDS];
    int first, n;
    gr_step *s;

    c.device = "cpu";
    c.pg = r->pg;
    c.n_threads = 1;
    c.accumulate = r->s->accumulate;
    c.sync_bn = true;
    c.loss_reduction = r->s->uneven ? GR_LOSS_GLOBAL : GR_LOSS_LOCAL;
    c.optim.momentum = 0.9; /* its buffer is the gradient, after one step */
    part(r->s, gr_pg_rank(r->pg), 0, &first, &n);
    for (int i = 0; i < own.n_feeds; i++)
        own.feeds[i].shape.dim[0] = n;
    model_open(&own, &c, &s);
    for (int m = 0; m < r->s->accumulate; m++) {
        part(r->s, gr_pg_rank(r->pg), m, &first, &n);
        take(r, first, n, feeds);
        GR_CHECK_OK(gr_step_train(s, feeds, own.n_feeds, 1e-3));
    }
    GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &r->loss, 1, GR_F32 }));
    GR_CHECK_OK(gr_step_save(s, &r->end));
    gr_step_destroy(s);
    gr_pg_destroy(r->pg);
    return NULL;
}

/* Rank 0's state afterwards, after all have been found alike. */
static gr_snapshot *run(const model *m, const setup *s, const gr_named *joint)
{
    gr_pg_config pc = GR_PG_CONFIG_INIT;
    gr_pg *pg[MAX_RANKS] = { NULL };
    rank_run r[MAX_RANKS];

    pc.timeout_ms = 240000;
    if (s->world > 1)
        GR_CHECK_OK(gr_pg_create_threads(pg, s->world, &pc));
    for (int i = 0; i < s->world; i++) {
        r[i] = (rank_run){ .m = m, .s = s, .joint = joint, .pg = pg[i] };
        GR_CHECK_EQ(pthread_create(&r[i].thread, NULL, rank_main, &r[i]), 0);
    }
    for (int i = 0; i < s->world; i++)
        pthread_join(r[i].thread, NULL);
    for (int i = 1; i < s->world; i++) {
        for (int k = 0; k < gr_snapshot_count(r[0].end); k++) {
            const gr_named *x = gr_snapshot_at(r[0].end, k);
            const gr_named *y = gr_snapshot_find(r[i].end, x->name);

            GR_CHECK(memcmp(x->mem, y->mem,
                            (size_t)gr_shape_count(&x->shape) * gr_dtype_bytes(x->dtype)) == 0);
        }
        gr_snapshot_destroy(r[i].end);
    }
    return r[0].end;
}

/* |a - b| over |a|, of all tensors whose name holds `part` as one vector. */
static double distance(const gr_snapshot *a, const gr_snapshot *b, const char *name_part)
{
    double off = 0, length = 0;

    for (int i = 0; i < gr_snapshot_count(a); i++) {
        const gr_named *x = gr_snapshot_at(a, i), *y = gr_snapshot_find(b, x->name);

        if (x->dtype != GR_F32 || !strstr(x->name, name_part))
            continue;
        for (int64_t k = 0; k < gr_shape_count(&x->shape); k++) {
            double p = (double)((const float *)x->mem)[k], q = (double)((const float *)y->mem)[k];

            off += (p - q) * (p - q);
            length += p * p;
        }
    }
    return length > 0 ? sqrt(off / length) : 0;
}

static bool has_batch_norm(const gr_snapshot *s)
{
    for (int i = 0; i < gr_snapshot_count(s); i++)
        if (strstr(gr_snapshot_at(s, i)->name, "running_mean"))
            return true;
    return false;
}

/* Every second number of the input one rounding up or down. */
static void disturb(const model *m, gr_named *feeds)
{
    for (int i = 0; i < m->n_feeds; i++)
        for (int64_t k = 0; m->feeds[i].fill == MODEL_REAL && k < gr_shape_count(&feeds[i].shape);
             k += 2) {
            float *x = &((float *)feeds[i].mem)[k];

            *x = nextafterf(*x, k % 4 == 0 ? 100.0f : -100.0f);
        }
}

/* How far gradients move when the input is moved by one rounding: no order of sums can be
 * asked to be nearer. */
static double condition(const model *m, const gr_snapshot *a)
{
    static const setup one = { 1, 1, false };
    gr_named feeds[MODEL_MAX_FEEDS];
    gr_snapshot *b;
    double off;

    model_feeds_make(m, feeds);
    disturb(m, feeds);
    b = run(m, &one, feeds);
    off = distance(a, b, "optimizer.momentum_buffer.");
    gr_snapshot_destroy(b);
    model_feeds_free(m, feeds);
    return off;
}

static void check_model(const model *m)
{
    static const setup one = { 1, 1, false };
#ifdef __SANITIZE_ADDRESS__ /* slow, and looks at memory, not at numbers */
    static const setup many[] = { { 3, 1, true }, { 2, 2, false } };
#else
    static const setup many[] = {
        { 2, 1, false }, { 3, 1, true }, { 4, 1, false }, { 2, 2, false }
    };
#endif
    gr_named joint[MODEL_MAX_FEEDS];
    model whole = *m;
    gr_snapshot *a;
    double moved;

    for (int i = 0; i < whole.n_feeds; i++)
        whole.feeds[i].shape.dim[0] = BATCH;
    model_feeds_make(&whole, joint);
    a = run(&whole, &one, joint);
    moved = condition(&whole, a);
    for (size_t k = 0; k < sizeof(many) / sizeof(many[0]); k++) {
        gr_snapshot *b;
        double grads, buffers;

        /* Micro-steps are normalised one by one, as in PyTorch. */
        if (many[k].accumulate > 1 && has_batch_norm(a))
            continue;
        b = run(&whole, &many[k], joint);
        grads = distance(a, b, "optimizer.momentum_buffer.");
        buffers = distance(a, b, ".running_");
        printf("%s, %d ranks, %d micro-steps%s: gradients %.1e off (%.1e by one rounding of "
               "the input), statistics %.1e\n",
               m->name, many[k].world, many[k].accumulate, many[k].uneven ? ", uneven" : "", grads,
               moved, buffers);
        fflush(stdout);
        GR_CHECK(grads > 0 || many[k].world == 1);
        GR_CHECK(grads <= fmax(NEAR, 4 * moved));
        GR_CHECK(buffers <= 1e-5);
        gr_snapshot_destroy(b);
    }
    gr_snapshot_destroy(a);
    model_feeds_free(&whole, joint);
}

/* ---- whole numbers ---- */

static gr_status trace_conv(gr_graph *g, void *user)
{
    gr_conv opt = GR_CONV_INIT;
    gr_value *w1 = gr_param(g, "w1", GR_SHAPE(4, 2, 3, 3), gr_init_const(1));
    gr_value *w2 = gr_param(g, "w2", GR_SHAPE(4, 4, 3, 3), gr_init_const(-1)), *y;

    (void)user;
    opt.pad[0] = opt.pad[1] = 1;
    y = gr_relu(g, gr_conv2d(g, gr_input(g, "x"), w1, &opt));
    opt.stride[0] = opt.stride[1] = 2;
    y = gr_mul(g, gr_conv2d(g, y, w2, &opt), gr_input(g, "t"));
    gr_loss(g, gr_mean(g, y, GR_AXES_ALL, false));
    return gr_graph_status(g);
}

typedef struct exact_run {
    gr_pg *pg;
    int accumulate;
    gr_snapshot *end;
    pthread_t thread;
} exact_run;

#define EXACT_BATCH 8
#define X_ROW       (8 * 8 * 2)
#define T_ROW       (4 * 4 * 4)

static void *exact_main(void *arg)
{
    exact_run *r = arg;
    gr_step_config c = GR_STEP_CONFIG_INIT;
    int n = EXACT_BATCH / (gr_pg_size(r->pg) * r->accumulate);
    static const uint32_t k1 = 2654435761u, k2 = 2246822519u;
    float *x = malloc(EXACT_BATCH * X_ROW * sizeof(float));
    float *t = malloc(EXACT_BATCH * T_ROW * sizeof(float));
    gr_step *s;

    for (uint32_t i = 0; i < EXACT_BATCH * X_ROW; i++)
        x[i] = (float)((i * k1 >> 20) % 5) - 2;
    for (uint32_t i = 0; i < EXACT_BATCH * T_ROW; i++)
        t[i] = (float)((i * k2 >> 20) % 3) - 1;
    c.trace = trace_conv;
    c.device = "cpu";
    c.pg = r->pg;
    c.accumulate = r->accumulate;
    c.optim.momentum = 0.5;
    GR_CHECK_OK(gr_step_create(&s, &c));
    for (int m = 0; m < r->accumulate; m++) {
        int first = (m * gr_pg_size(r->pg) + gr_pg_rank(r->pg)) * n;
        gr_named feeds[2] = { { "x", GR_F32, GR_SHAPE(n, 8, 8, 2), x + first * X_ROW },
                              { "t", GR_F32, GR_SHAPE(n, 4, 4, 4), t + first * T_ROW } };

        GR_CHECK_OK(gr_step_train(s, feeds, 2, 0.125));
    }
    GR_CHECK_OK(gr_step_save(s, &r->end));
    gr_step_destroy(s);
    gr_pg_destroy(r->pg);
    free(x);
    free(t);
    return NULL;
}

static gr_snapshot *run_exact(int world, int accumulate)
{
    gr_pg_config pc = GR_PG_CONFIG_INIT;
    gr_pg *pg[MAX_RANKS] = { NULL };
    exact_run r[MAX_RANKS];

    if (world > 1)
        GR_CHECK_OK(gr_pg_create_threads(pg, world, &pc));
    for (int i = 0; i < world; i++) {
        r[i] = (exact_run){ .pg = pg[i], .accumulate = accumulate };
        GR_CHECK_EQ(pthread_create(&r[i].thread, NULL, exact_main, &r[i]), 0);
    }
    for (int i = 0; i < world; i++)
        pthread_join(r[i].thread, NULL);
    for (int i = 1; i < world; i++)
        gr_snapshot_destroy(r[i].end);
    return r[0].end;
}

static void check_exact(void)
{
    static const int many[][2] = { { 2, 1 }, { 4, 1 }, { 2, 4 }, { 1, 4 }, { 4, 2 } };
    gr_snapshot *a = run_exact(1, 1);

    GR_CHECK(*(const float *)gr_snapshot_find(a, "optimizer.momentum_buffer.w1")->mem != 0.0f);
    for (size_t k = 0; k < sizeof(many) / sizeof(many[0]); k++) {
        gr_snapshot *b = run_exact(many[k][0], many[k][1]);

        GR_CHECK_NEAR(distance(a, b, "w"), 0, 0);
        GR_CHECK_NEAR(distance(a, b, "optimizer."), 0, 0);
        gr_snapshot_destroy(b);
    }
    gr_snapshot_destroy(a);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        check_exact();
    for (int i = 0; i < n_models_small; i++)
        if (argc < 2 || strcmp(argv[1], models_small[i].name) == 0)
            check_model(&models_small[i]);
    return 0;
}
