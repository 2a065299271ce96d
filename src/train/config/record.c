/*
 * Settings as text: records of a run, help, the list of names, the document. All of them walk
 * the table, and take values from the struct, which may have been resolved further than the
 * settings were given.
 */
#include "train/config/choice.h"
#include "train/config/print.h"
#include "train/config/table.h"
#include "train/options.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

/* ---- values ---- */

static bool is_list(const gr_key *key)
{
    return key->kind == GR_KEY_INTS || key->kind == GR_KEY_F64S || key->kind == GR_KEY_TEXTS;
}

static void add_choice(const char *choices, int number, gr_text *out)
{
    for (; number > 0; number--)
        choices += strcspn(choices, "|") + 1;
    gr_text_addn(out, choices, strcspn(choices, "|="));
}

/* The field of a row, or the slot's value where there is no plain one. */
static void add_row(const gr_train_options *o, int i, gr_setting_form form, gr_text *out)
{
    const gr_row *r = &gr_rows[i];
    const char *field = (const char *)o + (r->offset == GR_NO_FIELD ? 0 : r->offset);
    int64_t ints[2] = { 0 };
    double f64 = 0;
    const char *text = NULL;
    gr_setting v = { .n = 1, .ints = ints, .f64s = &f64, .texts = &text };

    if (is_list(&r->key) || r->offset == GR_NO_FIELD) {
        gr_setting_print(&r->key, &o->settings->slots[i].value, form, out);
        return;
    }
    switch ((int)r->key.kind) {
    case GR_KEY_F64: f64 = *(const double *)field; break;
    case GR_KEY_BOOL: ints[0] = *(const bool *)field; break;
    case GR_KEY_CHOICE: add_choice(r->key.choices, *(const int *)field, out); return;
    case GR_KEY_TEXT: text = *(const char *const *)field; break;
    case GR_KEY_SPAN:
        ints[0] = ((const gr_span *)field)->n;
        ints[1] = ((const gr_span *)field)->epochs;
        break;
    default: ints[0] = *(const int64_t *)field; break;
    }
    gr_setting_print(&r->key, &v, form, out);
}

static bool has_value(const gr_train_options *o, int i)
{
    const gr_row *r = &gr_rows[i];

    if (is_list(&r->key) || r->offset == GR_NO_FIELD)
        return o->settings->slots[i].value.n > 0;
    return r->key.kind != GR_KEY_TEXT || *(const char *const *)((const char *)o + r->offset);
}

/* ---- records ---- */

/* One of the recipe's that nobody has given. */
static bool is_preset(const gr_train_options *o, int i)
{
    return i >= gr_n_rows && o->settings->slots[i].origin.kind <= GR_FROM_RECIPE &&
           !o->settings->slots[i].is_found;
}

static bool is_wanted(const gr_train_options *o, int i, gr_record what)
{
    unsigned use;

    if (i >= gr_n_rows) /* the recipe's; a preset that is read back would look as if given */
        return o->settings->slots[i].value.n > 0 && (what != GR_RECORD_SAVE || !is_preset(o, i));
    use = gr_rows[i].use;
    if ((use & GR_USE_HIDDEN) || !has_value(o, i))
        return false;
    if (gr_rows[i].offset == offsetof(gr_train_options, warmup_steps) && o->warmup_epochs > 0)
        return false; /* one of the two */
    if (what == GR_RECORD_SAVE)
        return use & GR_USE_SAVED;
    return what == GR_RECORD_YAML || !(use & GR_USE_LOCAL);
}

static void add_slot(const gr_train_options *o, int i, gr_setting_form form, gr_text *out)
{
    const gr_slot *slot = &o->settings->slots[i];

    if (i < gr_n_rows)
        add_row(o, i, form, out);
    else
        gr_setting_print(slot->key, &slot->value, form, out);
}

static const char *key_of(const gr_train_options *o, int i)
{
    return o->settings->slots[i].key->name;
}

/* Whether an earlier wanted key lies below the same group. */
static bool was_before(const gr_train_options *o, int i, size_t n_group)
{
    for (int j = 0; j < i; j++)
        if (strncmp(key_of(o, j), key_of(o, i), n_group + 1) == 0 &&
            is_wanted(o, j, GR_RECORD_YAML))
            return true;
    return false;
}

/* Whose a value of the recipe's is that nobody has chosen. The trainer's are settings of the run
 * from now on. */
