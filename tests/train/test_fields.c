/*
 * Samples of several lengths on their way into a step: shapes, padding, masks and lengths; and a
 * model that goes by them does not depend on what a sample is padded with.
 */
#include "check.h"
#include "gradus/settings.h"
#include "train/feed.h"
#include "train/toy_recipe.h"

#include <math.h>
#include <string.h>

#define MOST 4096 /* elements of a feed, or of the logits */

typedef struct world {
    gr_arena *arena;
    gr_settings *settings;
    void *user;
    gr_recipe_view view;
    gr_step *step;
    gr_sizes *sizes;
    gr_feed_source from;
} world;

static void open_world(world *w)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_recipe_config rc = { .task = GR_TASK_TEST, .seed = 1 };

    GR_CHECK_OK(gr_arena_create(&w->arena));
    GR_CHECK_OK(gr_settings_create(&w->settings, toy_recipe.keys, toy_recipe.n_keys));
    rc.settings = w->settings;
    GR_CHECK_OK(toy_recipe.data->open(&w->user, &rc));
    GR_CHECK_OK(toy_recipe.data->describe(w->user, &w->view));
    GR_CHECK_OK(gr_fields_add_axes(&w->view, w->arena));
    c.traces = toy_recipe.model->traces;
    c.n_traces = toy_recipe.model->n_traces;
    c.user = w->user;
    c.device = "cpu";
    c.seed = 3;
    GR_CHECK_OK(gr_step_create(&w->step, &c));
    w->from = (gr_feed_source){
        .recipe = &toy_recipe, .user = w->user, .view = &w->view, .split = GR_SPLIT_VALID
    };
}

static void close_world(world *w)
{
    gr_step_destroy(w->step);
    gr_sizes_destroy(w->sizes);
    toy_recipe.data->close(w->user);
    gr_settings_destroy(w->settings);
    gr_arena_destroy(w->arena);
}

/* The only size there is holds samples 0 .. 2 and one of these lengths. */
static void choose_size(world *w, int64_t residues, int64_t fragments)
{
    int64_t lengths[TOY_AXES] = { residues, fragments };

    gr_sizes_destroy(w->sizes);
    GR_CHECK_OK(gr_sizes_create(&w->sizes, w->view.axes, TOY_AXES, 4));
    GR_CHECK_OK(gr_sizes_set(w->sizes, 3, lengths));
    for (int64_t i = 0; i < 3; i++) {
        GR_CHECK_OK(toy_recipe.data->lengths(w->user, GR_SPLIT_VALID, i, lengths));
        GR_CHECK_OK(gr_sizes_set(w->sizes, i, lengths));
    }
    GR_CHECK_OK(gr_sizes_choose(w->sizes, &(gr_sizes_limits){ .most = 1 }));
    w->from.sizes = w->sizes;
}

/* Whatever lies behind a sample's end becomes `garbage`. */
static void spoil(int32_t *mem, int64_t length, int64_t padded, int32_t garbage)
{
    for (int64_t i = length; i < padded; i++)
        mem[i] = garbage;
}

static void check_feeds(const world *w, int64_t index, void *const *mem)
{
    const int64_t *size = gr_feed_size(w->sizes, 0);
    const bool *mask = mem[5];
    const int32_t *class = mem[2];
    int64_t n[TOY_AXES];

    GR_CHECK_OK(toy_recipe.data->lengths(w->user, GR_SPLIT_VALID, index, n));
    GR_CHECK_EQ(*(int32_t *)mem[4], n[TOY_RESIDUES]);
    GR_CHECK_EQ(*(int32_t *)mem[6], n[TOY_FRAGMENTS]);
    for (int64_t i = 0; i < size[TOY_FRAGMENTS]; i++) {
        GR_CHECK_EQ(mask[i], i < n[TOY_FRAGMENTS]);
        GR_CHECK_EQ(class[i] == -100, i >= n[TOY_FRAGMENTS]);
    }
}

/* Logits of sample `index` as the place-th of n rows, which the samples after it fill. */
static void logits_of(world *w, int64_t index, int64_t n, int64_t place, int32_t garbage,
                      float *out)
{
    static char mem[7][MOST * 4];
    static float all[MOST];
    const int64_t *size = gr_feed_size(w->sizes, 0);
    size_t row = (size_t)(size[TOY_FRAGMENTS] * 4);
    gr_named feeds[7];
    gr_feed_worker worker;

    GR_CHECK_OK(gr_feed_open_worker(&w->from, &worker));
    for (int64_t k = 0; k < n; k++) {
        gr_sample s = { .split = GR_SPLIT_VALID, .index = (index + k - place + 3) % 3 };
        void *at[7];
        int64_t length[TOY_AXES];

        for (int f = 0; f < 7; f++)
            at[f] = mem[f] + (size_t)k * gr_field_bytes(&w->view.feeds[f], size);
        GR_CHECK_OK(gr_feed_load(&w->from, &worker, &s, 0, at));
        check_feeds(w, s.index, at);
        GR_CHECK_OK(toy_recipe.data->lengths(w->user, GR_SPLIT_VALID, s.index, length));
        spoil(at[0], length[TOY_RESIDUES], size[TOY_RESIDUES], garbage);
        spoil(at[1], length[TOY_FRAGMENTS], size[TOY_FRAGMENTS], garbage);
    }
    GR_CHECK_OK(gr_feed_shapes(&w->view, size, n, feeds));
    for (int f = 0; f < 7; f++)
        feeds[f].mem = mem[f];
    GR_CHECK_OK(gr_step_eval(w->step, feeds, 7));
    GR_CHECK_OK(gr_step_read(w->step, "logits", (gr_vec){ all, row * (size_t)n, GR_F32 }));
    memcpy(out, all + row * (size_t)place, row * sizeof(*out));
    gr_feed_close_worker(&w->from, &worker);
}

