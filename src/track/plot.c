/*
 * Plots. Values become pixels in two steps: an axis maps a value (or its logarithm) to 0..1
 * between its ends, and the frame maps that to pixels. Ticks stand at 1, 2 or 5 times a power
 * of ten; on a logarithmic axis at powers of ten.
 */
#include "track/plot.h"

#include "base/outfile.h"
#include "track/canvas.h"
#include "track/font.h"
#include "track/png.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WHITE    0xffffff
#define INK      0x333333
#define GRID     0xe3e3e3
#define SCALE    2
#define MAX_SIDE 8192
#define MIN_SIDE 200

/* Told apart also by people who see few colours. */
static const uint32_t colours[] = { 0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7,
                                    0x56b4e9, 0xe69f00, 0x8a8a8a, 0x000000 };
#define N_COLOURS ((int)(sizeof(colours) / sizeof(colours[0])))

typedef struct axis {
    double low, high; /* of the logarithms when is_log */
    double tick;      /* between two numbers */
    bool is_log, is_empty;
} axis;

typedef struct figure {
    gr_canvas canvas;
    gr_box frame;
    axis x, y;
} figure;

#define TOO_LARGE 1e150 /* differences and squares of what is drawn must be finite */

static bool on_axis(const axis *a, double value, double *out)
{
    if (!(fabs(value) < TOO_LARGE) || (a->is_log && value <= 0))
        return false;
    *out = a->is_log ? log10(value) : value;
    return true;
}

static void include(axis *a, double value)
{
    double v;

    if (!on_axis(a, value, &v))
        return;
    a->low = a->is_empty ? v : fmin(a->low, v);
    a->high = a->is_empty ? v : fmax(a->high, v);
    a->is_empty = false;
}

/* Ends and ticks that are round numbers. */
static void round_axis(axis *a, int n_ticks, bool loose)
{
    double span, power, rough;

    if (a->is_empty)
        a->high = 1;
    if (a->high - a->low < 1e-9 * fmax(fabs(a->high), 1e-30)) {
        double room = a->is_log ? 0.5 : fmax(fabs(a->high) * 0.1, 1e-6);

        a->low -= room;
        a->high += room;
    }
    span = a->high - a->low;
    rough = span / n_ticks;
    power = pow(10, floor(log10(rough)));
    rough /= power;
    a->tick = power * (rough <= 1 ? 1 : rough <= 2 ? 2 : rough <= 5 ? 5 : 10);
    if (a->is_log)
        a->tick = fmax(a->tick, span < 1.5 ? a->tick : 1);
    if (!loose)
        return;
    a->low -= span * 0.04;
    a->high += span * 0.04;
}

static double place(const axis *a, double v, int from, int to)
{
    return from + (v - a->low) / (a->high - a->low) * (to - from);
}

static void number_text(double value, double tick, bool is_log, char *out, size_t n_bytes)
{
    if (is_log)
        value = pow(10, value);
    else if (fabs(value) < tick * 1e-6)
        value = 0; /* a sum of ticks that should be zero */
    if (!is_log && tick >= 1 && fabs(value) >= 10000 && fabs(fmod(value, 1000)) < 0.5)
        snprintf(out, n_bytes, "%.6gk", value / 1000);
    else
        snprintf(out, n_bytes, is_log ? "%.3g" : "%.6g", value);
}

static void draw_x_ticks(figure *f)
{
    const gr_box *b = &f->frame;

    for (double v = ceil(f->x.low / f->x.tick) * f->x.tick; v <= f->x.high; v += f->x.tick) {
        int at = (int)place(&f->x, v, b->left, b->right);
        char text[32];

        number_text(v, f->x.tick, false, text, sizeof(text));
        gr_canvas_fill(&f->canvas, (gr_box){ at, b->top, at + 1, b->bottom }, GRID);
        gr_canvas_fill(&f->canvas, (gr_box){ at, b->bottom, at + 1, b->bottom + 6 }, INK);
        gr_canvas_text(&f->canvas, at - gr_canvas_text_width(SCALE, text) / 2, b->bottom + 11,
                       SCALE, INK, text);
    }
}

static void draw_y_ticks(figure *f)
{
    const gr_box *b = &f->frame;

    for (double v = ceil(f->y.low / f->y.tick) * f->y.tick; v <= f->y.high; v += f->y.tick) {
        int at = (int)place(&f->y, v, b->bottom, b->top);
        char text[32];

        number_text(v, f->y.tick, f->y.is_log, text, sizeof(text));
        gr_canvas_fill(&f->canvas, (gr_box){ b->left, at, b->right, at + 1 }, GRID);
        gr_canvas_fill(&f->canvas, (gr_box){ b->left - 6, at, b->left, at + 1 }, INK);
        gr_canvas_text(&f->canvas, b->left - 11 - gr_canvas_text_width(SCALE, text),
                       at - GR_FONT_HEIGHT * SCALE / 2, SCALE, INK, text);
    }
}

