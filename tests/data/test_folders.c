/*
 * Data sets of files: class folders, flat folders, images with masks, lists and tables; what is
 * missing or broken is named. Guards P42.
 */
#include "alloc_fail.h"
#include "base/clock.h"
#include "data/put_files.h"
#include "scratch.h"

#include <pthread.h>
#include <unistd.h>

static gr_dataset *opened(gr_dataset_config c)
{
    gr_dataset *ds = NULL;

    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    return ds;
}

static gr_dataset_config at(const char *path)
{
    gr_dataset_config c = GR_DATASET_CONFIG_INIT;

    c.path = path;
    return c;
}

static void refused(gr_dataset_config c, gr_status want, const char *part)
{
    gr_dataset *ds = NULL;

    GR_CHECK_FAILS(gr_dataset_open(&ds, &c), want, part);
    GR_CHECK(ds == NULL);
}

static void check_name(const gr_dataset *ds, int64_t i, const char *want)
{
    char name[GR_DATASET_NAME];

    GR_CHECK_STR(gr_dataset_name(ds, i, name, sizeof(name)), want);
}

static void test_classes(void)
{
    gr_dataset *ds, *test;
    gr_image img = GR_IMAGE_INIT;
    gr_dataset_config c = at("pets");
    bool has;

    data_put_image("pets/train/dog/b.png", 4, 5, 3, 1);
    data_put_image("pets/train/dog/a.png", 4, 6, 3, 2);
    data_put_image("pets/train/dog/more/0.png", 3, 3, 3, 6);
    data_put_image("pets/train/cat/z.PNG", 4, 7, 1, 3);
    data_put_image("pets/train/emu/q.png", 4, 7, 1, 4);
    data_put_text("pets/train/readme.txt", "no image");
    data_put_text("pets/train/cat/.hidden.png", "no image");
    data_put_image("pets/val/dog/d.png", 2, 2, 3, 5);
    refused(c, GR_ERR_ARG, "say which one");
    c.format = GR_FORMAT_FOLDER;
    refused(c, GR_ERR_ARG, "say which one");
    c.format = GR_FORMAT_AUTO;
    c.split = "train";
    ds = opened(c);
    GR_CHECK_EQ(gr_dataset_format(ds), GR_FORMAT_FOLDER);
    GR_CHECK_EQ(gr_dataset_size(ds), 5);
    GR_CHECK_EQ(gr_dataset_n_classes(ds), 3);
    GR_CHECK_STR(gr_dataset_class_name(ds, 0), "cat");
    GR_CHECK_STR(gr_dataset_class_name(ds, 2), "emu");
    GR_CHECK(gr_dataset_class_name(ds, 3) == NULL);
    check_name(ds, 0, "cat/z.PNG");
    check_name(ds, 1, "dog/a.png");
    check_name(ds, 2, "dog/b.png");
    check_name(ds, 3, "dog/more/0.png");
    GR_CHECK_EQ(gr_dataset_class(ds, 3), 1);
    GR_CHECK_EQ(gr_dataset_class(ds, 4), 2);
    GR_CHECK_OK(gr_dataset_image(ds, 1, &img));
    data_check_image(&img, 4, 6, 3, 2);
    GR_CHECK_FAILS(gr_dataset_image(ds, 5, &img), GR_ERR_ARG, "no sample 5 among 5");
    GR_CHECK_FAILS(gr_dataset_mask(ds, 0, &img), GR_ERR_ARG, "no masks");

    /* Validation has one class of three, and its number is that of training. */
    c.split = "valid";
    c.classes_of = ds;
    test = opened(c);
    GR_CHECK_EQ(gr_dataset_n_classes(test), 3);
    GR_CHECK_EQ(gr_dataset_class(test, 0), 1);
    gr_dataset_destroy(test);
    data_put_image("pets/val/ant/d.png", 2, 2, 3, 5);
    refused(c, GR_ERR_FORMAT, "the class 'ant' is not among the 3");
    c.split = "test";
    refused(c, GR_ERR_IO, "no folder for 'test'");
    GR_CHECK_OK(gr_dataset_has(&c, &has));
    GR_CHECK(!has);
    c.split = "valid";
    GR_CHECK_OK(gr_dataset_has(&c, &has));
    GR_CHECK(has);
    c.split = "dev";
    refused(c, GR_ERR_ARG, "no part 'dev'");
    gr_dataset_destroy(ds);
    gr_image_fini(&img);
}

