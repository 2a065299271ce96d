/* Our .pt files: they give back what was written, lie as torch's do, and are the same bytes
 * each time. That torch reads them is shown in tests/interop. */
#include "gradus/ckpt.h"

#include "check.h"
#include "ckpt/pt_golden.h"
#include "ckpt/sample.h"
#include "scratch.h"
#include "src/ckpt/pt.h"

static void check_layout(const gr_text *bytes, int n_tensors)
{
    const gr_zip_entry *e;
    gr_zip z;

    GR_CHECK_OK(gr_zip_parse(&z, (const unsigned char *)bytes->str, bytes->len));
    GR_CHECK_EQ(z.n_entries, n_tensors + 5);
    for (int i = 0; i < z.n_entries; i++) {
        gr_zip_name name = { z.entries[i].name, z.entries[i].name + 5, 5, z.entries[i].n_name - 5 };

        GR_CHECK_OK(gr_zip_find(&z, name, &e));
        GR_CHECK(e == &z.entries[i] && e->is_checked);
        GR_CHECK_EQ(e->offset % 64, 0);
    }
    gr_zip_fini(&z);
}

/* Numbers from `limit` on as zip64: all of them, some, none. */
static void test_roundtrip(uint64_t limit)
{
    gr_text bytes = GR_TEXT_INIT, second = GR_TEXT_INIT;
    gr_snapshot *s, *again;

    GR_CHECK_OK(ckpt_sample_make(&s));
    GR_CHECK_OK(pt_golden_format(s, limit, &bytes));
    GR_CHECK_OK(pt_golden_parse(bytes.str, bytes.len, &again));
    GR_CHECK(ckpt_sample_equal(s, again));
    check_layout(&bytes, gr_snapshot_count(s));
    GR_CHECK_OK(pt_golden_format(again, limit, &second));
    GR_CHECK(second.len == bytes.len && memcmp(second.str, bytes.str, bytes.len) == 0);
    GR_CHECK((memmem(bytes.str, bytes.len, "PK\6\6", 4) != NULL) == (limit < GR_ZIP_LIMIT));
    gr_snapshot_destroy(again);
    gr_snapshot_destroy(s);
    gr_text_fini(&second);
    gr_text_fini(&bytes);
}

/* Texts are an attribute of the dict: an entry would be one that no module knows, and
 * load_state_dict() refuse the file. Files that have them as an entry are read. */
static void test_texts(void)
{
    static const char attribute[] = "u}X\x0c\0\0\0__metadata__}(";
    static const char entry[] = "\x80\2ccollections\nOrderedDict\n)R(X\x0c\0\0\0__metadata__}(X"
                                "\1\0\0\0kX\1\0\0\0vuu.";
    gr_text bytes = GR_TEXT_INIT, old = GR_TEXT_INIT;
    gr_snapshot *s;

    GR_CHECK_OK(ckpt_sample_make(&s));
    GR_CHECK_OK(pt_golden_format(s, GR_ZIP_LIMIT, &bytes));
    GR_CHECK(memmem(bytes.str, bytes.len, attribute, sizeof(attribute) - 1));
    gr_snapshot_destroy(s);
    GR_CHECK_OK(pt_golden_wrap(entry, sizeof(entry) - 1, &old));
    GR_CHECK_OK(pt_golden_parse(old.str, old.len, &s));
    GR_CHECK_STR(gr_snapshot_get(s, "k"), "v");
    gr_snapshot_destroy(s);
    gr_text_fini(&old);
    gr_text_fini(&bytes);
}

static void test_refused(void)
{
    gr_snapshot *s;
    void *mem;

    GR_CHECK_OK(gr_snapshot_create(&s));
    GR_CHECK_OK(gr_ckpt_write("kept.pt", s));
    GR_CHECK_OK(gr_snapshot_add(s, "\xff", GR_U8, GR_SCALAR, &mem));
    GR_CHECK_FAILS(gr_ckpt_write("kept.pt", s), GR_ERR_ARG, "is not UTF-8");
    gr_snapshot_destroy(s);
    GR_CHECK_OK(gr_ckpt_read("kept.pt", &s)); /* the old one is whole */
    GR_CHECK_EQ(gr_snapshot_count(s), 0);
    GR_CHECK_OK(gr_snapshot_add(s, "__metadata__", GR_U8, GR_SCALAR, &mem));
    GR_CHECK_FAILS(gr_ckpt_write("kept.pt", s), GR_ERR_ARG, "no tensor can be called");
    gr_snapshot_destroy(s);
    GR_CHECK_OK(gr_snapshot_create(&s));
    GR_CHECK_OK(gr_snapshot_set(s, "key", "\xed\xa0\x80"));
    GR_CHECK_FAILS(gr_ckpt_write("kept.pt", s), GR_ERR_ARG, "text '");
    gr_snapshot_destroy(s);
}

static void test_crc(void)
{
    static const char digits[] = "123456789";
    unsigned char many[100];

    GR_CHECK_EQ(gr_crc32(0, digits, 9), 0xcbf43926u);
    GR_CHECK_EQ(gr_crc32(gr_crc32(0, digits, 4), digits + 4, 5), 0xcbf43926u);
    for (int i = 0; i < 100; i++)
        many[i] = (unsigned char)(i * 7);
    for (size_t n = 0; n <= 100; n++) {
        uint32_t one_by_one = 0;

        for (size_t i = 0; i < n; i++)
            one_by_one = gr_crc32(one_by_one, many + i, 1);
        GR_CHECK_EQ(gr_crc32(0, many, n), one_by_one);
    }
}

int main(void)
{
    gr_test_scratch();
    test_crc();
    test_roundtrip(GR_ZIP_LIMIT);
    test_roundtrip(1);
    test_roundtrip(40);
    test_roundtrip(1000);
    test_texts();
    test_refused();
    return 0;
}
