/*
 * Options from one table: parsing, help, and the nearest known name.
 *
 * (1) A number is taken only when the whole word is one and lies in the row's range.
 * (2) A message names the option as the table writes it, and the value as the user did.
 * (3) A target is written only after its value was checked, in the order of the words; a
 *     later word wins.
 *
 * No state; any thread that owns the targets.
 */
#include "base/option.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 64 /* longer words are near to no name */

/* One character of a name, with the differences that people do not mean removed. */
static int folded(char c)
{
    return c == '_' ? '-' : tolower((unsigned char)c);
}

static bool is_same_name(const char *name, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!name[i] || (name[i] == '_' ? '-' : name[i]) != (word[i] == '_' ? '-' : word[i]))
            return false;
    return name[len] == '\0';
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b. Three
 * rows of the usual table are enough, because a swap looks two rows back. */
static int edit_distance(const char *a, int n_a, const char *b, int n_b)
{
    int rows[3][MAX_NAME + 1];
    int *before = rows[0], *above = rows[1], *row = rows[2];

    for (int j = 0; j <= n_b; j++)
        above[j] = before[j] = j;
    for (int i = 1; i <= n_a; i++) {
        int *oldest = before;

        row[0] = i;
        for (int j = 1; j <= n_b; j++) {
            int differs = folded(a[i - 1]) != folded(b[j - 1]);

            row[j] = min_int(above[j - 1] + differs, min_int(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                folded(a[i - 2]) == folded(b[j - 1]))
                row[j] = min_int(row[j], before[j - 2] + 1);
        }
        before = above;
        above = row;
        row = oldest;
    }
    return above[n_b];
}

static bool is_prefix(const char *word, size_t len, const char *name)
{
    for (size_t i = 0; i < len; i++)
        if (folded(word[i]) != folded(name[i])) /* also at the end of name */
            return false;
    return true;
}

/* The search for the nearest name, fed one name at a time. */
typedef struct near_search {
    const char *word;
    size_t len;
    const char *best; /* NULL while none is near */
    int distance;
    const char *longer; /* the only name that begins with word; NULL for none */
    int n_longer;
} near_search;

static void near_offer(near_search *s, const char *name)
{
    size_t n_name = strlen(name);
    size_t longest = n_name > s->len ? n_name : s->len;
    int distance;

    if (longest > MAX_NAME || s->len == 0)
        return;
    if (s->len >= 3 && is_prefix(s->word, s->len, name)) {
        s->longer = name;
        s->n_longer++;
    }
    distance = edit_distance(s->word, (int)s->len, name, (int)n_name);
    /* A third of the letters may be wrong, but never all of them. */
    if (distance > (int)(longest + 2) / 3 || distance >= (int)longest)
        return;
    if (!s->best || distance < s->distance) {
        s->best = name;
        s->distance = distance;
    }
}

static const char *near_result(const near_search *s)
{
    return s->best || s->n_longer != 1 ? s->best : s->longer;
}

const char *gr_nearest(const char *word, const char *const *names)
{
    near_search s = { .word = word, .len = strlen(word) };

    for (int i = 0; names[i]; i++)
        near_offer(&s, names[i]);
    return near_result(&s);
}

static bool has_help(const gr_option *table)
{
    for (; table->name; table++)
        if (strcmp(table->name, "help") == 0)
            return true;
    return false;
}

static void list_options(const gr_option *table, gr_text *out)
{
    gr_text_add(out, "there are");
    for (const gr_option *o = table; o->name; o++)
        gr_text_addf(out, "%s --%s", o == table ? "" : ",", o->name);
}

static gr_status fail_unknown(const gr_option *table, const char *word)
{
    const char *name = word + strspn(word, "-");
    near_search s = { .word = name, .len = strcspn(name, "=") };
    gr_text hint = GR_TEXT_INIT;

    for (const gr_option *o = table; o->name; o++)
        near_offer(&s, o->name);
    if (near_result(&s))
        gr_text_addf(&hint, "did you mean '--%s'?", near_result(&s));
    if (has_help(table))
        gr_text_addf(&hint, "%s--help lists all", hint.len > 0 ? " " : "");
    else if (hint.len == 0)
        list_options(table, &hint);
    gr_fail(GR_ERR_ARG, "unknown option '%s'; %s", word, gr_text_str(&hint));
    gr_text_fini(&hint);
    return GR_ERR_ARG;
}

static gr_status check_range(const gr_option *o, double value, const char *word)
{
    bool no_limits = !(o->min < 0 || o->min > 0 || o->max < 0 || o->max > 0);

    if (!no_limits && (value < o->min || value > o->max))
        return gr_fail(GR_ERR_ARG, "option '--%s': '%s' is not between %.15g and %.15g", o->name,
                       word, o->min, o->max);
    return GR_OK;
}

/* strtoll() and strtod() skip leading spaces; a value may not have any. */
static bool starts_number(const char *word)
{
    return *word && !isspace((unsigned char)*word);
}

static gr_status parse_int(const gr_option *o, const char *word)
{
    char *end = NULL;
    long long value;

    errno = 0;
    value = strtoll(word, &end, 10);
    if (!starts_number(word) || *end)
        return gr_fail(GR_ERR_ARG, "option '--%s': '%s' is no whole number", o->name, word);
    if (errno == ERANGE)
        return gr_fail(GR_ERR_ARG, "option '--%s': '%s' does not fit in 64 bits", o->name, word);
    GR_TRY(check_range(o, (double)value, word));
    *(int64_t *)o->target = value;
    return GR_OK;
}

static gr_status parse_f64(const gr_option *o, const char *word)
{
    char *end = NULL;
    double value;

    value = strtod(word, &end);
    if (!starts_number(word) || *end || isnan(value))
        return gr_fail(GR_ERR_ARG, "option '--%s': '%s' is no number", o->name, word);
    if (isinf(value)) /* written so, or too big */
        return gr_fail(GR_ERR_ARG, "option '--%s': '%s' is not finite", o->name, word);
    GR_TRY(check_range(o, value, word));
    *(double *)o->target = value;
    return GR_OK;
}

static gr_status parse_flag(const gr_option *o, const char *word)
{
    if (!word || strcmp(word, "true") == 0)
        *(bool *)o->target = true;
    else if (strcmp(word, "false") == 0)
        *(bool *)o->target = false;
    else
        return gr_fail(GR_ERR_ARG, "option '--%s': '%s' is neither 'true' nor 'false'", o->name,
                       word);
    return GR_OK;
}

static gr_status parse_choice(const gr_option *o, const char *word)
{
    const char *choice = o->choices;

    for (int i = 0;; i++) {
        size_t len = strcspn(choice, "|");

        if (is_same_name(word, choice, len)) {
            *(int *)o->target = i;
            return GR_OK;
        }
        if (!choice[len])
            break;
        choice += len + 1;
    }
    return gr_fail(GR_ERR_ARG, "option '--%s': '%s' is none of %s", o->name, word, o->choices);
}

static gr_status parse_value(const gr_option *o, const char *word)
{
    switch (o->kind) {
    case GR_OPTION_INT: return parse_int(o, word);
    case GR_OPTION_F64: return parse_f64(o, word);
    case GR_OPTION_FLAG: return parse_flag(o, word);
    case GR_OPTION_CHOICE: return parse_choice(o, word);
    case GR_OPTION_TEXT: break;
    }
    *(const char **)o->target = word;
    return GR_OK;
}

static const gr_option *find_option(const gr_option *table, const char *name, size_t len)
{
    for (const gr_option *o = table; o->name; o++)
        if (is_same_name(o->name, name, len))
            return o;
    return NULL;
}

/* Takes the option at argv[*i] and its value, and moves *i behind them. */
static gr_status parse_one(const gr_option *table, int argc, char **argv, int *i)
{
    const char *word = argv[*i];
    const char *name = word + (word[1] == '-' ? 2 : 1);
    size_t len = strcspn(name, "=");
    const gr_option *o = find_option(table, name, len);
    const char *value = name[len] == '=' ? name + len + 1 : NULL;

    /* One dash is for names of one letter; "-steps" is a slip that deserves a hint. */
    if (!o || (word[1] != '-' && len > 1))
        return fail_unknown(table, word);
    if (!value && o->kind != GR_OPTION_FLAG) {
        const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;

        if (!next)
            return gr_fail(GR_ERR_ARG, "option '--%s' needs a value", o->name);
        if (strncmp(next, "--", 2) == 0)
            return gr_fail(GR_ERR_ARG,
                           "option '--%s' needs a value, but '%s' follows; "
                           "write '--%s=%s' if that is the value",
                           o->name, next, o->name, next);
        value = next;
        ++*i;
    }
    ++*i;
    return parse_value(o, value);
}

gr_status gr_option_parse(const gr_option *table, int argc, char **argv, int *n_used)
{
    int i = 0;
    gr_status st = GR_OK;

    while (i < argc && st == GR_OK) {
        const char *word = argv[i];

        if (strcmp(word, "--") == 0) {
            i++;
            break;
        }
        if (word[0] != '-' || !word[1])
            break;
        st = parse_one(table, argc, argv, &i);
    }
    *n_used = i;
    return st;
}

static const char *value_word(const gr_option *o)
{
    if (o->kind == GR_OPTION_FLAG)
        return "";
    if (o->arg)
        return o->arg;
    return o->kind == GR_OPTION_CHOICE ? o->choices : "VALUE";
}

/* Characters of "--name WORD". */
static size_t left_width(const gr_option *o)
{
    const char *word = value_word(o);

    return 2 + strlen(o->name) + (*word ? 1 + strlen(word) : 0);
}

static void add_choice(gr_text *out, const gr_option *o)
{
    const char *choice = o->choices;

    for (int i = *(const int *)o->target; i > 0 && *choice; i--) {
        choice += strcspn(choice, "|");
        choice += *choice == '|';
    }
    gr_text_addf(out, " [%.*s]", (int)strcspn(choice, "|"), choice);
}

static void add_current(gr_text *out, const gr_option *o)
{
    switch (o->kind) {
    case GR_OPTION_INT: gr_text_addf(out, " [%lld]", (long long)*(const int64_t *)o->target); break;
    case GR_OPTION_F64: gr_text_addf(out, " [%.15g]", *(const double *)o->target); break;
    case GR_OPTION_FLAG: gr_text_add(out, *(const bool *)o->target ? " [true]" : " [false]"); break;
    case GR_OPTION_CHOICE: add_choice(out, o); break;
    case GR_OPTION_TEXT:
        if (*(const char *const *)o->target)
            gr_text_addf(out, " [%s]", *(const char *const *)o->target);
        break;
    }
}

void gr_option_help(const gr_option *table, gr_text *out)
{
    size_t widest = 0;

    for (const gr_option *o = table; o->name; o++)
        widest = left_width(o) > widest ? left_width(o) : widest;
    for (const gr_option *o = table; o->name; o++) {
        const char *word = value_word(o);

        gr_text_addf(out, "  --%s%s%s%*s  %s", o->name, *word ? " " : "", word,
                     (int)(widest - left_width(o)), "", o->help ? o->help : "");
        add_current(out, o);
        gr_text_add(out, "\n");
    }
}
