/*
 * CIFAR's binary files: records of one label byte (two for CIFAR-100, of which the second is the
 * fine one) and 3 planes of 32 x 32 bytes. Labels lie between the images, so they are looked at
 * when they are asked for: checking all would read the whole file.
 *
 * `path` is one file or a folder; the resolver puts the parts into one config path, separated by
 * newlines, which no file name of CIFAR has.
 */
#include "data/arrays.h"
#include "data/listing.h"

#include "base/alloc.h"
#include "base/outfile.h"

#include <string.h>

#define PLANES    3
#define SIDE      32
#define PIXELS    ((size_t)PLANES * SIDE * SIDE)
#define MAX_FILES 8

typedef struct cifar {
    size_t n_labels; /* bytes before the pixels */
    int n_classes;
    const char *names; /* the file that lists the class names, beside the data */
} cifar;

static const cifar kinds[] = { { 1, 10, "batches.meta.txt" }, { 2, 100, "fine_label_names.txt" } };

static gr_status open_part(gr_dataset *ds, gr_arrays *a, int i, const char *path, const cifar *kind)
{
    const char *slash = strrchr(path, '/');
    gr_mapped *m = &a->map[i];
    size_t stride = kind->n_labels + PIXELS;

    GR_TRY(gr_mapped_open(m, path));
    if (m->n_bytes == 0 || m->n_bytes % stride != 0)
        return gr_fail(GR_ERR_FORMAT, "'%s' has %zu bytes, which is no number of records of %zu",
                       path, m->n_bytes, stride);
    a->block[i] = (gr_block){ .samples = m->mem + kind->n_labels,
                              .labels = m->mem + kind->n_labels - 1,
                              .n = (int64_t)(m->n_bytes / stride),
                              .name = gr_arena_strdup(ds->arena, slash ? slash + 1 : path) };
    return a->block[i].name ? GR_OK : GR_ERR_NOMEM;
}

/* Takes the names if the file is there and has one line per class. */
static gr_status read_names(gr_dataset *ds, const char *path, int n)
{
    const char **names = gr_arena_array(ds->arena, (size_t)n + 1, sizeof(*names));
    char *text = NULL, *save = NULL;
    size_t n_bytes;
    int found = 0;

    if (!names)
        return GR_ERR_NOMEM;
    if (!gr_is_file(path))
        return GR_OK;
    GR_TRY(gr_file_read(path, &text, &n_bytes));
    for (char *word = strtok_r(text, "\r\n", &save); word; word = strtok_r(NULL, "\r\n", &save)) {
        if (found == n)
            break;
        names[found] = gr_arena_strdup(ds->arena, word);
        if (!names[found++]) {
            gr_free(text);
            return GR_ERR_NOMEM;
        }
    }
    gr_free(text);
    if (found == n)
        ds->class_names = names;
    return GR_OK;
}

static gr_status set_classes(gr_dataset *ds, const char *path, const cifar *kind)
{
    const char *slash = strrchr(path, '/');
    const char *names = gr_arena_printf(ds->arena, "%.*s%s", slash ? (int)(slash - path) + 1 : 0,
                                        path, kind->names);

    if (!names)
        return GR_ERR_NOMEM;
    ds->n_classes = kind->n_classes; /* names are not sorted: the numbers are the data's own */
    return read_names(ds, names, kind->n_classes);
}

static gr_status open_parts(gr_dataset *ds, char *paths, const cifar *kind)
{
    char *part[MAX_FILES], *save = NULL;
    gr_arrays *a = NULL;
    int n = 0;

    for (char *p = strtok_r(paths, "\n", &save); p && n < MAX_FILES;
         p = strtok_r(NULL, "\n", &save))
        part[n++] = p;
    if (n == 0)
        return gr_fail(GR_ERR_ARG, "no file is named");
    GR_TRY(gr_arrays_begin(ds, n, n, &a));
    a->dtype = GR_U8;
    a->shape = GR_SHAPE(PLANES, SIDE, SIDE);
    a->layout = GR_LAYOUT_CHW;
    a->stride = a->label_stride = kind->n_labels + PIXELS;
    a->labels = (gr_numbers){ .dtype = GR_U8 };
    for (int i = 0; i < n; i++)
        GR_TRY(open_part(ds, a, i, part[i], kind));
    GR_TRY(set_classes(ds, part[0], kind));
    return gr_arrays_end(ds);
}

gr_status gr_open_cifar(gr_dataset *ds, const gr_dataset_config *config)
{
    const cifar *kind = &kinds[config->format == GR_FORMAT_CIFAR100];
    char *paths = gr_arena_strdup(ds->arena, config->path);

    return paths ? open_parts(ds, paths, kind) : GR_ERR_NOMEM;
}
