/*
 * Data sets from list files and tables: names become paths, second words become masks (they are
 * image files), class numbers (all are numbers) or class names.
 */
#include "data/files.h"
#include "data/listing.h"
#include "data/rows.h"

#include "base/alloc.h"
#include "base/outfile.h"

#include <errno.h>
#include <string.h>

#define MAX_CLASS 1000000

typedef struct list_job {
    const gr_dataset_config *config;
    gr_dataset *ds;
    gr_files *files;
    const char *root;
    gr_rows rows;
    char *text;         /* owned */
    const char **names; /* owned: sorted class names */
    int *map;           /* owned */
    int n_names;
} list_job;

/* pattern with "{}" replaced by name; the name itself without a pattern. */
static const char *apply(gr_arena *a, const char *pattern, const char *name)
{
    const char *hole = pattern ? strstr(pattern, "{}") : NULL;

    if (!hole)
        return name;
    return gr_arena_printf(a, "%.*s%s%s", (int)(hole - pattern), pattern, name, hole + 2);
}

static gr_status set_path(const list_job *j, const char *pattern, const char *name,
                          const char **dir, const char **path)
{
    *path = apply(j->ds->arena, pattern, name);
    if (!*path)
        return GR_ERR_NOMEM;
    *dir = j->root;
    if ((*path)[0] == '/' && !j->config->root)
        *dir = ""; /* a whole path; with a root, it is below that all the same */
    while ((*path)[0] == '/' && **dir != '\0')
        ++*path;
    return GR_OK;
}

static bool class_number(const char *text, int *out)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || n < 0 || n > MAX_CLASS)
        return false;
    *out = (int)n;
    return true;
}

static int by_text(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static gr_status collect_names(list_job *j)
{
    int n = 0;

    j->names = gr_calloc((size_t)j->rows.n + 1, sizeof(*j->names));
    j->map = gr_calloc((size_t)j->rows.n + 1, sizeof(*j->map));
    if (!j->names || !j->map)
        return GR_ERR_NOMEM;
    for (int i = 0; i < j->rows.n; i++)
        j->names[i] = j->rows.at[i].second;
    qsort(j->names, (size_t)j->rows.n, sizeof(*j->names), by_text);
    for (int i = 0; i < j->rows.n; i++)
        if (i == 0 || strcmp(j->names[i], j->names[n - 1]) != 0)
            j->names[n++] = j->names[i];
    j->n_names = n;
    return gr_classes_set(j->ds, j->config->classes_of, j->names, n, j->map);
}

/* Numbers if all are numbers, else names; *numbers says which. */
static gr_status settle_classes(list_job *j, bool *numbers)
{
    int most = -1;

    *numbers = !j->config->classes_of || !j->config->classes_of->class_names;
    for (int i = 0; i < j->rows.n && *numbers; i++) {
        int c;

        *numbers = class_number(j->rows.at[i].second, &c);
        most = *numbers && c > most ? c : most;
    }
    return *numbers ? gr_classes_count(j->ds, j->config->classes_of, most + 1) : collect_names(j);
}

static int class_of(const list_job *j, const char *text, bool numbers)
{
    const char *const *found;
    int c = -1;

    if (numbers) {
        class_number(text, &c);
        return c;
    }
    found = bsearch(&text, j->names, (size_t)j->n_names, sizeof(*j->names), by_text);
    return found ? j->map[found - j->names] : -1;
}

static gr_status add_rows(list_job *j)
{
    const char *mask_pattern = j->config->mask_pattern;
    bool has_second = j->rows.at[0].second != NULL, numbers = false;
    bool masks = mask_pattern != NULL || (has_second && gr_is_image_name(j->rows.at[0].second));

    if (has_second && !masks)
        GR_TRY(settle_classes(j, &numbers));
    for (int i = 0; i < j->rows.n; i++) {
        const gr_row *r = &j->rows.at[i];
        gr_file_sample s = { .label = -1 };

        GR_TRY(set_path(j, j->config->image_pattern, r->image, &s.dir, &s.name));
        if (masks) {
            const char *name = r->second ? r->second : r->image;

            if (!mask_pattern && !gr_is_image_name(name))
                return gr_fail(GR_ERR_FORMAT, "line %d: '%s' is no mask (.png), as line %d has one",
                               r->line, name, j->rows.at[0].line);
            GR_TRY(set_path(j, mask_pattern, name, &s.mask_dir, &s.mask));
        } else if (has_second) {
            s.label = class_of(j, r->second, numbers);
        }
        GR_TRY(gr_files_add(j->files, s));
    }
    return GR_OK;
}

static gr_status folder_of(list_job *j)
{
    const char *slash = strrchr(j->config->path, '/');

    if (j->config->root)
        j->root = gr_arena_strdup(j->ds->arena, j->config->root);
    else if (!slash)
        j->root = ".";
    else
        j->root =
            gr_arena_printf(j->ds->arena, "%.*s", (int)(slash - j->config->path), j->config->path);
    return j->root ? GR_OK : GR_ERR_NOMEM;
}

static gr_status run(list_job *j)
{
    size_t n_bytes = 0;

    GR_TRY(gr_files_begin(j->ds, &j->files));
    GR_TRY(folder_of(j));
    j->files->n_root = strlen(j->root);
    GR_TRY(gr_file_read(j->config->path, &j->text, &n_bytes));
    if (j->config->format == GR_FORMAT_CSV)
        GR_TRY(gr_rows_parse_csv(&j->rows, j->ds->arena, j->text, n_bytes));
    else
        GR_TRY(gr_rows_parse_list(&j->rows, j->ds->arena, j->text, n_bytes));
    if (j->rows.n == 0)
        return gr_fail(GR_ERR_FORMAT, "no line names an image");
    GR_TRY(add_rows(j));
    return gr_files_end(j->ds, j->config->path);
}

gr_status gr_open_list(gr_dataset *ds, const gr_dataset_config *config)
{
    list_job j = { .config = config, .ds = ds };
    gr_status st = run(&j);

    gr_rows_fini(&j.rows);
    gr_free(j.text);
    gr_free(j.names);
    gr_free(j.map);
    return st;
}
