/*
 * What augmentation draws: the same for a key whoever asks, as often and as evenly as it says, and
 * nothing where chance is switched off.
 */
#include "gradus/augment.h"

#include "check.h"
#include "data/augmented.h"

#include <pthread.h>

/* ---- keys ---- */

static void test_keys(void)
{
    gr_augment *a = data_augment_made(data_training, DATA_N_TRAINING, false);
    gr_augment_key key = { 5, 2, 9 }, later = { 5, 3, 9 }, next = { 5, 2, 10 }, other = { 6, 2, 9 };
    uint64_t h = data_augment_hash(a, key);

    GR_CHECK(h == data_augment_hash(a, key));
    GR_CHECK(h != data_augment_hash(a, later));
    GR_CHECK(h != data_augment_hash(a, next));
    GR_CHECK(h != data_augment_hash(a, other));
    gr_augment_destroy(a);
}

typedef struct team {
    const gr_augment *a;
    uint64_t hash[40];
} team;

static void *one_of_team(void *arg)
{
    team *t = arg;

    for (int i = 0; i < 40; i++)
        t->hash[i] = data_augment_hash(t->a, (gr_augment_key){ .index = i });
    return NULL;
}

static void test_threads(void)
{
    gr_augment *a = data_augment_made(data_training, DATA_N_TRAINING, false);
    team teams[4];
    pthread_t threads[4];

    for (int i = 0; i < 4; i++) {
        teams[i].a = a;
        GR_CHECK_EQ(pthread_create(&threads[i], NULL, one_of_team, &teams[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        GR_CHECK_EQ(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 40; i++)
        for (int k = 0; k < 4; k++)
            GR_CHECK(teams[k].hash[i] == data_augment_hash(a, (gr_augment_key){ .index = i }));
    gr_augment_destroy(a);
}

/* ---- chance ---- */

static void test_probability(void)
{
    static const double ps[] = { 0, 0.25, 1 };
    gr_image img = GR_IMAGE_INIT;

    for (int k = 0; k < 3; k++) {
        gr_augment *a = data_augment_made(&(gr_transform){ "hflip", &ps[k], 1 }, 1, false);
        int n = 0;

        for (int64_t i = 0; i < 2000; i++) {
            GR_CHECK_OK(gr_image_reserve(&img, 1, 2, 1));
            img.px[0] = 1;
            img.px[1] = 2;
            GR_CHECK_OK(gr_augment_apply(a, (gr_augment_key){ 0, 0, i }, &img, NULL, 0));
            GR_CHECK_EQ(img.px[0] + img.px[1], 3);
            n += img.px[0] == 2;
        }
        GR_CHECK(abs(n - (int)(2000 * ps[k])) <= 80);
        gr_augment_destroy(a);
    }
    gr_image_fini(&img);
}

static void test_crops(void)
{
    double v[3] = { 3, 3, 1 };
    gr_augment *a = data_augment_made(&(gr_transform){ "CROP", v, 3 }, 1, false);
    int seen[6][6] = { { 0 } };

    for (int64_t i = 0; i < 3000; i++) {
        gr_image img = GR_IMAGE_INIT;

        GR_CHECK_OK(gr_image_reserve(&img, 6, 6, 1));
        for (int k = 0; k < 36; k++)
            img.px[k] = (uint8_t)(k + 100);
        GR_CHECK_OK(gr_augment_apply(a, (gr_augment_key){ 0, 0, i }, &img, NULL, 0));
        GR_CHECK(img.height == 3 && img.width == 3);
        GR_CHECK(img.px[4] >= 100); /* one pixel of padding at most */
        seen[(img.px[4] - 100) / 6][(img.px[4] - 100) % 6]++;
        gr_image_fini(&img);
    }
    for (int y = 0; y < 6; y++)
        for (int x = 0; x < 6; x++)
            GR_CHECK(seen[y][x] > 40 && seen[y][x] < 140); /* 83 each */
    gr_augment_destroy(a);
}

static void test_resized_crop(void)
{
    double v[2] = { 20, 24 };
    gr_augment *a = data_augment_made(&(gr_transform){ "RANDOM_RESIZED_CROP", v, 2 }, 1, false);
    gr_augment *fixed = data_augment_made(&(gr_transform){ "RANDOM_RESIZED_CROP", v, 2 }, 1, true);
    gr_image img = GR_IMAGE_INIT;
    uint64_t h = data_augment_hash(a, (gr_augment_key){ 0 });
    int height, width, n_equal = 0;

    for (int64_t i = 1; i < 50; i++)
        n_equal += data_augment_hash(a, (gr_augment_key){ .index = i }) == h;
    GR_CHECK(n_equal < 3);
    GR_CHECK(data_augment_hash(fixed, (gr_augment_key){ 0 }) ==
             data_augment_hash(fixed, (gr_augment_key){ 1, 2, 3 }));
    GR_CHECK(gr_augment_size(a, &height, &width) && height == 20 && width == 24);
    GR_CHECK_OK(gr_image_reserve(&img, 1, 200, 3)); /* no box fits: the middle */
    memset(img.px, 77, 600);
    GR_CHECK_OK(gr_augment_apply(a, (gr_augment_key){ 0 }, &img, NULL, 0));
    GR_CHECK(img.height == 20 && img.width == 24 && img.px[0] == 77);
    gr_image_fini(&img);
    gr_augment_destroy(a);
    gr_augment_destroy(fixed);
}

/* Without chance the whole list comes down to a centred crop. */
static void test_fixed(void)
{
    gr_augment *a = data_augment_made(data_training, DATA_N_TRAINING, true);
    gr_augment *crop =
        data_augment_made(&(gr_transform){ "CENTER_CROP", (double[]){ 40, 44 }, 2 }, 1, false);
    int h = 0, w = 0;

    GR_CHECK(data_augment_hash(a, (gr_augment_key){ 1, 2, 3 }) ==
             data_augment_hash(crop, (gr_augment_key){ 0 }));
    GR_CHECK(gr_augment_size(a, &h, &w) && h == 40 && w == 44);
    gr_augment_destroy(a);
    gr_augment_destroy(crop);
    a = data_augment_made(data_training, 1, false);
    GR_CHECK(!gr_augment_size(a, &h, &w));
    gr_augment_destroy(a);
}

int main(void)
{
    test_keys();
    test_threads();
    test_probability();
    test_crops();
    test_resized_crop();
    test_fixed();
    return 0;
}
