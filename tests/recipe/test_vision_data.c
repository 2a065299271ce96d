/*
 * Where the pictures of `vision` come from and what happens to them on the way: folders, pairs,
 * arrays, shares and folds, transforms that treat a picture and its mask alike (guards P42).
 * test_vision_refused.c has what is not taken.
 */
#include "recipe/vision/vision.h"

#include "check.h"
#include "pictures.h"

#include <pthread.h>

/* ---- folders of classes ---- */

static void folders(void)
{
    recipe_run r;

    for (int i = 0; i < 5; i++) {
        picture_write(picture_path("classes/train/cat/%d.png", i), 8, 8, picture_even, 10);
        picture_write(picture_path("classes/train/dog/%d.png", i), 8, 8, picture_even, 20);
    }
    picture_write(picture_path("classes/valid/dog/0.png"), 8, 8, picture_even, 30);
    picture_write(picture_path("classes/test/dog/0.png"), 8, 8, picture_even, 40);
    vision_open(&r, &vision_training, "model: {name: mlp}\ndataset: {root_dir: '%s/classes'}",
                picture_root);
    GR_CHECK_EQ(r.recipe->data->size(r.user, GR_SPLIT_TRAIN), 10);
    GR_CHECK_EQ(r.recipe->data->size(r.user, GR_SPLIT_VALID), 1);
    GR_CHECK_EQ(gr_shape_count(&r.view.feeds[0].shape), 64);
    GR_CHECK_EQ(gr_shape_count(&r.view.outputs[0].shape), 2);
    GR_CHECK(recipe_has_columns(&r, "index,file,class,name,cat,dog"));
    GR_CHECK_OK(vision_load(&r, GR_SPLIT_VALID, 0, 0));
    GR_CHECK_EQ(*(int32_t *)r.mem[GR_FEED_TARGET], 1); /* the only class there, but not the first */
    GR_CHECK_NEAR(((float *)r.mem[GR_FEED_IMAGE])[0], 30 / 255.0, 1e-6);
    recipe_close(&r);

    vision_open(&r, &(recipe_options){ .task = GR_TASK_TEST, .batch = 1 },
                "model: {name: mlp, config: {n_channels: 3}}\ndataset: {root_dir: '%s/classes'}",
                picture_root);
    GR_CHECK_EQ(r.recipe->data->size(r.user, GR_SPLIT_TEST), 1);
    GR_CHECK_OK(vision_load(&r, GR_SPLIT_TEST, 0, 0));
    GR_CHECK_EQ(*(int32_t *)r.mem[GR_FEED_TARGET], 1);
    GR_CHECK_NEAR(((float *)r.mem[GR_FEED_IMAGE])[191], 40 / 255.0, 1e-6);
    recipe_close(&r);
}

/* The words of other trainers: a model by its name alone, one side of the pictures. */
static void short_words(void)
{
    static const char *const same[] = { "model: unet\nimage_size: 48", "model: unet\nimg_size: 48",
                                        "model: {name: unet, config: {input_sizes: [1, 48, 48]}}" };
    recipe_run r;

    for (int i = 0; i < 3; i++) {
        const gr_vision *v;

        vision_open(&r, &vision_training, "%s", same[i]);
        v = r.user;
        GR_CHECK(gr_vision_segments(&v->model));
        GR_CHECK(v->model.height == 48 && v->model.width == 48);
        recipe_close(&r);
    }
}

/* Without transforms a size of pictures is one to resize to, masks by the nearest pixel, in every
 * split alike; with transforms these alone say what happens. */
