/*
 * Augmentation against Pillow and torchvision (tests/golden/make_augment.py), image and mask
 * aligned (P42), the same for a key whoever asks, and areas that change no pixel.
 */
#include "gradus/augment.h"

#include "alloc_fail.h"
#include "check.h"
#include "data/augment/augment_impl.h"
#include "data/augment/rows.h"

#include <pthread.h>

#define H 23
#define W 31

static gr_image drawn(int channels)
{
    gr_image img = GR_IMAGE_INIT;

    GR_CHECK_OK(gr_image_reserve(&img, H, W, channels));
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < channels; c++)
                img.px[(y * W + x) * channels + c] =
                    (uint8_t)(x * x * 3 + y * 11 + c * 70 + (x * y * 5) % 97 * 2);
    return img;
}

static gr_augment *made(const gr_transform *list, int n, bool fixed)
{
    gr_augment *a;

    GR_CHECK_OK(gr_augment_create(&a, list, n, fixed));
    return a;
}

static void apply_one(const gr_transform *t, gr_image *img, bool as_mask)
{
    gr_augment *a = made(t, 1, false);
    gr_augment_key key = { 0 };
    gr_image other = GR_IMAGE_INIT;

    GR_CHECK_OK(gr_image_reserve(&other, img->height, img->width, 1));
    memset(other.px, 0, (size_t)img->height * (size_t)img->width);
    if (as_mask)
        GR_CHECK_OK(gr_augment_apply(a, key, &other, &img, 1));
    else
        GR_CHECK_OK(gr_augment_apply(a, key, img, NULL, 0));
    gr_image_fini(&other);
    gr_augment_destroy(a);
}

/* ---- golden ---- */

typedef struct golden {
    char name[40];
    int h, w, channels;
    uint8_t px[16384];
} golden;

/* A name is a kind, the channels and a number: "blur_3_5". */
static bool is_kind(const golden *g, const char *kind, double *value)
{
    size_t n = strlen(kind);

    *value = strtod(strrchr(g->name, '_') + 1, NULL);
    return strncmp(g->name, kind, n) == 0 && g->name[n] == '_';
}

