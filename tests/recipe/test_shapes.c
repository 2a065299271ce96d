/* Drawn shapes: the same for the same numbers, balanced, different in kind. */
#include "recipe/recipes.h"
#include "recipe/shapes/draw.h"
#include "recipe/shapes/scene.h"

#include "check.h"

#define N_SAMPLES 5000

static void test_repeats(void)
{
    static float a[GR_SHAPES_PIXELS], b[GR_SHAPES_PIXELS];

    for (uint64_t i = 0; i < 50; i++) {
        GR_CHECK_EQ(gr_shapes_draw(3, i, a), gr_shapes_draw(3, i, b));
        GR_CHECK(memcmp(a, b, sizeof(a)) == 0);
        gr_shapes_draw(4, i, b);
        GR_CHECK(memcmp(a, b, sizeof(a)) != 0);
        gr_shapes_draw(3, i + 1, b);
        GR_CHECK(memcmp(a, b, sizeof(a)) != 0);
    }
}

/* Every class is drawn about equally often, each with ink and paper; the ring's middle is
 * paper and the circle's is ink. */
static void test_pictures(void)
{
    static double middle[GR_SHAPES_CLASSES];
    int count[GR_SHAPES_CLASSES] = { 0 };
    float pixels[GR_SHAPES_PIXELS];

    for (uint64_t i = 0; i < N_SAMPLES; i++) {
        int label = gr_shapes_draw(0, i, pixels);
        int n_ink = 0;

        GR_CHECK(label >= 0 && label < GR_SHAPES_CLASSES);
        for (int p = 0; p < GR_SHAPES_PIXELS; p++) {
            GR_CHECK(pixels[p] > -1.1f && pixels[p] < 1.1f);
            n_ink += pixels[p] > 0.15f;
        }
        GR_CHECK(n_ink > 10 && n_ink < GR_SHAPES_PIXELS * 3 / 4);
        count[label]++;
        middle[label] += (double)pixels[14 * GR_SHAPES_SIDE + 14];
    }
    for (int c = 0; c < GR_SHAPES_CLASSES; c++) {
        GR_CHECK_NEAR(count[c], (double)N_SAMPLES / GR_SHAPES_CLASSES, 100);
        for (int d = 0; d < c; d++)
            GR_CHECK(strcmp(gr_shapes_name(c), gr_shapes_name(d)) != 0);
    }
    GR_CHECK_STR(gr_shapes_name(0), "circle");
    GR_CHECK_STR(gr_shapes_name(1), "ring");
    GR_CHECK(middle[0] / count[0] > 0.2 && middle[1] / count[1] < -0.2);
}

/* A scene is a function of its numbers; its mask names kinds that were asked for, and ink is
 * where it says. */
static void test_scenes(void)
{
    static uint8_t a[64 * 64 * 3], b[64 * 64 * 3], mask[64 * 64], again[64 * 64];
    gr_scene scene = { .side = 64, .channels = 3, .n_kinds = 5, .n_shapes = 3 };
    double ink = 0, paper = 0;
    int count[6] = { 0 };

    for (uint64_t i = 0; i < 200; i++) {
        int first = gr_scene_draw(&scene, 9, i, a, mask);

        GR_CHECK_EQ(gr_scene_draw(&scene, 9, i, b, again), first);
        GR_CHECK(memcmp(a, b, sizeof(a)) == 0 && memcmp(mask, again, sizeof(mask)) == 0);
        GR_CHECK(memchr(mask, 1 + first, sizeof(mask)) != NULL);
        for (size_t p = 0; p < sizeof(mask); p++) {
            GR_CHECK(mask[p] <= 5);
            count[mask[p]]++;
            *(mask[p] ? &ink : &paper) += a[3 * p];
        }
    }
    for (int c = 0; c <= 5; c++)
        GR_CHECK(count[c] > 2000);
    GR_CHECK(ink / (200 * 64 * 64 - count[0]) > 40 + paper / count[0]);
    scene.n_shapes = 1;
    GR_CHECK_EQ(gr_scene_draw(&scene, 9, 1, a, NULL), gr_scene_draw(&scene, 9, 1, a, mask));
}

static void test_recipe(void)
{
    const gr_recipe *r = gr_recipes[0];
    float image[GR_SHAPES_PIXELS], rows[2 * GR_SHAPES_CLASSES] = { 0 };
    int32_t label, labels[2] = { 4, 7 };
    const gr_feed_slot slots[2] = { { .mem = image }, { .mem = &label } };
    gr_sample sample = { .split = GR_SPLIT_TRAIN, .index = 3 };
    const void *const feeds[] = { NULL, labels }, *const outputs[] = { rows };
    gr_eval eval = { .n = 2, .feeds = feeds, .outputs = outputs };
    double counts[2] = { 0 }, value;
    gr_recipe_view view;
    gr_recipe_config config = { .seed = 1, .n_train = 10 };
    void *user;

    GR_CHECK_EQ(r->abi, GR_RECIPE_ABI);
    GR_CHECK_OK(r->data->open(&user, &config));
    GR_CHECK_EQ(r->data->size(user, GR_SPLIT_TRAIN), 10);
    GR_CHECK(r->data->size(user, GR_SPLIT_VALID) > 1000);
    GR_CHECK_OK(r->data->load(user, &sample, NULL, slots));
    GR_CHECK_EQ(label, gr_shapes_draw(4, 3, image));
    rows[4] = 1;
    rows[GR_SHAPES_CLASSES + 4] = 1;
    r->evaluation->score(user, &eval, counts);
    GR_CHECK_OK(r->data->describe(user, &view));
    GR_CHECK_EQ(view.n_counts, 2);
    r->evaluation->measure(user, counts, &value);
    GR_CHECK_NEAR(value, 0.5, 0);
    r->data->close(user);
    r->data->close(NULL);

    config.n_valid = 7; /* of test and prediction, too: all of them are drawn */
    GR_CHECK_OK(r->data->open(&user, &config));
    for (int split = GR_SPLIT_VALID; split < GR_N_SPLITS; split++)
        GR_CHECK_EQ(r->data->size(user, (gr_split)split), 7);
    r->data->close(user);
}

int main(void)
{
    test_repeats();
    test_pictures();
    test_scenes();
    test_recipe();
    return 0;
}
