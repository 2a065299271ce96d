/*
 * What a recipe does while it trains: pictures at their own interval, the same on any number of
 * ranks and in a run that went on, and a training that has the bits of one without them.
 *
 * This program is the test, and with words the program that it tests.
 */
#include "check.h"
#include "gradus/ckpt.h"
#include "multi/toy_runs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMON "--device cpu --save_every 0 --epochs 3 --num_workers 1 --toy.draws 5 --n_train 48 "

static gr_text read_file(const char *path)
{
    gr_text text = GR_TEXT_INIT;
    FILE *f = fopen(path, "re");
    char mem[4096];
    size_t n;

    if (!f)
        fprintf(stderr, "no file '%s'\n", path);
    GR_CHECK(f);
    while ((n = fread(mem, 1, sizeof(mem), f)) > 0)
        gr_text_addn(&text, mem, n);
    fclose(f);
    return text;
}

static void check_same(const char *path, const char *other)
{
    gr_text a = read_file(path), b = read_file(other);

    GR_CHECK(a.len == b.len && memcmp(a.str, b.str, a.len) == 0);
    gr_text_fini(&a);
    gr_text_fini(&b);
}

/* Steps of an epoch: 6 on one rank. */
static void check_pictures(const char *run, const char *other)
{
    static const int steps[] = { 6, 12, 18 };
    char a[200], b[200];

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 5; k++) {
            snprintf(a, sizeof(a), "%s/samples/step_%d_point_%d.png", run, steps[i], k);
            snprintf(b, sizeof(b), "%s/samples/step_%d_point_%d.png", other, steps[i], k);
            check_same(a, b);
        }
    snprintf(a, sizeof(a), "%s/samples/step_1_point_0.png", run);
    GR_CHECK(access(a, F_OK) != 0);
}

static void check_weights(const char *run, const char *other)
{
    char path[200];
    gr_snapshot *a, *b;

    snprintf(path, sizeof(path), "%s/checkpoints/last.safetensors", run);
    GR_CHECK_OK(gr_ckpt_read(path, &a));
    snprintf(path, sizeof(path), "%s/checkpoints/last.safetensors", other);
    GR_CHECK_OK(gr_ckpt_read(path, &b));
    GR_CHECK(gr_snapshot_count(a) > 0 && gr_snapshot_count(a) == gr_snapshot_count(b));
    for (int i = 0; i < gr_snapshot_count(a); i++) {
        const gr_named *x = gr_snapshot_at(a, i), *y = gr_snapshot_find(b, x->name);

        GR_CHECK(y && memcmp(x->mem, y->mem,
                             (size_t)gr_shape_count(&x->shape) * gr_dtype_bytes(x->dtype)) == 0);
    }
    gr_snapshot_destroy(a);
    gr_snapshot_destroy(b);
}

static void train(int n_ranks, const char *name, const char *options)
{
    char line[600];

    snprintf(line, sizeof(line), "train toy --output_dir %s " COMMON "%s", name, options);
    toy_run(n_ranks, line);
}

int main(int argc, char **argv)
{
    toy_runs_begin(argc, argv);
    train(1, "one", "--toy.draw_every 6 --ema_decay 0.9");
    train(1, "none", "--ema_decay 0.9");
    check_weights("one", "none");
    GR_CHECK(access("none/samples/step_6_point_0.png", F_OK) != 0);
    /* A run that went on, in the middle of an epoch. */
    train(1, "parts", "--toy.draw_every 6 --ema_decay 0.9 --max_steps 8");
    toy_run(1, "train toy --resume parts --max_steps 0");
    check_pictures("one", "parts");
    check_weights("one", "parts");
    /* Ranks share the units; the same step of the same model gives the same pictures. */
    train(2, "two", "--toy.draw_every 6 --batch_size 4");
    train(3, "three", "--toy.draw_every 6 --batch_size 2 --accumulate 1 --n_train 36");
    train(2, "epochs", "--toy.draw_every=1epoch --batch_size 4");
    check_pictures("two", "epochs");
    check_weights("two", "epochs");
    GR_CHECK(access("three/samples/step_18_point_4.png", F_OK) == 0);
    return 0;
}