static void add_source(const gr_train_options *o, int i, gr_text *out)
{
    const gr_slot *slot = &o->settings->slots[i];

    if (slot->is_found) {
        gr_text_add(out, " # found in the data");
    } else if (i >= gr_n_rows && slot->origin.kind == GR_FROM_RECIPE) {
        gr_text_add(out, " # ");
        gr_origin_print(&slot->origin, out);
    }
}

/* Keys that begin with the first n_above characters of `above`. Depth is that of the keys. */
static void add_group(const gr_train_options *o, const char *above, size_t n_above, int indent,
                      gr_text *out)
{
    for (int i = 0; i < o->settings->n_slots; i++) {
        const char *key = key_of(o, i), *rest = key + n_above;
        size_t n;

        if (strncmp(key, above, n_above) != 0 || !is_wanted(o, i, GR_RECORD_YAML))
            continue;
        n = strcspn(rest, ".");
        if (rest[n] == '\0') {
            bool is_found = o->settings->slots[i].is_found;

            gr_text_addf(out, "%*s%s%s: ", indent, "", is_preset(o, i) || is_found ? "# " : "",
                         rest);
            add_slot(o, i, GR_FORM_YAML, out);
            add_source(o, i, out);
            gr_text_add(out, "\n");
        } else if (!was_before(o, i, n_above + n)) {
            gr_text_addf(out, "%*s%.*s:\n", indent, "", (int)n, rest);
            add_group(o, key, n_above + n + 1, indent + 2, out);
        }
    }
}

void gr_train_options_record(const gr_train_options *o, gr_record what, gr_text *out)
{
    if (what == GR_RECORD_YAML) {
        add_group(o, "", 0, 0, out);
        return;
    }
    for (int i = 0; i < o->settings->n_slots; i++) {
        if (!is_wanted(o, i, what))
            continue;
        gr_text_addf(out, "%s = ", i < gr_n_rows ? gr_rows[i].flag : key_of(o, i));
        add_slot(o, i, GR_FORM_LINE, out);
        gr_text_add(out, "\n");
    }
}

void gr_train_options_found(const gr_train_options *o, gr_text *out)
{
    for (int i = 0; i < o->settings->n_slots; i++)
        if (o->settings->slots[i].is_found)
            gr_text_addf(out, "%s\n", key_of(o, i));
}

void gr_train_options_mark_found(gr_train_options *o, const char *names)
{
    for (; *names; names += strcspn(names, "\n"), names += *names == '\n')
        for (int i = 0; i < o->settings->n_slots; i++) {
            gr_slot *slot = &o->settings->slots[i];
            size_t n = strlen(slot->key->name);

            if (slot->origin.kind == GR_FROM_SAVED && strncmp(names, slot->key->name, n) == 0 &&
                names[n] == '\n')
                slot->is_found = true;
        }
}

gr_status gr_train_options_check_fixed(const gr_train_options *was, const gr_train_options *now)
{
    gr_status st = GR_OK;

    for (int i = 0; i < gr_n_rows && st == GR_OK; i++) {
        gr_text a = GR_TEXT_INIT, b = GR_TEXT_INIT;

        if (gr_rows[i].use & GR_USE_FIXED) {
            add_row(was, i, GR_FORM_LINE, &a);
            add_row(now, i, GR_FORM_LINE, &b);
            if (strcmp(gr_text_str(&a), gr_text_str(&b)) != 0)
                st = gr_fail(GR_ERR_ARG,
                             "'--%s' was %s when the run began and is %s now; it cannot change in "
                             "mid-run: leave it out, or begin a new run",
                             gr_rows[i].flag, a.len ? gr_text_str(&a) : "''",
                             b.len ? gr_text_str(&b) : "''");
        }
        gr_text_fini(&a);
        gr_text_fini(&b);
    }
    return st;
}

/* ---- help ---- */

static void value_word(const gr_key *key, const char *arg, gr_text *out)
{
    if (arg)
        gr_text_add(out, arg);
    else if (key->kind == GR_KEY_CHOICE)
        gr_choice_print(key->choices, out);
    else if (key->kind != GR_KEY_BOOL)
        gr_text_add(out, "VALUE");
}

#define WIDTH 34 /* of the left column; longer rows break the line */

