/*
 * Data that `vision` refuses, before a sample is read where that can be known, and with the setting
 * or the file that is to blame (guards P42).
 */
#include "recipe/vision/vision.h"

#include "check.h"
#include "pictures.h"

#include <stdarg.h>

static void refused(const char *says, const char *fmt, ...) GR_PRINTF(2, 3);

/* A config whose run does not open. */
static void refused(const char *says, const char *fmt, ...)
{
    recipe_run r;
    char yaml[2048];
    va_list args;

    va_start(args, fmt);
    vsnprintf(yaml, sizeof(yaml), fmt, args);
    va_end(args);
    GR_CHECK_FAILS(recipe_try(&r, "vision", yaml, &vision_training), GR_ERR_ARG, says);
    recipe_close(&r);
}

/* Too few of them are an error at once, and not at the first sample of the last one. */
static void too_few_classes(void)
{
    picture_write(picture_path("classes/train/fox/0.png"), 8, 8, picture_even, 50);
    refused("the network tells 2 classes apart, and the data have 3",
            "model: {name: mlp, config: {num_classes: 2}}\ndataset: {root_dir: '%s/classes'}",
            picture_root);
    /* a tenth of two is one */
    picture_write(picture_path("lonely/train/cat/0.png"), 8, 8, picture_even, 10);
    picture_write(picture_path("lonely/train/cat/1.png"), 8, 8, picture_even, 10);
    refused("one class only, 'cat'", "model: {name: mlp}\ndataset: {root_dir: '%s/lonely'}",
            picture_root);
}

/* The size comes from the first picture that is whole: --on_bad_sample decides on the others. */
static void broken_first(void)
{
    recipe_run r;
    FILE *f;

    for (int i = 0; i < 3; i++) {
        picture_write(picture_path("cut/train/cat/%d.png", i), 8, 8, picture_even, 10);
        picture_write(picture_path("cut/train/dog/%d.png", i), 8, 8, picture_even, 20);
    }
    picture_write(picture_path("cut/valid/dog/0.png"), 8, 8, picture_even, 30);
    f = fopen(picture_path("cut/train/cat/0.png"), "w");
    GR_CHECK(f && fputs("no picture", f) >= 0 && fclose(f) == 0);
    vision_open(&r, &vision_training, "model: {name: mlp}\ndataset: {root_dir: '%s/cut'}",
                picture_root);
    GR_CHECK_EQ(gr_shape_count(&r.view.feeds[0].shape), 64);
    GR_CHECK_FAILS(vision_load(&r, GR_SPLIT_TRAIN, 0, 0), GR_ERR_FORMAT, "cat/0.png");
    GR_CHECK_OK(vision_load(&r, GR_SPLIT_TRAIN, 1, 0));
    recipe_close(&r);
}

/* Black and white masks are for one logit: with two classes white would be ignored. */
static void white_masks(void)
{
    recipe_run r;

    for (int i = 0; i < 12; i++) {
        picture_write(picture_path("white/train/images/%d.png", i), PICTURE_SIDE, PICTURE_SIDE,
                      picture_ink, 0);
        picture_write(picture_path("white/train/masks/%d.png", i), PICTURE_SIDE, PICTURE_SIDE,
                      picture_ink, 0);
    }
    refused("'model.config.num_classes': the first masks hold nothing but 0 and 255",
            "model: {name: unet, config: {base_channels: 2, num_classes: 2}}\n"
            "dataset: {root_dir: '%s/white'}",
            picture_root);
    vision_open(&r, &vision_training,
                "model: {name: unet, config: {base_channels: 2, num_classes: 1}}\n"
                "dataset: {root_dir: '%s/white'}",
                picture_root);
    GR_CHECK_OK(vision_load(&r, GR_SPLIT_TRAIN, 0, 0));
    recipe_close(&r);
    refused("dataset.root_dir have masks: take model.name unet",
            "model: {name: mlp, config: {num_classes: 2}}\ndataset: {root_dir: '%s/white'}",
            picture_root);
    picture_write(picture_path("white/train/masks/3.png"), PICTURE_SIDE, PICTURE_SIDE,
                  picture_ink_class, 1);
    vision_open(&r, &vision_training,
                "model: {name: unet, config: {base_channels: 2, num_classes: 2}}\n"
                "dataset: {root_dir: '%s/white'}",
                picture_root);
    recipe_close(&r);
}

/* A network for masks on classes, and the other way round, in any split: told before a sample is
 * read, with both settings. */
