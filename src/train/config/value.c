/*
 * Values: what a tree means for a key of a certain kind.
 *
 * (1) The key's kind decides, not the look of the text: 1e-4 is a number where a number is
 *     asked for, and 42 a text where a text is.
 * (2) A number is taken only when the whole word is one, is finite, and lies in the range.
 * (3) What stands between quotes in a file is text and never a number or a switch.
 */
#include "train/config/value.h"

#include "train/config/choice.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- scalars ---- */

const char *gr_scalar_show(const gr_tree *t)
{
    switch (t->type) {
    case GR_TREE_LIST: return "[a list]";
    case GR_TREE_MAP: return "{a map}";
    case GR_TREE_NULL: return t->empty ? "" : "null";
    case GR_TREE_TEXT: break;
    }
    return t->text;
}

static const char *why_no_scalar(const gr_tree *t, bool text_only)
{
    if (t->type == GR_TREE_LIST || t->type == GR_TREE_MAP)
        return "is given where one value is expected";
    if (t->type == GR_TREE_NULL)
        return "is no value";
    if (t->quoted && text_only)
        return "is a text; write it without quotes";
    return NULL;
}

/* 1e5 counts as whole; 1e-1 and 2.0 do not. */
static const char *whole_from_f64(const char *text, int64_t *out)
{
    char *end = NULL;
    double x;

    if (!strpbrk(text, "eE") || strchr(text, '.') || strpbrk(text, "xX"))
        return "is no whole number";
    x = strtod(text, &end);
    if (*end || !(fabs(x) <= 9007199254740992.0) || trunc(x) < x || trunc(x) > x)
        return "is no whole number";
    *out = (int64_t)x;
    return NULL;
}

/* strtoll() and strtod() skip leading spaces; a value may not have any. */
static bool starts_number(const char *text)
{
    return *text && !isspace((unsigned char)*text);
}

const char *gr_scalar_int(const gr_tree *t, int64_t *out)
{
    const char *why = why_no_scalar(t, true);
    char *end = NULL;
    long long x;

    if (why)
        return why;
    if (!starts_number(t->text))
        return "is no whole number";
    errno = 0;
    x = strtoll(t->text, &end, 10);
    if (end == t->text || *end)
        return whole_from_f64(t->text, out);
    if (errno == ERANGE)
        return "does not fit in 64 bits";
    *out = x;
    return NULL;
}

const char *gr_scalar_f64(const gr_tree *t, double *out)
{
    const char *why = why_no_scalar(t, true);
    char *end = NULL;
    double x;

    if (why)
        return why;
    x = starts_number(t->text) ? strtod(t->text, &end) : 0;
    if (!end || end == t->text || *end || isnan(x))
        return "is no number";
    if (isinf(x)) /* written so, or too big */
        return "is not finite";
    *out = x;
    return NULL;
}

const char *gr_scalar_bool(const gr_tree *t, bool *out)
{
    static const char *const words[2][5] = { { "false", "no", "off", "0", NULL },
                                             { "true", "yes", "on", "1", NULL } };
    const char *why = why_no_scalar(t, true);

    if (why)
        return why;
    for (int value = 0; value < 2; value++)
        for (int i = 0; words[value][i]; i++)
            if (strcasecmp(t->text, words[value][i]) == 0) {
                *out = value == 1;
                return NULL;
            }
    return "is neither 'true' nor 'false'";
}

