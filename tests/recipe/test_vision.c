/*
 * The recipe `vision` without a trainer: what its settings make, what they refuse, losses and
 * metrics against plain loops, drawn samples.
 */
#include "recipe/vision/vision.h"

#include "check.h"
#include "run.h"

#include "gradus/optim.h"
#include "train/parts.h"

static const recipe_options plain = {
    .task = GR_TASK_TRAIN, .n_train = 64, .n_valid = 16, .batch = 4, .optim = GR_OPTIM_INIT
};

/* ---- settings ---- */

/* Parameters as counted with PyTorch (WORKLOADS 4b). */
static void networks(void)
{
    static const struct {
        const char *yaml;
        int64_t n_params;
    } cases[] = {
        { "model: {name: resnet18, config: {n_channels: 1, num_classes: 10}}", 11175370 },
        { "model: {name: ResNet-18, config: {input_sizes: [1, 3, 32, 32], n_classes: 3}}",
          11178051 },
        { "model: {name: torchvision, config: {arch: resnet34, num_classes: 10}}", 21283530 },
        { "model: {name: unet, config: {n_classes: 1, input_sizes: [1, 16, 16]}}", 14787777 },
        { "model: {name: unet, config: {n_classes: 1, input_sizes: [1, 16, 16], bilinear: true}}",
          13394177 },
        { "model: {name: unet, config: {n_classes: 1, input_sizes: [3, 16, 16]}}", 14788929 },
        { "model: {name: mlp, config: {hidden: [8], num_classes: 10, dropout: 0.1}}",
          784 * 8 + 8 + 80 + 10 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gr_named feeds[RECIPE_FIELDS];
        gr_step_stats stats;
        recipe_run r;

        recipe_open(&r, "vision", cases[i].yaml, &plain);
        recipe_feeds(&r, &(gr_sample){ .split = GR_SPLIT_TRAIN }, 4, feeds);
        GR_CHECK_OK(gr_step_plan(r.step, true, feeds, r.view.n_feeds));
        GR_CHECK_OK(gr_step_get_stats(r.step, &stats));
        GR_CHECK_EQ(stats.n_params, cases[i].n_params);
        recipe_close(&r);
    }
}

static void refused(void)
{
    static const char *const cases[][2] = {
        { "model: {name: vgg16}", "there is no network 'vgg16'" },
        { "model: {name: unet, config: {arch: resnet18}}", "but model.name is 'unet'" },
        { "model: {config: {input_sizes: [1, 8, 8], n_channels: 3}}", "input_sizes says 1" },
        { "model: {config: {input_sizes: [2, 8, 8]}}", "1 or 3 channels" },
        { "model: {config: {input_sizes: large}}", "1: 'model.config.input_sizes' takes whole" },
        { "model: {config: {input_sizes: 20000}}", "of 1 to 16384 each" },
        { "model: {config: {num_classes: 11}}", "at most 10 classes" },
        { "model: {config: {num_classes: 1}}\ncriterion: cross_entropy", "take bce" },
        { "criterion: {type: hinge}", "there is no criterion 'hinge'" },
        { "criterion: {weight: 2}", "needs its type" },
        { "criterion: [{type: dice, config: {gamma: 2}}]", "no setting 'gamma'" },
        { "criterion: {type: ce, config: {weight: [1, 2]}}", "2 class weights for 10 classes" },
        { "criterion: {type: ce, wight: 2}", "not 'wight'" },
        { "metrics: [accuracy, speed]", "there is no metric 'speed'" },
        { "metrics: [f1, accuracy, F1_score]", "'metrics': 'F1_score' is there twice" },
        { "metrics: [top11]", "k is from 1 to 10" },
        { "model: {name: unet}\nmetrics: [top2]", "not for masks" },
        { "model: {name: unet}\nmetrics: [auc]", "auc of masks" },
        { "classes: [a, b]\nmodel: {config: {num_classes: 3}}", "2 names for 3 classes" },
        { "postprocess: threshold", "for one logit" },
        { "transform: {HFLIP: [2]}", "transform 1, 'HFLIP': a probability" },
        { "transform: [TO_TENSOR, {BLURR: 3}]", "transform 2, 'BLURR': there is no such" },
        { "transform:\n  - TO_TENSOR\n  - RESIZ: [8, 8]\n",
          ":3: 'transform': transform 2, 'RESIZ': there is no such operation; did you mean "
          "'RESIZE'?" },
        { "transform:\n  TO_TENSOR:\n  HFLIPP: 0.5\n", ":3: 'transform': transform 2, 'HFLIPP'" },
        { "dataset: {name: pictures}", "dataset.name" },
        { "dataset: {name: mnits}",
          "'mnits' is none of shapes|folder|images|pairs|drive|list|csv|idx|"
          "mnist|cifar10|cifar100|npy|shards|auto; did you mean 'mnist'?" },
        { "dataset: {name: Shape}", "did you mean 'shapes'?" },
        { "dataset: {name: folder}", "no training data are named" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        recipe_run r;

        GR_CHECK_FAILS(recipe_try(&r, "vision", cases[i][0], &plain), GR_ERR_ARG, cases[i][1]);
        GR_CHECK(strstr(gr_error_message(), "test.yaml") ||
                 !strstr(cases[i][1], "no setting")); /* the place is named */
        recipe_close(&r);
    }
}

/* ---- losses ---- */

enum { ROWS = 6, CLASSES = 3, IGNORED = 255 };

static const float logits[ROWS * CLASSES] = { 0.5f, -1.0f, 2.0f, 0.1f, 0.2f,  0.3f,
                                              3.0f, -2.0f, 0.0f, 1.0f, -1.0f, 0.5f,
                                              0.0f, 0.0f,  0.0f, 2.5f, 0.25f, -0.5f };
static const int32_t targets[ROWS] = { 2, 0, IGNORED, 1, 2, 0 };

static double sigmoid(double z)
{
    return 1 / (1 + exp(-z));
}

/* Over rows that count. */
static double want_ce(double smoothing, const double *weight)
{
    double sum = 0, all = 0;

    for (ptrdiff_t i = 0; i < ROWS; i++) {
        const float *z = logits + i * CLASSES;
        double total = 0, each = 0;

        if (targets[i] == IGNORED)
            continue;
        for (int c = 0; c < CLASSES; c++)
            total += exp((double)z[c]);
        for (int c = 0; c < CLASSES; c++) {
            double share = (c == targets[i] ? 1 - smoothing : 0) + smoothing / CLASSES;

            each += share * weight[c] * (log(total) - (double)z[c]);
        }
        sum += each;
        all += weight[targets[i]];
    }
    return sum / all;
}

/* bce and focal, means over all elements of rows that count. */
static double want_each(double alpha, double gamma, double pos)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < CLASSES && targets[i] != IGNORED; c++, n++) {
            double p = sigmoid((double)logits[i * CLASSES + c]);
            bool yes = targets[i] == c;
            double truth = yes ? p : 1 - p;

            sum += -log(truth) * (yes ? pos : 1) * pow(1 - truth, gamma) *
                   (alpha < 0 ? 1
                    : yes     ? alpha
                              : 1 - alpha);
        }
    return sum / n;
}

