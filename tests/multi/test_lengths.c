/*
 * Samples of two lengths, trained as a user trains: batches of like sizes under a token budget, on
 * 1, 2 and 3 ranks whose batches differ in size and number of samples in the same step, with
 * accumulation, a global loss and dropout; a resumed run has the bits of an unbroken one. What is
 * evaluated and predicted depends neither on ranks nor on what a sample is padded with.
 *
 * This program is the test, and with words the program that it tests.
 */
#include "check.h"
#include "data/order.h"
#include "multi/toy_runs.h"
#include "train/toy_recipe.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

static gr_text read_file(const char *path)
{
    gr_text text = GR_TEXT_INIT;
    FILE *f = fopen(path, "re");
    char mem[4096];
    size_t n;

    if (!f) {
        fprintf(stderr, "no file '%s'\n", path);
        exit(1);
    }
    while ((n = fread(mem, 1, sizeof(mem), f)) > 0)
        gr_text_addn(&text, mem, n);
    fclose(f);
    return text;
}

static void check_same(const char *path, const char *other)
{
    gr_text a = read_file(path), b = read_file(other);

    if (a.len != b.len || memcmp(a.str, b.str, a.len) != 0) {
        fprintf(stderr, "'%s' and '%s' differ\n", path, other);
        exit(1);
    }
    gr_text_fini(&a);
    gr_text_fini(&b);
}

#define COMMON "--device cpu --save_every 0 --sampler bucketed --token_budget 400 --num_workers 2"

/* One run unbroken, one that stops in the middle of an epoch and goes on. */
static void pair(const char *name, int n_ranks, int at, const char *options)
{
    char line[1024], path[128], other[128];

    snprintf(line, sizeof(line), "train toy --output_dir %s.whole " COMMON " %s", name, options);
    toy_run(n_ranks, line);
    snprintf(line, sizeof(line), "train toy --output_dir %s.parts " COMMON " --max_steps %d %s",
             name, at, options);
    toy_run(n_ranks, line);
    snprintf(line, sizeof(line), "train toy --resume %s.parts", name);
    toy_run(n_ranks, line);
    snprintf(path, sizeof(path), "%s.whole/checkpoints/last.safetensors", name);
    snprintf(other, sizeof(other), "%s.parts/checkpoints/last.safetensors", name);
    check_same(path, other);
}

/* ---- evaluation ---- */

/* The value of `"name": ` in a file of results. */
static double number_in(const char *path, const char *name)
{
    gr_text text = read_file(path);
    char key[64];
    const char *at;
    double x;

    snprintf(key, sizeof(key), "\"%s\": ", name);
    at = strstr(text.str, key);
    GR_CHECK(at != NULL);
    x = strtod(at + strlen(key), NULL);
    gr_text_fini(&text);
    return x;
}

/* The same model, on other ranks and in other batches. */
static void test_results(void)
{
    char line[512], path[128];
    static const int batches[3] = { 1, 3, 40 };

    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof(line),
                 "test toy --checkpoint two.whole --output t%d --device cpu --test_batch_size %d",
                 i, batches[i]);
        toy_run(i + 1, line);
        snprintf(
            line, sizeof(line),
            "predict toy --checkpoint two.whole --output p%d --device cpu --test_batch_size %d", i,
            batches[i]);
        toy_run(i + 1, line);
        snprintf(path, sizeof(path), "t%d/test_metrics.json", i);
        GR_CHECK_EQ((int64_t)number_in(path, "samples"), 41);
        GR_CHECK(number_in(path, "fragments") == number_in("t0/test_metrics.json", "fragments"));
        GR_CHECK(number_in(path, "accuracy") == number_in("t0/test_metrics.json", "accuracy"));
        snprintf(path, sizeof(path), "p%d/predictions.csv", i);
        check_same(path, "p0/predictions.csv");
    }
    GR_CHECK(number_in("t0/test_metrics.json", "accuracy") > 0.9); /* it has learned */
}

/* Both terms are recorded, and what they are of all samples does not depend on the ranks; the
 * record is that of the longest sample. */
