/*
 * Shards: what is packed comes back, byte for byte; damage, a missing file and a broken source are
 * named; a failed packing leaves nothing behind. Guards P25 and P42.
 */
#include "alloc_fail.h"
#include "base/outfile.h"
#include "base/text.h"
#include "data/listing.h"
#include "data/put_files.h"
#include "data/shard.h"
#include "scratch.h"

#include <unistd.h>

static gr_dataset_config at(const char *path)
{
    gr_dataset_config c = GR_DATASET_CONFIG_INIT;

    c.path = path;
    return c;
}

static gr_pack_config pack_to(const char *from, const char *to)
{
    gr_pack_config c = GR_PACK_CONFIG_INIT;

    c.source.path = from;
    c.out = to;
    return c;
}

static void make_pets(void)
{
    data_put_image("pets/cat/1.png", 4, 5, 3, 1);
    data_put_image("pets/cat/2.png", 4, 6, 3, 2);
    data_put_jpeg("pets/dog/3.jpg", 40, 60, 3);
    data_put_image("pets/emu/4.png", 20, 9, 1, 4);
    data_put_image("pets/emu/5.png", 18, 24, 4, 5);
}

static void test_round(void)
{
    gr_pack_config c = pack_to("pets", "packed");
    gr_pack_result r;
    gr_dataset *ds = NULL, *from = NULL;
    gr_image a = GR_IMAGE_INIT, b = GR_IMAGE_INIT;
    gr_dataset_config source = at("pets"), packed = at("packed");
    char name[64];

    c.shard_size = 2;
    GR_CHECK_OK(gr_pack(&c, &r));
    GR_CHECK_EQ(r.n_samples, 5);
    GR_CHECK_EQ(r.n_shards, 3);
    GR_CHECK_FAILS(gr_pack(&c, &r), GR_ERR_ARG, "not empty ('shard-00000.grs')");
    GR_CHECK_OK(gr_dataset_open(&from, &source));
    packed.classes_of = from;
    GR_CHECK_OK(gr_dataset_open(&ds, &packed));
    GR_CHECK_EQ(gr_dataset_format(ds), GR_FORMAT_SHARDS);
    GR_CHECK_EQ(gr_dataset_size(ds), 5);
    GR_CHECK_EQ(gr_dataset_n_classes(ds), 3);
    GR_CHECK_STR(gr_dataset_class_name(ds, 2), "emu");
    GR_CHECK_STR(gr_dataset_name(ds, 2, name, sizeof(name)), "dog/3.jpg");
    for (int i = 0; i < 5; i++) {
        GR_CHECK_EQ(gr_dataset_class(ds, i), gr_dataset_class(from, i));
        GR_CHECK_OK(gr_dataset_image(ds, i, &a));
        GR_CHECK_OK(gr_dataset_image(from, i, &b));
        GR_CHECK(a.height == b.height && a.width == b.width && a.channels == b.channels);
        GR_CHECK(memcmp(a.px, b.px, (size_t)(a.height * a.width * a.channels)) == 0);
    }
    gr_dataset_destroy(ds);
    gr_dataset_destroy(from);

    /* One file of the set alone is a data set too. */
    packed = at("packed/shard-00002.grs");
    GR_CHECK_OK(gr_dataset_open(&ds, &packed));
    GR_CHECK_EQ(gr_dataset_size(ds), 1);
    GR_CHECK_EQ(gr_dataset_class(ds, 0), 2);
    gr_dataset_destroy(ds);
    gr_image_fini(&a);
    gr_image_fini(&b);
}