static void size_alone(void)
{
    static const recipe_options tasks[] = {
        { .task = GR_TASK_TRAIN, .batch = 4, .optim = GR_OPTIM_INIT },
        { .task = GR_TASK_TEST, .batch = 1 },
        { .task = GR_TASK_PREDICT, .batch = 1 },
    };
    static const gr_split splits[] = { GR_SPLIT_VALID, GR_SPLIT_TEST, GR_SPLIT_PREDICT };
    static const char *const of[] = { "train", "valid", "test" };
    recipe_run r;

    for (int i = 0; i < 12; i++) {
        picture_write(picture_path("sized/%s/images/%d.png", of[i % 3], i), 24, 36, picture_ink, 0);
        picture_write(picture_path("sized/%s/masks/%d.png", of[i % 3], i), 24, 36,
                      picture_ink_class, 1);
    }
    for (int i = 0; i < 3; i++) {
        const int32_t *mask;

        vision_open(&r, &tasks[i],
                    "model: {name: unet, config: {num_classes: 2, base_channels: 2}}\n"
                    "image_size: 48\n%sdataset: {root_dir: '%s/sized'}",
                    i == 1 ? "transform: {}\n" : "", picture_root);
        if (i == 0)
            GR_CHECK_OK(vision_load(&r, GR_SPLIT_TRAIN, 0, 0));
        GR_CHECK_OK(vision_load(&r, splits[i], 0, 0));
        mask = r.mem[GR_FEED_TARGET];
        GR_CHECK_EQ(((int32_t *)r.mem[GR_FEED_SIZE])[1], 36); /* as it was */
        for (int p = 0; p < 48 * 48; p++)                     /* twice as high, a third wider */
            GR_CHECK_EQ(mask[p], picture_ink_class(p / 48 / 2, (p % 48 * 2 + 1) * 36 / 96, 1));
        recipe_close(&r);
    }
}

/* What a run says of its model and data, above all where nobody named them. */
static void texts(void)
{
    char says[600];
    recipe_run r;

    vision_open(&r, &vision_training, "%s", "");
    GR_CHECK_STR(r.view.model, "resnet18, 28 x 28 x 1, 10 classes");
    GR_CHECK_STR(r.view.data, "drawn shapes (no --data_path is given)");
    recipe_close(&r);
    vision_open(&r, &vision_training,
                "model: {name: unet, config: {num_classes: 1}}\n"
                "image_size: 48\ndataset: {name: shapes}");
    GR_CHECK_STR(r.view.model, "unet, 48 x 48 x 1, 2 classes by one logit");
    GR_CHECK_STR(r.view.data, "drawn shapes");
    recipe_close(&r);

    vision_open(&r, &vision_training, "model: mlp\ndataset: {root_dir: '%s/classes'}",
                picture_root);
    snprintf(says, sizeof(says), "'%s/classes' (folder)", picture_root);
    GR_CHECK_STR(r.view.data, says);
    recipe_close(&r);
    vision_open(&r, &vision_training,
                "model: mlp\nimage_size: 12\ndataset: {train_path: '%s/classes/train'}",
                picture_root);
    GR_CHECK_STR(r.view.model, "mlp, 12 x 12 x 1, 2 classes");
    snprintf(says, sizeof(says), "'%s/classes/train' (folder) resized to 12 x 12", picture_root);
    GR_CHECK_STR(r.view.data, says);
    recipe_close(&r);
    vision_open(
        &r, &(recipe_options){ .task = GR_TASK_TEST, .batch = 1 },
        "model: {name: mlp, config: {num_classes: 2}}\ndataset: {test_path: '%s/classes/train'}",
        picture_root);
    GR_CHECK(!r.view.data); /* nothing is trained */
    recipe_close(&r);
}

/* Advice to pack is for files of pictures: not for what is packed, or drawn. */
static void faster(void)
{
    gr_pack_config c = GR_PACK_CONFIG_INIT;
    char from[600], to[600];
    gr_pack_result packed;
    recipe_run r;

    vision_open(&r, &vision_training, "model: {name: mlp}\ndataset: {root_dir: '%s/classes'}",
                picture_root);
    GR_CHECK(strstr(r.view.faster_loading, "gradus pack"));
    recipe_close(&r);

    snprintf(from, sizeof(from), "%s/classes/train", picture_root);
    snprintf(to, sizeof(to), "%s/shards", picture_root);
    c.source.path = from;
    c.out = to;
    GR_CHECK_OK(gr_pack(&c, &packed));
    vision_open(&r, &vision_training, "model: {name: mlp}\ndataset: {train_path: '%s'}", to);
    GR_CHECK_STR(r.view.faster_loading, "make the pictures smaller");
    recipe_close(&r);

    vision_open(&r, &vision_training, "model: {name: mlp}");
    GR_CHECK(!r.view.faster_loading);
    recipe_close(&r);
}

