/*
 * Predictions. Of a classifier, a row each: the sample, the class, and the probability of every
 * class. Of a U-Net, a PNG each, as large as the picture was: white on black when there is one
 * logit, else class numbers with a palette; and a row that names it, with the share of the
 * picture that each class covers.
 */
#include "recipe/vision/vision.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What each row has before the classes. */
enum { INDEX, FILE_NAME, SAID, SAID_NAME, N_HEAD };

gr_status gr_vision_columns(gr_vision *v)
{
    bool masks = gr_vision_segments(&v->model);
    gr_column *c = calloc((size_t)v->n_classes + N_HEAD, sizeof(*c));

    if (!c)
        return gr_fail(GR_ERR_NOMEM, "no memory for %d columns", v->n_classes);
    v->columns = c;
    *c++ = (gr_column){ .name = "index", .kind = GR_COLUMN_INT };
    *c++ = (gr_column){ .name = "file", .kind = GR_COLUMN_TEXT };
    if (masks) {
        *c++ = (gr_column){ .name = "mask", .kind = GR_COLUMN_TEXT };
    } else {
        *c++ = (gr_column){ .name = "class", .kind = GR_COLUMN_INT };
        *c++ = (gr_column){ .name = "name", .kind = GR_COLUMN_TEXT };
    }
    for (int k = 0; k < v->n_classes; k++)
        *c++ = (gr_column){ .name = v->class_names[k], .kind = GR_COLUMN_F64 };
    v->n_columns = (int)(c - v->columns);
    return GR_OK;
}

/* ---- classes ---- */

/* Probabilities of a row's classes. */
static void give_probabilities(const gr_vision *v, const float *row, gr_cell *cells)
{
    int n = v->model.n_out;
    double most = (double)row[0], sum = 0;

    if (n == 1) {
        double yes = 1 / (1 + exp(-(double)row[0]));

        cells[0].f = 1 - yes;
        cells[1].f = yes;
        return;
    }
    for (int c = 1; c < n; c++)
        most = fmax(most, (double)row[c]);
    for (int c = 0; c < n; c++)
        sum += exp((double)row[c] - most);
    for (int c = 0; c < n; c++)
        cells[c].f = exp((double)row[c] - most) / sum;
}

static gr_status predict_class(const gr_vision *v, const gr_eval *e, int64_t i, gr_cell *cells,
                               gr_results *out)
{
    const float *row = (const float *)e->outputs[GR_OUTPUT_MAIN] + i * v->model.n_out;
    int32_t said = gr_vision_decide(v, row);
    char name[GR_DATASET_NAME];

    cells[INDEX].i = e->index[i];
    cells[FILE_NAME].text = gr_vision_name(v, e->split, e->index[i], name);
    cells[SAID].i = said;
    cells[SAID_NAME].text = v->class_names[said];
    give_probabilities(v, row, cells + N_HEAD);
    return gr_results_row(out, e->index[i], cells);
}

/* ---- masks ---- */

/* The file's name: the picture's own without folder and suffix. Where two pictures have the
 * same, all names begin with their numbers. */
static void mask_name(const gr_vision *v, int64_t index, const char *name, char *out, size_t n)
{
    const char *stem = strrchr(name, '/');
    const char *dot;
    int length;

    stem = stem ? stem + 1 : name;
    dot = strrchr(stem, '.');
    length = dot && dot != stem ? (int)(dot - stem) : (int)strlen(stem);
    if (v->is_numbered)
        snprintf(out, n, "%06" PRId64 "_%.*s.png", index, length, stem);
    else
        snprintf(out, n, "%.*s.png", length, stem);
}

/* The mask as large as the picture was: each pixel shows the nearest one. */
static gr_status full_mask(const gr_vision *v, const int32_t *mask, const int32_t size[2],
                           gr_image *out)
{
    int64_t height = v->model.height, width = v->model.width, n_rows = size[0], n_columns = size[1];

    GR_TRY(gr_image_reserve(out, size[0], size[1], 1));
    for (int64_t y = 0; y < n_rows; y++) {
        const int32_t *row = mask + (2 * y + 1) * height / (2 * n_rows) * width;

        for (int64_t x = 0; x < n_columns; x++) {
            int32_t value = row[(2 * x + 1) * width / (2 * n_columns)];

            out->px[y * n_columns + x] = (uint8_t)(v->model.n_out == 1 ? 255 * value : value);
        }
    }
    return GR_OK;
}

