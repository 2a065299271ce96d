/* Weights in another project's layout: read under the model's names, and written back. */
#include "train/foreign.h"

#include "check.h"
#include "scratch.h"

#include <string.h>

#define N(a) ((int)(sizeof(a) / sizeof(a[0])))

static const gr_foreign_rule rules[] = {
    { "encoder_state_dict", "vggt.", NULL, 0 },
    { "encoder_state_dict", "net.conv1.weight", "encoder.conv1.weight", 1 },
    { "encoder_state_dict", "net.", "encoder.", 0 },
    { "decoder_state_dict", "", "decoder.", 0 },
};
static const gr_foreign_rule plain[] = { { NULL, "net.", "encoder.", 0 } };
static const gr_foreign layouts[] = { { "original", rules, N(rules) }, { "bare", plain, 1 } };
static const gr_recipe recipe = { .name = "r", .foreign = layouts, .n_foreign = N(layouts) };

static void add(gr_snapshot *s, const char *name, gr_shape shape, float first)
{
    void *mem;

    GR_CHECK_OK(gr_snapshot_add(s, name, GR_F32, shape, &mem));
    for (int64_t i = 0; i < gr_shape_count(&shape); i++)
        ((float *)mem)[i] = first + (float)i;
}

static void check(const gr_snapshot *s, const char *name, int n_dims, float first)
{
    const gr_named *t = gr_snapshot_find(s, name);

    if (!t)
        fprintf(stderr, "no '%s'\n", name);
    GR_CHECK(t && t->shape.n_dims == n_dims);
    GR_CHECK_NEAR(((const float *)t->mem)[1], first + 1, 0);
}

static gr_snapshot *theirs(void)
{
    gr_snapshot *s;

    GR_CHECK_OK(gr_snapshot_create(&s));
    add(s, "encoder_state_dict.module.net.conv1.weight", GR_SHAPE(3, 2, 1), 1);
    add(s, "encoder_state_dict.module.net.bias", GR_SHAPE(3), 2);
    add(s, "encoder_state_dict.vggt.large", GR_SHAPE(9), 3);
    add(s, "decoder_state_dict.head.weight", GR_SHAPE(2, 2), 4);
    add(s, "optimizer_state_dict.state.0.exp_avg", GR_SHAPE(4), 5);
    return s;
}

static void test_read(void)
{
    gr_snapshot *file = theirs(), *own;

    GR_CHECK_OK(gr_foreign_read(&recipe, file, &own));
    GR_CHECK(own && gr_snapshot_count(own) == 3);
    check(own, "encoder.conv1.weight", 3, 1); /* what reads weights passes over dimensions of 1 */
    check(own, "encoder.bias", 1, 2);
    check(own, "decoder.head.weight", 2, 4);
    gr_snapshot_destroy(own);
    gr_snapshot_destroy(file);
    GR_CHECK_OK(gr_snapshot_create(&file)); /* half of it is another layout, or none */
    add(file, "encoder_state_dict.net.bias", GR_SHAPE(3), 2);
    GR_CHECK_OK(gr_foreign_read(&recipe, file, &own));
    GR_CHECK(!own);
    add(file, "net.bias", GR_SHAPE(3), 7);
    GR_CHECK_OK(gr_foreign_read(&recipe, file, &own));
    GR_CHECK(own && gr_snapshot_count(own) == 1);
    check(own, "encoder.bias", 1, 7);
    gr_snapshot_destroy(own);
    gr_snapshot_destroy(file);
}

/* As the other project would read it: dictionaries in the file. */
static void test_write(void)
{
    gr_snapshot *model, *out, *back, *own;

    GR_CHECK_OK(gr_snapshot_create(&model));
    add(model, "decoder.head.weight", GR_SHAPE(2, 2), 4);
    add(model, "encoder.conv1.weight", GR_SHAPE(3, 2), 1);
    add(model, "recipe.means", GR_SHAPE(2), 9);
    add(model, "encoder.bias", GR_SHAPE(3), 2);
    GR_CHECK_OK(gr_foreign_write(&layouts[0], model, &out));
    GR_CHECK_OK(gr_ckpt_write("theirs.pt", out));
    GR_CHECK_OK(gr_ckpt_read("theirs.pt", &back));
    GR_CHECK_EQ(gr_snapshot_count(back), 3);
    check(back, "encoder_state_dict.net.conv1.weight", 3, 1);
    check(back, "encoder_state_dict.net.bias", 1, 2);
    check(back, "decoder_state_dict.head.weight", 2, 4);
    GR_CHECK_OK(gr_foreign_read(&recipe, back, &own));
    GR_CHECK(own && gr_snapshot_count(own) == 3);
    check(own, "encoder.bias", 1, 2);
    gr_snapshot_destroy(own);
    gr_snapshot_destroy(back);
    gr_snapshot_destroy(out);
    add(model, "extra.weight", GR_SHAPE(2), 9);
    GR_CHECK_FAILS(gr_foreign_write(&layouts[0], model, &out), GR_ERR_ARG,
                   "layout 'original' has no place for 'extra.weight'");
    gr_snapshot_destroy(model);
}

int main(void)
{
    gr_test_scratch();
    test_read();
    test_write();
    return 0;
}
