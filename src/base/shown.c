/*
 * Foreign text for people.
 *
 * The text is taken unit by unit: a character of UTF-8 that may be shown as it is, or one byte
 * that is not. A unit is written whole or not at all, so a text that is cut stays one that can be
 * shown. Any thread.
 */
#include "base/shown.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CUT       "..."
#define HEX_BYTES 4 /* \x1b */

/* Bytes of the character at s, 0: no UTF-8. Forms longer than need be, halves of pairs of UTF-16
 * and what lies beyond Unicode are none. */
static size_t char_bytes(const unsigned char *s, size_t n, uint32_t *code)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t len = s[0] < 0x80       ? 1
                 : s[0] >> 5 == 6  ? 2
                 : s[0] >> 4 == 14 ? 3
                 : s[0] >> 3 == 30 ? 4
                                   : 0;
    uint32_t c = len == 1 ? s[0] : len ? s[0] & (0x7fu >> len) : 0;

    if (len == 0 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    *code = c;
    return c < least[len] || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff ? 0 : len;
}

static bool is_steering(uint32_t c)
{
    return c < ' ' || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0xfeff ||
           (c >= 0x200b && c <= 0x200f) || /* no width, direction */
           (c >= 0x2028 && c <= 0x202e) || /* ends of lines, overrides */
           (c >= 0x2060 && c <= 0x206f);   /* no width, isolates */
}

/* How many bytes of s may be written as they are; 0: the first may not. */
static size_t plain_bytes(const char *s, size_t n, gr_shown_form form)
{
    uint32_t code = 0;
    size_t len = char_bytes((const unsigned char *)s, n, &code);

    if (form == GR_SHOWN_LINES && (*s == '\n' || *s == '\t'))
        return 1;
    return len > 0 && !is_steering(code) ? len : 0;
}

static void put_hex(char out[HEX_BYTES], unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";

    out[0] = '\\';
    out[1] = 'x';
    out[2] = digits[byte >> 4];
    out[3] = digits[byte & 15];
}

size_t gr_shown(char *out, size_t n_out, const char *s, size_t n, gr_shown_form form)
{
    size_t len = 0, whole = 0;

    for (size_t i = 0; i < n;) {
        size_t plain = plain_bytes(s + i, n - i, form), unit = plain ? plain : HEX_BYTES;

        if (whole == len && len + unit < n_out) {
            if (plain)
                memcpy(out + len, s + i, plain);
            else
                put_hex(out + len, (unsigned char)s[i]);
            whole += unit;
        }
        len += unit;
        i += plain ? plain : 1;
    }
    if (n_out > 0)
        out[whole] = '\0';
    return len;
}

void gr_shown_cut(char *out, size_t n_out, size_t len)
{
    size_t at = len < n_out - sizeof(CUT) ? len : n_out - sizeof(CUT);

    while (at > 0 && ((unsigned char)out[at] & 0xc0) == 0x80)
        at--; /* not within a character */
    memcpy(out + at, CUT, sizeof(CUT));
}

void gr_text_add_shown(gr_text *t, const char *s, size_t n, gr_shown_form form)
{
    for (size_t i = 0; i < n;) {
        size_t plain = 0, some;
        char hex[HEX_BYTES];

        while (i + plain < n && (some = plain_bytes(s + i + plain, n - i - plain, form)) > 0)
            plain += some;
        gr_text_addn(t, s + i, plain);
        i += plain;
        if (i < n) {
            put_hex(hex, (unsigned char)s[i++]);
            gr_text_addn(t, hex, sizeof(hex));
        }
    }
}

void gr_text_make_shown(gr_text *t, size_t from, gr_shown_form form)
{
    gr_text shown = GR_TEXT_INIT;

    if (t->status != GR_OK || from >= t->len)
        return;
    gr_text_add_shown(&shown, t->str + from, t->len - from, form);
    t->len = from;
    t->str[from] = '\0';
    if (shown.status != GR_OK)
        t->status = shown.status; /* rather less than what has not been looked through */
    else
        gr_text_addn(t, shown.str, shown.len);
    gr_text_fini(&shown);
}

void gr_shown_printf(FILE *out, gr_shown_form form, const char *fmt, ...)
{
    gr_text text = GR_TEXT_INIT;
    va_list args;

    va_start(args, fmt);
    gr_text_addv(&text, fmt, args);
    va_end(args);
    gr_text_make_shown(&text, 0, form);
    fputs(gr_text_str(&text), out);
    gr_text_fini(&text);
}