static void test_flat(void)
{
    gr_dataset_config c = at("flat");
    gr_image img = GR_IMAGE_INIT;
    gr_dataset *ds;

    data_put_image("flat/2.png", 4, 5, 4, 1);
    data_put_image("flat/10.png", 4, 5, 1, 2);
    c.decode.as = GR_IMAGE_RGB;
    ds = opened(c);
    GR_CHECK_EQ(gr_dataset_format(ds), GR_FORMAT_IMAGES);
    check_name(ds, 0, "10.png");
    GR_CHECK_EQ(gr_dataset_class(ds, 0), -1);
    GR_CHECK_EQ(gr_dataset_n_classes(ds), 0);
    for (int i = 0; i < 2; i++) {
        GR_CHECK_OK(gr_dataset_image(ds, i, &img));
        GR_CHECK_EQ(img.channels, 3);
    }
    GR_CHECK_EQ(img.px[3], data_pixel(1, 4)); /* the fifth byte: alpha is gone */
    gr_dataset_destroy(ds);
    gr_image_fini(&img);
}

static void test_broken(void)
{
    gr_image img = GR_IMAGE_INIT;
    gr_dataset *ds;

    refused(at("no/such/place"), GR_ERR_IO, "no file or folder 'no/such/place'");
    refused(at("/dev/null"), GR_ERR_IO, "'/dev/null' is neither a file nor a folder");
    data_put_text("empty/readme.md", "nothing");
    refused(at("empty/readme.md"), GR_ERR_FORMAT,
            "'empty/readme.md' is no data file that is known by its name (.txt, .lst, .csv, .npy, "
            ".grs, -ubyte, or .bin of CIFAR): say its format, list, csv, idx, cifar10, cifar100, "
            "npy or shards");
    refused(at("empty"), GR_ERR_FORMAT, "nothing in the folder");
    data_put_image("bad/one/1.png", 2, 2, 1, 1);
    data_put_text("bad/two/readme.md", "nothing");
    refused(at("bad"), GR_ERR_IO, "class folder 'bad/two' holds no images");
    data_put_text("bad/two/1.tiff", "not read");
    refused(at("bad"), GR_ERR_FORMAT, "'bad/two/1.tiff' is of a kind");
    data_remove("bad/two");
    data_put_text("bad/one/2.jpg", "text");
    data_put_text("bad/one/3.jpg", "");
    ds = opened(at("bad"));
    GR_CHECK_FAILS(gr_dataset_image(ds, 1, &img), GR_ERR_FORMAT,
                   "image 'bad/one/2.jpg': neither JPEG nor PNG");
    GR_CHECK_FAILS(gr_dataset_image(ds, 2, &img), GR_ERR_FORMAT, "3.jpg': the file is empty");
    unlink("bad/one/1.png");
    GR_CHECK_FAILS(gr_dataset_image(ds, 0, &img), GR_ERR_IO, "'bad/one/1.png': No such file");
    gr_dataset_destroy(ds);
    gr_image_fini(&img);
}

