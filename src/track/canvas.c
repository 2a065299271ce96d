/* Drawing. A line's pixel is covered by how near its middle is to the line: half a pixel of
 * slope at the edge makes it smooth. */
#include "track/canvas.h"

#include "base/alloc.h"
#include "track/font.h"

#include <math.h>
#include <string.h>

#define HALF_WIDTH 1.0

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

gr_status gr_canvas_init(gr_canvas *c, int width, int height, uint32_t colour)
{
    *c = (gr_canvas){ .width = width, .height = height };
    c->data = gr_calloc((size_t)width * (size_t)height, 3);
    if (!c->data)
        return GR_ERR_NOMEM;
    gr_canvas_fill(c, (gr_box){ 0, 0, width, height }, colour);
    return GR_OK;
}

void gr_canvas_fini(gr_canvas *c)
{
    gr_free(c->data);
    c->data = NULL;
}

/* Mixes the colour in: 0 leaves the pixel, 1 replaces it. */
static void blend(gr_canvas *c, int x, int y, uint32_t colour, double share)
{
    uint8_t *at = c->data + ((size_t)y * (size_t)c->width + (size_t)x) * 3;

    for (int i = 0; i < 3; i++) {
        double to = (double)((colour >> (16 - 8 * i)) & 255);

        at[i] = (uint8_t)lrint((double)at[i] + (to - (double)at[i]) * share);
    }
}

void gr_canvas_fill(gr_canvas *c, gr_box b, uint32_t colour)
{
    for (int y = most(b.top, 0); y < least(b.bottom, c->height); y++)
        for (int x = most(b.left, 0); x < least(b.right, c->width); x++)
            blend(c, x, y, colour, 1);
}

/* From the middle of a pixel to the nearest point of the line. */
static double distance(double x, double y, const double from[2], const double to[2])
{
    double dx = to[0] - from[0], dy = to[1] - from[1], square = dx * dx + dy * dy;
    double t = square > 0 ? ((x - from[0]) * dx + (y - from[1]) * dy) / square : 0;

    t = fmin(fmax(t, 0), 1);
    return hypot(x - (from[0] + t * dx), y - (from[1] + t * dy));
}

/* The rows that a line can touch in column x: a steep one would else be looked for in a box
 * of many empty pixels. */
static void rows_of(int x, const double from[2], const double to[2], double *low, double *high)
{
    double dx = to[0] - from[0], a = 0, b = 1;

    if (fabs(dx) > 1e-9) {
        a = fmin(fmax(((double)x - 2 - from[0]) / dx, 0), 1);
        b = fmin(fmax(((double)x + 3 - from[0]) / dx, 0), 1);
    }
    *low = fmin(from[1] + a * (to[1] - from[1]), from[1] + b * (to[1] - from[1])) - 3;
    *high = fmax(from[1] + a * (to[1] - from[1]), from[1] + b * (to[1] - from[1])) + 3;
}

void gr_canvas_line(gr_canvas *c, gr_box clip, const double from[2], const double to[2],
                    uint32_t colour)
{
    double left = fmax(fmin(from[0], to[0]) - 2, clip.left);
    double right = fmin(fmax(from[0], to[0]) + 3, clip.right);

    for (int x = (int)left; x < (int)right; x++) {
        double low, high;

        rows_of(x, from, to, &low, &high);
        low = fmin(fmax(low, clip.top), clip.bottom);
        high = fmin(fmax(high, clip.top), clip.bottom);
        for (int y = (int)low; y < (int)high; y++) {
            double far = distance(x + 0.5, y + 0.5, from, to);
            double share = fmin(HALF_WIDTH + 0.5 - far, 1);

            if (share > 0)
                blend(c, x, y, colour, share);
        }
    }
}

static void draw_char(gr_canvas *c, int x, int y, int scale, uint32_t colour, char what)
{
    for (int row = 0; row < GR_FONT_HEIGHT; row++)
        for (int column = 0; column < GR_FONT_WIDTH; column++)
            if (gr_font_dot(what, column, row))
                gr_canvas_fill(c,
                               (gr_box){ x + column * scale, y + row * scale,
                                         x + (column + 1) * scale, y + (row + 1) * scale },
                               colour);
}

int gr_canvas_text(gr_canvas *c, int x, int y, int scale, uint32_t colour, const char *text)
{
    int at = x;

    for (; *text; text++, at += GR_FONT_ADVANCE * scale)
        draw_char(c, at, y, scale, colour, *text);
    return at - x;
}

int gr_canvas_text_width(int scale, const char *text)
{
    size_t n = strlen(text);

    return n == 0 ? 0 : ((int)n * GR_FONT_ADVANCE - 1) * scale;
}