/* Masks, sizes, arrays: whatever can be read can be packed, and shards can be packed again. */
static void test_kinds(void)
{
    gr_pack_config c = pack_to("seg", "packed_seg");
    gr_dataset_config packed = at("packed_seg");
    gr_image a = GR_IMAGE_INIT, b = GR_IMAGE_INIT;
    gr_dataset *ds = NULL;
    gr_pack_result r;

    data_put_jpeg("seg/images/a.jpg", 64, 96, 1);
    data_put_image("seg/images/b.png", 20, 30, 3, 2);
    data_put_mask("seg/masks/a.png", 64, 96, 3);
    data_put_mask("seg/masks/b.png", 20, 30, 4);
    c.resize = 32;
    GR_CHECK_OK(gr_pack(&c, &r));
    GR_CHECK_OK(gr_dataset_open(&ds, &packed));
    GR_CHECK(gr_dataset_has_masks(ds));
    GR_CHECK_EQ(gr_dataset_class(ds, 0), -1);
    GR_CHECK_OK(gr_dataset_pair(ds, 0, &a, &b));
    GR_CHECK(a.height == 32 && a.width == 48 && a.channels == 3);
    GR_CHECK_EQ(b.px[1], data_pixel(3, 96 + 3)); /* nearest: row 1, column 3 */
    GR_CHECK_OK(gr_dataset_pair(ds, 1, &a, &b)); /* small enough: as it was */
    data_check_image(&a, 20, 30, 3, 2);
    data_check_image(&b, 20, 30, 1, 4);
    gr_dataset_destroy(ds);

    c = pack_to("packed_seg", "packed_again");
    GR_CHECK_OK(gr_pack(&c, &r));
    packed = at("packed_again");
    GR_CHECK_OK(gr_dataset_open(&ds, &packed));
    GR_CHECK_OK(gr_dataset_pair(ds, 1, &a, &b));
    data_check_image(&b, 20, 30, 1, 4);
    gr_dataset_destroy(ds);

    data_put_bytes("few-images-idx3-ubyte", "\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\2\1\2\3\4", 20);
    data_put_bytes("few-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\2\5\6", 10);
    c = pack_to("few-images-idx3-ubyte", "packed_few");
    GR_CHECK_OK(gr_pack(&c, &r));
    packed = at("packed_few");
    GR_CHECK_OK(gr_dataset_open(&ds, &packed));
    GR_CHECK_EQ(gr_dataset_n_classes(ds), 7);
    GR_CHECK_EQ(gr_dataset_class(ds, 1), 6);
    GR_CHECK_OK(gr_dataset_image(ds, 1, &a));
    GR_CHECK(a.width == 2 && a.px[0] == 3 && a.px[1] == 4);
    gr_dataset_destroy(ds);
    gr_image_fini(&a);
    gr_image_fini(&b);
}

static void test_broken_source(void)
{
    gr_pack_config c = pack_to("sick", "packed_sick");
    gr_pack_result r;

    data_put_image("sick/a/1.png", 4, 5, 3, 1);
    data_put_image("sick/a/2.png", 4, 5, 3, 1);
    data_put_text("sick/a/3.png", "no image");
    c.shard_size = 1;
    GR_CHECK_FAILS(gr_pack(&c, &r), GR_ERR_FORMAT, "sample 2 'a/3.png': neither JPEG nor PNG");
    GR_CHECK(!gr_is_folder("packed_sick"));
    c.shard_size = -1;
    GR_CHECK_FAILS(gr_pack(&c, &r), GR_ERR_ARG, "-1");
    c.shard_size = 0;
    c.out = NULL;
    GR_CHECK_FAILS(gr_pack(&c, &r), GR_ERR_ARG, "where");
}

static void note_left_out(void *arg, int64_t index, const char *name, const char *why)
{
    GR_CHECK(*why);
    gr_text_addf(arg, "%" PRId64 " %s; ", index, name);
}

/* What is missing or broken is left out, and what is whole has its own names and classes. */
static void test_left_out(void)
{
    gr_pack_config c = pack_to("poor", "packed_poor");
    gr_dataset_config packed = at("packed_poor");
    gr_text said = GR_TEXT_INIT;
    gr_image image = GR_IMAGE_INIT;
    gr_dataset *ds = NULL;
    gr_pack_result r;
    char name[64];

    data_put_text("poor/a/0.png", "");
    data_put_image("poor/a/1.png", 4, 5, 3, 1);
    data_put_text("poor/a/2.png", "no image");
    data_put_image("poor/b/3.png", 4, 5, 3, 7);
    GR_CHECK_EQ(symlink("/nowhere", "poor/b/4.png"), 0);
    c.shard_size = 1;
    c.left_out = note_left_out;
    c.arg = &said;
    GR_CHECK_OK(gr_pack(&c, &r));
    GR_CHECK_STR(gr_text_str(&said), "0 a/0.png; 2 a/2.png; 4 b/4.png; ");
    GR_CHECK(r.n_skipped == 3 && r.n_samples == 2 && r.n_shards == 2);
    GR_CHECK_OK(gr_dataset_open(&ds, &packed));
    GR_CHECK_EQ(gr_dataset_size(ds), 2);
    GR_CHECK_EQ(gr_dataset_class(ds, 1), 1);
    GR_CHECK_STR(gr_dataset_name(ds, 1, name, sizeof(name)), "b/3.png");
    GR_CHECK_OK(gr_dataset_image(ds, 1, &image));
    data_check_image(&image, 4, 5, 3, 7);
    gr_dataset_destroy(ds);
    gr_image_fini(&image);

    data_put_text("poor/a/1.png", "no image either");
    data_put_text("poor/b/3.png", "nor this");
    data_remove("packed_poor");
    GR_CHECK_FAILS(gr_pack(&c, &r), GR_ERR_FORMAT, "none of the 5 samples can be used");
    GR_CHECK(!gr_is_folder("packed_poor"));
    gr_text_fini(&said);
}