static void test_terms(void)
{
    char line[512], path[128];

    for (int n = 1; n <= 3; n++) {
        snprintf(line, sizeof(line),
                 "test toy --checkpoint three.whole --output e%d --device cpu --test_batch_size %d",
                 n, 3 * n);
        toy_run(n, line);
        snprintf(path, sizeof(path), "e%d/test_metrics.json", n);
        check_same(path, "e1/test_metrics.json");
    }
    GR_CHECK(number_in(path, "loss/size") > 0);
    GR_CHECK_NEAR(number_in(path, "loss"),
                  number_in(path, "loss/ce") + 0.1 * number_in(path, "loss/size"), 1e-12);
    GR_CHECK(number_in(path, "longest") > 60);
    GR_CHECK(number_in("three.whole/metrics.jsonl", "loss/size") > 0);
    GR_CHECK(number_in("three.whole/metrics.jsonl", "val_loss/size") > 0);
    GR_CHECK(number_in("three.whole/metrics.jsonl", "longest") > 0);
    toy_run(2, "train toy --output_dir shown --device cpu --epochs 1 --n_train 32");
    GR_CHECK(access("shown/samples/step_2_logits.png", R_OK) == 0);
}

/* ---- units of work ---- */

static bool has(const char *path, const char *part)
{
    gr_text text = read_file(path);
    bool found = strstr(text.str, part);

    gr_text_fini(&text);
    return found;
}

/* A sampler of several runs each: a point is the same whatever rank draws it; averages and another
 * checkpoint's model are other weights. */
static void test_sampler(void)
{
    char line[512], path[128];

    for (int n = 1; n <= 3; n++) {
        snprintf(line, sizeof(line),
                 "predict toy --checkpoint chance.whole --output d%d --device cpu --toy.draws 7 "
                 "--toy.judge chance.whole",
                 n);
        toy_run(n, line);
        snprintf(path, sizeof(path), "d%d/predictions.csv", n);
        check_same(path, "d1/predictions.csv");
        snprintf(path, sizeof(path), "d%d/predictions.jsonl", n);
        check_same(path, "d1/predictions.jsonl");
        snprintf(path, sizeof(path), "d%d/samples/point_1.png", n);
        check_same(path, "d1/samples/point_1.png");
        snprintf(line, sizeof(line),
                 "test toy --checkpoint chance.whole --output u%d --device cpu --toy.draws 7", n);
        toy_run(n, line);
        snprintf(path, sizeof(path), "u%d/test_metrics.json", n);
        check_same(path, "u1/test_metrics.json");
    }
    GR_CHECK(number_in(path, "drawn") >= 7 && number_in(path, "samples") == 41);
    /* The judge reads its averages: it finds what this model finds by those. */
    GR_CHECK(has("d1/predictions.csv", "\n0,0,1,") && has("d1/predictions.csv", "\n0,1,0,"));
    GR_CHECK(has("d1/predictions.csv", "\n6,0,1,") && has("d1/predictions.csv", "\n6,1,0,"));
    toy_run(2, "predict toy --checkpoint chance.whole --output d4 --device cpu --toy.draws 2 "
               "--toy.judge two.whole/checkpoints/last.safetensors");
    GR_CHECK(has("d4/predictions.csv", "\n1,0,0,") && has("d4/predictions.csv", "\n1,1,0,"));
    toy_refuse(1,
               "predict toy --checkpoint chance.whole --output d5 --device cpu --toy.draws 2 "
               "--toy.judge nothing.safetensors",
               "the model of 'nothing.safetensors'");
}

/* ---- the batches of a step ---- */

/* Ranks of a step must meet with different sizes and different numbers of samples, or the runs
 * above say nothing about that. */
