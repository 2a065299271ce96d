/* Data, images, transforms and batches that are asked for with NULL, or with lengths that are
 * none: refused with what is wrong. */
#include "check.h"
#include "gradus/augment.h"
#include "gradus/data.h"

static void test_images(void)
{
    gr_image img = { 0 };

    GR_CHECK_FAILS(gr_image_read(&img, NULL, NULL), GR_ERR_ARG, "image: out or path is NULL");
    GR_CHECK_FAILS(gr_image_read(NULL, "x.png", NULL), GR_ERR_ARG, "image: out or path is NULL");
    GR_CHECK_FAILS(gr_image_probe_file(&img, NULL, NULL), GR_ERR_ARG, "out or path is NULL");
    GR_CHECK_FAILS(gr_image_write(NULL, &img), GR_ERR_ARG, "the image to write is NULL");
    GR_CHECK_FAILS(gr_image_write("x.png", NULL), GR_ERR_ARG, "the image to write is NULL");
    GR_CHECK_FAILS(gr_image_decode(&img, NULL, 9, NULL), GR_ERR_ARG, "its bytes are NULL");
    GR_CHECK_FAILS(gr_image_decode(NULL, "123", 3, NULL), GR_ERR_ARG, "out or its bytes");
    GR_CHECK_FAILS(gr_image_probe(&img, NULL, 9, NULL), GR_ERR_ARG, "its bytes are NULL");
    GR_CHECK_FAILS(gr_image_decode(&img, NULL, 0, NULL), GR_ERR_FORMAT, "empty");
    GR_CHECK_FAILS(gr_image_probe(&img, NULL, 0, NULL), GR_ERR_FORMAT, "empty");
}

static void test_sources(void)
{
    gr_dataset_config config = { 0 };
    gr_dataset *ds;
    gr_tokens *tokens;
    gr_array *array;
    bool has;

    GR_CHECK_FAILS(gr_dataset_open(&ds, NULL), GR_ERR_ARG, "data set: out or config is NULL");
    GR_CHECK_FAILS(gr_dataset_open(NULL, &config), GR_ERR_ARG, "data set: out or config is NULL");
    GR_CHECK_FAILS(gr_dataset_has(NULL, &has), GR_ERR_ARG, "data set: config or has is NULL");
    GR_CHECK_FAILS(gr_array_open(&array, NULL), GR_ERR_ARG, "array: out or path is NULL");
    GR_CHECK_FAILS(gr_tokens_open(&tokens, NULL, 2), GR_ERR_ARG, "tokens: out or path is NULL");
}

static void test_transforms(void)
{
    gr_transform unnamed = { 0 }, empty = { "resize", NULL, 1 };
    gr_augment *a;

    GR_CHECK_FAILS(gr_augment_create(&a, NULL, 2, false), GR_ERR_ARG, "the list of 2 transforms");
    GR_CHECK_FAILS(gr_augment_create(NULL, NULL, 0, false), GR_ERR_ARG, "augment: out is NULL");
    GR_CHECK_FAILS(gr_augment_create(&a, &unnamed, 1, false), GR_ERR_ARG,
                   "transform 1 has no name");
    GR_CHECK_FAILS(gr_augment_create(&a, &empty, 1, false), GR_ERR_ARG,
                   "transform 1, 'resize': 1 numbers at NULL");
    GR_CHECK_OK(gr_augment_create(&a, NULL, 0, false));
    gr_augment_destroy(a);
}

static void test_batches(void)
{
    int64_t lengths[] = { 3, 4, 0 };
    gr_batches_config c = { .lengths = lengths, .n_samples = 3, .max_tokens = 8, .n_ranks = 1 };
    gr_batches *b;

    GR_CHECK_FAILS(gr_batches_create(&b, NULL), GR_ERR_ARG, "config or its lengths are NULL");
    GR_CHECK_FAILS(gr_batches_create(&b, &c), GR_ERR_ARG, "sample 2 has length 0, not 1 or more");
    lengths[2] = -1;
    GR_CHECK_FAILS(gr_batches_create(&b, &c), GR_ERR_ARG, "sample 2 has length -1, not 1 or more");
    lengths[2] = 9;
    GR_CHECK_FAILS(gr_batches_create(&b, &c), GR_ERR_ARG, "raise the budget");
    lengths[2] = 8;
    GR_CHECK_OK(gr_batches_create(&b, &c));
    GR_CHECK_FAILS(gr_batches_at(b, 0, 0, NULL), GR_ERR_ARG, "batches: batches or out is NULL");
    gr_batches_destroy(b);
    c.lengths = NULL;
    GR_CHECK_FAILS(gr_batches_create(&b, &c), GR_ERR_ARG, "config or its lengths are NULL");
}

int main(void)
{
    test_images();
    test_sources();
    test_transforms();
    test_batches();
    return 0;
}