static void help_row(const gr_train_options *o, int i, gr_text *out)
{
    const gr_slot *slot = &o->settings->slots[i];
    bool own = i < gr_n_rows;
    gr_text left = GR_TEXT_INIT, word = GR_TEXT_INIT;

    value_word(slot->key, own ? gr_rows[i].arg : NULL, &word);
    gr_text_addf(&left, "  --%s%s%s", own ? gr_rows[i].flag : slot->key->name, word.len ? " " : "",
                 gr_text_str(&word));
    gr_text_addf(out, "%-*s", WIDTH, gr_text_str(&left));
    if (left.len >= WIDTH)
        gr_text_addf(out, "\n%*s", WIDTH, "");
    gr_text_addf(out, " %s", slot->key->help ? slot->key->help : "");
    if (own && gr_rows[i].env)
        gr_text_addf(out, " (%s)", gr_rows[i].env);
    if (own ? has_value(o, i) : slot->value.n > 0) {
        gr_text_add(out, " [");
        add_slot(o, i, GR_FORM_LINE, out);
        if (slot->origin.kind == GR_FROM_RECIPE) {
            gr_text_add(out, ", ");
            gr_origin_print(&slot->origin, out);
        }
        gr_text_add(out, "]");
    }
    gr_text_add(out, "\n");
    gr_text_fini(&left);
    gr_text_fini(&word);
}

/* What stands before the last dot: rows of one group stand together. */
static size_t group_length(const char *key)
{
    const char *dot = strrchr(key, '.');

    return dot ? (size_t)(dot - key) : 0;
}

static bool begins_group(const gr_train_options *o, int i)
{
    const char *key = key_of(o, i), *before = i > 0 ? key_of(o, i - 1) : NULL;
    size_t n = group_length(key);

    return !before || i == gr_n_rows || group_length(before) != n || strncmp(key, before, n) != 0;
}

void gr_train_options_help(const gr_train_options *o, gr_text *out)
{
    for (int i = 0; i < o->settings->n_slots; i++) {
        size_t n = group_length(key_of(o, i));

        if (begins_group(o, i) && i < gr_n_rows)
            gr_text_addf(out, "%s%.*s:\n", i ? "\n" : "", n ? (int)n : 7,
                         n ? key_of(o, i) : "the run");
        else if (i == gr_n_rows)
            gr_text_add(out, "\nthe recipe's own:\n");
        help_row(o, i, out);
    }
    gr_text_add(out,
                "\nIn a file (--config FILE.yaml) a setting stands below its group: 'train:', and "
                "indented\nbelow it 'lr: 1e-3'; or as 'lr: 1e-3' at the top. 'gradus help keys' "
                "lists all names.\n");
}

/* ---- names ---- */

static void add_means(const gr_train_options *o, const gr_way *w, gr_text *out)
{
    const gr_slot *slot = &o->settings->slots[w->slot];

    gr_text_add(out, slot->key->name);
    if (w->alias.on)
        gr_text_addf(out, " = %s%s", w->alias.on, w->alias.off ? "" : ", or the value given");
}

static void add_way(const gr_train_options *o, const gr_way *w, gr_text *out)
{
    if (strcmp(w->alias.name, o->settings->slots[w->slot].key->name) == 0) {
        gr_text_addf(out, "%s%s\n", w->alias.name, w->alias.on ? " (no value: auto)" : "");
        return;
    }
    gr_text_addf(out, "%-40s ", w->alias.name);
    add_means(o, w, out);
    gr_text_add(out, "\n");
}

void gr_train_options_own_keys(const gr_train_options *o, gr_text *out)
{
    for (int i = 0; i < o->settings->n_ways; i++)
        if (o->settings->ways[i].slot >= gr_n_rows)
            add_way(o, &o->settings->ways[i], out);
}

void gr_train_options_keys(const gr_train_options *o, gr_text *out)
{
    const gr_settings *s = o->settings;

    gr_text_add(out, "Names of settings, in files and as flags with '--' in front. '-' and '_' are "
                     "alike, and so is\nthe case of a choice. Flag > environment > file > "
                     "default.\n\n");
    for (int i = 0; i < s->n_ways; i++)
        add_way(o, &s->ways[i], out);
    gr_text_add(out, "\nBeginnings of names:\n");
    for (const gr_prefix *p = s->names.prefixes; p->name; p++)
        gr_text_addf(out, "%-40s %s\n", p->name, p->means);
    gr_text_add(out, "\nNames of other trainers that are answered with what to do here:\n");
    for (const gr_gone *g = s->names.gone; g->name; g++)
        gr_text_addf(out, "%-40s %s\n", g->name, g->instead);
}

