/* What tests of augmentation share. */
#include "data/augmented.h"

#include "check.h"

const gr_transform data_training[DATA_N_TRAINING] = {
    { "RANDOM_SCALE", (double[]){ 0.5, 2 }, 2 },
    { "ROTATION", (double[]){ -10, 10, 0.5 }, 3 },
    { "HFLIP", NULL, 0 },
    { "VFLIP", (double[]){ 0.5 }, 1 },
    { "RANDOM_CROP", (double[]){ 40, 44 }, 2 },
};

gr_image data_drawn(int channels)
{
    gr_image img = GR_IMAGE_INIT;

    GR_CHECK_OK(gr_image_reserve(&img, DATA_DRAWN_H, DATA_DRAWN_W, channels));
    for (int y = 0; y < DATA_DRAWN_H; y++)
        for (int x = 0; x < DATA_DRAWN_W; x++)
            for (int c = 0; c < channels; c++)
                img.px[(y * DATA_DRAWN_W + x) * channels + c] =
                    (uint8_t)(x * x * 3 + y * 11 + c * 70 + (x * y * 5) % 97 * 2);
    return img;
}

gr_augment *data_augment_made(const gr_transform *list, int n, bool fixed)
{
    gr_augment *a;

    GR_CHECK_OK(gr_augment_create(&a, list, n, fixed));
    return a;
}

uint64_t data_augment_hash(const gr_augment *a, gr_augment_key key)
{
    gr_image img = data_drawn(3);
    uint64_t h = 0;

    GR_CHECK_OK(gr_augment_apply(a, key, &img, NULL, 0));
    for (int i = 0; i < img.height * img.width * 3; i++)
        h = h * 1099511628211u + img.px[i];
    gr_image_fini(&img);
    return h;
}