static const char *found(const recipe_run *r, const char *key)
{
    for (int i = 0; i < r->view.n_found; i++)
        if (strcmp(r->view.found[i].key, key) == 0)
            return r->view.found[i].value;
    return NULL;
}

/* What a checkpoint remembers of the training data, and what is made of it without them. */
static void classes(void)
{
    recipe_options test = { .task = GR_TASK_TEST, .batch = 1 };
    recipe_run r;
    char yaml[2048];

    vision_open(&r, &vision_training, "model: {name: mlp}\ndataset: {root_dir: '%s/classes'}",
                picture_root);
    GR_CHECK_STR(found(&r, "model.config.num_classes"), "2");
    GR_CHECK_STR(found(&r, "dataset.classes"), "[\"cat\", \"dog\"]");
    recipe_close(&r);

    vision_open(&r, &vision_training,
                "model: {name: mlp}\ndataset: {root_dir: '%s/classes', classes: [dog, cat]}",
                picture_root);
    GR_CHECK_OK(vision_load(&r, GR_SPLIT_VALID, 0, 0));
    GR_CHECK_EQ(*(int32_t *)r.mem[GR_FEED_TARGET], 0);
    GR_CHECK(recipe_has_columns(&r, "index,file,class,name,dog,cat"));
    recipe_close(&r);

    vision_open(
        &r, &test,
        "model: {name: mlp, config: {num_classes: 2}}\n"
        "dataset: {train_path: '%s/gone', test_path: '%s/classes/test', classes: [cat, dog]}",
        picture_root, picture_root);
    GR_CHECK_OK(vision_load(&r, GR_SPLIT_TEST, 0, 0));
    GR_CHECK_EQ(*(int32_t *)r.mem[GR_FEED_TARGET], 1);
    recipe_close(&r);

    snprintf(yaml, sizeof(yaml),
             "model: {name: mlp}\ndataset: {root_dir: '%s/classes', classes: [cat, fox]}",
             picture_root);
    GR_CHECK_FAILS(recipe_try(&r, "vision", yaml, &vision_training), GR_ERR_ARG,
                   "test.yaml:2: 'dataset.classes': the data have a class 'dog', which is none of "
                   "these 2; leave this setting out");
    recipe_close(&r);
    snprintf(yaml, sizeof(yaml),
             "model: {name: mlp}\ndataset: {root_dir: '%s/classes', classes: [cat, cat]}",
             picture_root);
    GR_CHECK_FAILS(recipe_try(&r, "vision", yaml, &vision_training), GR_ERR_ARG,
                   "'cat' is there twice");
    recipe_close(&r);
}

/* For `sampler: weighted`: one of a rare class weighs as much more as the class is rarer. */
static void weights(void)
{
    double w[8];
    recipe_run r;

    for (int i = 0; i < 6; i++)
        picture_write(picture_path("uneven/train/cat/%d.png", i), 8, 8, picture_even, 10);
    for (int i = 0; i < 2; i++)
        picture_write(picture_path("uneven/train/dog/%d.png", i), 8, 8, picture_even, 20);
    picture_write(picture_path("uneven/valid/dog/0.png"), 8, 8, picture_even, 30);
    vision_open(&r, &vision_training, "model: {name: mlp}\ndataset: {root_dir: '%s/uneven'}",
                picture_root);
    GR_CHECK_OK(r.recipe->data->weights(r.user, w));
    for (int i = 0; i < 8; i++) {
        GR_CHECK_OK(vision_load(&r, GR_SPLIT_TRAIN, i, 0));
        GR_CHECK_NEAR(w[i], *(int32_t *)r.mem[GR_FEED_TARGET] == 0 ? 1 / 6.0 : 1 / 2.0, 1e-12);
    }
    recipe_close(&r);
    vision_open(&r, &vision_training, "model: {name: mlp}\ndataset: {name: shapes}");
    GR_CHECK_EQ(r.recipe->data->weights(r.user, w), GR_ERR_ARG);
    recipe_close(&r);
}

