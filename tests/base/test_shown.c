/* Foreign text for people: what is left of it, in messages, logs and texts. */
#include "alloc_fail.h"
#include "base/shown.h"
#include "check.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void shows(const char *s, gr_shown_form form, const char *want)
{
    gr_text t = GR_TEXT_INIT;
    char buf[256];

    GR_CHECK_EQ(gr_shown(buf, sizeof(buf), s, strlen(s), form), strlen(want));
    GR_CHECK_STR(buf, want);
    gr_text_add_shown(&t, s, strlen(s), form);
    GR_CHECK_OK(gr_text_status(&t));
    GR_CHECK_STR(gr_text_str(&t), want);
    gr_text_make_shown(&t, 0, form); /* again: nothing is left to do */
    GR_CHECK_STR(gr_text_str(&t), want);
    gr_text_fini(&t);
}

static void forms(void)
{
    shows("", GR_SHOWN_LINE, "");
    shows("conv1.weight, C:\\x1b", GR_SHOWN_LINE, "conv1.weight, C:\\x1b");
    shows("\x1b]0;owned\a\x1b[2J", GR_SHOWN_LINE, "\\x1b]0;owned\\x07\\x1b[2J");
    shows("a\nb\tc\rd\x7f", GR_SHOWN_LINE, "a\\x0ab\\x09c\\x0dd\\x7f");
    shows("a\nb\tc\rd", GR_SHOWN_LINES, "a\nb\tc\\x0dd");
    /* Letters, signs and pictures of Unicode stay ... */
    shows("gr\xc3\xb6\xc3\x9f"
          "e \xe5\x8c\x97\xe4\xba\xac \xf0\x9f\x90\x9d",
          GR_SHOWN_LINE,
          "gr\xc3\xb6\xc3\x9f"
          "e \xe5\x8c\x97\xe4\xba\xac \xf0\x9f\x90\x9d");
    /* ... but for CSI in one character, overrides of direction, and ends of lines. */
    shows("\xc2\x9b"
          "31m",
          GR_SHOWN_LINE, "\\xc2\\x9b31m");
    shows("\xe2\x80\xaegpj.exe", GR_SHOWN_LINE, "\\xe2\\x80\\xaegpj.exe");
    shows("a\xe2\x80\xa8z", GR_SHOWN_LINES, "a\\xe2\\x80\\xa8z");
    /* No UTF-8: a lone byte, a cut character, '/' in two bytes, half a pair, beyond the end. */
    shows("\xff\x9b", GR_SHOWN_LINE, "\\xff\\x9b");
    shows("a\xe5\x8c", GR_SHOWN_LINE, "a\\xe5\\x8c");
    shows("\xc0\xaf", GR_SHOWN_LINE, "\\xc0\\xaf");
    shows("\xed\xa0\x80", GR_SHOWN_LINE, "\\xed\\xa0\\x80");
    shows("\xf4\x90\x80\x80", GR_SHOWN_LINE, "\\xf4\\x90\\x80\\x80");
    shows("\xe5"
          "abc",
          GR_SHOWN_LINE,
          "\\xe5"
          "abc");
}

/* Whatever the room, a unit is whole or missing, and the length is that of the whole. */
static void room(void)
{
    static const char s[] = "a\x1b\xc3\xb6z";
    static const char *const want[] = {
        "", "", "a", "a", "a", "a", "a\\x1b", "a\\x1b", "a\\x1b\xc3\xb6", "a\\x1b\xc3\xb6z"
    };

    for (size_t n = 1; n < sizeof(want) / sizeof(want[0]); n++) {
        char buf[16] = "untouched";

        GR_CHECK_EQ(gr_shown(buf, n, s, sizeof(s) - 1, GR_SHOWN_LINE), 8);
        GR_CHECK_STR(buf, want[n]);
    }
    GR_CHECK_EQ(gr_shown(NULL, 0, s, sizeof(s) - 1, GR_SHOWN_LINE), 8);
}

static void any_bytes(void)
{
    uint64_t state = 88172645463325252u;

    for (int round = 0; round < 20000; round++) {
        char s[24], once[128], twice[128];
        size_t n = (size_t)(round % 25), len;

        for (size_t i = 0; i < n; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            s[i] = (char)(state >> 33);
        }
        len = gr_shown(once, sizeof(once), s, n, GR_SHOWN_LINE);
        GR_CHECK(len == strlen(once) && len <= 4 * n);
        for (size_t i = 0; i < len; i++)
            GR_CHECK(!iscntrl((unsigned char)once[i]));
        GR_CHECK_EQ(gr_shown(twice, sizeof(twice), once, len, GR_SHOWN_LINE), len);
        GR_CHECK_STR(twice, once);
    }
}

/* A message is one line that can be shown, also when it had to be cut. */
static void messages(void)
{
    char name[300];

    GR_CHECK_EQ(gr_fail(GR_ERR_FORMAT, "tensor '%s'", "x\x1b[2J\n"), GR_ERR_FORMAT);
    GR_CHECK_STR(gr_error_message(), "tensor 'x\\x1b[2J\\x0a'");
    GR_CHECK_EQ(gr_wrap(GR_ERR_FORMAT, "file '%s'", "\xff"), GR_ERR_FORMAT);
    GR_CHECK_STR(gr_error_message(), "file '\\xff': tensor 'x\\x1b[2J\\x0a'");
    memset(name, 0x1b, sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    GR_CHECK_EQ(gr_fail(GR_ERR_FORMAT, "%s", name), GR_ERR_FORMAT);
    GR_CHECK(strlen(gr_error_message()) > 500);
    GR_CHECK_STR(gr_error_message() + strlen(gr_error_message()) - 3, "...");
    for (size_t i = 0; i + 3 <= sizeof(name); i += 3)
        memcpy(name + i, "\xe5\x8c\x97", 3);
    name[sizeof(name) - 1] = '\0';
    GR_CHECK_EQ(gr_fail(GR_ERR_FORMAT, "%.299s%.299s", name, name), GR_ERR_FORMAT);
    GR_CHECK(strlen(gr_error_message()) > 500);
    GR_CHECK_STR(gr_error_message() + strlen(gr_error_message()) - 3, "...");
}

static gr_status grow(void *arg)
{
    gr_text t = GR_TEXT_INIT;
    gr_status st;

    (void)arg;
    gr_text_addf(&t, "%80d", 1);
    gr_text_add(&t, "\x1b");
    gr_text_make_shown(&t, 80, GR_SHOWN_LINE);
    st = gr_text_status(&t);
    GR_CHECK(!strchr(gr_text_str(&t), 0x1b) || st != GR_OK);
    gr_text_fini(&t);
    return st;
}

int main(void)
{
    forms();
    room();
    any_bytes();
    messages();
    GR_CHECK(gr_alloc_fail_each(grow, NULL) > 1);
    return 0;
}