static void give_shares(const gr_vision *v, const int32_t *mask, gr_cell *cells)
{
    int64_t n = v->model.height * v->model.width;

    for (int c = 0; c < v->n_classes; c++) {
        int64_t count = 0;

        for (int64_t i = 0; i < n; i++)
            count += mask[i] == c;
        cells[c].f = (double)count / (double)n;
    }
}

static gr_status write_mask(const gr_vision *v, const char *folder, const char *name,
                            const gr_image *image)
{
    size_t n = strlen(folder) + strlen(name) + 2;
    char *path = malloc(n);
    gr_status st;

    if (!path)
        return gr_fail(GR_ERR_NOMEM, "no memory for a path");
    snprintf(path, n, "%s/%s", folder, name);
    st = v->model.n_out == 1 ? gr_image_write(path, image) : gr_image_write_labels(path, image);
    free(path);
    return st;
}

static gr_status predict_mask(const gr_vision *v, const gr_eval *e, int64_t i, gr_cell *cells,
                              gr_results *out)
{
    const int32_t *mask = e->outputs[GR_OUTPUT_MAIN];
    const int32_t *size = (const int32_t *)e->feeds[GR_FEED_SIZE] + 2 * i;
    char name[GR_DATASET_NAME], file[GR_DATASET_NAME + 32];
    gr_image image = GR_IMAGE_INIT;
    gr_status st;

    mask += i * v->model.height * v->model.width;
    gr_vision_name(v, e->split, e->index[i], name);
    mask_name(v, e->index[i], name, file, sizeof(file));
    cells[INDEX].i = e->index[i];
    cells[FILE_NAME].text = name;
    cells[SAID].text = file;
    give_shares(v, mask, cells + SAID_NAME);
    GR_TRY_GOTO(st, full_mask(v, mask, size, &image), done);
    GR_TRY_GOTO(st, write_mask(v, gr_results_folder(out), file, &image), done);
    st = gr_results_row(out, e->index[i], cells);

done:
    gr_image_fini(&image);
    return st;
}

gr_status gr_vision_predict(const void *user, const gr_eval *e, gr_results *out)
{
    const gr_vision *v = user;
    gr_cell *cells = calloc((size_t)v->n_columns, sizeof(*cells));
    gr_status st = GR_OK;

    if (!cells)
        return gr_fail(GR_ERR_NOMEM, "no memory for a row of predictions");
    for (int64_t i = 0; i < e->n && st == GR_OK; i++)
        st = gr_vision_segments(&v->model) ? predict_mask(v, e, i, cells, out)
                                           : predict_class(v, e, i, cells, out);
    free(cells);
    return st;
}

/* ---- names ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

gr_status gr_vision_check_names(gr_vision *v)
{
    const gr_vision_part *p = &v->parts[GR_SPLIT_PREDICT];
    char name[GR_DATASET_NAME], file[GR_DATASET_NAME + 32], **all;
    gr_status st = GR_OK;

    if (!p->set || !gr_vision_segments(&v->model) || v->task != GR_TASK_PREDICT)
        return GR_OK;
    all = calloc((size_t)p->size + 1, sizeof(*all));
    for (int64_t i = 0; all && i < p->size && st == GR_OK; i++) {
        mask_name(v, i, gr_dataset_name(p->set, i, name, sizeof(name)), file, sizeof(file));
        all[i] = strdup(file);
        st = all[i] ? GR_OK : GR_ERR_NOMEM;
    }
    if (all && st == GR_OK) {
        qsort(all, (size_t)p->size, sizeof(*all), by_text);
        for (int64_t i = 1; i < p->size; i++)
            v->is_numbered |= strcmp(all[i - 1], all[i]) == 0;
    }
    for (int64_t i = 0; all && i < p->size; i++)
        free(all[i]);
    st = all ? st : GR_ERR_NOMEM;
    free(all);
    return st == GR_OK ? st : gr_fail(st, "no memory for %" PRId64 " names", p->size);
}