/* ---- shares and folds ---- */

/* Which samples (by their gray value) a split holds. */
static void mark(recipe_run *r, gr_split split, int *seen)
{
    for (int64_t i = 0; i < r->recipe->data->size(r->user, split); i++) {
        GR_CHECK_OK(vision_load(r, split, i, 0));
        seen[lroundf(((float *)r->mem[GR_FEED_IMAGE])[0] * 255)]++;
    }
}

static void divisions(void)
{
    recipe_options test = { .task = GR_TASK_TEST, .batch = 1 };
    int seen[256] = { 0 }, in_fold[256] = { 0 };
    recipe_run r;

    for (int i = 0; i < 20; i++)
        picture_write(picture_path("many/a/%02d.png", i), 4, 4, picture_even, 50 + i);
    vision_open(&r, &vision_training,
                "model: {name: mlp, config: {num_classes: 2}}\n"
                "dataset: {name: folder, train_path: '%s/many', split: [0.7, 0.1, 0.2]}",
                picture_root);
    GR_CHECK_EQ(r.recipe->data->size(r.user, GR_SPLIT_TRAIN), 14);
    mark(&r, GR_SPLIT_TRAIN, seen);
    mark(&r, GR_SPLIT_VALID, seen);
    recipe_close(&r);
    vision_open(&r, &test,
                "model: {name: mlp, config: {num_classes: 2}}\n"
                "dataset: {name: folder, train_path: '%s/many', split: [0.7, 0.1, 0.2]}",
                picture_root);
    GR_CHECK_EQ(r.recipe->data->size(r.user, GR_SPLIT_TEST), 4);
    mark(&r, GR_SPLIT_TEST, seen);
    recipe_close(&r);
    for (int fold = 0; fold < 3; fold++) {
        vision_open(&r, &vision_training,
                    "model: {name: mlp, config: {num_classes: 2}}\n"
                    "dataset: {name: folder, train_path: '%s/many', folds: 3, fold: %d}",
                    picture_root, fold);
        mark(&r, GR_SPLIT_VALID, in_fold);
        recipe_close(&r);
    }
    for (int i = 0; i < 20; i++) {
        GR_CHECK_EQ(seen[50 + i], 1);
        GR_CHECK_EQ(in_fold[50 + i], 1);
    }
}

/* ---- pictures and masks ---- */

/* Picture and mask show the same L, wherever it went. */
static int check_pair(const recipe_run *r, int n)
{
    const float *image = r->mem[GR_FEED_IMAGE];
    const int32_t *mask = r->mem[GR_FEED_TARGET];
    int apart = 0, n_ink = 0;

    for (int i = 0; i < n; i++) {
        if (mask[i] == 255)
            continue;
        GR_CHECK(mask[i] == 0 || mask[i] == 1);
        n_ink += mask[i];
        apart += (image[i] > 0.5f) != (mask[i] == 1);
    }
    GR_CHECK(apart * 20 <= n); /* but for edges, which are blended in the picture only */
    return n_ink;
}

