/*
 * A training loop of your own, with data parallelism: an MLP learns in which of four
 * quarters of a ring a noisy point lies. Alone, or on two ranks:
 *
 *     ./train_mlp
 *     gradrun --nproc-per-node 2 ./train_mlp
 *
 * What makes it parallel is the process group in the config: each rank brings its own samples,
 * the step averages the gradients, and all ranks hold the same model.
 */
#include <gradus/gradus.h>

#include <math.h>
#include <stdio.h>

enum { BATCH = 64, STEPS = 300, N_CLASSES = 4 };

static gr_status trace(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");

    (void)user;
    x = gr_relu(g, gr_linear(g, "fc1", x, 32)); /* weights: "fc1.weight", "fc1.bias" */
    x = gr_relu(g, gr_linear(g, "fc2", x, 32));
    x = gr_linear(g, "fc3", x, N_CLASSES);
    gr_output(g, "logits", x);
    gr_loss(g, gr_cross_entropy(g, x, gr_input(g, "label")));
    return gr_graph_status(g);
}

static double uniform(uint32_t *state)
{
    return (*state = *state * 1664525u + 1013904223u) / 4294967296.0;
}

/* Points at radius 1 or so; the seed is the rank, so that ranks see different ones. */
static void make_batch(uint32_t *seed, float x[BATCH][2], int32_t *label)
{
    for (int i = 0; i < BATCH; i++) {
        double turn = uniform(seed), radius = 0.8 + 0.4 * uniform(seed);
        double angle = 2 * 3.14159265 * turn;

        x[i][0] = (float)(radius * cos(angle));
        x[i][1] = (float)(radius * sin(angle));
        label[i] = (int32_t)(turn * N_CLASSES);
    }
}

static gr_status train(gr_step *step, gr_pg *pg)
{
    float x[BATCH][2], logits[BATCH][N_CLASSES], loss;
    int32_t label[BATCH];
    gr_named feeds[2] = { { "x", GR_F32, GR_SHAPE(BATCH, 2), x },
                          { "label", GR_I32, GR_SHAPE(BATCH), label } };
    uint32_t seed = (uint32_t)gr_pg_rank(pg) + 1;
    int64_t right = 0;

    for (int i = 1; i <= STEPS; i++) {
        make_batch(&seed, x, label);
        GR_TRY(gr_step_train(step, feeds, 2, 1e-2)); /* the last number: learning rate */
        if (i % 100 == 0 && gr_pg_rank(pg) == 0) {
            GR_TRY(gr_step_read(step, "loss", (gr_vec){ &loss, 1, GR_F32 }));
            printf("step %d: loss %s 0.2\n", i, loss < 0.2f ? "<" : ">=");
        }
    }
    make_batch(&seed, x, label);
    GR_TRY(gr_step_eval(step, feeds, 2));
    GR_TRY(gr_step_read(step, "logits", (gr_vec){ logits, (size_t)BATCH * N_CLASSES, GR_F32 }));
    for (int i = 0, best = 0; i < BATCH; i++, best = 0) {
        for (int c = 1; c < N_CLASSES; c++)
            best = logits[i][c] > logits[i][best] ? c : best;
        right += best == label[i];
    }
    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ &right, 1, GR_I64 }, GR_REDUCE_SUM));
    if (gr_pg_rank(pg) == 0)
        printf("accuracy %s 90%%\n", right * 10 > (int64_t)BATCH * gr_pg_size(pg) * 9 ? ">" : "<=");
    return GR_OK;
}

int main(void)
{
    gr_step_config config = GR_STEP_CONFIG_INIT;
    gr_step *step = NULL;
    gr_pg *pg = NULL;
    gr_status st = gr_pg_create(&pg, NULL); /* from the environment; a group of one without */

    config.trace = trace;
    config.pg = pg;
    config.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    if (st == GR_OK)
        st = gr_step_create(&step, &config);
    if (st == GR_OK)
        st = train(step, pg);
    if (st != GR_OK)
        fprintf(stderr, "train_mlp: %s: %s\n", gr_status_text(st), gr_error_message());
    gr_step_destroy(step); /* before the group, which it uses */
    gr_pg_destroy(pg);
    return gr_exit_code(st);
}