static void test_pairs(void)
{
    gr_dataset_config c = at("seg");
    gr_image img = GR_IMAGE_INIT, mask = GR_IMAGE_INIT;
    gr_dataset *ds;

    data_put_jpeg("seg/images/a.jpg", 16, 16, 1);
    data_put_image("seg/images/sub/a.png", 6, 5, 3, 2);
    data_put_mask("seg/masks/a.png", 16, 16, 3);
    data_put_mask("seg/masks/sub/a.png", 6, 5, 4);
    c.decode.min_height = c.decode.min_width = 2; /* would halve the JPEG, but not its mask */
    ds = opened(c);
    GR_CHECK_EQ(gr_dataset_format(ds), GR_FORMAT_PAIRS);
    GR_CHECK(gr_dataset_has_masks(ds));
    GR_CHECK_OK(gr_dataset_pair(ds, 0, &img, &mask));
    GR_CHECK_EQ(img.height, 16);
    data_check_image(&mask, 16, 16, 1, 3);
    GR_CHECK_OK(gr_dataset_pair(ds, 1, &img, &mask));
    data_check_image(&img, 6, 5, 3, 2);
    data_check_image(&mask, 6, 5, 1, 4);
    check_name(ds, 1, "sub/a.png");
    data_put_mask("seg/masks/sub/a.png", 5, 6, 4);
    GR_CHECK_FAILS(gr_dataset_pair(ds, 1, &img, &mask), GR_ERR_FORMAT,
                   "sample 1 'sub/a.png': the image has 5 x 6 pixels, its mask 6 x 5");
    gr_dataset_destroy(ds);
    data_put_image("seg/images/lost.png", 2, 2, 3, 1);
    refused(c, GR_ERR_FORMAT,
            "1 of 5 images and masks have no partner of the same stem: image "
            "'seg/images/lost.png'");
    data_put_mask("seg/masks/found.png", 2, 2, 1);
    refused(c, GR_ERR_FORMAT, "mask 'seg/masks/found.png', image 'seg/images/lost.png'");
    data_put_mask("seg/masks/a.jpg", 2, 2, 1);
    refused(c, GR_ERR_FORMAT, "have the same stem");
    gr_image_fini(&img);
    gr_image_fini(&mask);
}

/* The DRIVE layout, with names that differ in their endings. */
static void test_drive(void)
{
    gr_dataset_config c = at("drive");
    gr_image img = GR_IMAGE_INIT, mask = GR_IMAGE_INIT;
    gr_dataset *ds;
    bool has;

    data_put_image("drive/training/images/21_training.png", 8, 8, 1, 1);
    data_put_image("drive/training/images/22_training.png", 8, 8, 1, 2);
    data_put_image("drive/training/1st_manual/21_manual1.png", 8, 8, 1, 3);
    data_put_image("drive/training/1st_manual/22_manual1.png", 8, 8, 1, 4);
    data_put_image("drive/test/images/01_test.png", 8, 8, 1, 5);
    data_put_image("drive/test/1st_manual/01_manual1.png", 8, 8, 1, 6);
    c.split = "train";
    ds = opened(c);
    GR_CHECK_EQ(gr_dataset_format(ds), GR_FORMAT_DRIVE);
    GR_CHECK_EQ(gr_dataset_size(ds), 2);
    GR_CHECK_OK(gr_dataset_pair(ds, 1, &img, &mask));
    data_check_image(&img, 8, 8, 1, 2);
    data_check_image(&mask, 8, 8, 1, 4);
    gr_dataset_destroy(ds);
    c.split = "test";
    ds = opened(c);
    GR_CHECK_EQ(gr_dataset_size(ds), 1);
    gr_dataset_destroy(ds);
    c.split = "valid";
    GR_CHECK_OK(gr_dataset_has(&c, &has));
    GR_CHECK(!has);
    gr_image_fini(&img);
    gr_image_fini(&mask);
}

