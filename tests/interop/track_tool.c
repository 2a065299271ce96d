/*
 * Writes a run with everything that tracking knows, for other programs to read:
 *
 *     track_tool FOLDER simple|tensor    40 steps, an image, a text, a histogram, parameters
 *
 * and prints the W&B command of the end, if there is one.
 */
#include "track/track.h"

#include <stdio.h>
#include <string.h>

static void write_picture(gr_track *t, int64_t step)
{
    uint8_t rgb[4 * 3 * 3] = { 200 };

    gr_track_picture(t, "samples/grid", step, &(gr_pixels){ rgb, 4, 3, 3 });
}

static void write_step(gr_track *t, int64_t step)
{
    gr_track_record r;

    gr_track_begin(&r, step);
    gr_track_i64(&r, "epoch", step / 20 + 1);
    gr_track_f64(&r, "loss", 1.0 / (double)(step + 1));
    gr_track_f64(&r, "lr", 0.125);
    gr_track_submit(t, &r);
    if (step == 5)
        write_picture(t, step);
    if (step % 20 != 19)
        return;
    gr_track_begin(&r, step); /* the same step again, as after an evaluation */
    gr_track_f64(&r, "val_loss", 2.0 / (double)(step + 1));
    gr_track_submit(t, &r);
    gr_track_plot(t);
}

static void write_others(gr_track *t)
{
    uint8_t rgb[4 * 3 * 3];
    float values[1000];
    gr_pixels image = { rgb, 4, 3, 3 };

    for (size_t i = 0; i < sizeof(rgb); i++)
        rgb[i] = (uint8_t)(7 * i);
    for (int i = 0; i < 1000; i++)
        values[i] = (float)(i - 300) / 100;
    gr_track_image(t, "sample", 5, &image);
    gr_track_text(t, "notes", 5, "**bold** \xc3\xa9 \xff");
    gr_track_histogram(t, "weights", 5, values, 1000);
}

int main(int argc, char **argv)
{
    const gr_param params[] = { { "lr", GR_PARAM_NUMBER, 0.125, NULL },
                                { "model", GR_PARAM_TEXT, 0, "resnet \"18\"" },
                                { "amp", GR_PARAM_BOOL, 1, NULL } };
    const char *const metrics[] = { "val_loss" };
    gr_wandb_config wandb = { .project = "interop", .name = "first" };
    gr_track_config c = { .folder = argc == 3 ? argv[1] : NULL, .last_step = -1 };
    gr_track_end end;
    gr_track *t;

    if (argc != 3) {
        fprintf(stderr, "usage: track_tool FOLDER simple|tensor\n");
        return 2;
    }
    c.jsonl = c.csv = c.tensorboard = c.plots = true;
    c.scalar_form = strcmp(argv[2], "tensor") == 0 ? GR_SCALAR_TENSOR : GR_SCALAR_SIMPLE;
    c.wandb = &wandb;
    c.params = params;
    c.n_params = 3;
    c.metrics = metrics;
    c.n_metrics = 1;
    if (gr_track_open(&t, &c) != GR_OK) {
        fprintf(stderr, "track_tool: %s\n", gr_error_message());
        return 1;
    }
    for (int64_t step = 0; step < 40; step++)
        write_step(t, step);
    write_others(t);
    gr_track_close(t, 0, &end);
    puts(gr_text_str(&end.wandb_command));
    gr_text_fini(&end.wandb_command);
    return end.n_dropped > 0;
}
