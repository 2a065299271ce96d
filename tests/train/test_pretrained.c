/* Weights from elsewhere: names, wrappers, types, shapes, and what is said of the rest. */
#include "train/pretrained.h"

#include "base/half.h"
#include "check.h"

#include <string.h>

static float *add_f32(gr_snapshot *s, const char *name, int64_t n, float first)
{
    void *mem;

    GR_CHECK_OK(gr_snapshot_add(s, name, GR_F32, GR_SHAPE(n), &mem));
    for (int64_t i = 0; i < n; i++)
        ((float *)mem)[i] = first + (float)i;
    return mem;
}

static float at(const gr_snapshot *s, const char *name, int i)
{
    return ((const float *)gr_snapshot_find(s, name)->mem)[i];
}

/* A model of three parameters, one with an average, and a counter. */
static gr_snapshot *make_state(void)
{
    gr_snapshot *s;
    void *mem;

    GR_CHECK_OK(gr_snapshot_create(&s));
    add_f32(s, "encoder.w", 4, 0);
    add_f32(s, "encoder.b", 2, 0);
    add_f32(s, "head.w", 3, -7);
    GR_CHECK_OK(gr_snapshot_add(s, "encoder.n", GR_I64, GR_SHAPE(1), &mem));
    add_f32(s, "ema.encoder.w", 4, 0);
    add_f32(s, "optimizer.exp_avg.encoder.w", 4, 0);
    return s;
}

static void test_names(void)
{
    gr_snapshot *file, *state = make_state();
    gr_pretrained p;
    void *mem;

    GR_CHECK_OK(gr_snapshot_create(&file));
    add_f32(file, "model.module.backbone.w", 4, 10); /* under a key and a wrapper (P40) */
    GR_CHECK_OK(gr_snapshot_add(file, "model.module.backbone.b", GR_BF16, GR_SHAPE(2), &mem));
    ((uint16_t *)mem)[1] = gr_f32_to_bf16(1.5f);
    GR_CHECK_OK(gr_snapshot_add(file, "model.module.backbone.n", GR_I64, GR_SHAPE(1), &mem));
    *(int64_t *)mem = 42;
    add_f32(file, "model.module.head.w", 5, 0);
    add_f32(file, "model.module.extra", 1, 0);
    add_f32(file, "optimizer.state.0.exp_avg", 4, 9);
    GR_CHECK_OK(gr_pretrained_apply(&p, file, "backbone.=encoder.,none.=x.", state));
    GR_CHECK_EQ(p.n_wanted, 4);
    GR_CHECK_EQ(p.n_taken, 3);
    GR_CHECK_EQ(p.n_missing, 0);
    GR_CHECK_EQ(p.n_misfits, 1);
    GR_CHECK_STR(gr_text_str(&p.misfits), "head.w (f32 [5], here f32 [3])");
    GR_CHECK_EQ(p.n_unexpected, 1);
    GR_CHECK_STR(gr_text_str(&p.unexpected), "extra");
    GR_CHECK_EQ(p.n_idle, 1);
    GR_CHECK_STR(gr_text_str(&p.idle), "none.=x.");
    GR_CHECK_NEAR(at(state, "encoder.w", 3), 13, 0);
    GR_CHECK_NEAR(at(state, "encoder.b", 1), 1.5, 0);
    GR_CHECK_NEAR(at(state, "ema.encoder.w", 3), 13, 0); /* begins as the parameter */
    GR_CHECK_NEAR(at(state, "head.w", 0), -7, 0);
    GR_CHECK_NEAR(at(state, "optimizer.exp_avg.encoder.w", 1), 1, 0);
    GR_CHECK_EQ(*(const int64_t *)gr_snapshot_find(state, "encoder.n")->mem, 42);
    gr_pretrained_fini(&p);
    gr_snapshot_destroy(file);
    gr_snapshot_destroy(state);
}