static void test_lists(void)
{
    gr_dataset_config c = at("lists/train.txt");
    gr_image img = GR_IMAGE_INIT;
    gr_dataset *ds;

    data_put_image("lists/x/1.png", 4, 4, 3, 1);
    data_put_image("lists/x/2 b.png", 4, 4, 3, 2);
    data_put_text("lists/train.txt", "# image class\nx/1.png 3\r\n\nx/2 b.png\t1\n");
    ds = opened(c);
    GR_CHECK_EQ(gr_dataset_size(ds), 2);
    GR_CHECK_EQ(gr_dataset_n_classes(ds), 4);
    GR_CHECK_EQ(gr_dataset_class(ds, 0), 3);
    GR_CHECK_OK(gr_dataset_image(ds, 1, &img));
    data_check_image(&img, 4, 4, 3, 2);
    check_name(ds, 1, "x/2 b.png");
    gr_dataset_destroy(ds);

    data_put_text("lists/train.txt", "x/1.png dog\nx/2.png cat\nx/3.png dog");
    ds = opened(c);
    GR_CHECK_EQ(gr_dataset_n_classes(ds), 2);
    GR_CHECK_EQ(gr_dataset_class(ds, 0), 1);
    GR_CHECK_EQ(gr_dataset_class(ds, 1), 0);
    GR_CHECK_FAILS(gr_dataset_image(ds, 2, &img), GR_ERR_IO, "cannot open 'lists/x/3.png'");
    gr_dataset_destroy(ds);

    data_put_text("lists/train.txt", "x/1.png 1\nx/2.png\n");
    refused(c, GR_ERR_FORMAT, "line 2: no label or mask, but line 1 has one");
    data_put_text("lists/train.txt", "\nx/1.png 1 2\n");
    refused(c, GR_ERR_FORMAT, "line 2: more than two words");
    data_put_text("lists/train.txt", "# nothing\n");
    refused(c, GR_ERR_FORMAT, "no line names an image");
    data_put_bytes("lists/train.txt", "a\0b", 3);
    refused(c, GR_ERR_FORMAT, "zero byte");

    /* VOC: ids only, patterns make paths of them; the root is the folder that was named. */
    data_put_image("voc/JPEGImages/7.png", 3, 3, 3, 1);
    data_put_mask("voc/Labels/7.png", 3, 3, 2);
    data_put_text("voc/ImageSets/Segmentation/val.txt", "7\n");
    c = at("voc");
    c.format = GR_FORMAT_LIST;
    c.split = "valid";
    c.image_pattern = "JPEGImages/{}.png";
    c.mask_pattern = "Labels/{}.png";
    ds = opened(c);
    GR_CHECK_OK(gr_dataset_mask(ds, 0, &img));
    data_check_image(&img, 3, 3, 1, 2);
    GR_CHECK_OK(gr_dataset_image(ds, 0, &img));
    data_check_image(&img, 3, 3, 3, 1);
    gr_dataset_destroy(ds);

    /* Pairs with leading slashes, below a root. */
    data_put_text("pairs.lst", "/JPEGImages/7.png /Labels/7.png\n");
    c = at("pairs.lst");
    c.root = "voc";
    ds = opened(c);
    GR_CHECK_OK(gr_dataset_mask(ds, 0, &img));
    check_name(ds, 0, "JPEGImages/7.png");
    gr_dataset_destroy(ds);
    data_put_text("pairs.lst", "/JPEGImages/7.png /Labels/7.png\na.png b\n");
    refused(c, GR_ERR_FORMAT, "line 2: 'b' is no mask (.png), as line 1 has one");
    gr_image_fini(&img);
}

static void test_csv(void)
{
    gr_dataset_config c = at("table.csv");
    gr_dataset *ds;

    data_put_text("table.csv",
                  "\xef\xbb\xbfid,Label,path\n0,dog,\"a, \"\"b\"\".png\"\r\n1, cat ,c.png\n\n");
    ds = opened(c);
    GR_CHECK_EQ(gr_dataset_format(ds), GR_FORMAT_CSV);
    GR_CHECK_EQ(gr_dataset_size(ds), 2);
    check_name(ds, 0, "a, \"b\".png");
    GR_CHECK_EQ(gr_dataset_class(ds, 0), 1);
    check_name(ds, 1, "c.png");
    gr_dataset_destroy(ds);
    data_put_text("table.csv", "a.png,0\nb.png,2\n");
    ds = opened(c);
    GR_CHECK_EQ(gr_dataset_n_classes(ds), 3);
    gr_dataset_destroy(ds);
    data_put_text("table.csv", "a.png,0\nb.png\n");
    refused(c, GR_ERR_FORMAT, "line 2: 1 fields, expected at least 2");
    data_put_text("table.csv", "a.png,0\n\"b.png,1\n");
    refused(c, GR_ERR_FORMAT, "line 2: a quote without its end");
    data_put_text("table.csv", "a.png,0\nb.png,\n");
    refused(c, GR_ERR_FORMAT, "line 2: no label");
    data_put_text("table.csv", "a.png,0\n\"b\"c,1\n");
    refused(c, GR_ERR_FORMAT, "line 2: text after");
}

