/*
 * Drawing by signed distances: d(p) says how far point p lies outside a shape of size
 * about 1 (negative: inside). Turned into pixels, the clamped distance is the coverage
 * of a pixel, which draws smooth edges without sampling a pixel more than once.
 *
 * (1) A sample is a function of (key, index) alone: the random numbers are a hash of a
 *     counter, and no call leaves anything behind.
 * (2) Shapes differ under every rotation, so a rotated one is never another class.
 */
#include "recipe/shapes/draw.h"

#include "recipe/shapes/stream.h"

#include <math.h>
#include <stddef.h>

#define SIDE     GR_SHAPES_SIDE
#define TURN     0.45f /* largest rotation, radians */
#define SHIFT    2.5f  /* largest distance of the middle from the picture's, pixels */
#define SMALL    6.5f  /* radius, pixels */
#define LARGE    10.0f
#define NOISE    0.35f       /* largest change of a pixel, of an intensity range of 1 */
#define COS_HALF 0.80901699f /* of 36 degrees, half the angle between a star's points */
#define SIN_HALF 0.58778525f

_Static_assert(GR_SHAPES_PIXELS == SIDE * SIDE, "the pictures are square");

/* ---- distances ---- */

typedef struct point {
    float x, y;
} point;

/* Without fmaxf()'s care for NaN, these are one instruction. */
static float greater(float a, float b)
{
    return a > b ? a : b;
}

static float lesser(float a, float b)
{
    return a < b ? a : b;
}

static float length(float x, float y)
{
    return sqrtf(x * x + y * y);
}

static float disc(point p, float radius)
{
    return length(p.x, p.y) - radius;
}

/* Exact on the edges; past a corner the larger of both, which a pixel cannot tell. */
static float box(point p, float half_x, float half_y)
{
    return greater(fabsf(p.x) - half_x, fabsf(p.y) - half_y);
}

static float circle(point p)
{
    return disc(p, 0.95f);
}

static float ring(point p)
{
    return fabsf(disc(p, 0.78f)) - 0.2f;
}

static float square(point p)
{
    return box(p, 0.8f, 0.8f);
}

static float frame(point p)
{
    return fabsf(box(p, 0.68f, 0.68f)) - 0.17f;
}

/* Below the three lines at distance 0.5 from the middle. */
static float triangle(point p)
{
    float slanted = 0.8660254f * fabsf(p.x) - 0.5f * p.y;

    return greater(slanted, p.y) - 0.5f;
}

static float cross(point p)
{
    return lesser(box(p, 0.95f, 0.27f), box(p, 0.27f, 0.95f));
}

/* Mirrors what lies beyond the line 36 degrees from the y axis back over it. */
static point fold(point p)
{
    float beyond = greater(p.x * COS_HALF - p.y * SIN_HALF, 0.0f);

    return (point){ fabsf(p.x - 2 * beyond * COS_HALF), p.y + 2 * beyond * SIN_HALF };
}

/* Folded three times, the plane is the wedge of half a point, 36 degrees wide, and the star
 * has one edge there: from the tip at (0, 1) to the notch at radius 0.42. */
static float star(point p)
{
    const float edge_x = 0.42f * SIN_HALF, edge_y = 0.42f * COS_HALF - 1.0f;

    p.x = fabsf(p.x);
    p = fold(fold(p));
    return (edge_x * (p.y - 1.0f) - edge_y * p.x) * 1.4187242f; /* over the edge's length */
}

static float crescent(point p)
{
    point bite = { p.x - 0.5f, p.y };

    return greater(disc(p, 0.95f), -disc(bite, 0.75f));
}

static float bar(point p)
{
    return box(p, 0.26f, 1.0f);
}

static float tee(point p)
{
    point top = { p.x, p.y + 0.65f }, stem = { p.x, p.y - 0.2f };

    return lesser(box(top, 0.85f, 0.27f), box(stem, 0.27f, 0.75f));
}

/* name, distance: one list makes the names and a loop per shape, which the compiler can
 * turn into vector code because nothing is called through a pointer. */
#define SHAPES(X)           \
    X("circle", circle)     \
    X("ring", ring)         \
    X("square", square)     \
    X("frame", frame)       \
    X("triangle", triangle) \
    X("cross", cross)       \
    X("star", star)         \
    X("crescent", crescent) \
    X("bar", bar)           \
    X("tee", tee)

/* ---- pictures ---- */

static gr_shapes_pose draw_pose(gr_draw_stream *s)
{
    float angle = gr_draw_f32(s, -TURN, TURN);

    return (gr_shapes_pose){
        .middle_x = 0.5f * SIDE + gr_draw_f32(s, -SHIFT, SHIFT),
        .middle_y = 0.5f * SIDE + gr_draw_f32(s, -SHIFT, SHIFT),
        .radius = gr_draw_f32(s, SMALL, LARGE),
        .cos = cosf(angle),
        .sin = sinf(angle),
    };
}

/* The point of the shape's own plane that a pixel's middle shows. */
static point turned(const gr_shapes_pose *p, int x, int y)
{
    float dx = ((float)x + 0.5f - p->middle_x) / p->radius;
    float dy = ((float)y + 0.5f - p->middle_y) / p->radius;

    return (point){ p->cos * dx + p->sin * dy, p->cos * dy - p->sin * dx };
}

#define X(text, distance)                                                            \
    static void row_of_##distance(const gr_shapes_pose *p, int y, int n, float *row) \
    {                                                                                \
        for (int x = 0; x < n; x++) {                                                \
            float d = distance(turned(p, x, y)) * p->radius;                         \
                                                                                     \
            row[x] = lesser(greater(0.5f - d, 0.0f), 1.0f);                          \
        }                                                                            \
    }
SHAPES(X)
#undef X

static const struct shape {
    const char *name;
    void (*row)(const gr_shapes_pose *p, int y, int n, float *row);
} shapes[GR_SHAPES_CLASSES] = {
#define X(text, distance) { text, row_of_##distance },
    SHAPES(X)
#undef X
};

const char *gr_shapes_name(int label)
{
    return shapes[label].name;
}

void gr_shapes_row(int label, const gr_shapes_pose *pose, int y, int n, float *row)
{
    shapes[label].row(pose, y, n, row);
}

/* One hash serves four pixels, 16 bits each. */
static void add_noise(gr_draw_stream *s, float *pixels)
{
    for (int i = 0; i < GR_SHAPES_PIXELS; i += 4) {
        uint64_t bits = gr_draw_u64(s);

        for (int k = 0; k < 4; k++, bits >>= 16)
            pixels[i + k] += NOISE * ((float)(bits & 0xffff) * 0x1p-15f - 1.0f);
    }
}

int gr_shapes_draw(uint64_t key, uint64_t index, float *pixels)
{
    gr_draw_stream s = gr_draw_stream_of(key, index);
    int label = (int)(gr_draw_u64(&s) % GR_SHAPES_CLASSES);
    gr_shapes_pose p = draw_pose(&s);
    float paper = gr_draw_f32(&s, -0.5f, -0.2f), ink = gr_draw_f32(&s, 0.3f, 0.7f);

    for (int y = 0; y < SIDE; y++)
        shapes[label].row(&p, y, SIDE, pixels + (ptrdiff_t)y * SIDE);
    for (int i = 0; i < GR_SHAPES_PIXELS; i++)
        pixels[i] = paper + (ink - paper) * pixels[i];
    add_noise(&s, pixels);
    return label;
}
