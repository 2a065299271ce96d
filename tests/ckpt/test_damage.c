/*
 * A damaged file is never taken for a whole one: cut at every byte, every bit flipped,
 * one byte too long, and each rule of the format broken by itself.
 *
 * No flipped bit is let through, not even one that would leave the tensors as they are:
 * the checksum covers every byte but its own digits, a wrong digit contradicts it, and
 * damage to the name of its entry is noticed by "gradus.format", which demands it.
 */
#include "gradus/ckpt.h"

#include "check.h"
#include "ckpt/sample.h"
#include "scratch.h"
#include "src/ckpt/safetensors.h"

/* Parses a copy of exactly n_bytes, so that a read beyond the end is seen by ASan. */
static gr_status parse_copy(const char *bytes, size_t n_bytes)
{
    char *copy = malloc(n_bytes ? n_bytes : 1);
    gr_snapshot *s;
    gr_status st;

    GR_CHECK(copy != NULL);
    memcpy(copy, bytes, n_bytes);
    st = gr_safetensors_parse(copy, n_bytes, &s);
    GR_CHECK((st == GR_OK) == (s != NULL));
    gr_snapshot_destroy(s);
    free(copy);
    return st;
}

static void make_bytes(gr_text *out)
{
    gr_snapshot *s;

    GR_CHECK_OK(ckpt_sample_make(&s));
    GR_CHECK_OK(ckpt_sample_bytes(s, out));
    gr_snapshot_destroy(s);
}

static void test_cut(void)
{
    static const char foreign[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}";
    gr_text bytes = GR_TEXT_INIT, raw = GR_TEXT_INIT;

    make_bytes(&bytes);
    GR_CHECK_OK(parse_copy(bytes.str, bytes.len));
    for (size_t n = 0; n < bytes.len; n++)
        GR_CHECK_EQ(parse_copy(bytes.str, n), GR_ERR_FORMAT);
    /* The NUL that ends the text is a byte too many. */
    GR_CHECK_FAILS(parse_copy(bytes.str, bytes.len + 1), GR_ERR_FORMAT, "bytes, the file holds");
    /* Without a checksum, sizes alone must do. */
    GR_CHECK_OK(ckpt_sample_raw(foreign, 9, &raw));
    GR_CHECK_OK(parse_copy(raw.str, raw.len));
    for (size_t n = 0; n < raw.len; n++)
        GR_CHECK_EQ(parse_copy(raw.str, n), GR_ERR_FORMAT);
    gr_text_fini(&raw);
    gr_text_fini(&bytes);
}

static void test_flip(void)
{
    gr_text bytes = GR_TEXT_INIT;

    make_bytes(&bytes);
    for (size_t i = 0; i < bytes.len; i++)
        for (int bit = 0; bit < 9; bit++) {
            int mask = bit < 8 ? 1 << bit : 0xff;

            bytes.str[i] = (char)(bytes.str[i] ^ mask);
            if (parse_copy(bytes.str, bytes.len) != GR_ERR_FORMAT) {
                fprintf(stderr, "byte %zu of %zu with mask %02x was not noticed\n", i, bytes.len,
                        (unsigned)mask);
                exit(1);
            }
            bytes.str[i] = (char)(bytes.str[i] ^ mask);
        }
    gr_text_fini(&bytes);
}

static void test_file(void)
{
    gr_text bytes = GR_TEXT_INIT;
    gr_snapshot *s;
    FILE *f;

    make_bytes(&bytes);
    bytes.str[bytes.len - 1] ^= 1;
    f = fopen("damaged.safetensors", "wb");
    GR_CHECK(f && fwrite(bytes.str, 1, bytes.len, f) == bytes.len && fclose(f) == 0);
    GR_CHECK_FAILS(gr_ckpt_read("damaged.safetensors", &s), GR_ERR_FORMAT,
                   "checkpoint 'damaged.safetensors': damaged: 'gradus.crc32c' says ");
    GR_CHECK(s == NULL);
    GR_CHECK_FAILS(gr_ckpt_read("absent.safetensors", &s), GR_ERR_IO, "absent.safetensors");
    GR_CHECK_FAILS(gr_ckpt_read(".", &s), GR_ERR_IO, "not a file");
    gr_text_fini(&bytes);
}