/* '-' and '_' and the case do not count. */
static bool has_word(const char *name, const char *word)
{
    size_t n = strlen(word), k;

    for (; strlen(name) >= n; name++) {
        for (k = 0; k < n; k++) {
            char a = name[k] == '-' ? '_' : (char)tolower((unsigned char)name[k]);
            char b = word[k] == '-' ? '_' : (char)tolower((unsigned char)word[k]);

            if (a != b)
                break;
        }
        if (k == n)
            return true;
    }
    return false;
}

/* Its names in one line, first the one for files; whether one of them has the word. */
static bool list_names(const gr_train_options *o, int slot, const char *word, gr_text *out)
{
    const gr_settings *s = o->settings;
    const char *key = s->slots[slot].key->name;
    bool found = has_word(key, word);

    gr_text_add(out, key);
    for (int i = 0; i < s->n_ways; i++) {
        const gr_way *w = &s->ways[i];

        if (w->slot != slot || strcmp(w->alias.name, key) == 0)
            continue;
        found = found || has_word(w->alias.name, word);
        gr_text_addf(out, ", %s", w->alias.name);
        if (w->alias.on)
            gr_text_addf(out, " (= %s)", w->alias.on);
    }
    for (int i = 0; i < s->n_own; i++) {
        const gr_way *w = &s->own[i];

        if (w->slot != slot)
            continue;
        found = found || has_word(w->alias.name, word);
        gr_text_addf(out, ", %s (of recipe %s%s%s)", w->alias.name, s->recipe->name,
                     w->own->tasks ? ", with " : "", w->own->tasks ? w->own->tasks : "");
    }
    return found;
}

int gr_train_options_like(const gr_train_options *o, const char *word, bool recipe, gr_text *out)
{
    const gr_settings *s = o->settings;
    int n = 0;

    for (int i = recipe ? gr_n_rows : 0; i < (recipe ? s->n_slots : gr_n_rows); i++) {
        gr_text names = GR_TEXT_INIT;

        if (list_names(o, i, word, &names)) {
            help_row(o, i, out);
            gr_text_addf(out, "      %s\n", gr_text_str(&names));
            n++;
        }
        gr_text_fini(&names);
    }
    for (const gr_gone *g = s->names.gone; !recipe && g && g->name; g++)
        if (has_word(g->name, word)) {
            gr_text_addf(out, "  %-31s  of other trainers: %s\n", g->name, g->instead);
            n++;
        }
    return n;
}

/* ---- the document ---- */

static void add_cell(gr_text *out, const char *s)
{
    for (; s && *s; s++)
        gr_text_addf(out, *s == '|' ? "\\|" : "%c", *s);
}

static void add_rows(const gr_train_options *o, gr_text *out)
{
    for (int i = 0; i < gr_n_rows; i++) {
        const gr_row *r = &gr_rows[i];
        gr_text word = GR_TEXT_INIT;

        if (begins_group(o, i))
            gr_text_addf(out,
                         "%s| key | flag | value | default | meaning |\n|---|---|---|---|---|\n",
                         i ? "\n" : "");
        value_word(&r->key, r->arg, &word);
        gr_text_addf(out, "| `%s` | `--%s` | ", r->key.name, r->flag);
        add_cell(out, r->key.kind == GR_KEY_BOOL ? "true, false" : gr_text_str(&word));
        gr_text_addf(out, " | %s | ", r->key.preset ? r->key.preset : "");
        add_cell(out, r->key.help);
        if (r->env) {
            gr_text_add(out, " (");
            add_cell(out, r->env);
            gr_text_add(out, ")");
        }
        gr_text_add(out, " |\n");
        gr_text_fini(&word);
    }
}

void gr_train_options_markdown(const gr_train_options *o, gr_text *out)
{
    const gr_settings *s = o->settings;

    add_rows(o, out);
    gr_text_add(out, "\n## Other names\n\n| name | means |\n|---|---|\n");
    for (int i = 0; i < s->n_ways; i++) {
        const gr_way *w = &s->ways[i];

        if (!gr_row_find(w->alias.name)) {
            gr_text_addf(out, "| `%s` | ", w->alias.name);
            add_means(o, w, out);
            gr_text_add(out, " |\n");
        }
    }
    gr_text_add(out, "\n| beginning | means |\n|---|---|\n");
    for (const gr_prefix *p = s->names.prefixes; p->name; p++)
        gr_text_addf(out, "| `%s` | `%s` |\n", p->name, p->means);
    gr_text_add(out, "\n| name elsewhere | here it |\n|---|---|\n");
    for (const gr_gone *g = s->names.gone; g->name; g++)
        gr_text_addf(out, "| `%s` | %s |\n", g->name, g->instead);
}
