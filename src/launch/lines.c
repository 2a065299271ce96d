/* Prefixes and filters. */
#include "launch/lines.h"

#include <string.h>
#include <unistd.h>

void gr_prefix_expand(gr_text *out, const char *format, const gr_launch_config *c, const worker *w)
{
    char host[256] = "?";

    if (gethostname(host, sizeof(host)) != 0)
        host[0] = '?';
    host[sizeof(host) - 1] = '\0';
    while (*format) {
        const char *end = strchr(format, '}');
        size_t len = end ? (size_t)(end - format) + 1 : 0;

        if (len == 7 && strncmp(format, "${rank}", 7) == 0)
            gr_text_addf(out, "%d", w->rank);
        else if (len == 13 && strncmp(format, "${local_rank}", 13) == 0)
            gr_text_addf(out, "%d", w->local_rank);
        else if (len == 12 && strncmp(format, "${role_name}", 12) == 0)
            gr_text_add(out, c->role);
        else if (len == 11 && strncmp(format, "${hostname}", 11) == 0)
            gr_text_add(out, host);
        else {
            gr_text_addn(out, format++, 1);
            continue;
        }
        format += len;
    }
}

/* Takes the next text off *at; two commas in it stand for one. */
static size_t next_filter(const char **at, char *out, size_t out_bytes)
{
    size_t n = 0;

    for (; **at; ++*at) {
        if (**at == ',') {
            ++*at;
            if (**at != ',')
                break;
        }
        if (n + 1 < out_bytes)
            out[n++] = **at;
    }
    out[n] = '\0';
    return n;
}

bool gr_filter_matches(const char *filters, const char *line, size_t len)
{
    char one[256];

    while (filters && *filters) {
        size_t n = next_filter(&filters, one, sizeof(one));

        if (n > 0 && memmem(line, len, one, n))
            return true;
    }
    return false;
}