static void test_subset(void)
{
    static const int64_t some[] = { 4, 0 }, wrong[] = { 5 };
    gr_dataset_config c = at("pets");
    gr_dataset *ds, *sub = NULL;
    gr_image img = GR_IMAGE_INIT;

    c.split = "train";
    ds = opened(c);
    GR_CHECK_OK(gr_dataset_subset(&sub, ds, some, 2));
    GR_CHECK_EQ(gr_dataset_size(sub), 2);
    GR_CHECK_EQ(gr_dataset_class(sub, 0), 2);
    GR_CHECK_OK(gr_dataset_image(sub, 1, &img));
    data_check_image(&img, 4, 7, 1, 3);
    check_name(sub, 1, "cat/z.PNG");
    gr_dataset_destroy(sub);
    GR_CHECK_FAILS(gr_dataset_subset(&sub, ds, wrong, 1), GR_ERR_ARG, "no sample 5");
    gr_dataset_destroy(ds);
    gr_image_fini(&img);
}

static void test_allocations(void)
{
    gr_dataset_config c = at("pets");
    gr_dataset *ds;
    gr_image img = GR_IMAGE_INIT;
    long before;

    c.split = "train";
    GR_CHECK(gr_alloc_fail_each(data_open_and_read, &c) > 3);
    ds = opened(c);
    for (int64_t i = 0; i < gr_dataset_size(ds); i++)
        GR_CHECK_OK(gr_dataset_image(ds, i, &img));
    before = gr_alloc_count();
    for (int64_t i = 0; i < gr_dataset_size(ds); i++)
        GR_CHECK_OK(gr_dataset_image(ds, i, &img));
    GR_CHECK_EQ(gr_alloc_count(), before);
    gr_dataset_destroy(ds);
    gr_image_fini(&img);
    data_put_text("few.txt", "flat/2.png a\nflat/10.png b\n");
    c = at("few.txt");
    GR_CHECK(gr_alloc_fail_each(data_open_and_read, &c) > 3);
    c = at("drive");
    c.split = "train";
    GR_CHECK(gr_alloc_fail_each(data_open_and_read, &c) > 3);
}

static void *read_many(void *arg)
{
    const gr_dataset *ds = (const gr_dataset *)arg;
    gr_image img = GR_IMAGE_INIT;

    for (int k = 0; k < 200; k++)
        GR_CHECK_OK(gr_dataset_image(ds, k % gr_dataset_size(ds), &img));
    data_check_image(&img, 4, 7, 1, 4);
    gr_image_fini(&img);
    return NULL;
}

static void test_threads(void)
{
    gr_dataset_config c = at("pets");
    pthread_t thread[4];
    gr_dataset *ds;

    c.split = "train";
    ds = opened(c);
    for (int i = 0; i < 4; i++)
        GR_CHECK_EQ(pthread_create(&thread[i], NULL, read_many, ds), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    gr_dataset_destroy(ds);
}

static void test_formats(void)
{
    gr_format f;

    GR_CHECK_OK(gr_format_find("cifar10", &f));
    GR_CHECK_EQ(f, GR_FORMAT_CIFAR10);
    GR_CHECK_STR(gr_format_name(GR_FORMAT_SHARDS), "shards");
    GR_CHECK_FAILS(gr_format_find("folders", &f), GR_ERR_ARG, "did you mean 'folder'?");
}

int main(void)
{
    gr_test_scratch();
    test_classes();
    test_flat();
    test_broken();
    test_pairs();
    test_drive();
    test_lists();
    test_csv();
    test_subset();
    test_allocations();
    test_threads();
    test_formats();
    return 0;
}