static int hex(int c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static bool read_golden(FILE *f, golden *g)
{
    char h[12], w[12], channels[12];

    if (fscanf(f, "%39s %11s %11s %11s ", g->name, h, w, channels) != 4)
        return false;
    g->h = (int)strtol(h, NULL, 10);
    g->w = (int)strtol(w, NULL, 10);
    g->channels = (int)strtol(channels, NULL, 10);
    for (int i = 0; i < g->h * g->w * g->channels; i++) {
        int high = fgetc(f), low = fgetc(f);

        g->px[i] = (uint8_t)(hex(high) * 16 + hex(low));
    }
    return true;
}

/* At most `n_off` values may differ by more than `tol`. */
static void compare(const gr_image *img, const golden *g, int tol, int n_off)
{
    int n = 0;

    GR_CHECK_EQ(img->height, g->h);
    GR_CHECK_EQ(img->width, g->w);
    GR_CHECK_EQ(img->channels, g->channels);
    for (int i = 0; i < g->h * g->w * g->channels; i++)
        if (abs(img->px[i] - g->px[i]) > tol)
            n++;
    if (n > n_off)
        fprintf(stderr, "%s: %d values differ by more than %d\n", g->name, n, tol);
    GR_CHECK(n <= n_off);
}

static void check_jitter(const golden *g, gr_image *img, int what, double value)
{
    gr_augment_op op = { .kind = GR_AUG_JITTER };
    gr_augment_step t = { .op = &op, .kind = GR_AUG_JITTER, .order = { 0, 1, 2, 3 } };
    gr_part part = { img->px, { 0, 0, H, W }, img->channels, (int64_t)W * img->channels };

    op.v[what] = 1; /* this one is wanted */
    t.v[what] = value;
    gr_augment_colour(&t, &part);
    compare(img, g, 1, 0);
}

/* 1 if it was a case of this test. */
static int check_golden(const golden *g)
{
    gr_image img = drawn(g->channels);
    double v[4] = { g->h, g->w }, value;
    static const double colour[3] = { 10, 20, 30 }, grey[1] = { 40 };
    gr_transform fill = { "fill", g->channels == 1 ? grey : colour, g->channels };
    int known = 1;

    if (is_kind(g, "resize", &value)) {
        apply_one(&(gr_transform){ "resize", v, 2 }, &img, false);
        compare(&img, g, 0, 0);
    } else if (is_kind(g, "nearest", &value)) {
        apply_one(&(gr_transform){ "Resize", v, 2 }, &img, true);
        compare(&img, g, 0, 0);
    } else if (is_kind(g, "rotate", &value)) {
        gr_transform list[2] = { fill, { "ROTATION", (double[]){ value, value }, 2 } };
        gr_augment *a = made(list, 2, false);

        GR_CHECK_OK(gr_augment_apply(a, (gr_augment_key){ 0 }, &img, NULL, 0));
        compare(&img, g, 1, 0);
        gr_augment_destroy(a);
    } else if (is_kind(g, "turn", &value)) {
        apply_one(&(gr_transform){ "Random-Rotation", (double[]){ value, value }, 2 }, &img, true);
        compare(&img, g, 0, 0);
    } else if (is_kind(g, "blur", &value)) {
        apply_one(
            &(gr_transform){ "GAUSSIAN_BLUR", (double[]){ value, value == 5 ? 1.1 : 0.7 }, 2 },
            &img, false);
        compare(&img, g, 1, 0);
    } else if (is_kind(g, "brightness", &value)) {
        check_jitter(g, &img, 0, value);
    } else if (is_kind(g, "contrast", &value)) {
        check_jitter(g, &img, 1, value);
    } else if (is_kind(g, "saturation", &value)) {
        check_jitter(g, &img, 2, value);
    } else if (is_kind(g, "hue", &value)) {
        check_jitter(g, &img, 3, value);
    } else if (is_kind(g, "shorter", &value)) {
        apply_one(&(gr_transform){ "RESIZE", &value, 1 }, &img, false);
        compare(&img, g, 0, 0);
    } else if (is_kind(g, "middle", &value)) {
        apply_one(&(gr_transform){ "CENTER_CROP", v, 2 }, &img, false);
        compare(&img, g, 0, 0);
    } else {
        known = 0;
    }
    gr_image_fini(&img);
    return known;
}

static void test_golden(void)
{
    FILE *f = fopen(GR_TESTS_DIR "/golden/augment.txt", "r");
    static golden g;
    int n = 0;

    GR_CHECK(f != NULL);
    while (read_golden(f, &g)) {
        GR_CHECK_EQ(check_golden(&g), 1);
        n++;
    }
    GR_CHECK_EQ(n, 68);
    fclose(f);
}

/* ---- areas, alignment, keys ---- */

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
        gr_image whole = drawn(3), single = drawn(3), mask = drawn(1), single_mask = drawn(1);
        gr_image *masks = &mask, *single_masks = &single_mask;
        gr_augment *a = made(list, cut, false);

        GR_CHECK_OK(gr_augment_apply(a, (gr_augment_key){ 1, 2, 3 }, &whole, &masks, 1));
        gr_augment_destroy(a);
        for (int i = 1; i < cut; i++) {
            gr_transform pair[2] = { list[0], list[i] };

            a = made(pair, 2, false);
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
    gr_augment *a = made(list, n, false);

    fill_randomly(&img, 1 + random_below(40), 1 + random_below(40), 1 + random_below(4));
    fill_randomly(&mask, img.height, img.width, 1);
    GR_CHECK_OK(gr_image_copy(&one, &img));
    GR_CHECK_OK(gr_image_copy(&one_mask, &mask));
    GR_CHECK_OK(gr_augment_apply(a, (gr_augment_key){ 0 }, &img, &masks, 1));
    gr_augment_destroy(a);
    for (int i = 0; i < n; i++) {
        a = made(&list[i], 1, false);
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

static const gr_transform training[] = {
    { "RANDOM_SCALE", (double[]){ 0.5, 2 }, 2 },
    { "ROTATION", (double[]){ -10, 10, 0.5 }, 3 },
    { "HFLIP", NULL, 0 },
    { "VFLIP", (double[]){ 0.5 }, 1 },
    { "RANDOM_CROP", (double[]){ 40, 44 }, 2 },
};
#define N_TRAINING (int)(sizeof(training) / sizeof(training[0]))

/* Blocks of one value, in the image and in the mask: they must stay on each other. */
static void test_alignment(void)
{
    gr_augment *a = made(training, N_TRAINING, false);
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

static uint64_t hash_of(const gr_augment *a, gr_augment_key key)
{
    gr_image img = drawn(3);
    uint64_t h = 0;

    GR_CHECK_OK(gr_augment_apply(a, key, &img, NULL, 0));
    for (int i = 0; i < img.height * img.width * 3; i++)
        h = h * 1099511628211u + img.px[i];
    gr_image_fini(&img);
    return h;
}

static void test_keys(void)
{
    gr_augment *a = made(training, N_TRAINING, false);
    gr_augment_key key = { 5, 2, 9 }, later = { 5, 3, 9 }, next = { 5, 2, 10 }, other = { 6, 2, 9 };
    uint64_t h = hash_of(a, key);

    GR_CHECK(h == hash_of(a, key));
    GR_CHECK(h != hash_of(a, later));
    GR_CHECK(h != hash_of(a, next));
    GR_CHECK(h != hash_of(a, other));
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
        t->hash[i] = hash_of(t->a, (gr_augment_key){ .index = i });
    return NULL;
}

static void test_threads(void)
{
    gr_augment *a = made(training, N_TRAINING, false);
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
            GR_CHECK(teams[k].hash[i] == hash_of(a, (gr_augment_key){ .index = i }));
    gr_augment_destroy(a);
}

/* ---- chance ---- */

static void test_probability(void)
{
    static const double ps[] = { 0, 0.25, 1 };
    gr_image img = GR_IMAGE_INIT;

    for (int k = 0; k < 3; k++) {
        gr_augment *a = made(&(gr_transform){ "hflip", &ps[k], 1 }, 1, false);
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
    gr_augment *a = made(&(gr_transform){ "CROP", v, 3 }, 1, false);
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
    gr_augment *a = made(&(gr_transform){ "RANDOM_RESIZED_CROP", v, 2 }, 1, false);
    gr_augment *fixed = made(&(gr_transform){ "RANDOM_RESIZED_CROP", v, 2 }, 1, true);
    gr_image img = GR_IMAGE_INIT;
    uint64_t h = hash_of(a, (gr_augment_key){ 0 });
    int height, width, n_equal = 0;

    for (int64_t i = 1; i < 50; i++)
        n_equal += hash_of(a, (gr_augment_key){ .index = i }) == h;
    GR_CHECK(n_equal < 3);
    GR_CHECK(hash_of(fixed, (gr_augment_key){ 0 }) == hash_of(fixed, (gr_augment_key){ 1, 2, 3 }));
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
    gr_augment *a = made(training, N_TRAINING, true);
    gr_augment *crop = made(&(gr_transform){ "CENTER_CROP", (double[]){ 40, 44 }, 2 }, 1, false);
    int h = 0, w = 0;

    GR_CHECK(hash_of(a, (gr_augment_key){ 1, 2, 3 }) == hash_of(crop, (gr_augment_key){ 0 }));
    GR_CHECK(gr_augment_size(a, &h, &w) && h == 40 && w == 44);
    gr_augment_destroy(a);
    gr_augment_destroy(crop);
    a = made(training, 1, false);
    GR_CHECK(!gr_augment_size(a, &h, &w));
    gr_augment_destroy(a);
}

/* ---- numbers ---- */

static void check_values(const gr_transform *list, int n, float scale, const float *mean,
                         const float *std)
{
    gr_augment *a = made(list, n, false);
    gr_image img = drawn(3);
    static float out[H * W * 3];

    GR_CHECK_OK(gr_augment_to_f32(a, &img, out));
    for (int i = 0; i < H * W * 3; i++)
        GR_CHECK(out[i] == ((float)img.px[i] / scale - mean[i % 3]) / std[i % 3]);
    gr_image_fini(&img);
    gr_augment_destroy(a);
}

static void test_values(void)
{
    static const float none[3] = { 0, 0, 0 }, ones[3] = { 1, 1, 1 };
    static const float mean[3] = { 0.485f, 0.456f, 0.406f }, std[3] = { 0.229f, 0.224f, 0.225f };
    static const float half[3] = { 0.5f, 0.5f, 0.5f };
    const gr_transform norm = { "NORMALIZE", (double[]){ 0.485, 0.456, 0.406, 0.229, 0.224, 0.225 },
                                6 };
    const gr_transform all[] = { { "PIL_TO_TENSOR", NULL, 0 },
                                 { "CONVERT_IMAGE_DTYPE", NULL, 0 },
                                 norm };
    gr_augment *a;
    gr_image img = drawn(1);
    float out[H * W];

    check_values(NULL, 0, 255, none, ones);
    check_values(&(gr_transform){ "TO_TENSOR", NULL, 0 }, 1, 255, none, ones);
    check_values(&(gr_transform){ "PIL_TO_TENSOR", NULL, 0 }, 1, 1, none, ones);
    check_values(all, 3, 255, mean, std);
    check_values(&(gr_transform){ "normalize", (double[]){ 0.5, 0.5 }, 2 }, 1, 255, half, half);
    a = made(&norm, 1, false);
    GR_CHECK_FAILS(gr_augment_to_f32(a, &img, out), GR_ERR_ARG,
                   "means for 3 channels, the image has 1");
    gr_image_fini(&img);
    gr_augment_destroy(a);
}

/* ---- every processor gives the same bits ---- */

static void check_rows(const gr_rows *r, uint8_t *out, size_t n_out)
{
    gr_image img = drawn(3);
    int32_t first[40], n[40], weight[160];
    uint32_t blur[5] = { 1000, 20000, 23536, 20000, 1000 };
    uint16_t wide[90];
    const uint16_t *rows[5] = { wide, wide + 1, wide + 2, wide + 3, wide + 4 };
    gr_taps taps = { first, n, weight, 4 };
    gr_plane plane = { img.px, (int64_t)W * 3, H - 1, W - 1, 3 };
    gr_walk walk = { (int64_t)1 << 30, -((int64_t)1 << 31), 1500000000, 3900000000 };

    for (int i = 0; i < 40; i++) {
        first[i] = i * (W - 4) / 39;
        n[i] = 2 + i % 3;
        for (int j = 0; j < 4; j++)
            weight[i * 4 + j] = (1 << GR_TAP_BITS) / n[i];
    }
    memset(out, 0, n_out);
    r->across(out, img.px, 40, 3, &taps, W);
    for (int k = 1; k <= 5; k++)
        r->down(out + (ptrdiff_t)120 * k, img.px + 7, 120, 93, weight, k);
    r->rotate(out + 720, 30, walk, &plane);
    r->blur_across(wide, img.px, 90, 3, blur, 5);
    r->blur_down(out + 840, rows, 80, blur, 5);
    gr_image_fini(&img);
}

static void test_rows(void)
{
    static uint8_t any[960], best[960];

    check_rows(&gr_rows_any, any, sizeof(any));
    check_rows(gr_rows_best(), best, sizeof(best));
    GR_CHECK(memcmp(any, best, sizeof(any)) == 0);
}

/* ---- errors, memory ---- */

static void check_refused(const char *name, const double *v, int n, const char *text)
{
    gr_transform list[2] = { { "HFLIP", NULL, 0 }, { name, v, n } };
    gr_augment *a;

    GR_CHECK_FAILS(gr_augment_create(&a, list, 2, false), GR_ERR_ARG, text);
}

static void test_errors(void)
{
    const gr_transform late[2] = { { "NORMALIZE", (double[]){ 0, 1 }, 2 }, { "HFLIP", NULL, 0 } };
    gr_image img = drawn(3), mask = drawn(1);
    gr_image *masks = &mask;
    gr_augment *a;

    check_refused("BLURR", NULL, 0, "transform 2, 'BLURR': there is no such operation; there are");
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
    a = made(NULL, 0, false);
    mask.height--;
    GR_CHECK_FAILS(gr_augment_apply(a, (gr_augment_key){ 0 }, &img, &masks, 1), GR_ERR_ARG,
                   "mask 1 has 22 x 31 pixels (height x width), its image 23 x 31");
    gr_image_fini(&img);
    gr_image_fini(&mask);
    GR_CHECK_FAILS(gr_augment_apply(a, (gr_augment_key){ 0 }, &img, NULL, 0), GR_ERR_ARG, "empty");
    gr_augment_destroy(a);
    a = made(&(gr_transform){ "RANDOM_SCALE", (double[]){ 100, 100 }, 2 }, 1, false);
    GR_CHECK_OK(gr_image_reserve(&img, 1000, 1000, 1));
    GR_CHECK_FAILS(gr_augment_apply(a, (gr_augment_key){ 0 }, &img, NULL, 0), GR_ERR_ARG,
                   "would become 100000 x 100000");
    gr_image_fini(&img);
    gr_augment_destroy(a);
    gr_augment_destroy(NULL);
}

static void test_no_allocation(void)
{
    gr_augment *a = made(training, N_TRAINING, false);
    gr_image img = drawn(3), copy = GR_IMAGE_INIT;
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
    gr_status st = gr_augment_create(&a, training, N_TRAINING, false);

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
    gr_image img = drawn(3);

    test_golden();
    test_areas();
    test_any_list();
    test_alignment();
    test_keys();
    test_threads();
    test_probability();
    test_crops();
    test_resized_crop();
    test_fixed();
    test_values();
    test_rows();
    test_errors();
    test_no_allocation();
    GR_CHECK(gr_alloc_fail_each(whole_life, &img) > 4);
    gr_image_fini(&img);
    return 0;
}
