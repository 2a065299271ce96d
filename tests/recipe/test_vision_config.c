/*
 * The configs: configs/ddp_example.yaml names every setting of the trainer and of the recipe, also
 * those that are commented out, with values that are accepted; all configs are read.
 */
#include "recipe/recipes.h"
#include "train/config/settings.h"
#include "train/options.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"
#include "run.h"

#include <ctype.h>

#define CONFIGS   GR_TESTS_DIR "/../configs/"
#define MAX_DEPTH 8

/* The groups that a line stands in, from its indentation. */
typedef struct place {
    char name[MAX_DEPTH][64];
    int indent[MAX_DEPTH], depth;
} place;

/* "  # key: value", or without the '#': its parts, and true. */
static bool read_key(char *line, int *indent, char **key, char **value)
{
    char *at = line, *end;

    while (*at == ' ')
        at++;
    *indent = (int)(at - line);
    if (strncmp(at, "# ", 2) == 0)
        at += 2;
    for (end = at; isalnum((unsigned char)*end) || *end == '_';)
        end++;
    if (end == at || *end != ':' || (end[1] != ' ' && end[1] != '\0'))
        return false;
    *end = '\0';
    *key = at;
    *value = end + 1 + strspn(end + 1, " ");
    end = **value == '#' ? *value : strstr(*value, " #");
    if (end)
        *end = '\0';
    return true;
}

static void join(const place *p, const char *key, char *out, size_t n)
{
    size_t at = 0;

    for (int i = 0; i < p->depth; i++)
        at += (size_t)snprintf(out + at, n - at, "%s.", p->name[i]);
    snprintf(out + at, n - at, "%s", key);
}

/* The setting alone, as a file of its own. */
static void read_alone(const place *p, const char *key, const char *value)
{
    gr_train_options o;
    char text[1024];
    size_t at = 0;

    for (int i = 0; i < p->depth; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%*s%s:\n", 2 * i, "", p->name[i]);
    snprintf(text + at, sizeof(text) - at, "%*s%s: %s\n", 2 * p->depth, "", key, value);
    GR_CHECK_OK(gr_train_options_init(&o, recipe_find("vision")));
    GR_CHECK_OK(gr_settings_read_text(o.settings, "line.yaml", text, strlen(text)));
    gr_train_options_fini(&o);
}

/* Marks the setting that a line is about. */
static void take_line(const gr_settings *s, place *p, char *line, bool *seen)
{
    char *key, *value, name[512];
    const gr_way *way;
    int indent;

    if (!read_key(line, &indent, &key, &value))
        return;
    while (p->depth > 0 && p->indent[p->depth - 1] >= indent)
        p->depth--;
    join(p, key, name, sizeof(name));
    way = gr_settings_way(s, name, strlen(name));
    for (char *dot = strchr(name, '.'); dot && !way; dot = strchr(dot + 1, '.')) {
        const gr_way *above = gr_settings_way(s, name, (size_t)(dot - name));

        if (above && s->slots[above->slot].key->kind == GR_KEY_TREE)
            return;
    }
    if (way) {
        seen[way->slot] = true;
        if (strcmp(name, "config") != 0 && *value)
            read_alone(p, key, value);
    } else if (!gr_settings_is_group(s, name) && *value) {
        fprintf(stderr, "ddp_example.yaml: '%s' is no setting\n", name);
        exit(1);
    }
    GR_CHECK(p->depth < MAX_DEPTH);
    snprintf(p->name[p->depth], sizeof(p->name[0]), "%s", key);
    p->indent[p->depth++] = indent;
}

static void example_is_complete(void)
{
    gr_train_options o;
    char *text, *line, *save = NULL;
    place p = { .depth = 0 };
    bool *seen;
    size_t n;

    GR_CHECK_OK(gr_train_options_init(&o, recipe_find("vision")));
    seen = calloc((size_t)o.settings->n_slots, sizeof(*seen));
    GR_CHECK_OK(gr_file_read(CONFIGS "ddp_example.yaml", &text, &n));
    for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        take_line(o.settings, &p, line, seen);
    for (int i = 0; i < o.settings->n_slots; i++)
        if (!seen[i]) {
            fprintf(stderr, "ddp_example.yaml has no '%s'\n", o.settings->slots[i].key->name);
            exit(1);
        }
    free(seen);
    gr_free(text);
    gr_train_options_fini(&o);
}

static void all_are_read(void)
{
    static const char *const files[] = {
        "ddp_example",     "ddp_quick_test", "ddp_segmentation",
        "ddp_large_model", "mnist",          "shapes_segmentation"
    };

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[1024], flag[] = "--config";
        char *words[] = { flag, path };
        gr_train_options o;

        snprintf(path, sizeof(path), "%s%s.yaml", CONFIGS, files[i]);
        GR_CHECK_OK(gr_train_options_init(&o, recipe_find("vision")));
        GR_CHECK_OK(gr_train_options_parse(&o, 2, words));
        GR_CHECK_STR(o.recipe, "vision");
        gr_train_options_fini(&o);
    }
}

int main(void)
{
    all_are_read();
    example_is_complete();
    return 0;
}
