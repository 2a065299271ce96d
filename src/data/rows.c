/*
 * Parsing of list files and tables. Both count lines, so that every message says where; both take
 * text of any content and length. All rows of a file must have equally many fields: a line that
 * lost its label is an error and not a sample without one.
 */
#include "data/rows.h"

#include "base/alloc.h"

#include <string.h>
#include <strings.h>

#define MAX_FIELDS 64

void gr_rows_fini(gr_rows *r)
{
    gr_free(r->at);
    *r = (gr_rows){ 0 };
}

static gr_status add_row(gr_rows *r, gr_row row)
{
    if (r->n > 0 && (r->at[0].second == NULL) != (row.second == NULL))
        return gr_fail(GR_ERR_FORMAT, "line %d: %s label or mask, but line %d has %s", row.line,
                       row.second ? "a" : "no", r->at[0].line, row.second ? "none" : "one");
    GR_TRY(gr_grow((void **)&r->at, &r->cap, r->n + 1, sizeof(*r->at)));
    r->at[r->n++] = row;
    return GR_OK;
}

static char *copy_text(gr_arena *a, const char *s, size_t n)
{
    char *copy = gr_arena_alloc(a, n + 1);

    if (copy && n > 0)
        memcpy(copy, s, n);
    return copy;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static void trim(const char **s, size_t *n)
{
    while (*n > 0 && is_blank(**s)) {
        ++*s;
        --*n;
    }
    while (*n > 0 && is_blank((*s)[*n - 1]))
        --*n;
}

static bool separates(char c, bool tabs)
{
    return tabs ? c == '\t' : is_blank(c);
}

/* The next word of s[0..n), 0 bytes at the end. */
static size_t next_word(const char **s, size_t *n, bool tabs)
{
    size_t len = 0;

    trim(s, n);
    while (len < *n && !separates((*s)[len], tabs))
        len++;
    return len;
}

static gr_status parse_line(gr_rows *out, gr_arena *a, const char *s, size_t n, int line)
{
    bool tabs = memchr(s, '\t', n) != NULL;
    const char *field[2] = { NULL, NULL };
    int n_fields = 0;

    for (;;) {
        size_t len = next_word(&s, &n, tabs), used = len;
        const char *word = s;

        if (len == 0)
            break;
        if (n_fields == 2)
            return gr_fail(
                GR_ERR_FORMAT,
                "line %d: more than two words; where names hold blanks, a tab must stand "
                "between image and label",
                line);
        trim(&word, &len);
        field[n_fields] = copy_text(a, word, len);
        if (!field[n_fields++])
            return GR_ERR_NOMEM;
        s += used;
        n -= used;
    }
    return add_row(out, (gr_row){ .image = field[0], .second = field[1], .line = line });
}

static gr_status check_text(const char *text, size_t n_bytes)
{
    if (n_bytes > 0 && memchr(text, '\0', n_bytes))
        return gr_fail(GR_ERR_FORMAT, "a zero byte: this is not a text file");
    return GR_OK;
}

gr_status gr_rows_parse_list(gr_rows *out, gr_arena *a, const char *text, size_t n_bytes)
{
    size_t at = 0;

    GR_TRY(check_text(text, n_bytes));
    for (int line = 1; at < n_bytes; line++) {
        const char *s = text + at, *end = memchr(s, '\n', n_bytes - at);
        size_t n = end ? (size_t)(end - s) : n_bytes - at;

        at += n + 1;
        trim(&s, &n);
        if (n > 0 && s[0] != '#')
            GR_TRY(parse_line(out, a, s, n, line));
    }
    return GR_OK;
}

/* ---- CSV ---- */

typedef struct csv {
    const char *at, *end; /* what is left of the text */
    char *to;             /* where the next field is copied to */
    int line;
    char *field[MAX_FIELDS];
    int n_fields;
    int image, second; /* columns; second -1: there is none */
} csv;

/* One quoted field, after its first quote; two quotes are one. */
static gr_status quoted_field(csv *c)
{
    int line = c->line;

    for (;;) {
        if (c->at == c->end)
            return gr_fail(GR_ERR_FORMAT, "line %d: a quote without its end", line);
        if (*c->at == '"') {
            c->at++;
            if (c->at == c->end || *c->at != '"')
                return GR_OK;
        }
        if (*c->at == '\n')
            c->line++;
        *c->to++ = *c->at++;
    }
}

/* Copies a field and a zero byte: never more than was read, with the separator, plus one byte at
 * the end of the text. */
static gr_status next_field(csv *c)
{
    bool quoted = c->at < c->end && *c->at == '"';
    char *field = c->to;

    if (quoted) {
        c->at++;
        GR_TRY(quoted_field(c));
    }
    for (; c->at < c->end && *c->at != ',' && *c->at != '\n'; c->at++) {
        if (quoted && !is_blank(*c->at))
            return gr_fail(GR_ERR_FORMAT, "line %d: text after the end of a quoted field", c->line);
        if (!quoted)
            *c->to++ = *c->at;
    }
    while (!quoted && c->to > field && is_blank(c->to[-1]))
        c->to--;
    *c->to++ = '\0';
    if (c->n_fields == MAX_FIELDS)
        return gr_fail(GR_ERR_FORMAT, "line %d: more than %d fields", c->line, MAX_FIELDS);
    c->field[c->n_fields++] = field;
    return GR_OK;
}

static gr_status next_record(csv *c)
{
    c->n_fields = 0;
    for (;;) {
        while (c->at < c->end && (*c->at == ' ' || *c->at == '\r'))
            c->at++;
        GR_TRY(next_field(c));
        if (c->at == c->end)
            return GR_OK;
        if (*c->at++ == '\n')
            return GR_OK;
    }
}

static int named_column(const csv *c, const char *const *names)
{
    for (; *names; names++)
        for (int i = 0; i < c->n_fields; i++)
            if (strcasecmp(c->field[i], *names) == 0)
                return i;
    return -1;
}

/* Whether the record is a head line, and which columns count then. */
static bool take_head(csv *c)
{
    static const char *const images[] = { "path",     "image",     "file",       "filename",
                                          "filepath", "file_path", "image_path", "img",
                                          "name",     "id",        NULL };
    static const char *const seconds[] = { "label", "class",     "target",     "category",
                                           "mask",  "mask_path", "label_name", NULL };
    int image = named_column(c, images);

    c->image = 0;
    c->second = c->n_fields > 1 ? 1 : -1;
    if (image < 0)
        return false;
    c->image = image;
    c->second = named_column(c, seconds);
    if (c->second < 0 && c->n_fields == 2)
        c->second = 1 - image;
    return true;
}

static gr_status take_record(csv *c, gr_rows *out, int line)
{
    int last = c->second > c->image ? c->second : c->image;

    if (c->n_fields <= last)
        return gr_fail(GR_ERR_FORMAT, "line %d: %d fields, expected at least %d", line, c->n_fields,
                       last + 1);
    if (c->field[c->image][0] == '\0')
        return gr_fail(GR_ERR_FORMAT, "line %d: no image", line);
    if (c->second >= 0 && c->field[c->second][0] == '\0')
        return gr_fail(GR_ERR_FORMAT, "line %d: no label", line);
    return add_row(out, (gr_row){ .image = c->field[c->image],
                                  .second = c->second >= 0 ? c->field[c->second] : NULL,
                                  .line = line });
}

gr_status gr_rows_parse_csv(gr_rows *out, gr_arena *a, const char *text, size_t n_bytes)
{
    csv c = { .at = text, .end = text + n_bytes };
    bool first = true;

    GR_TRY(check_text(text, n_bytes));
    c.to = gr_arena_alloc(a, n_bytes + 1);
    if (!c.to)
        return GR_ERR_NOMEM;
    if (n_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        c.at += 3; /* some programs begin tables with this mark */
    for (c.line = 1; c.at < c.end; c.line++) {
        int line = c.line;

        GR_TRY(next_record(&c));
        if (c.n_fields == 1 && c.field[0][0] == '\0')
            continue;
        if (first && take_head(&c)) {
            first = false;
            continue;
        }
        first = false;
        GR_TRY(take_record(&c, out, line));
    }
    return GR_OK;
}
