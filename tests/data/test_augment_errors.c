/* Augmentation refuses lists and images that it cannot use, and lives with a lack of memory; once
 * it has run for a while it asks for none. */
#include "gradus/augment.h"

#include "alloc_fail.h"
#include "check.h"
#include "data/augmented.h"

static void check_refused(const char *name, const double *v, int n, const char *text)
{
    gr_transform list[2] = { { "HFLIP", NULL, 0 }, { name, v, n } };
    gr_augment *a;

    GR_CHECK_FAILS(gr_augment_create(&a, list, 2, false), GR_ERR_ARG, text);
}

static void test_errors(void)
{
    const gr_transform late[2] = { { "NORMALIZE", (double[]){ 0, 1 }, 2 }, { "HFLIP", NULL, 0 } };
    gr_image img = data_drawn(3), mask = data_drawn(1);
    gr_image *masks = &mask;
    gr_augment *a;

    check_refused("BLURR", NULL, 0, "transform 2, 'BLURR': there is no such operation; there are");
    check_refused("resiz", NULL, 0,
                  "there is no such operation; did you mean 'RESIZE'?; there are");
    check_refused("XYZ", NULL, 0, "RESIZE, RANDOM_SCALE, CROP, RANDOM_CROP");
    check_refused("RESIZE", NULL, 0, "transform 2, 'RESIZE': 0 numbers; it takes [h, w] or [side]");
    check_refused("RESIZE", (double[]){ 1.5, 2 }, 2, "whole number of pixels");
    check_refused("HFLIP", (double[]){ 1.5 }, 1, "a probability is 0 to 1; it takes [p]");
    check_refused("ROTATION", (double[]){ 5, -5 }, 2, "the lower one first");
    check_refused("GAUSSIAN_BLUR", (double[]){ 4 }, 1, "an odd number");
    check_refused("GAUSSIAN_BLUR", (double[]){ 3, 0 }, 2, "sigma is above 0");
    check_refused("RANDOM_SCALE", (double[]){ 0, 1 }, 2, "factors are above 0");
    check_refused("COLOR_JITTER", (double[]){ 0, 0, 0, 0.7 }, 4, "hue is 0 to 0.5");
    check_refused("RANDOM_RESIZED_CROP", (double[]){ 8, 8, 0.5 }, 3, "two ends");
    check_refused("FILL", (double[]){ 256 }, 1, "0 to 255");
    check_refused("NORMALIZE", (double[]){ 0, 0 }, 2, "a std is above 0");
    check_refused("RESIZE", (double[]){ (double)NAN }, 1, "number 1 is nan");
    GR_CHECK_FAILS(gr_augment_create(&a, late, 2, false), GR_ERR_ARG,
                   "transform 2, 'HFLIP': it stands behind NORMALIZE");
    a = data_augment_made(NULL, 0, false);
    mask.height--;
    GR_CHECK_FAILS(gr_augment_apply(a, (gr_augment_key){ 0 }, &img, &masks, 1), GR_ERR_ARG,
                   "mask 1 has 22 x 31 pixels (height x width), its image 23 x 31");
    gr_image_fini(&img);
    gr_image_fini(&mask);
    GR_CHECK_FAILS(gr_augment_apply(a, (gr_augment_key){ 0 }, &img, NULL, 0), GR_ERR_ARG, "empty");
    gr_augment_destroy(a);
    a = data_augment_made(&(gr_transform){ "RANDOM_SCALE", (double[]){ 100, 100 }, 2 }, 1, false);
    GR_CHECK_OK(gr_image_reserve(&img, 1000, 1000, 1));
    GR_CHECK_FAILS(gr_augment_apply(a, (gr_augment_key){ 0 }, &img, NULL, 0), GR_ERR_ARG,
                   "would become 100000 x 100000");
    gr_image_fini(&img);
    gr_augment_destroy(a);
    gr_augment_destroy(NULL);
}

static void test_no_allocation(void)
{
    gr_augment *a = data_augment_made(data_training, DATA_N_TRAINING, false);
    gr_image img = data_drawn(3), copy = GR_IMAGE_INIT;
    long before = 0;

    for (int64_t i = 0; i < 600; i++) {
        if (i == 500)
            before = gr_alloc_count();
        GR_CHECK_OK(gr_image_copy(&copy, &img));
        GR_CHECK_OK(gr_augment_apply(a, (gr_augment_key){ .index = i % 100 }, &copy, NULL, 0));
    }
    GR_CHECK_EQ(gr_alloc_count() - before, 0);
    gr_image_fini(&img);
    gr_image_fini(&copy);
    gr_augment_destroy(a);
}

static gr_status whole_life(void *arg)
{
    gr_image *img = arg;
    gr_image copy = GR_IMAGE_INIT;
    gr_augment *a = NULL;
    gr_status st = gr_augment_create(&a, data_training, DATA_N_TRAINING, false);

    if (st == GR_OK)
        st = gr_image_copy(&copy, img);
    if (st == GR_OK)
        st = gr_augment_apply(a, (gr_augment_key){ .index = 4 }, &copy, NULL, 0);
    gr_image_fini(&copy);
    gr_augment_destroy(a);
    return st;
}

int main(void)
{
    gr_image img = data_drawn(3);

    test_errors();
    test_no_allocation();
    GR_CHECK(gr_alloc_fail_each(whole_life, &img) > 4);
    gr_image_fini(&img);
    return 0;
}
