/*
 * Augmentation makes the pixels that Pillow and torchvision make (tests/golden/make_augment.py),
 * the floats that its normalization says, and the same bits on every processor.
 */
#include "gradus/augment.h"

#include "check.h"
#include "data/augment/augment_impl.h"
#include "data/augment/rows.h"
#include "data/augmented.h"

static void apply_one(const gr_transform *t, gr_image *img, bool as_mask)
{
    gr_augment *a = data_augment_made(t, 1, false);
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
    gr_part part = { img->px,
                     { 0, 0, DATA_DRAWN_H, DATA_DRAWN_W },
                     img->channels,
                     (int64_t)DATA_DRAWN_W * img->channels };

    op.v[what] = 1; /* this one is wanted */
    t.v[what] = value;
    gr_augment_colour(&t, &part);
    compare(img, g, 1, 0);
}

/* 1 if it was a case of this test. */
static int check_golden(const golden *g)
{
    gr_image img = data_drawn(g->channels);
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
        gr_augment *a = data_augment_made(list, 2, false);

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

/* ---- numbers ---- */

static void check_values(const gr_transform *list, int n, float scale, const float *mean,
                         const float *std)
{
    gr_augment *a = data_augment_made(list, n, false);
    gr_image img = data_drawn(3);
    static float out[DATA_DRAWN_H * DATA_DRAWN_W * 3];

    GR_CHECK_OK(gr_augment_to_f32(a, &img, out));
    for (int i = 0; i < DATA_DRAWN_H * DATA_DRAWN_W * 3; i++)
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
    gr_image img = data_drawn(1);
    float out[DATA_DRAWN_H * DATA_DRAWN_W];

    check_values(NULL, 0, 255, none, ones);
    check_values(&(gr_transform){ "TO_TENSOR", NULL, 0 }, 1, 255, none, ones);
    check_values(&(gr_transform){ "PIL_TO_TENSOR", NULL, 0 }, 1, 1, none, ones);
    check_values(all, 3, 255, mean, std);
    check_values(&(gr_transform){ "normalize", (double[]){ 0.5, 0.5 }, 2 }, 1, 255, half, half);
    a = data_augment_made(&norm, 1, false);
    GR_CHECK_FAILS(gr_augment_to_f32(a, &img, out), GR_ERR_ARG,
                   "means for 3 channels, the image has 1");
    gr_image_fini(&img);
    gr_augment_destroy(a);
}

/* ---- every processor gives the same bits ---- */

static void check_rows(const gr_rows *r, uint8_t *out, size_t n_out)
{
    gr_image img = data_drawn(3);
    int32_t first[40], n[40], weight[160];
    uint32_t blur[5] = { 1000, 20000, 23536, 20000, 1000 };
    uint16_t wide[90];
    const uint16_t *rows[5] = { wide, wide + 1, wide + 2, wide + 3, wide + 4 };
    gr_taps taps = { first, n, weight, 4 };
    gr_plane plane = { img.px, (int64_t)DATA_DRAWN_W * 3, DATA_DRAWN_H - 1, DATA_DRAWN_W - 1, 3 };
    gr_walk walk = { (int64_t)1 << 30, -((int64_t)1 << 31), 1500000000, 3900000000 };

    for (int i = 0; i < 40; i++) {
        first[i] = i * (DATA_DRAWN_W - 4) / 39;
        n[i] = 2 + i % 3;
        for (int j = 0; j < 4; j++)
            weight[i * 4 + j] = (1 << GR_TAP_BITS) / n[i];
    }
    memset(out, 0, n_out);
    r->across(out, img.px, 40, 3, &taps, DATA_DRAWN_W);
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

int main(void)
{
    test_golden();
    test_values();
    test_rows();
    return 0;
}
