/*
 * A sampler for the toy recipe: a point begins as noise and goes through the model STEPS times,
 * each with fresh noise. A point's result depends on its number alone, so units may be dealt to
 * any ranks; and on the weights, so that another checkpoint's model gives another.
 */
#include "gradus/nn.h"
#include "gradus/ops.h"
#include "gradus/random.h"
#include "train/toy_inside.h"

#include <stdio.h>
#include <string.h>

#define STEPS 6

gr_status toy_sample(gr_graph *g, void *user)
{
    gr_value *key = gr_input(g, "key"), *x = gr_input(g, "x");
    gr_shape shape = gr_value_shape(x);
    gr_value *noise = gr_random_normal_keyed(g, key, GR_F32, shape, 0, 0.5);

    (void)user;
    x = gr_add(g, gr_tanh(g, gr_linear(g, "mix", gr_add(g, x, noise), TOY_WIDTH)), noise);
    gr_output(g, "next", x);
    gr_output(g, "logits", gr_linear(g, "head", gr_relu(g, x), TOY_CLASSES));
    return gr_graph_status(g);
}

typedef struct drawn {
    float x[TOY_WIDTH], logits[TOY_CLASSES];
} drawn;

static gr_status draw(gr_runner *r, int64_t unit, drawn *d)
{
    memset(d, 0, sizeof(*d));
    for (int64_t step = 0; step < STEPS; step++) {
        int64_t key = unit * 1000 + step;
        gr_named feeds[] = { { "key", GR_I64, GR_SHAPE(1), &key },
                             { "x", GR_F32, GR_SHAPE(1, TOY_WIDTH), d->x } };

        GR_TRY(gr_runner_run(r, "sample", feeds, 2));
        GR_TRY(gr_runner_read(r, "next", (gr_vec){ d->x, TOY_WIDTH, GR_F32 }));
    }
    return gr_runner_read(r, "logits", (gr_vec){ d->logits, TOY_CLASSES, GR_F32 });
}

static int best_of(const drawn *d)
{
    int best = 0;

    for (int c = 1; c < TOY_CLASSES; c++)
        best = d->logits[c] > d->logits[best] ? c : best;
    return best;
}

void toy_work(const void *user, gr_task task, gr_split split, gr_eval_work *out)
{
    const toy *t = user;

    if (split == GR_SPLIT_TEST || split == GR_SPLIT_PREDICT)
        out->n_units = t->draws;
    if (task == GR_TASK_PREDICT && t->draws > 0)
        out->has_batches = false;
}

gr_status toy_prepare(void *user, gr_task task, gr_runner *r)
{
    const gr_named feeds[] = { { "key", GR_I64, GR_SHAPE(1), NULL },
                               { "x", GR_F32, GR_SHAPE(1, TOY_WIDTH), NULL } };
    toy *t = user;

    (void)task;
    if (t->draws == 0)
        return GR_OK;
    if (t->judge)
        GR_TRY(gr_runner_open(r, t->judge, &t->other));
    return gr_runner_expect(r, "sample", feeds, 2);
}

gr_status toy_score_unit(void *user, gr_runner *r, gr_split split, int64_t unit, double *counts)
{
    drawn d;

    (void)user;
    (void)split;
    GR_TRY(draw(r, unit, &d));
    counts[TOY_DRAWN] += 1 + best_of(&d);
    return GR_OK;
}

static gr_status picture(const drawn *d, int64_t unit, gr_results *out)
{
    uint8_t px[TOY_WIDTH];
    gr_image image = { .height = 3, .width = TOY_WIDTH / 3, .channels = 1, .px = px };
    char name[32];

    for (int i = 0; i < TOY_WIDTH; i++)
        px[i] = (uint8_t)(128 + 30 * (double)d->x[i]);
    snprintf(name, sizeof(name), "point_%d", (int)unit);
    return gr_results_picture(out, unit, name, &image);
}

/* Two rows: the point by averaged weights, where there are some, and by the others; and whether
 * the judge finds the same. */
gr_status toy_predict_unit(void *user, gr_runner *r, int64_t unit, gr_results *out)
{
    const toy *t = user;
    drawn d, judged;

    for (int live = 0; live < 2; live++) {
        gr_cell cells[] = { { .i = unit }, { .i = live }, { .i = -1 }, { .text = NULL } };
        char text[200] = "";
        size_t n = 0;

        if (gr_runner_has_averages(r))
            GR_TRY(gr_runner_use_averages(r, live == 0));
        GR_TRY(draw(r, unit, &d));
        if (t->other) {
            GR_TRY(draw(t->other, unit, &judged));
            cells[2].i = memcmp(&d, &judged, sizeof(d)) == 0;
        }
        for (int i = 0; i < TOY_WIDTH; i++)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%a ", (double)d.x[i]);
        cells[3].text = text;
        GR_TRY(gr_results_row(out, unit, cells));
    }
    return unit < 2 ? picture(&d, unit, out) : GR_OK;
}

gr_status toy_show(const void *user, const gr_eval *e, gr_results *out)
{
    const float *logits = e->outputs[0];
    uint8_t px[TOY_CLASSES];
    gr_image image = { .height = 1, .width = TOY_CLASSES, .channels = 1, .px = px };

    (void)user;
    for (int c = 0; c < TOY_CLASSES; c++)
        px[c] = logits[c] > 0 ? 255 : 0;
    return gr_results_picture(out, 0, "logits", &image);
}

/* ---- the action: points while the run trains ---- */

static int64_t n_points(const void *user)
{
    return ((const toy *)user)->draws;
}

static gr_status show_point(void *user, gr_runner *r, int64_t unit, gr_results *out)
{
    drawn d;

    (void)user;
    GR_TRY(draw(r, unit, &d));
    return picture(&d, unit, out);
}

const gr_action toy_points = { .name = "points",
                               .help =
                                   "between points that are drawn: steps, or '1 epoch'; 0: never",
                               .key = "toy.draw_every",
                               .every = "0",
                               .n_units = n_points,
                               .run_unit = show_point };
