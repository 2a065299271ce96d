/*
 * Random numbers by keys: a sample's depend on its key alone, not on the batch around it, on the
 * updates before it or on the rank; all 64 bits of a key count.
 */
#include "check.h"
#include "step/world.h"

#include "gradus/random.h"

#include <stdlib.h>

#define WIDE  100
#define MOST  8
#define N_KEY 6

static const int64_t keys[N_KEY] = { 0, 1, 1000, -1, INT64_C(1) << 32, (INT64_C(1) << 32) + 1 };

static gr_status draw(gr_graph *g, void *user)
{
    gr_value *key = gr_input(g, "key");
    int64_t n = gr_value_shape(key).dim[0];

    (void)user;
    gr_output(g, "normal", gr_random_normal_keyed(g, key, GR_F32, GR_SHAPE(n, WIDE), 0, 1));
    gr_output(g, "uniform", gr_random_uniform_keyed(g, key, GR_F32, GR_SHAPE(n, WIDE), 0, 1));
    gr_output(g, "perm", gr_random_perm_keyed(g, key, GR_I32, GR_SHAPE(n, WIDE)));
    return gr_graph_status(g);
}

static gr_status train(gr_graph *g, void *user)
{
    return trace_mlp(g, user);
}

typedef struct drawn {
    float normal[MOST * WIDE], uniform[MOST * WIDE];
    int32_t perm[MOST * WIDE];
} drawn;

static void run(gr_step *s, const int64_t *key, int n, drawn *d)
{
    gr_named feed = { "key", GR_I64, GR_SHAPE(n), (void *)(uintptr_t)key };

    GR_CHECK_OK(gr_step_eval_named(s, "draw", &feed, 1));
    GR_CHECK_OK(gr_step_read(s, "normal", (gr_vec){ d->normal, (size_t)(n * WIDE), GR_F32 }));
    GR_CHECK_OK(gr_step_read(s, "uniform", (gr_vec){ d->uniform, (size_t)(n * WIDE), GR_F32 }));
    GR_CHECK_OK(gr_step_read(s, "perm", (gr_vec){ d->perm, (size_t)(n * WIDE), GR_I32 }));
}

static void check_same(const drawn *a, int i, const drawn *b, int k)
{
    GR_CHECK(memcmp(a->normal + i * WIDE, b->normal + k * WIDE, WIDE * sizeof(float)) == 0);
    GR_CHECK(memcmp(a->uniform + i * WIDE, b->uniform + k * WIDE, WIDE * sizeof(float)) == 0);
    GR_CHECK(memcmp(a->perm + i * WIDE, b->perm + k * WIDE, WIDE * sizeof(int32_t)) == 0);
}

static drawn all; /* of rank 0 */

static void rank(gr_pg *pg, void *arg)
{
    const gr_named_trace traces[] = { { "train", train }, { "draw", draw } };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    batch *b = malloc(sizeof(*b));
    drawn *one = malloc(sizeof(*one));
    gr_step *s;

    (void)arg;
    c.pg = pg;
    c.traces = traces;
    c.n_traces = 2;
    c.device = "cpu";
    c.seed = 5;
    c.n_threads = 1 + gr_pg_rank(pg);
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, 4);
    for (int i = 0; i < N_KEY; i++) { /* updates in between, and batches of all sizes */
        int64_t mixed[MOST] = { 77, 78, 79, 80, 81, 82, 83, 84 };

        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
        mixed[i] = keys[i];
        run(s, mixed, i + 1, one);
        check_same(&all, i, one, i);
        run(s, &keys[i], 1, one);
        check_same(&all, i, one, 0);
    }
    gr_step_destroy(s);
    free(one);
    free(b);
}

int main(void)
{
    const gr_named_trace traces[] = { { "train", train }, { "draw", draw } };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    batch *b = malloc(sizeof(*b));
    gr_step *s;

    c.traces = traces;
    c.n_traces = 2;
    c.device = "cpu";
    c.seed = 5;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, 4);
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    run(s, keys, N_KEY, &all);
    gr_step_destroy(s);
    free(b);
    for (int i = 0; i < N_KEY; i++)
        for (int k = 0; k < i; k++) {
            const float *x = all.uniform + i * WIDE, *y = all.uniform + k * WIDE;
            int n_same = 0;

            for (int e = 0; e < WIDE; e++)
                n_same += x[e] == y[e];
            GR_CHECK(n_same < 3);
        }
    for (int n = 1; n <= 3; n++)
        each_rank(n, rank, NULL);
    return 0;
}
