/* The model out of a checkpoint: what stays, averages, frozen parameters (P26). */
#include "train/export.h"

#include "check.h"

static void add(gr_snapshot *s, const char *name, float value)
{
    void *mem;

    GR_CHECK_OK(gr_snapshot_add(s, name, GR_F32, GR_SHAPE(2), &mem));
    ((float *)mem)[0] = ((float *)mem)[1] = value;
}

static float value_of(const gr_snapshot *s, const char *name)
{
    const gr_named *t = gr_snapshot_find(s, name);

    GR_CHECK(t);
    return ((const float *)t->mem)[1];
}

static gr_snapshot *make(bool with_ema)
{
    gr_snapshot *s;

    GR_CHECK_OK(gr_snapshot_create(&s));
    add(s, "optimizer.exp_avg.fc.weight", 9);
    add(s, "fc.weight", 1);
    add(s, "fc.bias", 2);
    add(s, "body.weight", 3);
    if (with_ema)
        add(s, "ema.fc.weight", 4);
    GR_CHECK_OK(gr_snapshot_set(s, "gradus.frozen", "body.weight\n"));
    GR_CHECK_OK(gr_snapshot_set(s, "gradus.step", "12"));
    return s;
}

int main(void)
{
    gr_snapshot *s = make(true), *plain = make(false), *model;

    GR_CHECK_OK(gr_export_model(s, &(gr_export){ 0 }, &model));
    GR_CHECK_EQ(gr_snapshot_count(model), 3);
    GR_CHECK_NEAR(value_of(model, "fc.weight"), 1, 0);
    GR_CHECK(strcmp(gr_snapshot_get(model, "gradus.step"), "12") == 0);
    gr_snapshot_destroy(model);

    GR_CHECK_OK(gr_export_model(s, &(gr_export){ .ema = true, .trainable_only = true }, &model));
    GR_CHECK_EQ(gr_snapshot_count(model), 2);
    GR_CHECK_NEAR(value_of(model, "fc.weight"), 4, 0);
    GR_CHECK_NEAR(value_of(model, "fc.bias"), 2, 0);
    GR_CHECK(!gr_snapshot_find(model, "body.weight"));
    gr_snapshot_destroy(model);

    GR_CHECK_FAILS(gr_export_model(plain, &(gr_export){ .ema = true }, &model), GR_ERR_ARG,
                   "no averages");
    gr_snapshot_destroy(plain);
    gr_snapshot_destroy(s);
    return 0;
}