static void test_steps_differ(void)
{
    static const gr_axis axes[2] = { { .name = "residues", .cost = 1, .max = 150 },
                                     { .name = "fragments", .multiple = 16, .cost = 0.5 } };
    gr_order_source *s[2];
    gr_order o[2] = { { 0 }, { 0 } };
    gr_sizes *sizes;
    int n_sizes = 0, n_counts = 0;

    GR_CHECK_OK(gr_sizes_create(&sizes, axes, 2, TOY_TRAIN));
    for (int64_t i = 0; i < TOY_TRAIN; i++) {
        int64_t lengths[TOY_AXES];

        toy_lengths(i, lengths);
        GR_CHECK_OK(gr_sizes_set(sizes, i, lengths));
    }
    GR_CHECK_OK(gr_sizes_choose(sizes, &(gr_sizes_limits){ .max_tokens = 400 }));
    for (int r = 0; r < 2; r++) {
        gr_bucket_config c = {
            .sizes = sizes, .max_tokens = 400, .max_batch = 8, .rank = { r, 2 }
        };

        GR_CHECK_OK(gr_order_bucketed(&s[r], &c));
        GR_CHECK_OK(s[r]->ops->fill(s[r], 0, &o[r]));
    }
    for (int64_t b = 0; b < o[0].n_batches; b++) {
        n_sizes += o[0].size[b] != o[1].size[b];
        n_counts += o[0].first[b + 1] - o[0].first[b] != o[1].first[b + 1] - o[1].first[b];
    }
    GR_CHECK(n_sizes >= 3 && n_counts >= 3);
    for (int r = 0; r < 2; r++) {
        gr_order_fini(&o[r]);
        gr_order_source_destroy(s[r]);
    }
    gr_sizes_destroy(sizes);
}

/* ---- loss_reduction global ---- */

/* A run of one step on 5 samples: what it has learned, and its loss before. */
static void one_step(int n_ranks, const char *reduction, double *val_loss, double *train_loss)
{
    char line[512], path[64];

    snprintf(line, sizeof(line),
             "train toy --output_dir %s%d --device cpu --sampler bucketed --epochs 1 --optim sgd "
             "--momentum 0 --weight_decay 0 --lr 0.5 --warmup_steps 0 --n_train 5 --toy.span 4 "
             "--loss_reduction %s",
             reduction, n_ranks, reduction);
    toy_run(n_ranks, line);
    snprintf(path, sizeof(path), "%s%d/metrics.jsonl", reduction, n_ranks);
    GR_CHECK(number_in(path, "step") == 1);
    *val_loss = number_in(path, "val_loss");
    *train_loss = number_in(path, "train_loss");
}

/* The ranks of a step have 5, or 2 and 3, or 1, 2 and 2 samples: with a global loss that is one
 * mean over all fragments, whoever has them; with a local one it is not. */
static void test_global_loss(void)
{
    double val[4], train[4], local_val, local_train;

    for (int n = 1; n <= 3; n++) {
        one_step(n, "global", &val[n], &train[n]);
        GR_CHECK_NEAR(train[n], train[1], 1e-6);
        GR_CHECK_NEAR(val[n], val[1], 1e-6);
    }
    one_step(2, "local", &local_val, &local_train);
    GR_CHECK(fabs(local_val - val[1]) > 1e-5);
    GR_CHECK(fabs(local_train - train[1]) > 1e-5);
}

static void test_refused(void)
{
    toy_refuse(1, "train toy --output_dir r " COMMON " --token_budget 20",
               "training samples of recipe 'toy': sample ");
    toy_refuse(1, "train toy --output_dir r --device cpu --sampler distributed --token_budget 400",
               "is for the sampler 'bucketed' only");
    toy_refuse(1, "train toy --output_dir r " COMMON " --toy.broken 5", "chain 5 is broken");
    toy_refuse(1, "train toy --output_dir r " COMMON " --batch_size 0", "batch_size");
}

int main(int argc, char **argv)
{
    toy_runs_begin(argc, argv);
    test_steps_differ();
    pair("one", 1, 20, "");
    pair("two", 2, 50, "--epochs 8");
    pair("three", 3, 7, "--toy.dropout 0.2 --toy.size_weight 0.1");
    pair("global", 2, 5, "--loss_reduction global --accumulate 2 --clip_norm 1");
    pair("chance", 2, 7, "--sampler distributed --token_budget 0 --ema_decay 0.9");
    pair("broken", 2, 9, "--toy.broken 5 --on_bad_sample skip");
    test_results();
    test_terms();
    test_sampler();
    test_global_loss();
    test_refused();
    toy_run(2, "check toy " COMMON);
    toy_run(1, "check toy --device cpu --toy.draws 3 --toy.judge two.whole");
    return 0;
}