static void pairs(void)
{
    static const char *const transforms[] = {
        "{HFLIP: [0.5], VFLIP: [0.5]}",
        "{ROTATION: [40]}",
        "{RANDOM_SCALE: [0.7, 1.4], CROP: [24, 24]}",
        "{RESIZE: [32, 32], CROP: [24, 24], HFLIP: 0.5, COLOR_JITTER: [0.1, 0.1]}",
    };
    recipe_run r;

    for (int i = 0; i < 4; i++) {
        picture_write(picture_path("pairs/train/images/%d.png", i), PICTURE_SIDE, PICTURE_SIDE,
                      picture_ink, 0);
        picture_write(picture_path("pairs/train/masks/%d.png", i), PICTURE_SIDE, PICTURE_SIDE,
                      picture_ink_class, 1);
    }
    for (size_t t = 0; t < sizeof(transforms) / sizeof(transforms[0]); t++) {
        float first[PICTURE_SIDE * PICTURE_SIDE], again[PICTURE_SIDE * PICTURE_SIDE];
        int n_other = 0;

        vision_open(&r, &vision_training,
                    "model: {name: unet, config: {num_classes: 2, input_sizes: [1, 24, 24]}}\n"
                    "transform: %s\ndataset: {root_dir: '%s/pairs', split: [0.75, 0.25]}",
                    transforms[t], picture_root);
        GR_CHECK_OK(vision_load(&r, GR_SPLIT_TRAIN, 0, 0));
        memcpy(first, r.mem[GR_FEED_IMAGE], sizeof(first));
        for (int epoch = 0; epoch < 12; epoch++) {
            GR_CHECK_OK(vision_load(&r, GR_SPLIT_TRAIN, 0, epoch));
            GR_CHECK(check_pair(&r, PICTURE_SIDE * PICTURE_SIDE) > 20);
            memcpy(again, r.mem[GR_FEED_IMAGE], sizeof(again));
            n_other += memcmp(first, again, sizeof(first)) != 0;
            GR_CHECK_OK(vision_load(&r, GR_SPLIT_TRAIN, 0, epoch));
            GR_CHECK(memcmp(again, r.mem[GR_FEED_IMAGE], sizeof(again)) == 0);
        }
        GR_CHECK(n_other > 0);
        /* nothing is random outside training */
        GR_CHECK_OK(vision_load(&r, GR_SPLIT_VALID, 0, 0));
        memcpy(first, r.mem[GR_FEED_IMAGE], sizeof(first));
        GR_CHECK_OK(vision_load(&r, GR_SPLIT_VALID, 0, 3));
        GR_CHECK(memcmp(first, r.mem[GR_FEED_IMAGE], sizeof(first)) == 0);
        GR_CHECK(check_pair(&r, PICTURE_SIDE * PICTURE_SIDE) > 50);
        recipe_close(&r);
    }
}

/* ---- threads ---- */

#define N_THREADS 4

typedef struct worker {
    recipe_run *run;
    const float *want; /* [epoch][sample] */
    pthread_t thread;
} worker;

static float sum_of(recipe_run *r, void *scratch, int64_t index, int64_t epoch)
{
    gr_sample s = { .split = GR_SPLIT_TRAIN, .index = index, .epoch = epoch, .seed = 7 };
    float image[PICTURE_SIDE * PICTURE_SIDE], sum = 0;
    int32_t mask[PICTURE_SIDE * PICTURE_SIDE], size[2];
    const gr_feed_slot slots[3] = { { .mem = image }, { .mem = mask }, { .mem = size } };

    GR_CHECK_OK(r->recipe->data->load(r->user, &s, scratch, slots));
    for (int i = 0; i < PICTURE_SIDE * PICTURE_SIDE; i++)
        sum += image[i] * (float)(i % 7 + 1) + (float)(mask[i] * (i % 5));
    return sum;
}

static void *load_all(void *arg)
{
    worker *w = arg;
    void *scratch;

    GR_CHECK_OK(w->run->recipe->data->scratch_open(w->run->user, &scratch));
    for (int i = 0; i < 60; i++)
        GR_CHECK(sum_of(w->run, scratch, i % 3, i / 3) == w->want[i]);
    w->run->recipe->data->scratch_close(scratch);
    return NULL;
}