static void test_padding(void)
{
    static float alone[MOST], padded[MOST];
    world w = { 0 };

    open_world(&w);
    for (int64_t index = 0; index < 3; index++) {
        int64_t n[TOY_AXES];
        float most = 0;

        GR_CHECK_OK(toy_recipe.data->lengths(w.user, GR_SPLIT_VALID, index, n));
        choose_size(&w, 1, 1);
        logits_of(&w, index, 1, 0, 0, alone);
        choose_size(&w, 140, 256);
        for (int64_t place = 0; place < 3; place++) {
            logits_of(&w, index, 3, place, 5, padded);
            for (int64_t i = 0; i < 4 * n[TOY_FRAGMENTS]; i++) {
                GR_CHECK_NEAR(padded[i], alone[i], 1e-5);
                most = fabsf(alone[i]) > most ? fabsf(alone[i]) : most;
            }
        }
        GR_CHECK(most > 0.1F);
    }
    close_world(&w);
}

/* ---- shapes and texts ---- */

static void test_texts(void)
{
    world w = { 0 };
    gr_text text = GR_TEXT_INIT;
    int64_t size[TOY_AXES] = { 16, 32 };

    open_world(&w);
    GR_CHECK_EQ(w.view.n_feeds, 7);
    GR_CHECK_EQ(gr_fields_n_own(&w.view), 3);
    GR_CHECK(strcmp(w.view.feeds[3].name, "residues.mask") == 0);
    GR_CHECK(strcmp(w.view.feeds[6].name, "fragments.length") == 0);
    gr_fields_shape_text(&w.view, w.view.outputs, &text);
    GR_CHECK(strcmp(gr_text_str(&text), "[fragments, 4]") == 0);
    gr_text_fini(&text);
    gr_fields_size_text(&w.view, size, &text);
    GR_CHECK(strcmp(gr_text_str(&text), "residues 16, fragments 32") == 0);
    gr_text_fini(&text);
    GR_CHECK_EQ(gr_feed_sample_bytes(&w.view, size), 16 * 4 + 2 * 32 * 4 + 16 + 32 + 2 * 4);
    close_world(&w);
}

static void test_fill(void)
{
    static const struct {
        gr_dtype dtype;
        double pad;
    } cases[] = { { GR_F32, -0.5 }, { GR_I64, -100 }, { GR_U8, 255 },  { GR_BOOL, 1 },
                  { GR_F64, 2.5 },  { GR_I32, 7 },    { GR_BF16, -2 }, { GR_F16, 0 } };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gr_field f = { "x", cases[i].dtype, { 1, { 13 } }, cases[i].pad };
        unsigned char mem[13 * 8 + 1], first[8];
        size_t bytes = gr_field_bytes(&f, NULL), elem = gr_dtype_bytes(f.dtype);

        memset(mem, 0xee, sizeof(mem));
        gr_field_fill(&f, mem, bytes);
        memcpy(first, mem, elem);
        for (size_t k = 0; k < 13; k++)
            GR_CHECK(memcmp(mem + k * elem, first, elem) == 0);
        GR_CHECK_EQ(mem[bytes], 0xee);
        if (f.dtype == GR_F32)
            GR_CHECK(((float *)(void *)mem)[12] == -0.5F);
        if (f.dtype == GR_I64)
            GR_CHECK_EQ(((int64_t *)(void *)mem)[12], -100);
    }
}

static void test_refused(void)
{
    gr_axis axes[9] = { { .name = "x" } };
    gr_field field = { "a", GR_I32, { 1, { GR_AXIS_DIM(1) } }, 0 };
    gr_recipe_view view = { .feeds = &field, .n_feeds = 1, .axes = axes, .n_axes = 1 };
    gr_arena *arena;

    GR_CHECK_OK(gr_arena_create(&arena));
    GR_CHECK_FAILS(gr_fields_add_axes(&view, arena), GR_ERR_ARG,
                   "dimension 0 of field 'a' is -2: neither a length nor one of 1 axes");
    field.shape.dim[0] = GR_AXIS_DIM(0);
    field.pad = 1e10;
    GR_CHECK_FAILS(gr_fields_add_axes(&view, arena), GR_ERR_ARG, "cannot hold its pad 1e+10");
    field.pad = 0;
    view.n_axes = 9;
    GR_CHECK_FAILS(gr_fields_add_axes(&view, arena), GR_ERR_ARG, "9 axes; a recipe may have 8");
    view.n_axes = 1;
    GR_CHECK_OK(gr_fields_add_axes(&view, arena));
    GR_CHECK_EQ(view.n_feeds, 3);
    gr_arena_destroy(arena);
}

int main(void)
{
    test_padding();
    test_texts();
    test_fill();
    test_refused();
    return 0;
}
