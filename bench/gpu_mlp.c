/*
 * The MLP 784-512-512-10, batch 128, on a GPU: from the start of the program to the end of
 * the first step, then the time of a replayed step, with and without amp.
 *
 * usage: gpu_mlp [STEPS]
 */
#include "base/clock.h"
#include "gradus/gradus.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCH 128

static gr_status trace(gr_graph *g, void *user)
{
    gr_value *h = gr_relu(g, gr_linear(g, "fc1", gr_input(g, "x"), 512));

    (void)user;
    h = gr_relu(g, gr_linear(g, "fc2", h, 512));
    gr_loss(g, gr_cross_entropy(g, gr_linear(g, "fc3", h, 10), gr_input(g, "y")));
    return gr_graph_status(g);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Milliseconds on a clock that only goes on. */
static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

typedef struct data {
    float x[BATCH * 784];
    int64_t y[BATCH];
    gr_named feeds[2];
} data;

static void fill(data *d)
{
    uint32_t h = 12345;

    for (int i = 0; i < BATCH * 784; i++) {
        h = h * 1664525u + 1013904223u;
        d->x[i] = (float)(h >> 8) / (float)(1 << 24) - 0.5f;
    }
    for (int i = 0; i < BATCH; i++)
        d->y[i] = i % 10;
    d->feeds[0] = (gr_named){ "x", GR_F32, GR_SHAPE(BATCH, 784), d->x };
    d->feeds[1] = (gr_named){ "y", GR_I64, GR_SHAPE(BATCH), d->y };
}

/* The stream is kept full: steps per second as training sees them. */
static gr_status measure(gr_step *s, data *d, int n_steps, double *step_us)
{
    double rounds[9];

    for (int r = 0; r < 9; r++) {
        int64_t start;

        GR_TRY(gr_step_sync(s));
        start = gr_now_ns();
        for (int i = 0; i < n_steps; i++)
            GR_TRY(gr_step_train(s, d->feeds, 2, 0.01));
        GR_TRY(gr_step_sync(s));
        rounds[r] = (double)(gr_now_ns() - start) * 1e-3 / n_steps;
    }
    qsort(rounds, 9, sizeof(rounds[0]), by_value);
    *step_us = rounds[4];
    return GR_OK;
}

static gr_status run(gr_amp amp, data *d, int n_steps, double start_ms)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    double created, first, step_us;
    float loss;
    gr_step *s;

    c.trace = trace;
    c.device = "cuda";
    c.amp = amp;
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    GR_TRY(gr_step_create(&s, &c));
    created = now_ms() - start_ms;
    GR_TRY(gr_step_plan(s, true, d->feeds, 2));
    printf("amp %d: device open after %.0f ms, planned after %.0f ms", (int)amp, created,
           now_ms() - start_ms);
    GR_TRY(gr_step_train(s, d->feeds, 2, 0.01));
    GR_TRY(gr_step_sync(s));
    first = now_ms() - start_ms;
    GR_TRY(gr_step_train(s, d->feeds, 2, 0.01));
    GR_TRY(measure(s, d, n_steps, &step_us));
    GR_TRY(gr_step_read(s, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    printf(", first step done after %.0f ms; step %.1f us, %.0f samples/s; loss %.4f\n", first,
           step_us, BATCH / step_us * 1e6, (double)loss);
    gr_step_destroy(s);
    return GR_OK;
}

int main(int argc, char **argv)
{
    double start_ms = now_ms();
    int n_steps = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1000;
    data *d = malloc(sizeof(*d));
    gr_status st;

    fill(d);
    st = run(GR_AMP_NONE, d, n_steps, start_ms);
    if (st == GR_OK)
        st = run(GR_AMP_BF16, d, n_steps, now_ms());
    free(d);
    if (st == GR_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "gpu_mlp: %s: %s\n", gr_status_text(st), gr_error_message());
    return 1;
}