/* Several threads at once see the samples that one sees. */
static void threads(void)
{
    worker workers[N_THREADS];
    float want[60];
    recipe_run r;

    vision_open(&r, &vision_training,
                "model: {name: unet, config: {num_classes: 2, input_sizes: [1, 24, 24]}}\n"
                "transform: {HFLIP: 0.5, ROTATION: 30, COLOR_JITTER: [0.2, 0.2]}\n"
                "dataset: {root_dir: '%s/pairs', split: [0.75, 0.25]}",
                picture_root);
    for (int i = 0; i < 60; i++)
        want[i] = sum_of(&r, r.scratch, i % 3, i / 3);
    for (int t = 0; t < N_THREADS; t++) {
        workers[t] = (worker){ .run = &r, .want = want };
        GR_CHECK_EQ(pthread_create(&workers[t].thread, NULL, load_all, &workers[t]), 0);
    }
    for (int t = 0; t < N_THREADS; t++)
        GR_CHECK_EQ(pthread_join(workers[t].thread, NULL), 0);
    recipe_close(&r);
}

/* DRIVE's layout; masks of 0 and 255; one logit. */
static void drive(void)
{
    const int32_t *mask;
    recipe_run r;

    for (int i = 0; i < 3; i++) {
        picture_write(picture_path("drive/training/images/%d_training.png", i), PICTURE_SIDE,
                      PICTURE_SIDE, picture_ink, 0);
        picture_write(picture_path("drive/training/1st_manual/%d_training.png", i), PICTURE_SIDE,
                      PICTURE_SIDE, picture_ink, 0);
        picture_write(picture_path("drive/test/images/%d_test.png", i), PICTURE_SIDE, PICTURE_SIDE,
                      picture_ink, 0);
        picture_write(picture_path("drive/test/1st_manual/%d_test.png", i), PICTURE_SIDE,
                      PICTURE_SIDE, picture_ink, 0);
    }
    vision_open(&r, &(recipe_options){ .task = GR_TASK_TEST, .batch = 1 },
                "model: {name: unet, config: {n_classes: 1, n_channels: 1}}\n"
                "transform: {RESIZE: [48, 48]}\nmetrics: [dice, auc]\n"
                "dataset: {name: drive, root_dir: '%s/drive'}",
                picture_root);
    GR_CHECK_EQ(r.recipe->data->size(r.user, GR_SPLIT_TEST), 3);
    GR_CHECK_EQ(r.view.n_outputs, 2); /* masks, probabilities */
    GR_CHECK_OK(vision_load(&r, GR_SPLIT_TEST, 1, 0));
    GR_CHECK(check_pair(&r, 48 * 48) > 200);
    mask = r.mem[GR_FEED_TARGET];
    GR_CHECK_EQ(mask[0], 0);
    GR_CHECK_EQ(mask[2 * 10 * 48 + 2 * 7], 1);
    GR_CHECK_EQ(((int32_t *)r.mem[GR_FEED_SIZE])[1], PICTURE_SIDE); /* as it was */
    recipe_close(&r);
}

/* ---- arrays ---- */

/* A .npy file, version 1. */
static void write_npy(const char *path, const char *type, const char *shape, const void *mem,
                      size_t n_bytes)
{
    char head[128];
    FILE *f;
    int n;

    picture_folders(path);
    memset(head, ' ', sizeof(head));
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    n = snprintf(head + 10, sizeof(head) - 10,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, shape);
    head[10 + n] = ' ';
    head[127] = '\n';
    f = fopen(path, "wb");
    GR_CHECK(f && fwrite(head, sizeof(head), 1, f) == 1 && fwrite(mem, n_bytes, 1, f) == 1);
    GR_CHECK(fclose(f) == 0);
}