static void draw_frame(figure *f)
{
    const gr_box *b = &f->frame;
    gr_canvas *c = &f->canvas;

    draw_x_ticks(f);
    draw_y_ticks(f);
    gr_canvas_fill(c, (gr_box){ b->left - 1, b->top, b->left, b->bottom }, INK);
    gr_canvas_fill(c, (gr_box){ b->left - 1, b->bottom, b->right, b->bottom + 1 }, INK);
}

static void draw_series(figure *f, const gr_series *s, uint32_t colour)
{
    double last[2] = { 0, 0 };
    bool joined = false, lonely = false;

    for (int i = 0; i <= s->n; i++) {
        double x, y, at[2];
        bool seen = i < s->n && on_axis(&f->x, s->x[i], &x) && on_axis(&f->y, s->y[i], &y);

        if (!seen) {
            if (lonely) /* a point without neighbours is a dot */
                gr_canvas_line(&f->canvas, f->frame, last, last, colour);
            joined = lonely = false;
            continue;
        }
        at[0] = place(&f->x, x, f->frame.left, f->frame.right);
        at[1] = place(&f->y, y, f->frame.bottom, f->frame.top);
        if (joined)
            gr_canvas_line(&f->canvas, f->frame, last, at, colour);
        lonely = !joined;
        joined = true;
        memcpy(last, at, sizeof(last));
    }
}

/* At the top right, over the curves, on a patch of white. */
static void draw_legend(figure *f, const gr_plot *p)
{
    int wide = 0, line = (GR_FONT_HEIGHT + 4) * SCALE, x, y = f->frame.top + 8;

    for (int i = 0; i < p->n_series; i++) {
        int w = gr_canvas_text_width(SCALE, p->series[i].name);

        wide = w > wide ? w : wide;
    }
    x = f->frame.right - wide - 50;
    gr_canvas_fill(&f->canvas, (gr_box){ x - 6, y - 4, f->frame.right - 2, y + p->n_series * line },
                   WHITE);
    for (int i = 0; i < p->n_series; i++, y += line) {
        double from[2] = { x + 2, y + GR_FONT_HEIGHT }, to[2] = { x + 28, y + GR_FONT_HEIGHT };

        gr_canvas_line(&f->canvas, (gr_box){ 0, 0, f->canvas.width, f->canvas.height }, from, to,
                       colours[i % N_COLOURS]);
        gr_canvas_text(&f->canvas, x + 36, y, SCALE, INK, p->series[i].name);
    }
}

static void draw_words(figure *f, const gr_plot *p)
{
    int middle = (f->frame.left + f->frame.right) / 2;

    if (p->title)
        gr_canvas_text(&f->canvas, middle - gr_canvas_text_width(SCALE, p->title) / 2, 14, SCALE,
                       INK, p->title);
    if (p->x_label)
        gr_canvas_text(&f->canvas, middle - gr_canvas_text_width(SCALE, p->x_label) / 2,
                       f->canvas.height - 12 - GR_FONT_HEIGHT, SCALE, INK, p->x_label);
}

static void draw(figure *f, const gr_plot *p)
{
    f->frame = (gr_box){ 110, 42, p->width - 30, p->height - 66 };
    f->x.is_empty = f->y.is_empty = true;
    f->y.is_log = p->log_y;
    for (int s = 0; s < p->n_series; s++)
        for (int i = 0; i < p->series[s].n; i++) {
            double unused;

            if (!on_axis(&f->y, p->series[s].y[i], &unused))
                continue;
            include(&f->x, p->series[s].x[i]);
            include(&f->y, p->series[s].y[i]);
        }
    round_axis(&f->x, 1 + p->width / 160, false);
    round_axis(&f->y, 1 + p->height / 90, true);
    draw_frame(f);
    for (int s = 0; s < p->n_series; s++)
        draw_series(f, &p->series[s], colours[s % N_COLOURS]);
    if (p->n_series > 0)
        draw_legend(f, p);
    draw_words(f, p);
}

gr_status gr_plot_png(const gr_plot *p, gr_text *out)
{
    figure f = { 0 };
    gr_pixels pixels;
    gr_status st;

    if (p->width < MIN_SIDE || p->height < MIN_SIDE || p->width > MAX_SIDE || p->height > MAX_SIDE)
        return gr_fail(GR_ERR_ARG, "a plot of %d x %d pixels: each side is %d to %d", p->width,
                       p->height, MIN_SIDE, MAX_SIDE);
    GR_TRY(gr_canvas_init(&f.canvas, p->width, p->height, WHITE));
    draw(&f, p);
    pixels = (gr_pixels){ f.canvas.data, p->width, p->height, 3 };
    st = gr_png_encode(&pixels, out);
    gr_canvas_fini(&f.canvas);
    return st;
}

gr_status gr_plot_write(const gr_plot *p, const char *path)
{
    gr_text png = GR_TEXT_INIT;
    gr_outfile *f;
    gr_status st = gr_plot_png(p, &png);

    if (st == GR_OK)
        st = gr_outfile_open(&f, path);
    if (st == GR_OK) {
        gr_outfile_write(f, png.str, png.len);
        st = gr_outfile_commit(f);
    }
    gr_text_fini(&png);
    return st;
}