#define T(dtype, shape, from, to) \
    "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"
#define META(entries) "{\"__metadata__\":{" entries "}}"
#define DIMS_9        "[1,1,1,1,1,1,1,1,1]"

/* Each header with that many bytes behind it, and what the message must say. */
static const struct {
    const char *header;
    size_t n_data_bytes;
    const char *part; /* NULL: it is fine */
} rules[] = {
    { "{}", 0, NULL },
    { "{}  \n", 0, NULL },
    { "{}", 4, "take 0 bytes, the file holds 4" },
    { "", 0, "0 bytes does not start with '{'" },
    { " {}", 0, "does not start with '{'" },
    { "[]", 0, "does not start with '{'" },
    { "{} x", 0, "header of 4 bytes, at byte 4" },
    { "{\"a\":1}", 0, "tensor 'a': entry is not" },
    { "{\"a\":{}}", 0, "tensor 'a': entry is not" },
    { "{\"a\":" T("\"F32\"", "[2]", 0, 8) "}", 8, NULL },
    { "{ \"a\" : " T("\"F32\"", "[ ]", 0, 4) " } ", 4, NULL },
    { "{\"a\":" T("\"F32\"", "[2]", 0, 8) "}", 7, "take 8 bytes, the file holds 7" },
    { "{\"a\":" T("\"F32\"", "[2]", 0, 7) "}", 7, "f32 [2] takes 8 bytes, its offsets hold 7" },
    { "{\"a\":" T("\"F8_E4M3\"", "[2]", 0, 2) "}", 2, "tensor 'a': dtype 'F8_E4M3' is none of" },
    { "{\"a\":" T("\"f32\"", "[2]", 0, 8) "}", 8, "dtype 'f32' is none of" },
    { "{\"a\":" T("7", "[2]", 0, 8) "}", 8, "'dtype' is not a text" },
    { "{\"a\":" T("\"F32\"", "2", 0, 8) "}", 8, "'shape' is not a list" },
    { "{\"a\":" T("\"F32\"", "[2.0]", 0, 8) "}", 8, "dimension 0 is not an integer" },
    { "{\"a\":" T("\"F32\"", "[-2]", 0, 8) "}", 8, "[-2]: dimension 0 is negative" },
    { "{\"a\":" T("\"U8\"", DIMS_9, 0, 1) "}", 1, "9 dimensions, at most 8" },
    { "{\"a\":" T("\"F32\"", "[4294967296,4294967296]", 0, 0) "}", 0, "is too large" },
    { "{\"a\":" T("\"U8\"", "[9223372036854775807]", 0, 1) "}", 1, "is too large" },
    { "{\"a\":" T("\"U8\"", "[99999999999999999999]", 0, 1) "}", 1, "too big integer" },
    { "{\"a\":" T("\"U8\"", "[0]", -1, -1) "}", 0, "'data_offsets' are -1 and -1" },
    { "{\"a\":" T("\"U8\"", "[2]", 2, 0) "}", 2, "'data_offsets' are 2 and 0" },
    { "{\"a\":" T("\"U8\"", "[2]", 0.0, 2) "}", 2, "two integers" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0]}}", 2, "two integers" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"offsets\":[0,2]}}", 2, "two integers" },
    { "{\"a\":" T("\"U8\"", "[2]", 1, 3) "}", 3, "'a' begins at byte 1, the header ends at 0" },
    { "{\"a\":" T("\"U8\"", "[2]", 3, 5) ",\"b\":" T("\"U8\"", "[2]", 0, 2) "}", 5,
      "'a' begins at byte 3, the one before it ends at 2" },
    { "{\"a\":" T("\"U8\"", "[2]", 0, 2) ",\"b\":" T("\"U8\"", "[2]", 1, 3) "}", 3,
      "'b' begins at byte 1, the one before it ends at 2" },
    { "{\"a\":" T("\"U8\"", "[2]", 2, 4) ",\"b\":" T("\"U8\"", "[2]", 0,
                                                     2) ",\"c\":" T("\"U8\"", "[0]", 2, 2) "}",
      4, NULL },
    { "{\"a\":" T("\"U8\"", "[2]", 0, 2) ",\"b\":" T("\"U8\"", "[0]", 1, 1) "}", 2,
      "'b' begins at byte 1, the one before it ends at 2" },
    { "{\"a\":" T("\"U8\"", "[1]", 0, 1) ",\"a\":" T("\"U8\"", "[1]", 1, 2) "}", 2, "duplicate" },
    { "{\"\\u0061\":" T("\"U8\"", "[1]", 0, 1) ",\"a\":" T("\"U8\"", "[1]", 1, 2) "}", 2,
      "duplicate" },
    { "{\"\\u0000\":" T("\"U8\"", "[1]", 0, 1) "}", 1, "\\u0000" },
    { "{\"\xff\":" T("\"U8\"", "[1]", 0, 1) "}", 1, "decode byte 0xff" },
    { "{\"\\n\":1}", 0, "tensor '?'" },
    { META("\"k\":\"v\""), 0, NULL },
    { META("\"k\":1"), 0, "entry 'k' is not a text" },
    { "{\"__metadata__\":1}", 0, "'__metadata__' is not an object" },
    { META("\"gradus.format\":\"2\""), 0, "'gradus.format' is '2', this program reads '1'" },
    { META("\"gradus.format\":\"1\""), 0, "no checksum 'gradus.crc32c'" },
    { META("\"gradus.crc32c\":\"00000000\""), 0, "'gradus.crc32c' says 00000000, the bytes give" },
    { META("\"gradus.crc32c\": \"00000000\""), 0, "is not written as" },
    { META("\"gradus.crc32\\u0063\":\"00000000\""), 0, "is not written as" },
    { META("\"gradus.crc32c\":\"000\""), 0, "is not written as" },
    { META("\"gradus.crc32c\":\"\""), 0, "is not written as" },
    { META("\"gradus.crc32c\":\"0000000G\""), 0, "is not 8 digits" },
    { META("\"gradus.crc32c\":\"000000000\""), 0, "is not written as" },
};

