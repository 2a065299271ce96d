/* Values as text. */
#include "train/config/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shortest of the usual forms that reads back as the same number. */
static void add_f64(gr_text *out, double x)
{
    char text[40];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, x);
        if (memcmp(&(double){ strtod(text, NULL) }, &x, sizeof(x)) == 0)
            break;
    }
    gr_text_add(out, text);
}

/* Between quotes with what they need, or as it is; in one line in any case. */
static void add_string(gr_text *out, const char *s, bool quoted)
{
    gr_text_add(out, quoted ? "\"" : "");
    for (; *s; s++) {
        if (quoted && (*s == '"' || *s == '\\'))
            gr_text_addf(out, "\\%c", *s);
        else if ((unsigned char)*s < ' ' || *s == 127)
            gr_text_addf(out, "\\x%02x", (unsigned)(unsigned char)*s);
        else
            gr_text_addn(out, s, 1);
    }
    gr_text_add(out, quoted ? "\"" : "");
}

/* In flow style. Recursion is bounded by the depth that reading allows. */
static void add_tree(gr_text *out, const gr_tree *t)
{
    bool is_map = t->type == GR_TREE_MAP;

    if (t->type == GR_TREE_NULL) {
        gr_text_add(out, "null");
        return;
    }
    if (t->type == GR_TREE_TEXT) {
        bool plain = !t->quoted && t->text[strcspn(t->text, "\"\\,[]{}:#&*!|>'%@`?\n\t")] == '\0';

        add_string(out, t->text, !plain);
        return;
    }
    gr_text_add(out, is_map ? "{" : "[");
    for (int i = 0; i < t->n; i++) {
        gr_text_add(out, i ? ", " : "");
        if (is_map) {
            add_string(out, t->entries[i].key, true);
            gr_text_add(out, ": ");
        }
        add_tree(out, t->entries[i].value);
    }
    gr_text_add(out, is_map ? "}" : "]");
}

static void add_span(gr_text *out, const gr_setting *v)
{
    gr_text_addf(out, "%" PRId64 "%s", v->ints[0], v->ints[1] ? " epochs" : " steps");
}

static void add_list(const gr_key *key, const gr_setting *v, gr_text *out)
{
    gr_text_add(out, "[");
    for (int i = 0; i < v->n; i++) {
        gr_text_add(out, i ? ", " : "");
        if (key->kind == GR_KEY_INTS)
            gr_text_addf(out, "%" PRId64, v->ints[i]);
        else if (key->kind == GR_KEY_F64S)
            add_f64(out, v->f64s[i]);
        else
            add_string(out, v->texts[i], true);
    }
    gr_text_add(out, "]");
}

void gr_setting_print(const gr_key *key, const gr_setting *v, gr_setting_form form, gr_text *out)
{
    bool is_list =
        key->kind == GR_KEY_INTS || key->kind == GR_KEY_F64S || key->kind == GR_KEY_TEXTS;

    if (v->n == 0 && !(is_list && v->tree))
        return;
    if (is_list)
        add_list(key, v, out);
    else if (key->kind == GR_KEY_TREE)
        add_tree(out, v->tree);
    else if (key->kind == GR_KEY_F64)
        add_f64(out, v->f64s[0]);
    else if (key->kind == GR_KEY_TEXT)
        add_string(out, v->texts[0], form == GR_FORM_YAML);
    else if (key->kind == GR_KEY_CHOICE)
        gr_text_add(out, v->texts[0]);
    else if (key->kind == GR_KEY_BOOL)
        gr_text_add(out, v->ints[0] ? "true" : "false");
    else if ((int)key->kind == GR_KEY_SPAN)
        add_span(out, v);
    else
        gr_text_addf(out, "%" PRId64, v->ints[0]);
}
