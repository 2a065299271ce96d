/*
 * A model of gradus/models.h in a loop of your own: ResNet-18 learns to tell stripes that lie,
 * stripes that stand and discs, on images of 32 x 32. Alone, or on two ranks:
 *     ./train_resnet
 *     gradrun --nproc-per-node 2 ./train_resnet
 */
#include <gradus/gradus.h>

#include <stdio.h>

enum { BATCH = 16, SIDE = 32, STEPS = 16, N_KINDS = 3 };

static gr_status trace(gr_graph *g, void *user)
{
    const gr_resnet config = { .depth = 18, .n_classes = N_KINDS };
    gr_value *logits = gr_resnet_model(g, "", gr_input(g, "image"), &config, NULL);

    (void)user;
    gr_output(g, "logits", logits);
    gr_loss(g, gr_cross_entropy(g, logits, gr_input(g, "kind")));
    return gr_graph_status(g);
}

static uint32_t draw(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

/* Images are NHWC; width, place and noise differ. */
static void draw_batch(uint32_t *seed, float image[BATCH][SIDE][SIDE][3], int32_t *kind)
{
    for (int i = 0; i < BATCH; i++) {
        int width = 3 + (int)draw(seed, 4), x0 = (int)draw(seed, 12), y0 = (int)draw(seed, 12);

        kind[i] = (int32_t)draw(seed, N_KINDS);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                int dx = x - x0 - 10, dy = y - y0 - 10, stripe = kind[i] == 0 ? y + y0 : x + x0;
                int lit = kind[i] == 2 ? dx * dx + dy * dy < 16 * width : stripe / width % 2;

                for (int c = 0; c < 3; c++)
                    image[i][y][x][c] = (float)lit + (float)draw(seed, 100) / 200 - 0.75f;
            }
    }
}

static gr_status train(gr_step *step, gr_pg *pg)
{
    static float image[BATCH][SIDE][SIDE][3];
    float logits[BATCH][N_KINDS], loss;
    int32_t kind[BATCH];
    gr_named feeds[2] = { { "image", GR_F32, GR_SHAPE(BATCH, SIDE, SIDE, 3), image },
                          { "kind", GR_I32, GR_SHAPE(BATCH), kind } };
    uint32_t seed = (uint32_t)gr_pg_rank(pg) + 1;
    gr_step_stats stats;
    int right = 0;

    for (int i = 1; i <= STEPS; i++) {
        draw_batch(&seed, image, kind);
        GR_TRY(gr_step_train(step, feeds, 2, 1e-3)); /* the last number: learning rate */
    }
    GR_TRY(gr_step_read(step, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    GR_TRY(gr_step_get_stats(step, &stats));
    draw_batch(&seed, image, kind);
    GR_TRY(gr_step_eval(step, feeds, 2)); /* batch norms use their running statistics here */
    GR_TRY(gr_step_read(step, "logits", (gr_vec){ logits, (size_t)BATCH * N_KINDS, GR_F32 }));
    for (int i = 0, best = 0; i < BATCH; i++, best = 0) {
        for (int c = 1; c < N_KINDS; c++)
            best = logits[i][c] > logits[i][best] ? c : best;
        right += best == kind[i];
    }
    if (gr_pg_rank(pg) == 0)
        printf("%lld parameters\nloss %s 0.3\naccuracy %s 80%%\n", (long long)stats.n_params,
               loss < 0.3f ? "<" : ">=", right * 10 > BATCH * 8 ? ">" : "<=");
    return GR_OK;
}

int main(void)
{
    gr_step_config config = GR_STEP_CONFIG_INIT;
    gr_step *step = NULL;
    gr_pg *pg = NULL;
    gr_status st = gr_pg_create(&pg, NULL);

    config.trace = trace;
    config.pg = pg;
    config.device = "cpu"; /* convolutions have kernels there */
    config.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    if (st == GR_OK)
        st = gr_step_create(&step, &config);
    if (st == GR_OK)
        st = train(step, pg);
    if (st != GR_OK)
        fprintf(stderr, "train_resnet: %s: %s\n", gr_status_text(st), gr_error_message());
    gr_step_destroy(step);
    gr_pg_destroy(pg);
    return gr_exit_code(st);
}
