/* Frames of the launchers: written, read in pieces, cut, and wrong in every way. */
#include "check.h"
#include "net/frame.h"

#include <stdbool.h>

static void test_round_trip(void)
{
    gr_text t = GR_TEXT_INIT;
    char host[32], tiny[4];
    size_t n_used;
    gr_frame f;
    int v;

    gr_frame_begin(&t, "HELLO");
    gr_frame_put(&t, "host", "a\nb");
    gr_frame_put_int(&t, "node", -1);
    gr_frame_end(&t, "line one\n\nline two");
    for (size_t n = 0; n < t.len; n++) {
        GR_CHECK_OK(gr_frame_parse(t.str, n, &f, &n_used));
        GR_CHECK_EQ(n_used, 0);
    }
    GR_CHECK_OK(gr_frame_parse(t.str, t.len, &f, &n_used));
    GR_CHECK_EQ(n_used, t.len);
    GR_CHECK_STR(f.kind, "HELLO");
    gr_frame_text(&f, "host", host, sizeof(host));
    GR_CHECK_STR(host, "a b");
    gr_frame_text(&f, "host", tiny, sizeof(tiny) - 1);
    GR_CHECK_STR(tiny, "a ");
    gr_frame_text(&f, "hos", host, sizeof(host));
    GR_CHECK_STR(host, "");
    GR_CHECK_OK(gr_frame_int(&f, "node", -1, 5, &v));
    GR_CHECK_EQ(v, -1);
    GR_CHECK_FAILS(gr_frame_int(&f, "node", 0, 5, &v), GR_ERR_FORMAT, "'node' is '-1'");
    GR_CHECK_FAILS(gr_frame_int(&f, "gone", 0, 5, &v), GR_ERR_FORMAT, "'gone' is ''");
    GR_CHECK_FAILS(gr_frame_int(&f, "host", 0, 5, &v), GR_ERR_FORMAT, "'host' is 'a b'");
    GR_CHECK(f.n_body == 18 && memcmp(f.body, "line one\n\nline two", 18) == 0);
    gr_text_fini(&t);
}

static void test_wrong(void)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *part;
    } rows[] = {
        { "\xff\xff\xff\xff", 4, "a frame of 4294967295 bytes" },
        { "\x01\x00\x04\x00", 4, "at most" },
        { "\x00\x00\x00\x00", 4, "without a kind" },
        { "\x02\x00\x00\x00\n\n", 6, "without a kind" },
        { "\x03\x00\x00\x00"
          "abc",
          7, "without a kind" },
        { "\x02\x00\x00\x00"
          "A\n",
          6, "without an end" },
        { "\x05\x00\x00\x00"
          "A\nk=v",
          9, "ends within a field" },
        { "\x13\x00\x00\x00"
          "ABCDEFGHIJKLMNOPQ\n\n",
          23, "without a kind" },
    };
    size_t n_used;
    gr_frame f;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        GR_CHECK_FAILS(gr_frame_parse(rows[i].bytes, rows[i].n, &f, &n_used), GR_ERR_FORMAT,
                       rows[i].part);
}

/* A body that is too long loses its end, not its beginning. */
static void test_long(void)
{
    gr_text t = GR_TEXT_INIT, body = GR_TEXT_INIT;
    size_t n_used;
    gr_frame f;

    for (size_t i = 0; i < GR_FRAME_MAX / 8 + 100; i++)
        gr_text_add(&body, "12345678");
    gr_frame_begin(&t, "NOTE");
    gr_frame_end(&t, gr_text_str(&body));
    GR_CHECK_OK(gr_frame_parse(t.str, t.len, &f, &n_used));
    GR_CHECK_EQ(n_used, GR_FRAME_MAX + 4);
    GR_CHECK(memcmp(f.body, "12345678", 8) == 0);
    gr_text_fini(&t);
    gr_text_fini(&body);
}

int main(void)
{
    test_round_trip();
    test_wrong();
    test_long();
    return 0;
}
