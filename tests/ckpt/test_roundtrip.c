/* What is written is what is read: by file and by memory, and the layout in between. */
#include "gradus/ckpt.h"

#include "check.h"
#include "ckpt/sample.h"
#include "scratch.h"
#include "src/base/outfile.h"
#include "src/ckpt/safetensors.h"

static void test_file(void)
{
    gr_snapshot *s, *back;

    GR_CHECK_OK(ckpt_sample_make(&s));
    GR_CHECK_OK(gr_ckpt_write("all.safetensors", s));
    GR_CHECK_OK(gr_ckpt_read("all.safetensors", &back));
    GR_CHECK(ckpt_sample_equal(s, back));
    /* A snapshot that was read can be written again, over the file it came from. */
    GR_CHECK_OK(gr_ckpt_write("all.safetensors", back));
    gr_snapshot_destroy(back);
    GR_CHECK_OK(gr_ckpt_read("all.safetensors", &back));
    GR_CHECK(ckpt_sample_equal(s, back));
    gr_snapshot_destroy(back);
    gr_snapshot_destroy(s);
}

static void test_nothing(void)
{
    gr_snapshot *s, *back;

    GR_CHECK_OK(gr_snapshot_create(&s));
    GR_CHECK_OK(gr_ckpt_write("none.safetensors", s));
    GR_CHECK_OK(gr_ckpt_read("none.safetensors", &back));
    GR_CHECK_EQ(gr_snapshot_count(back), 0);
    GR_CHECK_EQ(gr_snapshot_n_texts(back), 0);
    gr_snapshot_destroy(back);
    gr_snapshot_destroy(s);
}

/* Wide types first, then names; the header a multiple of 8; so all is aligned. */
static void test_layout(void)
{
    gr_text bytes = GR_TEXT_INIT;
    gr_st_header h;
    gr_snapshot *s;
    uint64_t n = 0;

    GR_CHECK_OK(ckpt_sample_make(&s));
    GR_CHECK_OK(ckpt_sample_bytes(s, &bytes));
    for (int i = 7; i >= 0; i--)
        n = n << 8 | (unsigned char)bytes.str[i];
    GR_CHECK_EQ(n % 8, 0);
    GR_CHECK(memmem(bytes.str, bytes.len, "\"format\":\"pt\"", 13) != NULL);
    GR_CHECK_OK(gr_st_header_parse(&h, bytes.str + 8, n, bytes.len - 8 - n));
    GR_CHECK_EQ(h.n_tensors, gr_snapshot_count(s));
    for (int i = 0; i < h.n_tensors; i++) {
        const gr_st_tensor *t = &h.tensors[i];

        GR_CHECK_EQ(t->begin % gr_dtype_bytes(t->dtype), 0);
        if (i == 0)
            continue;
        GR_CHECK(gr_dtype_bytes(t[-1].dtype) >= gr_dtype_bytes(t->dtype));
        if (gr_dtype_bytes(t[-1].dtype) == gr_dtype_bytes(t->dtype) && t[-1].begin != t->begin)
            GR_CHECK(strcmp(t[-1].name, t->name) < 0);
    }
    gr_st_header_fini(&h);
    gr_text_fini(&bytes);
    gr_snapshot_destroy(s);
}

/* The order of adding leaves no trace in the bytes. */
static void test_same_bytes(void)
{
    gr_text one = GR_TEXT_INIT, two = GR_TEXT_INIT;
    gr_snapshot *s;
    void *mem;

    for (int turn = 0; turn < 2; turn++) {
        GR_CHECK_OK(gr_snapshot_create(&s));
        GR_CHECK_OK(gr_snapshot_add(s, turn ? "a" : "b", GR_F32, GR_SHAPE(2), &mem));
        GR_CHECK_OK(gr_snapshot_add(s, turn ? "b" : "a", GR_F32, GR_SHAPE(2), &mem));
        GR_CHECK_OK(ckpt_sample_bytes(s, turn ? &two : &one));
        gr_snapshot_destroy(s);
    }
    GR_CHECK_EQ(one.len, two.len);
    GR_CHECK(memcmp(one.str, two.str, one.len) == 0);
    gr_text_fini(&one);
    gr_text_fini(&two);
}

/* The checksum as docs/formats.md tells it, computed by hand. */
static void test_checksum(void)
{
    static const char mark[] = "\"gradus.crc32c\":\"";
    gr_text bytes = GR_TEXT_INIT;
    gr_snapshot *s;
    char says[9] = "", want[9];
    char *at;

    GR_CHECK_OK(ckpt_sample_make(&s));
    GR_CHECK_OK(ckpt_sample_bytes(s, &bytes));
    at = memmem(bytes.str, bytes.len, mark, strlen(mark));
    GR_CHECK(at != NULL);
    at += strlen(mark);
    memcpy(says, at, 8);
    memcpy(at, "00000000", 8);
    snprintf(want, sizeof(want), "%08x", (unsigned)gr_crc32c(0, bytes.str, bytes.len));
    GR_CHECK_STR(says, want);
    gr_text_fini(&bytes);
    gr_snapshot_destroy(s);
}

static void test_refused_names(void)
{
    static const char *const reserved[] = { "format", "gradus.format", "gradus.crc32c" };
    gr_snapshot *s;
    void *mem;

    for (int i = 0; i < 3; i++) {
        GR_CHECK_OK(gr_snapshot_create(&s));
        GR_CHECK_OK(gr_snapshot_set(s, reserved[i], "x"));
        GR_CHECK_FAILS(gr_ckpt_write("bad.safetensors", s), GR_ERR_ARG, reserved[i]);
        gr_snapshot_destroy(s);
    }
    GR_CHECK_OK(gr_snapshot_create(&s));
    GR_CHECK_OK(gr_snapshot_add(s, "__metadata__", GR_F32, GR_SCALAR, &mem));
    GR_CHECK_FAILS(gr_ckpt_write("bad.safetensors", s), GR_ERR_ARG, "__metadata__");
    gr_snapshot_destroy(s);
    GR_CHECK_OK(gr_snapshot_create(&s));
    GR_CHECK_OK(gr_snapshot_add(s, "caf\xe9", GR_F32, GR_SCALAR, &mem));
    GR_CHECK_FAILS(gr_ckpt_write("bad.safetensors", s), GR_ERR_ARG, "not UTF-8");
    gr_snapshot_destroy(s);
    GR_CHECK_OK(gr_snapshot_create(&s));
    GR_CHECK_OK(gr_snapshot_set(s, "note", "caf\xe9"));
    GR_CHECK_FAILS(gr_ckpt_write("bad.safetensors", s), GR_ERR_ARG, "not UTF-8");
    gr_snapshot_destroy(s);
    /* Nothing is left of the attempts. */
    GR_CHECK(fopen("bad.safetensors", "rb") == NULL);
    GR_CHECK(fopen("bad.safetensors.tmp", "rb") == NULL);
}

int main(void)
{
    gr_test_scratch();
    test_file();
    test_nothing();
    test_layout();
    test_same_bytes();
    test_checksum();
    test_refused_names();
    return 0;
}
