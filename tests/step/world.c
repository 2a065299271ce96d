#include "step/world.h"

#include <pthread.h>

#include "check.h"

gr_status trace_mlp(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_value *h = gr_relu(g, gr_linear(g, "fc1", x, 16));
    gr_value *logits;

    (void)user;
    h = gr_tanh(g, gr_linear(g, "fc2", h, 8));
    logits = gr_linear(g, "fc3", h, 5);
    gr_output(g, "logits", logits);
    gr_loss(g, gr_cross_entropy(g, logits, gr_input(g, "y")));
    return gr_graph_status(g);
}

/* Starting weights are drawn, then rounded to -1, 0 or 1 by comparing: no gradient passes
 * a comparison, so they come from constants that differ per layer instead. */
gr_status trace_exact(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_value *w1 = gr_param(g, "w1", GR_SHAPE(12, 16), gr_init_const(1));
    gr_value *w2 = gr_param(g, "w2", GR_SHAPE(16, 5), gr_init_const(-1));
    gr_value *b1 = gr_param(g, "b1", GR_SHAPE(16), gr_init_const(2));
    gr_value *h = gr_relu(g, gr_add(g, gr_matmul(g, x, w1), b1));
    gr_value *y = gr_matmul(g, h, w2);

    (void)user;
    gr_loss(g, gr_mean(g, gr_mul(g, y, gr_mul_k(g, gr_input(g, "t"), 5)), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

/* A number from its place alone, so that any split of the samples sees the same data. */
static uint32_t mix(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t h = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu ^ (c + 1) * 0xc2b2ae35u;

    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    return h ^ h >> 13;
}

void batch_fill(batch *b, bool exact, int step, int first, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t sample = (uint32_t)(first + i);

        for (uint32_t k = 0; k < 12; k++) {
            uint32_t h = mix((uint32_t)step, sample, k);

            b->x[i * 12 + (int)k] = exact ? (float)(h % 5) - 2.0f : (float)(h % 2048) / 1024 - 1;
        }
        for (uint32_t k = 0; k < 5; k++)
            b->t[i * 5 + (int)k] = (float)(mix((uint32_t)step, sample, 100 + k) % 3) - 1.0f;
        b->y[i] = mix((uint32_t)step, sample, 200) % 5;
    }
    b->feeds[0] = (gr_named){ "x", GR_F32, GR_SHAPE(n, 12), b->x };
    b->feeds[1] = exact ? (gr_named){ "t", GR_F32, GR_SHAPE(n, 5), b->t }
                        : (gr_named){ "y", GR_I64, GR_SHAPE(n), b->y };
}

static gr_status run_steps(job *j, gr_step *s, gr_pg *pg)
{
    int world = gr_pg_size(pg), k = j->c.accumulate;
    int n = j->global_batch / world / k;
    batch *b = malloc(sizeof(*b));
    gr_status st = GR_OK;

    for (int i = 0; i < j->n_steps && st == GR_OK; i++) {
        float sum = 0;

        for (int m = 0; m < k && st == GR_OK; m++) {
            float loss = 0;

            /* Micro-step m of rank r takes the stretch m * world + r of the batch. */
            batch_fill(b, j->exact, j->first + i, (m * world + gr_pg_rank(pg)) * n, n);
            st = gr_step_train(s, b->feeds, 2, 0.125);
            if (st == GR_OK)
                st = gr_step_read(s, "loss", (gr_vec){ &loss, 1, GR_F32 });
            sum += loss;
        }
        if (gr_pg_rank(pg) == 0)
            j->loss[i] = sum / (float)k;
    }
    free(b);
    return st;
}

static gr_status save_nothing(gr_step *s)
{
    gr_snapshot *empty;

    GR_TRY(gr_step_save(s, &empty));
    GR_CHECK_EQ(gr_snapshot_count(empty), 0);
    gr_snapshot_destroy(empty);
    return GR_OK;
}

static gr_status run_step(job *j, gr_step *s, gr_pg *pg)
{
    batch *b = malloc(sizeof(*b));
    gr_status st;

    batch_fill(b, j->exact, 0, 0, j->global_batch / gr_pg_size(pg) / j->c.accumulate);
    st = gr_step_plan(s, true, b->feeds, 2);
    free(b);
    /* With shards both are done together, and rank 0 alone has snapshots. */
    if (st == GR_OK && j->start)
        st = gr_step_restore(s, j->c.zero > 0 && gr_pg_rank(pg) != 0 ? NULL : j->start);
    if (st == GR_OK)
        st = run_steps(j, s, pg);
    if (st == GR_OK && gr_pg_rank(pg) == 0)
        st = gr_step_save(s, &j->end);
    else if (st == GR_OK && j->c.zero > 0)
        st = save_nothing(s);
    return st;
}

gr_status run_rank(job *j, gr_pg *pg)
{
    gr_step_config c = j->c;
    gr_step *s;
    gr_status st;

    c.pg = pg;
    c.alone = !pg; /* one that has the environment of several, too */
    c.device = j->device ? j->device : "cpu";
    GR_TRY(gr_step_create(&s, &c));
    st = run_step(j, s, pg);
    gr_step_destroy(s);
    return st;
}

typedef struct rank_thread {
    each_rank_fn *fn;
    void *arg;
    gr_pg *pg;
    pthread_t thread;
} rank_thread;

static void *rank_main(void *arg)
{
    rank_thread *t = arg;

    t->fn(t->pg, t->arg);
    gr_pg_destroy(t->pg);
    return NULL;
}

void each_rank(int n, each_rank_fn *fn, void *arg)
{
    gr_pg_config pc = GR_PG_CONFIG_INIT;
    rank_thread *t = calloc((size_t)n, sizeof(*t));
    gr_pg **pg = calloc((size_t)n, sizeof(*pg));

    pc.timeout_ms = 240000;
    GR_CHECK_OK(gr_pg_create_threads(pg, n, &pc));
    for (int i = 0; i < n; i++) {
        t[i] = (rank_thread){ .fn = fn, .arg = arg, .pg = pg[i] };
        GR_CHECK_EQ(pthread_create(&t[i].thread, NULL, rank_main, &t[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(t[i].thread, NULL);
    free(pg);
    free(t);
}

static void run_job(gr_pg *pg, void *arg)
{
    job *j = arg;
    gr_status st = run_rank(j, pg);

    if (st != j->want) {
        fprintf(stderr, "rank %d: %s: %s\n", gr_pg_rank(pg), gr_status_text(st),
                gr_error_message());
        exit(1);
    }
}

void run_ranks(job *j, int n)
{
    each_rank(n, run_job, j);
}

void check_same_state(const gr_snapshot *a, const gr_snapshot *b)
{
    GR_CHECK_EQ(gr_snapshot_count(a), gr_snapshot_count(b));
    for (int i = 0; i < gr_snapshot_count(a); i++) {
        const gr_named *x = gr_snapshot_at(a, i), *y = gr_snapshot_find(b, x->name);
        size_t n = (size_t)gr_shape_count(&x->shape) * gr_dtype_bytes(x->dtype);

        GR_CHECK(y != NULL);
        if (memcmp(x->mem, y->mem, n) != 0) {
            fprintf(stderr, "'%s' differs: starts with %.9g and %.9g\n", x->name,
                    (double)*(const float *)x->mem, (double)*(const float *)y->mem);
            exit(1);
        }
    }
    GR_CHECK_STR(gr_snapshot_get(a, "gradus.step"), gr_snapshot_get(b, "gradus.step"));
}
