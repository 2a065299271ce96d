/*
 * A list of operations computes only the areas that are needed, and that changes no pixel; image
 * and mask stay on each other (P42).
 */
#include "gradus/augment.h"

#include "check.h"
#include "data/augmented.h"

/* One pipeline computes only what its crop needs; operation by operation everything. */
static void test_areas(void)
{
    const gr_transform list[] = {
        { "FILL", (double[]){ 9, 8, 7 }, 3 },  { "RESIZE", (double[]){ 57, 71 }, 2 },
        { "ROTATION", (double[]){ 8, 8 }, 2 }, { "GAUSSIAN_BLUR", (double[]){ 5 }, 1 },
        { "HFLIP", (double[]){ 1 }, 1 },       { "COLOR_JITTER", (double[]){ 0, 0.001 }, 2 },
        { "VFLIP", (double[]){ 1 }, 1 },       { "CENTER_CROP", (double[]){ 19, 80 }, 2 },
        { "RESIZE", (double[]){ 12, 33 }, 2 },
    };
    int n = (int)(sizeof(list) / sizeof(list[0]));

    for (int cut = 2; cut <= n; cut++) {
        gr_image whole = data_drawn(3), single = data_drawn(3), mask = data_drawn(1),
                 single_mask = data_drawn(1);
        gr_image *masks = &mask, *single_masks = &single_mask;
        gr_augment *a = data_augment_made(list, cut, false);

        GR_CHECK_OK(gr_augment_apply(a, (gr_augment_key){ 1, 2, 3 }, &whole, &masks, 1));
        gr_augment_destroy(a);
        for (int i = 1; i < cut; i++) {
            gr_transform pair[2] = { list[0], list[i] };

            a = data_augment_made(pair, 2, false);
            GR_CHECK_OK(
                gr_augment_apply(a, (gr_augment_key){ 1, 2, 3 }, &single, &single_masks, 1));
            gr_augment_destroy(a);
        }
        GR_CHECK_EQ(whole.height, single.height);
        GR_CHECK_EQ(whole.width, single.width);
        /* Jitter draws by its place in the list, so its amounts differ a little. */
        for (int i = 0; i < whole.height * whole.width * 3; i++)
            GR_CHECK(abs(whole.px[i] - single.px[i]) <= (cut > 5 ? 1 : 0));
        GR_CHECK(memcmp(mask.px, single_mask.px, (size_t)(mask.height * mask.width)) == 0);
        gr_image_fini(&whole);
        gr_image_fini(&single);
        gr_image_fini(&mask);
        gr_image_fini(&single_mask);
    }
}

/* Random lists on images of any size and channels: one pipeline must give the pixels that the
 * operations give one by one, and image and mask have one size. */
static const gr_transform any_op[] = {
    { "RESIZE", (double[]){ 7, 40 }, 2 },
    { "RESIZE", (double[]){ 33 }, 1 },
    { "RESIZE", (double[]){ 60, 3 }, 2 },
    { "CENTER_CROP", (double[]){ 5 }, 1 },
    { "CENTER_CROP", (double[]){ 30, 2 }, 2 },
    { "CENTER_CROP", (double[]){ 21, 44 }, 2 },
    { "HFLIP", (double[]){ 1 }, 1 },
    { "VFLIP", (double[]){ 1 }, 1 },
    { "ROTATION", (double[]){ 33, 33 }, 2 },
    { "ROTATION", (double[]){ -100, -100 }, 2 },
    { "ROTATION", (double[]){ 180, 180 }, 2 },
    { "GAUSSIAN_BLUR", (double[]){ 3 }, 1 },
    { "GAUSSIAN_BLUR", (double[]){ 11, 4 }, 2 },
    { "INVERT", (double[]){ 1 }, 1 },
    { "RANDOM_SCALE", (double[]){ 1.7, 1.7 }, 2 },
    { "RANDOM_SCALE", (double[]){ 0.3, 0.3 }, 2 },
};
#define N_ANY (sizeof(any_op) / sizeof(any_op[0]))