static void other_kind(void)
{
    static const struct {
        const char *net, *train, *valid, *says;
    } bad[] = {
        { "unet", "classes/train", "pairs/train", "dataset.train_path have classes: take another" },
        { "unet", "pairs/train", "classes/train", "dataset.valid_path have classes: take another" },
        { "unet", "pairs/train/images", "pairs/train", "dataset.train_path have none: give" },
        { "mlp", "pairs/train", "classes/train", "dataset.train_path have masks: take" },
        { "mlp", "classes/train", "pairs/train", "dataset.valid_path have masks: take" },
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        refused(bad[i].says,
                "model: {name: %s, config: {num_classes: 3, input_sizes: [1, 24, 24]}}\n"
                "dataset: {train_path: '%s/%s', valid_path: '%s/%s'}",
                bad[i].net, picture_root, bad[i].train, picture_root, bad[i].valid);
        GR_CHECK(strstr(gr_error_message(), "model.name") || strstr(gr_error_message(), "'name'"));
    }
    refused("the data of dataset.root_dir have classes",
            "model: {name: unet, config: {num_classes: 2}}\ndataset: {root_dir: '%s/classes'}",
            picture_root);
}

static void bad_masks(void)
{
    recipe_run r;

    picture_write(picture_path("bad/images/x.png"), PICTURE_SIDE, PICTURE_SIDE, picture_ink, 0);
    picture_write(picture_path("bad/masks/x.png"), PICTURE_SIDE, PICTURE_SIDE, picture_ink_class,
                  7);
    vision_open(&r, &(recipe_options){ .task = GR_TASK_TEST, .batch = 1 },
                "model: {name: unet, config: {num_classes: 3}}\n"
                "dataset: {name: pairs, test_path: '%s/bad'}",
                picture_root);
    GR_CHECK_FAILS(vision_load(&r, GR_SPLIT_TEST, 0, 0), GR_ERR_FORMAT, "its mask has the value 7");
    GR_CHECK(strstr(gr_error_message(), "x.png"));
    recipe_close(&r);

    vision_open(&r, &(recipe_options){ .task = GR_TASK_TEST, .batch = 1 },
                "model: {name: unet, config: {num_classes: 3}}\n"
                "dataset: {name: pairs, test_path: '%s/bad', ignore_index: 7}",
                picture_root);
    GR_CHECK_OK(vision_load(&r, GR_SPLIT_TEST, 0, 0));
    GR_CHECK_EQ(((int32_t *)r.mem[GR_FEED_TARGET])[10 * PICTURE_SIDE + 7], 7);
    recipe_close(&r);
}

/* Sizes that the network does not take, with a flag that helps. */
static void bad_sizes(void)
{
    recipe_run r;

    picture_write(picture_path("small/a/y.png"), 9, 9, picture_ink, 0);
    picture_write(picture_path("small/a/z.png"), 9, 10, picture_ink, 0);
    vision_open(&r, &(recipe_options){ .task = GR_TASK_TEST, .batch = 1 },
                "model: {name: mlp, config: {num_classes: 2, input_sizes: [1, 8, 8]}}\n"
                "transform: {HFLIP: 0.5}\ndataset: {name: folder, test_path: '%s/small'}",
                picture_root);
    GR_CHECK_FAILS(vision_load(&r, GR_SPLIT_TEST, 0, 0), GR_ERR_FORMAT,
                   "9 x 9 after the transforms, but the network takes 8 x 8; give a RESIZE or CROP "
                   "that leaves that, as --transform '{RESIZE: [8, 8]}' does");
    GR_CHECK(strstr(gr_error_message(), "y.png"));
    recipe_close(&r);

    vision_open(&r, &(recipe_options){ .task = GR_TASK_TEST, .batch = 1 },
                "model: {name: mlp, config: {num_classes: 2}}\n"
                "dataset: {name: folder, test_path: '%s/small'}",
                picture_root);
    GR_CHECK_OK(vision_load(&r, GR_SPLIT_TEST, 0, 0));
    GR_CHECK_FAILS(vision_load(&r, GR_SPLIT_TEST, 1, 0), GR_ERR_FORMAT,
                   "it is 9 x 10, but the network takes 9 x 9, the size of the first picture; give "
                   "all pictures one size with --image_size 9 or --transform '{RESIZE: [9, 9]}'");
    recipe_close(&r);
}

/* Two classes and two pairs, which are whole. */
static void make_data(void)
{
    for (int i = 0; i < 2; i++) {
        picture_write(picture_path("classes/train/cat/%d.png", i), 8, 8, picture_even, 10);
        picture_write(picture_path("classes/train/dog/%d.png", i), 8, 8, picture_even, 20);
        picture_write(picture_path("pairs/train/images/%d.png", i), PICTURE_SIDE, PICTURE_SIDE,
                      picture_ink, 0);
        picture_write(picture_path("pairs/train/masks/%d.png", i), PICTURE_SIDE, PICTURE_SIDE,
                      picture_ink_class, 1);
    }
}

int main(void)
{
    pictures_begin();
    make_data();
    too_few_classes();
    broken_first();
    other_kind();
    bad_masks();
    bad_sizes();
    white_masks();
    return 0;
}