static double want_dice(double s)
{
    double sum = 0;

    for (int c = 0; c < CLASSES; c++) {
        double both = 0, p_sum = 0, y_sum = 0;

        for (int i = 0; i < ROWS; i++) {
            double p = targets[i] == IGNORED ? 0 : sigmoid((double)logits[i * CLASSES + c]);

            both += targets[i] == c ? p : 0;
            p_sum += p;
            y_sum += targets[i] == c;
        }
        sum += (2 * both + s) / (p_sum + y_sum + s);
    }
    return 1 - sum / CLASSES;
}

/* Training needs a parameter: one that is 0. */
static gr_status trace_loss(gr_graph *g, void *user)
{
    gr_value *zero = gr_param(g, "zero", GR_SHAPE(CLASSES), gr_init_const(0));
    gr_value *z = gr_add(g, gr_input(g, "logits"), zero);

    gr_vision_criterion_build(user, g, z, gr_input(g, "target"));
    return gr_graph_status(g);
}

/* The loss of all rows as an evaluation has it, in batches of n (P28). */
static double evaluated(gr_step *step, int n)
{
    gr_parts parts = { 0 };
    gr_arena *arena;
    double loss;
    gr_pg *pg;

    GR_CHECK_OK(gr_pg_create(&pg, NULL));
    GR_CHECK_OK(gr_arena_create(&arena));
    for (int at = 0; at < ROWS; at += n) {
        int rows = ROWS - at < n ? ROWS - at : n;
        gr_named feeds[2] = {
            { "logits", GR_F32, GR_SHAPE(rows, CLASSES),
              (void *)(uintptr_t)(logits + (ptrdiff_t)at * CLASSES) },
            { "target", GR_I32, GR_SHAPE(rows), (void *)(uintptr_t)(targets + at) },
        };

        GR_CHECK_OK(gr_step_eval(step, feeds, 2));
        GR_CHECK_OK(gr_parts_take_rows(&parts, step, arena, rows));
    }
    GR_CHECK_OK(gr_parts_share_rows(&parts, pg, ROWS, arena));
    GR_CHECK(parts.has_loss);
    loss = parts.loss;
    gr_parts_fini(&parts);
    gr_arena_destroy(arena);
    gr_pg_destroy(pg);
    return loss;
}