static const char *scalar_bytes(const gr_tree *t, int64_t *out)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = { { "", 1 },         { "B", 1 },        { "KB", 1e3 },     { "MB", 1e6 },
                  { "GB", 1e9 },     { "TB", 1e12 },    { "KiB", 0x1p10 }, { "MiB", 0x1p20 },
                  { "GiB", 0x1p30 }, { "TiB", 0x1p40 }, { "K", 0x1p10 },   { "M", 0x1p20 },
                  { "G", 0x1p30 },   { "T", 0x1p40 } };
    const char *why = why_no_scalar(t, false);
    char *end = NULL;
    double x;

    if (why)
        return why;
    x = isdigit((unsigned char)*t->text) ? strtod(t->text, &end) : -1;
    while (end && *end == ' ')
        end++;
    for (size_t i = 0; end && x >= 0 && i < sizeof(units) / sizeof(units[0]); i++)
        if (strcasecmp(end, units[i].name) == 0 && x * units[i].bytes < 0x1p62) {
            *out = (int64_t)(x * units[i].bytes);
            return NULL;
        }
    return "is no size; write bytes, or '512MiB', '24GB'";
}

static const char *scalar_span(const gr_tree *t, gr_span *out)
{
    static const struct {
        const char *name;
        bool epochs;
    } units[] = {
        { "", false }, { "step", false }, { "steps", false }, { "epoch", true }, { "epochs", true }
    };
    const char *why = why_no_scalar(t, false);
    char *end = NULL;
    long long n;

    if (why)
        return why;
    errno = 0;
    n = isdigit((unsigned char)*t->text) ? strtoll(t->text, &end, 10) : -1;
    while (end && *end == ' ')
        end++;
    for (size_t i = 0; end && errno == 0 && i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(end, units[i].name) == 0) {
            *out = (gr_span){ .n = n, .epochs = units[i].epochs };
            return NULL;
        }
    return "is no interval; write steps, '100 steps' or '2 epochs'";
}

/* ---- ranges ---- */

#define MANY 1e15 /* a limit of that size is there for the arithmetic only */

static gr_status check_range(const gr_key *key, double x, const char *shown)
{
    bool no_limits = !(key->min < 0 || key->min > 0 || key->max < 0 || key->max > 0);

    if (no_limits || (x >= key->min && x <= key->max))
        return GR_OK;
    if (key->max >= MANY && x < key->min)
        return gr_fail(GR_ERR_ARG, "'%s' is less than %.15g", shown, key->min);
    return gr_fail(GR_ERR_ARG, "'%s' is not between %.15g and %.15g", shown, key->min, key->max);
}

/* ---- items ---- */

static gr_status refuse(const gr_tree *t, const char *why)
{
    if (t->type == GR_TREE_NULL)
        return gr_fail(GR_ERR_ARG, "has no value");
    return gr_fail(GR_ERR_ARG, "'%.200s' %s", gr_scalar_show(t), why);
}

static gr_status read_choice(const gr_key *key, const gr_tree *t, gr_setting *v, int i)
{
    const char *why = why_no_scalar(t, false);
    int number;

    if (why)
        return refuse(t, why);
    number = gr_choice_find(key->choices, t->text);
    if (number < 0)
        return gr_choice_fail(key->choices, t->text);
    v->ints[i] = number;
    return GR_OK;
}

static gr_status read_number(const gr_key *key, const gr_tree *t, gr_setting *v, int i)
{
    bool whole = key->kind == GR_KEY_INT || key->kind == GR_KEY_INTS;
    const char *why = whole ? gr_scalar_int(t, &v->ints[i]) : gr_scalar_f64(t, &v->f64s[i]);

    if (why)
        return refuse(t, why);
    if (whole)
        v->f64s[i] = (double)v->ints[i];
    return check_range(key, v->f64s[i], t->text);
}

static gr_status read_other(const gr_key *key, const gr_tree *t, gr_setting *v)
{
    const char *why = NULL;
    gr_span span = { 0 };
    bool on = false;

    if (key->kind == GR_KEY_BOOL) {
        why = gr_scalar_bool(t, &on);
        v->ints[0] = on;
    } else if ((int)key->kind == GR_KEY_SPAN) {
        why = scalar_span(t, &span);
        v->ints[0] = span.n;
        v->ints[1] = span.epochs;
    } else if ((int)key->kind == GR_KEY_BYTES) {
        why = scalar_bytes(t, &v->ints[0]);
    }
    return why ? refuse(t, why) : GR_OK;
}