/* Numbers that are not finite are found before they are trained on, at their place in the file. */
static void not_finite(void)
{
    static const char *const says[] = { "its number at [1, 2, 3] is nan, which is not finite",
                                        "its number at [1, 2, 3] is inf, which is not finite",
                                        "its number at [1, 2, 3] is -inf, which is not finite",
                                        "its number at [1, 2, 3] is 1e+300, which is too large" };
    const double bad[] = { (double)NAN, (double)INFINITY, -(double)INFINITY, 1e300 };
    double x[5][3][4][5] = { { { { 0 } } } }; /* channels first */
    int64_t label[5] = { 1, 0, 1, 0, 1 };
    recipe_run r;

    for (int i = 0; i < 4; i++)
        x[i][1][2][3] = bad[i];
    write_npy(picture_path("odd/x.npy"), "<f8", "5, 3, 4, 5", x, sizeof(x));
    write_npy(picture_path("odd/y.npy"), "<i8", "5,", label, sizeof(label));
    vision_open(&r, &(recipe_options){ .task = GR_TASK_TEST, .batch = 1 },
                "model: {name: mlp}\ndataset: {name: npy, test_path: '%s/odd/x.npy', "
                "test_labels: '%s/odd/y.npy'}",
                picture_root, picture_root);
    for (int i = 0; i < 4; i++) {
        GR_CHECK_FAILS(vision_load(&r, GR_SPLIT_TEST, i, 0), GR_ERR_FORMAT, says[i]);
        GR_CHECK(strstr(gr_error_message(), "'x.npy["));
    }
    GR_CHECK_OK(vision_load(&r, GR_SPLIT_TEST, 4, 0));
    recipe_close(&r);
}

static void arrays(void)
{
    float x[3][2][4][5]; /* no such channels: 2 */
    float y[3][3][4][5]; /* channels first */
    int64_t label[3] = { 1, 0, 1 };
    recipe_run r;

    for (size_t i = 0; i < sizeof(y) / sizeof(float); i++)
        (&y[0][0][0][0])[i] = (float)i / 7 - 3;
    memset(x, 0, sizeof(x));
    write_npy(picture_path("npy/x.npy"), "<f4", "3, 3, 4, 5", y, sizeof(y));
    write_npy(picture_path("npy/y.npy"), "<i8", "3,", label, sizeof(label));
    write_npy(picture_path("npy/two.npy"), "<f4", "3, 2, 4, 5", x, sizeof(x));
    vision_open(&r, &(recipe_options){ .task = GR_TASK_TEST, .batch = 1 },
                "model: {name: mlp}\ndataset: {name: npy, test_path: '%s/npy/x.npy', "
                "test_labels: '%s/npy/y.npy'}",
                picture_root, picture_root);
    GR_CHECK_EQ(r.recipe->data->size(r.user, GR_SPLIT_TEST), 3);
    GR_CHECK_EQ(r.view.feeds[0].shape.dim[0], 4);
    GR_CHECK_EQ(r.view.feeds[0].shape.dim[2], 3);
    GR_CHECK_OK(vision_load(&r, GR_SPLIT_TEST, 2, 0));
    GR_CHECK_EQ(*(int32_t *)r.mem[GR_FEED_TARGET], 1);
    for (int c = 0; c < 3; c++)
        GR_CHECK_NEAR(((float *)r.mem[GR_FEED_IMAGE])[(1 * 5 + 2) * 3 + c], y[2][c][1][2], 0);
    recipe_close(&r);
    {
        char yaml[2048];

        snprintf(yaml, sizeof(yaml),
                 "model: {name: mlp}\ndataset: {name: npy, test_path: '%s/npy/two.npy', "
                 "test_labels: '%s/npy/y.npy'}",
                 picture_root, picture_root);
        GR_CHECK_FAILS(recipe_try(&r, "vision", yaml, &(recipe_options){ .task = GR_TASK_TEST }),
                       GR_ERR_FORMAT, "[2, 4, 5]");
        recipe_close(&r);
    }
}

int main(void)
{
    pictures_begin();
    short_words();
    size_alone();
    folders();
    faster();
    texts();
    classes();
    weights();
    divisions();
    pairs();
    threads();
    drive();
    arrays();
    not_finite();
    return 0;
}