static void test_rules(void)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        gr_text bytes = GR_TEXT_INIT;

        GR_CHECK_OK(ckpt_sample_raw(rules[i].header, rules[i].n_data_bytes, &bytes));
        if (rules[i].part)
            GR_CHECK_FAILS(parse_copy(bytes.str, bytes.len), GR_ERR_FORMAT, rules[i].part);
        else
            GR_CHECK_OK(parse_copy(bytes.str, bytes.len));
        gr_text_fini(&bytes);
    }
}

static void test_lead(void)
{
    static const char huge[8] = { 1, '\xe1', '\xf5', 5 }; /* 100000001 */
    static const char more[9] = { 2, 0, 0, 0, 0, 0, 0, 0, '{' };
    static const char negative[8] = { 0, 0, 0, 0, 0, 0, 0, '\x80' };

    GR_CHECK_FAILS(parse_copy(huge, 3), GR_ERR_FORMAT, "3 bytes");
    GR_CHECK_FAILS(parse_copy(huge, 8), GR_ERR_FORMAT, "100000001 bytes, at most 100000000");
    GR_CHECK_FAILS(parse_copy(negative, 8), GR_ERR_FORMAT, "9223372036854775808 bytes, at most");
    GR_CHECK_FAILS(parse_copy(more, 9), GR_ERR_FORMAT, "takes 2 bytes, the file holds 1");
}

/* The message stays one line of readable length, whatever the name. */
static void test_shown(void)
{
    char long_name[300], buf[GR_ST_SHOWN_BYTES];

    memset(long_name, 'x', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = '\0';
    GR_CHECK_EQ(strlen(gr_st_shown(long_name, buf)), GR_ST_SHOWN_BYTES - 1);
    memcpy(long_name + GR_ST_SHOWN_BYTES - 5, "\xf0\x9f\x94\xa5", 4);
    GR_CHECK_EQ(strlen(gr_st_shown(long_name, buf)), GR_ST_SHOWN_BYTES - 5 + 3);
    GR_CHECK_STR(gr_st_shown("a\nb\x7f", buf), "a?b?");
    GR_CHECK_STR(gr_st_shown("", buf), "");
}

int main(void)
{
    gr_test_scratch();
    test_cut();
    test_flip();
    test_file();
    test_rules();
    test_lead();
    test_shown();
    return 0;
}