/* Every byte of a shard is guarded: turned, it is noticed when opened or when read. */
static void test_damage(void)
{
    char *bytes;
    size_t n_bytes;
    gr_shard s;
    gr_shard_record r;
    int n_found = 0;

    GR_CHECK_OK(gr_file_read("packed/shard-00000.grs", &bytes, &n_bytes));
    for (size_t i = 0; i < n_bytes; i++) {
        gr_status st;

        bytes[i] = (char)(bytes[i] ^ 0x10);
        st = gr_shard_parse(&s, bytes, n_bytes);
        for (uint32_t k = 0; st == GR_OK && k < s.head.n_records; k++)
            st = gr_shard_get(&s, k, &r);
        GR_CHECK(st == GR_OK || st == GR_ERR_FORMAT);
        n_found += st != GR_OK;
        bytes[i] = (char)(bytes[i] ^ 0x10);
    }
    GR_CHECK(n_found >= (int)n_bytes - 2 * 7); /* all but the gaps between records */
    for (size_t n = 0; n < n_bytes; n++)
        GR_CHECK_FAILS(gr_shard_parse(&s, bytes, n), GR_ERR_FORMAT, "");
    GR_CHECK_OK(gr_shard_parse(&s, bytes, n_bytes));
    gr_free(bytes);
}

static void test_sets(void)
{
    gr_dataset_config c = at("packed");
    gr_dataset *ds = NULL;

    GR_CHECK_EQ(rename("packed/shard-00001.grs", "away"), 0);
    GR_CHECK_FAILS(gr_dataset_open(&ds, &c), GR_ERR_FORMAT, "one is missing or of another set");
    GR_CHECK_EQ(rename("away", "packed/shard-00001.grs"), 0);
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    gr_dataset_destroy(ds);
    data_put_text("nothing/readme.md", "");
    c = at("nothing");
    c.format = GR_FORMAT_SHARDS;
    GR_CHECK_FAILS(gr_dataset_open(&ds, &c), GR_ERR_IO, "no shards (*.grs)");
}

/* arg: a text that is told what is left out, or NULL. Want of memory is no broken sample. */
static gr_status pack_and_read(void *arg)
{
    gr_pack_config c = pack_to("pets", "packed_poor");
    gr_dataset_config packed = at("packed_poor");
    gr_dataset *ds = NULL;
    gr_image img = GR_IMAGE_INIT;
    gr_pack_result r;
    gr_status st;

    c.left_out = arg ? note_left_out : NULL;
    c.arg = arg;
    c.resize = 16;
    data_remove("packed_poor");
    GR_TRY_GOTO(st, gr_pack(&c, &r), end);
    GR_TRY_GOTO(st, gr_dataset_open(&ds, &packed), end);
    GR_TRY_GOTO(st, gr_dataset_image(ds, 2, &img), end);
    GR_CHECK(img.height == 16 && img.width == 24 && img.channels == 3);
    GR_TRY_GOTO(st, gr_dataset_image(ds, 4, &img), end);
    GR_CHECK(img.height == 16 && img.width == 21 && img.channels == 4);
end:
    gr_image_fini(&img);
    gr_dataset_destroy(ds);
    return st;
}

int main(void)
{
    gr_text said = GR_TEXT_INIT;

    gr_test_scratch();
    make_pets();
    test_round();
    test_kinds();
    test_broken_source();
    test_left_out();
    test_damage();
    test_sets();
    GR_CHECK(gr_alloc_fail_each(pack_and_read, NULL) > 10);
    GR_CHECK(gr_alloc_fail_each(pack_and_read, &said) > 20);
    GR_CHECK_EQ(said.len, 0);
    return 0;
}
