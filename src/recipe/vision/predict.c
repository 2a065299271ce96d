/*
 * Predictions. Of a classifier, a row each: the sample, the class, and the probability of every
 * class. Of a U-Net, a PNG each, as large as the picture was: white on black when there is one
 * logit, else class numbers with a palette; and a row that names it, with the share of the
 * picture that each class covers.
 */
#include "recipe/vision/vision.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line that grows. */
typedef struct line {
    char *text;
    size_t n, cap;
} line;

static gr_status line_add(line *l, const char *fmt, ...) GR_PRINTF(2, 3);

static gr_status line_add(line *l, const char *fmt, ...)
{
    for (;;) {
        size_t room = l->cap - l->n;
        char *grown;
        va_list args;
        int n;

        va_start(args, fmt);
        n = vsnprintf(l->text ? l->text + l->n : NULL, l->text ? room : 0, fmt, args);
        va_end(args);
        if (l->text && (size_t)n < room) {
            l->n += (size_t)n;
            return GR_OK;
        }
        grown = realloc(l->text, 2 * l->cap + (size_t)n + 256);
        if (!grown)
            return gr_fail(GR_ERR_NOMEM, "no memory for a row of predictions");
        l->text = grown;
        l->cap = 2 * l->cap + (size_t)n + 256;
    }
}

/* A text as a field of a CSV file: between quotes where it needs them. A row is one line, so
 * the end of a line within it (in the name of a file) becomes a space. */
static gr_status line_field(line *l, const char *text)
{
    if (!strpbrk(text, ",\"\r\n"))
        return line_add(l, "%s", text);
    GR_TRY(line_add(l, "\""));
    for (; *text; text++)
        if (*text == '"')
            GR_TRY(line_add(l, "\"\""));
        else
            GR_TRY(line_add(l, "%c", *text == '\r' || *text == '\n' ? ' ' : *text));
    return line_add(l, "\"");
}

gr_status gr_vision_header(gr_vision *v)
{
    bool masks = gr_vision_segments(&v->model);
    line l = { 0 };
    gr_status st;

    GR_TRY_GOTO(st, line_add(&l, masks ? "index,file,mask" : "index,file,class,name"), fail);
    for (int c = 0; c < v->n_classes; c++) {
        GR_TRY_GOTO(st, line_add(&l, ","), fail);
        GR_TRY_GOTO(st, line_field(&l, v->class_names[c]), fail);
    }
    v->header = l.text;
    return GR_OK;

fail:
    free(l.text);
    return st;
}

/* ---- classes ---- */

/* Probabilities of a row's classes, one after the other. */
static gr_status add_probabilities(const gr_vision *v, const float *row, line *l)
{
    int n = v->model.n_out;
    double most = (double)row[0], sum = 0;

    if (n == 1) {
        double yes = 1 / (1 + exp(-(double)row[0]));

        return line_add(l, ",%.6g,%.6g", 1 - yes, yes);
    }
    for (int c = 1; c < n; c++)
        most = fmax(most, (double)row[c]);
    for (int c = 0; c < n; c++)
        sum += exp((double)row[c] - most);
    for (int c = 0; c < n; c++)
        GR_TRY(line_add(l, ",%.6g", exp((double)row[c] - most) / sum));
    return GR_OK;
}

static gr_status predict_class(const gr_vision *v, const gr_eval *e, int64_t i, line *l)
{
    const float *row = (const float *)e->outputs[GR_OUTPUT_MAIN] + i * v->model.n_out;
    int32_t said = gr_vision_decide(v, row);
    char name[GR_DATASET_NAME];

    GR_TRY(line_add(l, "%" PRId64 ",", e->index[i]));
    GR_TRY(line_field(l, gr_vision_name(v, e->split, e->index[i], name)));
    GR_TRY(line_add(l, ",%" PRId32 ",", said));
    GR_TRY(line_field(l, v->class_names[said]));
    return add_probabilities(v, row, l);
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

static gr_status add_shares(const gr_vision *v, const int32_t *mask, line *l)
{
    int64_t n = v->model.height * v->model.width;

    for (int c = 0; c < v->n_classes; c++) {
        int64_t count = 0;

        for (int64_t i = 0; i < n; i++)
            count += mask[i] == c;
        GR_TRY(line_add(l, ",%.6g", (double)count / (double)n));
    }
    return GR_OK;
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

static gr_status predict_mask(const gr_vision *v, const gr_eval *e, int64_t i, const char *folder,
                              line *l)
{
    const int32_t *mask = e->outputs[GR_OUTPUT_MAIN];
    const int32_t *size = (const int32_t *)e->feeds[GR_FEED_SIZE] + 2 * i;
    char name[GR_DATASET_NAME], file[GR_DATASET_NAME + 32];
    gr_image image = GR_IMAGE_INIT;
    gr_status st;

    mask += i * v->model.height * v->model.width;
    gr_vision_name(v, e->split, e->index[i], name);
    mask_name(v, e->index[i], name, file, sizeof(file));
    GR_TRY_GOTO(st, full_mask(v, mask, size, &image), done);
    GR_TRY_GOTO(st, write_mask(v, folder, file, &image), done);
    GR_TRY_GOTO(st, line_add(l, "%" PRId64 ",", e->index[i]), done);
    GR_TRY_GOTO(st, line_field(l, name), done);
    GR_TRY_GOTO(st, line_add(l, ","), done);
    GR_TRY_GOTO(st, line_field(l, file), done);
    st = add_shares(v, mask, l);

done:
    gr_image_fini(&image);
    return st;
}

gr_status gr_vision_predict(const void *user, const gr_eval *e, gr_prediction *out)
{
    const gr_vision *v = user;
    bool masks = gr_vision_segments(&v->model);
    gr_status st = GR_OK;
    line l = { 0 };

    for (int64_t i = 0; i < e->n && st == GR_OK; i++) {
        l.n = 0;
        st = masks ? predict_mask(v, e, i, gr_prediction_folder(out), &l)
                   : predict_class(v, e, i, &l);
        if (st == GR_OK)
            st = gr_prediction_row(out, e->index[i], l.text);
    }
    free(l.text);
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
