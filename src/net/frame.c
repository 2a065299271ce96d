/* Frames of the launchers' protocol. */
#include "net/frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gr_status parse_text(const char *mem, size_t n, gr_frame *out)
{
    const char *end = mem + n, *line = (const char *)memchr(mem, '\n', n);
    const char *at;

    if (!line || line == mem || (size_t)(line - mem) >= sizeof(out->kind))
        return gr_fail(GR_ERR_FORMAT, "a frame without a kind");
    memcpy(out->kind, mem, (size_t)(line - mem));
    out->kind[line - mem] = '\0';
    at = line + 1;
    out->fields = at;
    while (at < end && *at != '\n') {
        line = (const char *)memchr(at, '\n', (size_t)(end - at));
        if (!line)
            return gr_fail(GR_ERR_FORMAT, "a frame '%s' that ends within a field", out->kind);
        at = line + 1;
    }
    if (at == end)
        return gr_fail(GR_ERR_FORMAT, "a frame '%s' without an end of its fields", out->kind);
    out->n_fields = (size_t)(at - out->fields);
    out->body = at + 1;
    out->n_body = (size_t)(end - out->body);
    return GR_OK;
}

gr_status gr_frame_parse(const char *mem, size_t n_bytes, gr_frame *out, size_t *n_used)
{
    uint8_t b[4];
    size_t len;

    *n_used = 0;
    *out = (gr_frame){ .kind = "" };
    if (n_bytes < sizeof(b))
        return GR_OK;
    memcpy(b, mem, sizeof(b));
    len = (size_t)b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
    if (len > GR_FRAME_MAX)
        return gr_fail(GR_ERR_FORMAT, "a frame of %zu bytes; at most %zu are taken", len,
                       GR_FRAME_MAX);
    if (n_bytes - sizeof(b) < len)
        return GR_OK;
    GR_TRY(parse_text(mem + sizeof(b), len, out));
    *n_used = sizeof(b) + len;
    return GR_OK;
}

void gr_frame_text(const gr_frame *f, const char *key, char *out, size_t out_bytes)
{
    size_t n_key = strlen(key);
    const char *at = f->fields, *end = f->fields + f->n_fields;

    out[0] = '\0';
    while (at < end) {
        const char *line = (const char *)memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((line ? line : end) - at);

        if (len > n_key && memcmp(at, key, n_key) == 0 && at[n_key] == '=') {
            len -= n_key + 1;
            len = len < out_bytes ? len : out_bytes - 1;
            memcpy(out, at + n_key + 1, len);
            out[len] = '\0';
            return;
        }
        at = line ? line + 1 : end;
    }
}

gr_status gr_frame_int(const gr_frame *f, const char *key, int min, int max, int *out)
{
    char text[32], *end;
    long v;

    gr_frame_text(f, key, text, sizeof(text));
    errno = 0;
    v = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end || v < min || v > max)
        return gr_fail(GR_ERR_FORMAT, "a frame '%s' whose '%s' is '%s'", f->kind, key, text);
    *out = (int)v;
    return GR_OK;
}

void gr_frame_begin(gr_text *t, const char *kind)
{
    static const char room[4] = { 0 }; /* for the length, which is known at the end */

    t->len = 0;
    gr_text_addn(t, room, sizeof(room));
    gr_text_addf(t, "%s\n", kind);
}

void gr_frame_put(gr_text *t, const char *key, const char *value)
{
    size_t from;

    gr_text_addf(t, "%s=", key);
    from = t->len;
    gr_text_add(t, value);
    for (size_t i = from; t->str && i < t->len; i++)
        if (t->str[i] == '\n')
            t->str[i] = ' ';
    gr_text_add(t, "\n");
}

void gr_frame_put_int(gr_text *t, const char *key, int value)
{
    gr_text_addf(t, "%s=%d\n", key, value);
}

void gr_frame_end(gr_text *t, const char *body)
{
    size_t len;

    gr_text_add(t, "\n");
    gr_text_add(t, body);
    if (t->status != GR_OK)
        return;
    if (t->len > 4 + GR_FRAME_MAX)
        t->len = 4 + GR_FRAME_MAX;
    len = t->len - 4;
    for (int i = 0; i < 4; i++)
        t->str[i] = (char)(uint8_t)(len >> (8 * i));
}