static uint32_t random_state = 12345;

static int random_below(int n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)(random_state >> 8) % n;
}

static void fill_randomly(gr_image *img, int h, int w, int channels)
{
    GR_CHECK_OK(gr_image_reserve(img, h, w, channels));
    for (int i = 0; i < h * w * channels; i++)
        img->px[i] = (uint8_t)random_below(256);
}

static void check_list(const gr_transform *list, int n)
{
    gr_image img = GR_IMAGE_INIT, mask = GR_IMAGE_INIT, one = GR_IMAGE_INIT,
             one_mask = GR_IMAGE_INIT;
    gr_image *masks = &mask, *one_masks = &one_mask;
    gr_augment *a = data_augment_made(list, n, false);

    fill_randomly(&img, 1 + random_below(40), 1 + random_below(40), 1 + random_below(4));
    fill_randomly(&mask, img.height, img.width, 1);
    GR_CHECK_OK(gr_image_copy(&one, &img));
    GR_CHECK_OK(gr_image_copy(&one_mask, &mask));
    GR_CHECK_OK(gr_augment_apply(a, (gr_augment_key){ 0 }, &img, &masks, 1));
    gr_augment_destroy(a);
    for (int i = 0; i < n; i++) {
        a = data_augment_made(&list[i], 1, false);
        GR_CHECK_OK(gr_augment_apply(a, (gr_augment_key){ 0 }, &one, &one_masks, 1));
        gr_augment_destroy(a);
    }
    GR_CHECK(img.height == one.height && img.width == one.width);
    GR_CHECK(img.height == mask.height && img.width == mask.width);
    GR_CHECK(memcmp(img.px, one.px, (size_t)(img.height * img.width * img.channels)) == 0);
    GR_CHECK(memcmp(mask.px, one_mask.px, (size_t)(img.height * img.width)) == 0);
    gr_image_fini(&img);
    gr_image_fini(&mask);
    gr_image_fini(&one);
    gr_image_fini(&one_mask);
}

static void test_any_list(void)
{
    for (int i = 0; i < 1000; i++) {
        gr_transform list[6];
        int n = 1 + random_below(6);

        for (int k = 0; k < n; k++)
            list[k] = any_op[random_below((int)N_ANY)];
        check_list(list, n);
    }
}

/* Blocks of one value, in the image and in the mask: they must stay on each other. */
static void test_alignment(void)
{
    gr_augment *a = data_augment_made(data_training, DATA_N_TRAINING, false);
    int64_t n_filled = 0;

    for (int64_t index = 0; index < 200; index++) {
        gr_image img = GR_IMAGE_INIT, mask = GR_IMAGE_INIT;
        gr_image *masks = &mask;

        GR_CHECK_OK(gr_image_reserve(&img, 48, 60, 1));
        for (int i = 0; i < 48 * 60; i++)
            img.px[i] = (uint8_t)(20 + (i / 60 / 12 * 5 + i % 60 / 12) * 11);
        GR_CHECK_OK(gr_image_copy(&mask, &img));
        GR_CHECK_OK(gr_augment_apply(a, (gr_augment_key){ 7, 0, index }, &img, &masks, 1));
        GR_CHECK(img.height == 40 && img.width == 44 && mask.height == 40 && mask.width == 44);
        for (int y = 1; y < 39; y++)
            for (int x = 1; x < 43; x++) {
                const uint8_t *p = img.px + (ptrdiff_t)y * 44 + x;
                bool even = true;

                for (int d = 0; d < 9; d++)
                    even = even && p[(d / 3 - 1) * 44 + d % 3 - 1] == *p;
                if (even)
                    GR_CHECK_EQ(mask.px[y * 44 + x], *p == 0 ? 255 : *p);
                n_filled += *p == 0;
            }
        gr_image_fini(&img);
        gr_image_fini(&mask);
    }
    GR_CHECK(n_filled > 1000);
    gr_augment_destroy(a);
}

int main(void)
{
    test_areas();
    test_any_list();
    test_alignment();
    return 0;
}
