/*
 * What a checkpoint costs the step in which it starts: a model of 128 M parameters with
 * AdamW (1.6 GB of state), saved by the writer's thread every few steps into the folder
 * that is given, on the disk to be judged.
 *
 * Prints the median step, the steps in which a save starts and those after them as multiples
 * of it, and the parts of a save: the copy into new memory, into memory of the save before
 * (what a run does from its first save on), and the file itself.
 *
 * usage: checkpoint [FOLDER] [THREADS] [BATCH] [device]
 */
#include "base/clock.h"
#include "gradus/gradus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WIDTH    4096
#define N_LAYERS 8 /* times 4096^2: 134 M parameters */
#define N_STEPS  12
#define EVERY    4
#define FIRST    3

static gr_status trace(gr_graph *g, void *user)
{
    gr_value *h = gr_input(g, "x");
    char name[16];

    (void)user;
    for (int i = 0; i < N_LAYERS; i++) {
        snprintf(name, sizeof(name), "fc%d", i);
        h = gr_relu(g, gr_linear(g, name, h, WIDTH));
    }
    gr_loss(g, gr_cross_entropy(g, h, gr_input(g, "y")));
    return gr_graph_status(g);
}

static double ms_since(int64_t ns)
{
    return (double)(gr_now_ns() - ns) * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

typedef struct bench {
    gr_step *step;
    gr_ckpt_writer *writer;
    gr_named feeds[2];
    double ms[N_STEPS], copy_ms[N_STEPS];
    bool saves[N_STEPS];
    double fresh_ms, file_ms;
} bench;

static gr_status open_all(bench *b, const char *folder, int n_threads, int batch,
                          const char *device)
{
    gr_ckpt_writer_config w = { .folder = folder, .keep = 1 };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    float *x = calloc((size_t)batch * WIDTH, sizeof(*x));
    int64_t *y = calloc((size_t)batch, sizeof(*y));

    if (!x || !y)
        return GR_ERR_NOMEM;
    for (int i = 0; i < batch * WIDTH; i++)
        x[i] = (float)(i % 17) / 17 - 0.5f;
    b->feeds[0] = (gr_named){ "x", GR_F32, GR_SHAPE(batch, WIDTH), x };
    b->feeds[1] = (gr_named){ "y", GR_I64, GR_SHAPE(batch), y };
    c.trace = trace;
    c.device = device;
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    c.n_threads = n_threads;
    GR_TRY(gr_step_create(&b->step, &c));
    GR_TRY(gr_step_plan(b->step, true, b->feeds, 2));
    return gr_ckpt_writer_open(&b->writer, &w);
}

static gr_status save(bench *b, int step)
{
    int64_t began = gr_now_ns();
    gr_snapshot *snap;

    GR_TRY(gr_ckpt_writer_begin(b->writer, &snap));
    GR_TRY(gr_step_save_into(b->step, snap, GR_SAVE_ALL));
    b->copy_ms[step] = ms_since(began);
    gr_ckpt_writer_submit(b->writer, &(gr_ckpt_as){ .epoch = -1, .step = step });
    return GR_OK;
}

static gr_status run(bench *b)
{
    int64_t began = gr_now_ns();
    gr_snapshot *snap;

    GR_TRY(gr_ckpt_writer_begin(b->writer, &snap));
    GR_TRY(gr_step_save_into(b->step, snap, GR_SAVE_ALL));
    b->fresh_ms = ms_since(began);
    for (int i = -2; i < N_STEPS; i++) { /* two to warm up */
        bool saves = i >= FIRST && (i - FIRST) % EVERY == 0;

        if (saves) /* a disk that is too slow for these few steps is another matter */
            GR_TRY(gr_ckpt_writer_wait(b->writer));
        began = gr_now_ns();
        GR_TRY(gr_step_train(b->step, b->feeds, 2, 1e-4));
        GR_TRY(gr_step_sync(b->step));
        if (i < 0)
            continue;
        b->saves[i] = saves;
        if (saves)
            GR_TRY(save(b, i));
        b->ms[i] = ms_since(began);
    }
    GR_TRY(gr_ckpt_writer_wait(b->writer));
    began = gr_now_ns(); /* a file alone, with nothing beside it */
    GR_TRY(save(b, N_STEPS - 1));
    GR_TRY(gr_ckpt_writer_wait(b->writer));
    b->file_ms = ms_since(began);
    return GR_OK;
}

static void print(const bench *b)
{
    double sorted[N_STEPS], median, worst = 0;
    gr_step_stats stats;

    if (gr_step_get_stats(b->step, &stats) != GR_OK)
        return;
    memcpy(sorted, b->ms, sizeof(sorted));
    qsort(sorted, N_STEPS, sizeof(double), by_value);
    median = sorted[N_STEPS / 2];
    printf("%lld parameters, state %.2f GB\n", (long long)stats.n_params,
           (double)stats.state_bytes * 1e-9);
    printf("median step %.0f ms; copy into new memory %.0f ms; whole save alone %.0f ms\n", median,
           b->fresh_ms, b->file_ms);
    for (int i = 0; i < N_STEPS - 1; i++)
        if (b->saves[i]) {
            double ratio = b->ms[i] / median;

            worst = ratio > worst ? ratio : worst;
            printf("save in step %d: copy %.0f ms (%.1f GB/s), step %.2fx the median, the next "
                   "%.2fx and %.2fx\n",
                   i, b->copy_ms[i], (double)stats.state_bytes * 1e-6 / b->copy_ms[i], ratio,
                   b->ms[i + 1] / median, i + 2 < N_STEPS ? b->ms[i + 2] / median : 0);
        }
    printf("worst step with a save: %.2fx the median (limit 2)\n", worst);
}

int main(int argc, char **argv)
{
    char folder[] = "checkpoint-bench-XXXXXX";
    const char *where = argc > 1 ? argv[1] : mkdtemp(folder);
    static bench b;
    gr_status st = GR_ERR_IO;

    if (where)
        st = open_all(&b, where, argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1,
                      argc > 3 ? (int)strtol(argv[3], NULL, 10) : 32, argc > 4 ? argv[4] : "cpu");
    if (st == GR_OK)
        st = run(&b);
    if (st != GR_OK)
        fprintf(stderr, "checkpoint: %s\n", gr_error_message());
    else
        print(&b);
    if (gr_ckpt_writer_close(b.writer) != GR_OK)
        fprintf(stderr, "checkpoint: %s\n", gr_error_message());
    gr_step_destroy(b.step);
    if (argc <= 1 && where) {
        char path[128];

        for (int i = 0; i < N_STEPS; i++) {
            snprintf(path, sizeof(path), "%s/checkpoint_step_%d.safetensors", where, i);
            (void)unlink(path);
        }
        snprintf(path, sizeof(path), "%s/last.safetensors", where);
        (void)unlink(path);
        (void)rmdir(where);
    }
    return st == GR_OK ? 0 : 1;
}