static void test_types(void)
{
    gr_snapshot *file, *state = make_state();
    gr_pretrained p;
    void *mem;

    GR_CHECK_OK(gr_snapshot_create(&file));
    GR_CHECK_OK(gr_snapshot_add(file, "encoder.w", GR_F64, GR_SHAPE(4), &mem));
    ((double *)mem)[2] = 0.25;
    GR_CHECK_OK(gr_snapshot_add(file, "encoder.b", GR_F16, GR_SHAPE(2), &mem));
    ((uint16_t *)mem)[0] = gr_f32_to_f16(-2.0f);
    GR_CHECK_OK(gr_snapshot_add(file, "encoder.n", GR_I32, GR_SHAPE(1), &mem)); /* not i64 */
    GR_CHECK_OK(gr_pretrained_apply(&p, file, NULL, state));
    GR_CHECK_EQ(p.n_taken, 2);
    GR_CHECK_EQ(p.n_missing, 1);
    GR_CHECK_STR(gr_text_str(&p.missing), "head.w");
    GR_CHECK_STR(gr_text_str(&p.misfits), "encoder.n (i32 [1], here i64 [1])");
    GR_CHECK_NEAR(at(state, "encoder.w", 2), 0.25, 0);
    GR_CHECK_NEAR(at(state, "encoder.b", 0), -2, 0);
    gr_pretrained_fini(&p);
    gr_snapshot_destroy(file);
    gr_snapshot_destroy(state);
}

/* Dimensions of 1 make no difference, wherever they stand; all others do. */
static void test_ones(void)
{
    const struct {
        gr_shape file, model;
        bool fits;
    } cases[] = {
        { GR_SHAPE(3, 2, 1, 1), GR_SHAPE(3, 2), true },
        { GR_SHAPE(3, 2), GR_SHAPE(1, 3, 2), true },
        { GR_SHAPE(1, 1), GR_SCALAR, true },
        { GR_SHAPE(2, 3), GR_SHAPE(3, 2), false },
        { GR_SHAPE(6), GR_SHAPE(3, 2), false },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t n = gr_shape_count(&cases[i].model);
        gr_snapshot *file, *state;
        gr_pretrained p;
        void *mem;

        GR_CHECK_OK(gr_snapshot_create(&file));
        GR_CHECK_OK(gr_snapshot_create(&state));
        add_f32(file, "b", 1, 5);
        add_f32(state, "b", 1, 0);
        GR_CHECK_OK(gr_snapshot_add(file, "w", GR_F32, cases[i].file, &mem));
        for (int64_t k = 0; k < n; k++)
            ((float *)mem)[k] = (float)k + 1;
        GR_CHECK_OK(gr_snapshot_add(state, "w", GR_F32, cases[i].model, &mem));
        GR_CHECK_OK(gr_pretrained_apply(&p, file, NULL, state));
        GR_CHECK_EQ(p.n_taken, 1 + cases[i].fits);
        GR_CHECK_EQ(p.n_misfits, !cases[i].fits);
        GR_CHECK_NEAR(((const float *)mem)[n - 1], cases[i].fits ? (double)n : 0, 0);
        gr_pretrained_fini(&p);
        gr_snapshot_destroy(file);
        gr_snapshot_destroy(state);
    }
}

static void test_refused(void)
{
    gr_snapshot *file, *state = make_state();
    gr_pretrained p;
    char name[16];

    GR_CHECK_OK(gr_snapshot_create(&file));
    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof(name), "x%d", i);
        add_f32(file, name, 1, 0);
    }
    GR_CHECK_FAILS(gr_pretrained_apply(&p, file, "", state), GR_ERR_ARG, "x0, x1, x2, x3, x4, ...");
    gr_pretrained_fini(&p);
    GR_CHECK_FAILS(gr_pretrained_apply(&p, file, "a=b,c", state), GR_ERR_ARG, "'c' is not FROM=TO");
    gr_pretrained_fini(&p);
    GR_CHECK_FAILS(gr_pretrained_apply(&p, file, "x0=y,x1=y", state), GR_ERR_ARG, "already");
    gr_pretrained_fini(&p);
    gr_snapshot_destroy(file);
    gr_snapshot_destroy(state);
}

int main(void)
{
    test_names();
    test_types();
    test_ones();
    test_refused();
    return 0;
}
