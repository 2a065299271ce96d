/*
 * What TensorBoard shows of a run besides its numbers: settings and model as text, parameters as
 * histograms, and pictures as the network gets them. Rank 0, between steps. Nothing here fails a
 * run or makes it wait (P18, P31): what finds no room or memory is left out.
 */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "graph/vars.h"
#include "step/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define N_PARAMS   64   /* that are shown: the queue is for numbers in the first place */
#define N_VALUES   2048 /* of each, evenly spaced */
#define N_PICTURES 4
#define MOST_SIDE  256 /* of a picture in pixels; larger ones lose every second, or more */

static bool shows(const gr_trainer *t)
{
    return t->track && t->o.tensorboard;
}

/* ---- texts ---- */

/* Four blanks before a line keep it as it is: the page reads Markdown. */
static void show_file(gr_trainer *t, const char *tag, const char *name)
{
    const char *path = gr_arena_printf(t->arena, "%s/%s", t->folder, name);
    gr_text text = GR_TEXT_INIT;
    char *whole = NULL, *line;
    size_t n;

    if (path && gr_file_read(path, &whole, &n) == GR_OK)
        for (line = whole; *line; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] != '\0'))
            gr_text_addf(&text, "    %.*s\n", (int)strcspn(line, "\n"), line);
    if (text.len > 0 && gr_text_status(&text) == GR_OK)
        gr_track_text(t->track, tag, t->at, gr_text_str(&text));
    gr_free(whole);
    gr_text_fini(&text);
}

void gr_trainer_show_texts(gr_trainer *t)
{
    if (!shows(t))
        return;
    show_file(t, "config", "config.yaml");
    show_file(t, "model", "model_summary.txt");
}

/* ---- parameters ---- */

static void show_param(gr_trainer *t, const gr_named *p)
{
    char tag[256];
    float values[N_VALUES];
    int64_t n = gr_shape_count(&p->shape), step = (n + N_VALUES - 1) / N_VALUES, k = 0;

    for (int64_t i = 0; i < n; i += step)
        values[k++] = ((const float *)p->mem)[i];
    snprintf(tag, sizeof(tag), "parameters/%s", p->name);
    if (k > 0)
        gr_track_histogram(t->track, tag, t->at, values, k);
}

void gr_trainer_show_params(gr_trainer *t, const gr_snapshot *snap)
{
    const gr_vars *vars = gr_step_vars(t->step);
    int n = 0, seen = 0, every;

    if (!shows(t))
        return;
    for (int i = 0; i < vars->n; i++)
        n += vars->list[i]->kind == GR_VAR_PARAM && !vars->list[i]->frozen;
    every = (n + N_PARAMS - 1) / N_PARAMS;
    for (int i = 0; i < vars->n; i++) {
        const gr_var *v = vars->list[i];
        const gr_named *p;

        if (v->kind != GR_VAR_PARAM || v->frozen || seen++ % every != 0)
            continue;
        p = gr_snapshot_find(snap, v->name);
        if (p && p->dtype == GR_F32)
            show_param(t, p);
    }
}

/* ---- pictures ---- */

static double pixel(const void *mem, gr_dtype t, int64_t i)
{
    return t == GR_U8 ? (double)((const uint8_t *)mem)[i] : (double)((const float *)mem)[i];
}

/* From its least value to its greatest: what was normalised is seen, too. */
static void show_picture(gr_trainer *t, const gr_field *f, const void *mem, int number)
{
    int64_t h = f->shape.dim[0], w = f->shape.dim[1], c = f->shape.dim[2];
    int64_t step = ((h > w ? h : w) + MOST_SIDE - 1) / MOST_SIDE, k = 0;
    gr_pixels p = { .width = (int)((w + step - 1) / step),
                    .height = (int)((h + step - 1) / step),
                    .channels = (int)c };
    uint8_t *data = gr_malloc((size_t)p.width * (size_t)p.height * (size_t)c + 1);
    double least = INFINITY, most = -INFINITY;
    char tag[128];

    for (int64_t i = 0; i < h * w * c; i++) {
        double x = pixel(mem, f->dtype, i);

        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    for (int64_t y = 0; data && y < h; y += step)
        for (int64_t x = 0; x < w; x += step)
            for (int64_t i = 0; i < c; i++) {
                double v = pixel(mem, f->dtype, (y * w + x) * c + i);

                data[k++] =
                    most > least && v >= least ? (uint8_t)(255 * (v - least) / (most - least)) : 0;
            }
    p.data = data;
    snprintf(tag, sizeof(tag), "inputs/%s/%d", f->name, number);
    if (data && isfinite(most - least))
        gr_track_image(t->track, tag, t->at, &p);
    gr_free(data);
}

static bool is_picture(const gr_field *f)
{
    return f->shape.n_dims == 3 && (f->shape.dim[2] == 1 || f->shape.dim[2] == 3) &&
           gr_shape_count(&f->shape) > 0 && (f->dtype == GR_F32 || f->dtype == GR_U8);
}

void gr_trainer_show_inputs(gr_trainer *t)
{
    const gr_feed *feed = &t->feeds[GR_SPLIT_TRAIN];

    for (int i = 0; shows(t) && feed->loader && i < t->view.n_feeds; i++) {
        gr_field f = t->view.feeds[i];
        size_t n_bytes;

        for (int d = 0; d < f.shape.n_dims; d++) /* as the batch is padded */
            f.shape.dim[d] = feed->feeds[i].mem ? feed->feeds[i].shape.dim[d + 1] : 0;
        n_bytes = gr_field_bytes(&f, NULL);
        for (int k = 0; is_picture(&f) && feed->feeds[i].mem && k < N_PICTURES; k++)
            if (k < feed->feeds[i].shape.dim[0])
                show_picture(t, &f, (const char *)feed->feeds[i].mem + (size_t)k * n_bytes, k);
    }
}