static double loss_of(const char *yaml)
{
    gr_named feeds[2] = {
        { "logits", GR_F32, GR_SHAPE(ROWS, CLASSES), (void *)(uintptr_t)logits },
        { "target", GR_I32, GR_SHAPE(ROWS), (void *)(uintptr_t)targets },
    };
    gr_vision_criterion c = { .ignore = IGNORED };
    gr_vision_model m = { .n_out = CLASSES };
    gr_step_config config = GR_STEP_CONFIG_INIT;
    double whole;
    gr_settings *s;
    gr_step *step;
    float loss;

    GR_CHECK_OK(gr_settings_create(&s, gr_vision_keys, GR_VISION_N_KEYS));
    GR_CHECK_OK(gr_settings_read_text(s, "test.yaml", yaml, strlen(yaml)));
    GR_CHECK_OK(gr_vision_criterion_read(&c, s, &m));
    config.trace = trace_loss;
    config.user = &c;
    config.device = "cpu";
    GR_CHECK_OK(gr_step_create(&step, &config));
    GR_CHECK_OK(gr_step_train(step, feeds, 2, 0));
    GR_CHECK_OK(gr_step_read(step, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    whole = evaluated(step, ROWS);
    GR_CHECK_NEAR(whole, (double)loss, 1e-6);
    for (int n = 1; n < ROWS; n++)
        GR_CHECK(evaluated(step, n) == whole); /* the same bits */
    gr_step_destroy(step);
    gr_vision_criterion_fini(&c);
    gr_settings_destroy(s);
    return (double)loss;
}

static void losses(void)
{
    static const double even[] = { 1, 1, 1 }, uneven[] = { 0.5, 2, 3 };
    double bce = want_each(-1, 0, 1), dice = want_dice(1e-6);

    GR_CHECK_NEAR(loss_of(""), want_ce(0, even), 1e-6);
    GR_CHECK_NEAR(loss_of("criterion: cross_entropy"), want_ce(0, even), 1e-6);
    GR_CHECK_NEAR(loss_of("criterion: {type: ce, config: {label_smoothing: 0.1}}"),
                  want_ce(0.1, even), 1e-6);
    GR_CHECK_NEAR(loss_of("criterion: {type: CrossEntropyLoss, config: {weight: [0.5, 2, 3]}}"),
                  want_ce(0, uneven), 1e-6);
    GR_CHECK_NEAR(loss_of("criterion: bce_with_logits"), bce, 1e-6);
    GR_CHECK_NEAR(loss_of("criterion: [{type: bce, config: {pos_weight: 2.5}}]"),
                  want_each(-1, 0, 2.5), 1e-6);
    GR_CHECK_NEAR(loss_of("criterion: focal"), want_each(0.25, 2, 1), 1e-6);
    GR_CHECK_NEAR(loss_of("criterion: {type: focal, config: {alpha: -1, gamma: 1}}"),
                  want_each(-1, 1, 1), 1e-6);
    GR_CHECK_NEAR(loss_of("criterion: dice_loss"), dice, 1e-6);
    GR_CHECK_NEAR(loss_of("criterion:\n- {type: dice, weight: 2}\n- {type: bce, weight: 0.3}"),
                  2 * dice + 0.3 * bce, 1e-6);
}

/* ---- metrics ---- */

static void metrics(void)
{
    static const float rows[4 * 3] = { 1, 2, 0, 3, 1, 2, 0, 1, 5, 1, 2, 3 };
    static const int32_t labels[4] = { 1, 2, 2, 0 }; /* said: 1, 0, 2, 2 */
    const void *const feeds[] = { NULL, labels }, *const outputs[] = { rows };
    gr_eval e = { .n = 4, .feeds = feeds, .outputs = outputs };
    recipe_options o = plain;
    double v[RECIPE_METRICS];
    recipe_run r;

    o.task = GR_TASK_TEST;
    recipe_open(&r, "vision",
                "model: {config: {num_classes: 3}}\nclasses: [a, b, c]\n"
                "metrics: [accuracy, top-2, recall, mIoU, AUC, F1_score]",
                &o);
    memset(r.counts, 0, (size_t)r.view.n_counts * sizeof(*r.counts));
    r.recipe->evaluation->score(r.user, &e, r.counts);
    r.recipe->evaluation->measure(r.user, r.counts, v);
    GR_CHECK_STR(r.view.metrics[0].name, "accuracy");
    GR_CHECK_NEAR(recipe_value(&r, v, "accuracy"), 0.5, 0);
    GR_CHECK_NEAR(recipe_value(&r, v, "top2"), 0.75, 0);
    GR_CHECK_NEAR(recipe_value(&r, v, "recall"), 0.5, 1e-15);
    GR_CHECK_NEAR(recipe_value(&r, v, "recall/b"), 1, 0);
    GR_CHECK_NEAR(recipe_value(&r, v, "iou/c"), 1.0 / 3, 1e-15);
    GR_CHECK_NEAR(recipe_value(&r, v, "miou"), (0 + 1 + 1.0 / 3) / 3, 1e-15);
    GR_CHECK_NEAR(recipe_value(&r, v, "f1/a"), 0, 0);
    GR_CHECK_NEAR(recipe_value(&r, v, "auc"), (1.0 / 3 + 1 + 0.75) / 3, 1e-12);
    recipe_close(&r);
}

/* One logit: metrics are those of yes. */
static void one_logit(void)
{
    static const float rows[4] = { 2, -1, 0.1f, -3 };
    static const int32_t labels[4] = { 1, 1, 0, 0 };
    const void *const feeds[] = { NULL, labels }, *const outputs[] = { rows };
    gr_eval e = { .n = 4, .feeds = feeds, .outputs = outputs };
    double v[RECIPE_METRICS];
    recipe_run r;

    recipe_open(&r, "vision",
                "model: {name: mlp, config: {num_classes: 1}}\nthreshold: 0.6\n"
                "metrics: [precision, recall, iou, miou, auc]",
                &plain);
    memset(r.counts, 0, (size_t)r.view.n_counts * sizeof(*r.counts));
    r.recipe->evaluation->score(r.user, &e, r.counts);
    r.recipe->evaluation->measure(r.user, r.counts, v);
    GR_CHECK_NEAR(recipe_value(&r, v, "precision"), 1, 0);
    GR_CHECK_NEAR(recipe_value(&r, v, "recall"), 0.5, 0);
    GR_CHECK_NEAR(recipe_value(&r, v, "iou"), 0.5, 0);
    GR_CHECK_NEAR(recipe_value(&r, v, "miou"), (0.5 + 2.0 / 3) / 2, 1e-15);
    GR_CHECK_NEAR(recipe_value(&r, v, "auc"), 0.75, 1e-12);
    GR_CHECK(recipe_has_columns(&r, "index,file,class,name,no,yes"));
    recipe_close(&r);
}

/* ---- drawn data ---- */

static void drawn(void)
{
    gr_named feeds[RECIPE_FIELDS];
    int seen[RECIPE_METRICS] = { 0 };
    recipe_options o = plain;
    const int32_t *mask;
    recipe_run r;

    o.batch = 16;
    recipe_open(&r, "vision",
                "model: {name: unet, config: {num_classes: 4, input_sizes: [3, 40, 40]}}", &o);
    GR_CHECK_EQ(r.recipe->data->size(r.user, GR_SPLIT_TRAIN), 64);
    GR_CHECK_EQ(r.recipe->data->size(r.user, GR_SPLIT_VALID), 16);
    GR_CHECK_EQ(r.view.n_feeds, 3);
    recipe_feeds(&r, &(gr_sample){ .split = GR_SPLIT_TRAIN }, 16, feeds);
    mask = r.mem[GR_FEED_TARGET];
    for (int i = 0; i < 16 * 40 * 40; i++) {
        GR_CHECK(mask[i] >= 0 && mask[i] < 4);
        seen[mask[i]]++;
    }
    for (int c = 0; c < 4; c++)
        GR_CHECK(seen[c] > 200);
    GR_CHECK_EQ(((int32_t *)r.mem[GR_FEED_SIZE])[0], 40);
    GR_CHECK(recipe_has_columns(&r, "index,file,mask,background,circle,ring,square"));
    recipe_close(&r);
}

int main(void)
{
    refused();
    losses();
    metrics();
    one_logit();
    drawn();
    networks();
    return 0;
}
