/* Strings and numbers as the trackers' records want them. */
#include "track/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Bytes of the UTF-8 character at `s`; 0 when there is none (cut, overlong, a surrogate). */
static size_t utf8_bytes(const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] < 0xe0 ? 0 : 3;

    if (s[0] >= 0xf0)
        n = s[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) /* the NUL at the end is one of these */
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
        return 0;
    return n;
}

void gr_utf8_add(gr_text *out, const char *s)
{
    while (*s) {
        size_t n = utf8_bytes((const unsigned char *)s);

        gr_text_addn(out, n ? s : "?", n ? n : 1);
        s += n ? n : 1;
    }
}

void gr_json_add_string(gr_text *out, const char *s)
{
    gr_text_add(out, "\"");
    while (*s) {
        size_t n = utf8_bytes((const unsigned char *)s);

        if (*s == '"' || *s == '\\')
            gr_text_addf(out, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            gr_text_addf(out, "\\u%04x", (unsigned)*s);
        else
            gr_text_addn(out, n ? s : "?", n ? n : 1);
        s += n ? n : 1;
    }
    gr_text_add(out, "\"");
}

void gr_json_add_number(gr_text *out, double value)
{
    if (isfinite(value))
        gr_text_addf(out, "%.9g", value);
    else
        gr_text_add(out, isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

void gr_json_add_param(gr_text *out, const gr_param *p)
{
    switch (p->kind) {
    case GR_PARAM_NUMBER: gr_json_add_number(out, p->number); break;
    case GR_PARAM_TEXT: gr_json_add_string(out, p->text ? p->text : ""); break;
    case GR_PARAM_BOOL: gr_text_add(out, p->number != 0 ? "true" : "false"); break;
    }
}

double gr_wall_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void gr_host_name(char *out, size_t n_bytes)
{
    if (gethostname(out, n_bytes) != 0)
        out[0] = '\0';
    out[n_bytes - 1] = '\0'; /* a name that was cut need not have one */
    if (!out[0])
        snprintf(out, n_bytes, "localhost");
}
