/*
 * What the networks of `vision` must reach, in half a minute or less on one core: drawn shapes in
 * classes, drawn scenes pixel by pixel, and handwritten digits where they are at hand.
 *
 * With a sanitizer a few steps are run, and nothing is asked of the result.
 */
#include "check.h"
#include "run.h"

#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SLOW 1
#else
#define IS_SLOW 0
#endif

typedef struct goal {
    const char *what, *yaml, *metric;
    int64_t n_train, n_valid, batch, n_steps;
    double lr, least;
} goal;

static void reach(const goal *t)
{
    recipe_options o = { .task = GR_TASK_TRAIN,
                         .n_train = t->n_train,
                         .n_valid = IS_SLOW ? 32 : t->n_valid,
                         .batch = t->batch,
                         .optim = GR_OPTIM_ADAMW_INIT };
    double v[RECIPE_METRICS], value;
    recipe_run r;

    o.optim.weight_decay = 1e-4;
    recipe_open(&r, "vision", t->yaml, &o);
    recipe_train(&r, IS_SLOW ? 2 : t->n_steps, t->lr);
    recipe_evaluate(&r, GR_SPLIT_VALID, v);
    value = recipe_value(&r, v, t->metric);
    printf("%s: %s %.4f, at least %g is asked for\n", t->what, t->metric, value, t->least);
    GR_CHECK(IS_SLOW || value >= t->least);
    recipe_close(&r);
}

static const goal shapes = { .what = "drawn shapes, ResNet-18",
                             .yaml = "model: {name: resnet18}\n"
                                     "transform: {NORMALIZE: {mean: 0.4, std: 0.25}}",
                             .metric = "accuracy",
                             .n_train = 12000,
                             .n_valid = 1000,
                             .batch = 32,
                             .n_steps = 240,
                             .lr = 2e-3,
                             .least = 0.98 };

static const goal scenes = { .what = "drawn scenes, U-Net",
                             .yaml =
                                 "model: {name: unet, config: {base_channels: 8, num_classes: 4, "
                                 "input_sizes: [1, 48, 48]}}\n"
                                 "criterion: [cross_entropy, dice]\n"
                                 "transform: {HFLIP: 0.5, NORMALIZE: {mean: 0.4, std: 0.25}}",
                             .metric = "miou",
                             .n_train = 4000,
                             .n_valid = 300,
                             .batch = 16,
                             .n_steps = 200,
                             .lr = 4e-3,
                             .least = 0.9 };

/* The folder holds the test part only; nine tenths of it are enough. */
static void digits(void)
{
    static const char *const places[] = { GR_TESTS_DIR "/../../shared/data/mnist-10k",
                                          GR_TESTS_DIR "/../../../shared/data/mnist-10k" };
    goal t = { .what = "digits, ResNet-18",
               .metric = "accuracy",
               .batch = 16,
               .n_steps = 560,
               .lr = 1e-3,
               .least = 0.97 };
    char yaml[1024];
    int i = 0;

    while (i < 2 && access(places[i], R_OK) != 0)
        i++;
    if (i == 2) {
        printf("no mnist-10k at hand: not tried\n");
        return;
    }
    snprintf(yaml, sizeof(yaml),
             "model: {name: resnet18, config: {num_classes: 10}}\n"
             "transform: {NORMALIZE: {mean: 0.1307, std: 0.3081}}\n"
             "dataset: {name: mnist, train_path: '%s', split: [0.9, 0.1]}",
             places[i]);
    t.yaml = yaml;
    reach(&t);
}

int main(void)
{
    reach(&shapes);
    reach(&scenes);
    digits();
    return 0;
}