static gr_status read_item(gr_arena *a, const gr_key *key, const gr_tree *t, gr_setting *v, int i)
{
    switch (key->kind) {
    case GR_KEY_INT:
    case GR_KEY_INTS:
    case GR_KEY_F64:
    case GR_KEY_F64S: return read_number(key, t, v, i);
    case GR_KEY_CHOICE:
        GR_TRY(read_choice(key, t, v, i));
        v->texts[i] = gr_choice_name(a, key->choices, (int)v->ints[i]);
        return v->texts[i] ? GR_OK : GR_ERR_NOMEM;
    case GR_KEY_TEXT:
    case GR_KEY_TEXTS:
        if (t->type != GR_TREE_TEXT)
            return refuse(t, "is given where a text is expected");
        v->texts[i] = t->text;
        return GR_OK;
    case GR_KEY_TREE: return GR_OK;
    case GR_KEY_BOOL: break;
    }
    return read_other(key, t, v);
}

static bool is_list(const gr_key *key)
{
    return key->kind == GR_KEY_INTS || key->kind == GR_KEY_F64S || key->kind == GR_KEY_TEXTS;
}

gr_status gr_setting_read(gr_arena *a, const gr_key *key, const gr_tree *t, gr_setting *out)
{
    bool many = is_list(key) && t->type == GR_TREE_LIST;
    int n = many ? t->n : 1;
    gr_setting v = { .tree = t, .n = n };

    if (t->type == GR_TREE_NULL) {
        if (t->empty)
            return gr_fail(GR_ERR_ARG, "has no value; write null where the default is meant");
        *out = (gr_setting){ .tree = t };
        return GR_OK;
    }
    v.ints = gr_arena_array(a, (size_t)n + 1, sizeof(*v.ints)); /* an interval takes two */
    v.f64s = gr_arena_array(a, (size_t)n + 1, sizeof(*v.f64s));
    v.texts = gr_arena_array(a, (size_t)n + 1, sizeof(*v.texts));
    if (!v.ints || !v.f64s || !v.texts)
        return GR_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        GR_TRY(read_item(a, key, many ? t->entries[i].value : t, &v, i));
    *out = v;
    return GR_OK;
}

/* ---- words ---- */

static gr_status split_list(gr_arena *a, const char *word, gr_tree *list)
{
    char *text = gr_arena_strdup(a, word);

    if (!text)
        return GR_ERR_NOMEM;
    while (*text) {
        size_t len = strcspn(text, ","), end = len;
        bool more = text[len] == ',';
        gr_tree_entry e = { 0 };

        while (end > 0 && text[end - 1] == ' ')
            end--;
        text[end] = '\0';
        e.value = gr_tree_make_text(a, text + strspn(text, " "));
        if (!e.value)
            return GR_ERR_NOMEM;
        GR_TRY(gr_tree_add(a, list, e));
        text += len + more;
    }
    return GR_OK;
}

gr_status gr_setting_word(gr_arena *a, const gr_key *key, const char *word, const char *name,
                          gr_tree **out)
{
    bool is_tree = key->kind == GR_KEY_TREE, many = is_list(key);

    if (is_tree && strchr(word, ',') && !strpbrk(word, "[]{}:\"'"))
        word = gr_arena_printf(a, "[%s]", word); /* a list as any other */
    if (!word)
        return GR_ERR_NOMEM;
    if (is_tree || (many && *word == '['))
        return gr_yaml_parse(a, name, word, strlen(word), out);
    *out = many ? gr_tree_make(a, GR_TREE_LIST, NULL, 0) : gr_tree_make_text(a, word);
    if (!*out)
        return GR_ERR_NOMEM;
    return many ? split_list(a, word, *out) : GR_OK;
}
