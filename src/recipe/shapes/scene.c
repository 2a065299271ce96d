/*
 * Scenes are painted a row at a time: paper, then each shape's coverage over it, then noise.
 * Nothing larger than a row is needed beside the picture, so painting allocates nothing.
 */
#include "recipe/shapes/scene.h"

#include "recipe/shapes/draw.h"
#include "recipe/shapes/stream.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define MAX_SHAPES 8
#define TURN       0.45f /* largest rotation, radians */
#define NOISE      0.25f /* largest change of a pixel; intensities reach from -1 to 1 */
#define TRIES      8     /* to place a shape clear of the others; else it is left out */
#define REACH      1.2f  /* radii from the middle beyond which a shape covers nothing */

typedef struct figure {
    int kind;
    gr_shapes_pose pose;
    float ink[3];
} figure;

typedef struct painting {
    const gr_scene *scene;
    int n_figures;
    figure figures[MAX_SHAPES];
    float paper[3];
} painting;

/* One shape is the thing to tell: large, near the middle. Several lie anywhere, whole. */
static gr_shapes_pose draw_pose(const gr_scene *scene, gr_draw_stream *s)
{
    float side = (float)scene->side, angle = gr_draw_f32(s, -TURN, TURN);
    float radius =
        scene->n_shapes == 1 ? gr_draw_f32(s, 0.24f, 0.36f) : gr_draw_f32(s, 0.15f, 0.28f);
    float room = scene->n_shapes == 1 ? 0.09f : 0.5f - radius;

    return (gr_shapes_pose){
        .middle_x = side * (0.5f + gr_draw_f32(s, -room, room)),
        .middle_y = side * (0.5f + gr_draw_f32(s, -room, room)),
        .radius = side * radius,
        .cos = cosf(angle),
        .sin = sinf(angle),
    };
}

static void draw_colour(gr_draw_stream *s, float from, float to, float colour[3])
{
    float gray = gr_draw_f32(s, from, to);

    for (int c = 0; c < 3; c++)
        colour[c] = gray + gr_draw_f32(s, -0.15f, 0.15f);
}

/* Whether the figure keeps clear of those before it: what lies under another shape of about
 * the same shade could not be told. */
static bool is_clear(const painting *p, const figure *f)
{
    for (int i = 0; i < p->n_figures; i++) {
        float dx = f->pose.middle_x - p->figures[i].pose.middle_x;
        float dy = f->pose.middle_y - p->figures[i].pose.middle_y;
        float apart = f->pose.radius + p->figures[i].pose.radius;

        if (dx * dx + dy * dy < apart * apart)
            return false;
    }
    return true;
}

static void plan(painting *p, gr_draw_stream *s)
{
    int most = p->scene->n_shapes < MAX_SHAPES ? p->scene->n_shapes : MAX_SHAPES;
    int n = 1 + (int)(gr_draw_u64(s) % (uint64_t)most);

    draw_colour(s, -0.6f, -0.3f, p->paper);
    for (int i = 0; i < n; i++) {
        figure *f = &p->figures[p->n_figures];

        f->kind = (int)(gr_draw_u64(s) % (uint64_t)p->scene->n_kinds);
        draw_colour(s, 0.3f, 0.7f, f->ink);
        for (int k = 0; k < TRIES; k++) {
            f->pose = draw_pose(p->scene, s);
            if (is_clear(p, f)) {
                p->n_figures++;
                break;
            }
        }
    }
}

/* Paper and shapes of row y, not yet bytes; and the mask's row. */
static void paint_row(const painting *p, int y, float *row, uint8_t *mask)
{
    int n = p->scene->side, n_ch = p->scene->channels;
    float cover[GR_SCENE_MAX_SIDE];

    for (ptrdiff_t x = 0; x < n; x++)
        memcpy(row + x * n_ch, p->paper, (size_t)n_ch * sizeof(*row));
    if (mask)
        memset(mask, 0, (size_t)n);
    for (int i = 0; i < p->n_figures; i++) {
        const figure *f = &p->figures[i];

        if (fabsf((float)y + 0.5f - f->pose.middle_y) > REACH * f->pose.radius + 1)
            continue;
        gr_shapes_row(f->kind, &f->pose, y, n, cover);
        for (ptrdiff_t x = 0; x < n; x++) {
            for (int c = 0; c < n_ch; c++)
                row[x * n_ch + c] += (f->ink[c] - row[x * n_ch + c]) * cover[x];
            if (mask && cover[x] >= 0.5f)
                mask[x] = (uint8_t)(1 + f->kind);
        }
    }
}

static uint8_t to_byte(float v)
{
    v = 127.5f + 105.0f * v;
    return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)lrintf(v);
}

int gr_scene_draw(const gr_scene *scene, uint64_t key, uint64_t index, uint8_t *px, uint8_t *mask)
{
    gr_draw_stream s = gr_draw_stream_of(key, index);
    painting p = { .scene = scene };
    ptrdiff_t n_row = (ptrdiff_t)scene->side * scene->channels;
    float row[3 * GR_SCENE_MAX_SIDE];

    plan(&p, &s);
    for (ptrdiff_t y = 0; y < scene->side; y++) {
        paint_row(&p, (int)y, row, mask ? mask + y * scene->side : NULL);
        for (ptrdiff_t i = 0; i < n_row;) {
            uint64_t bits = gr_draw_u64(&s); /* serves four values, 16 bits each */

            for (int k = 0; k < 4 && i < n_row; k++, i++, bits >>= 16)
                px[y * n_row + i] =
                    to_byte(row[i] + NOISE * ((float)(bits & 0xffff) * 0x1p-15f - 1.0f));
        }
    }
    return p.figures[0].kind;
}
