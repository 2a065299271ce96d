/* Cases of max pooling and its gradient, and of averages and resizing. */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/image.h"
#include "op/pool/pool.h"

/* ---- windows ---- */

#define WINDOW(kh, kw, sh, sw, ph, pw, ...)                                            \
    {                                                                                  \
        .kernel = { kh, kw }, .stride = { sh, sw }, .padding = { ph, pw }, __VA_ARGS__ \
    }
#define PLAIN .dilation = { 1, 1 }

static const gr_window two = WINDOW(2, 2, 0, 0, 0, 0, PLAIN),
                       three = WINDOW(3, 3, 2, 2, 1, 1, PLAIN),
                       ceiling = WINDOW(3, 3, 2, 2, 1, 1, PLAIN, .ceil_mode = true),
                       odd = WINDOW(2, 3, 1, 2, 1, 0, PLAIN),
                       dilated = WINDOW(3, 2, 1, 2, 1, 1, .dilation = { 2, 2 }),
                       last_out = WINDOW(1, 2, 3, 3, 0, 1, PLAIN, .ceil_mode = true),
                       over_edge = WINDOW(5, 3, 3, 2, 1, 1, PLAIN, .ceil_mode = true),
                       over_edge_avg = WINDOW(5, 3, 3, 2, 1, 0, PLAIN, .ceil_mode = true),
                       far_over_edge = WINDOW(9, 2, 5, 1, 0, 0, PLAIN, .ceil_mode = true),
                       huge = WINDOW(17, 17, 1, 1, 8, 8, PLAIN),
                       only_padding = WINDOW(2, 1, 1, 1, 1, 0, .dilation = { 2, 1 }),
                       no_kernel = WINDOW(0, 2, 1, 1, 0, 0, PLAIN),
                       no_stride = WINDOW(2, 2, -1, 1, 0, 0, PLAIN),
                       far_stride = { .kernel = { 2, 2 },
                                      .stride = { INT64_MAX, 1 },
                                      .dilation = { 1, 1 },
                                      .ceil_mode = true },
                       no_dilation = WINDOW(2, 2, 1, 1, 0, 0, .dilation = { 1, 0 }),
                       much_padding = WINDOW(2, 2, 1, 1, 2, 0, PLAIN),
                       too_large = WINDOW(9, 2, 1, 1, 0, 0, PLAIN),
                       uncounted = WINDOW(3, 3, 2, 2, 1, 1, PLAIN, .without_padding = true),
                       uncounted_ceil = WINDOW(3, 2, 2, 3, 1, 1, PLAIN, .without_padding = true,
                                               .ceil_mode = true),
                       global = WINDOW(5, 4, 1, 1, 0, 0, PLAIN);

static gr_value *build_max(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_max_pool2d(g, src[0], c->arg);
}

/* The gradient alone, over any winners that a window may have. */
static gr_value *build_max_grad(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_pool_attr attr = { .window = *(const gr_window *)c->arg, .in = { 7, 6 } };
    gr_build b = { .op = &gr_op_max_pool_grad,
                   .site = GR_HERE,
                   .src = src,
                   .n_src = 2,
                   .attr = &attr,
                   .attr_bytes = sizeof(attr) };

    if (gr_pool_resolve(&attr) != GR_OK)
        return NULL;
    return gr_graph_add_value(g, &b);
}

#define MAX(text, window, ...)                                                                     \
    .name = (text), .op = "max_pool", .build = build_max, .arg = &(window), .n_src = 1, .grad = 1, \
    .src = { __VA_ARGS__ }
#define MAX_GRAD(text, window, ...)                                                               \
    .name = (text), .op = "max_pool_grad", .build = build_max_grad, .arg = &(window), .n_src = 2, \
    .src = { __VA_ARGS__ }
/* The gradient of f16 adds up to four numbers of size 1. */
#define FLOATS .flags = DRIVER_FLOATS, .n_reduced = 4

/* clang-format off */
static const driver_case pool_cases[] = {
    { MAX("max pool", two, DRIVER_F32(2, 6, 4, 5)), .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { MAX("max pool of 3 by 2", three, DRIVER_F32(2, 9, 8, 3)), .flags = DRIVER_FLOATS | DRIVER_GOLDEN, .n_reduced = 4 },
    { MAX("max pool, ceiling", ceiling, DRIVER_F32(1, 8, 10, 2)), .flags = DRIVER_FLOATS | DRIVER_GOLDEN, .n_reduced = 4 },
    { MAX("max pool, oblong", odd, DRIVER_F32(2, 5, 7, 1)), .flags = DRIVER_FLOATS | DRIVER_GOLDEN, .n_reduced = 4 },
    { MAX("max pool, dilated", dilated, DRIVER_F32(1, 7, 9, 2)), .flags = DRIVER_FLOATS | DRIVER_GOLDEN, .n_reduced = 4 },
    { MAX("max pool, ceiling over the edge", over_edge, DRIVER_F32(2, 2, 1, 3)), .flags = DRIVER_FLOATS | DRIVER_GOLDEN, .n_reduced = 4 },
    { MAX("max pool, ceiling far over the edge", far_over_edge, DRIVER_F32(1, 4, 4, 3)), .want = "does not fit 4" },
    { MAX("max pool, last window left out", last_out, DRIVER_F32(1, 4, 5, 2)), FLOATS },
    { MAX("max pool of many channels", three, DRIVER_F32(1, 5, 6, 37)), FLOATS },
    { MAX("max pool on threads", three, DRIVER_F32(3, 16, 17, 24)), FLOATS },
    { MAX("max pool of a large window", huge, DRIVER_F32(1, 4, 5, 3)), FLOATS },
    { MAX("max pool of padding", only_padding, DRIVER_F32(2, 1, 3, 4)), .flags = DRIVER_FLOATS | DRIVER_SPECIAL },
    { MAX("max pool of one pixel", three, DRIVER_F32(1, 1, 1, 1)), FLOATS },
    { MAX("max pool of equals", three, DRIVER_RANGE(GR_F32, 1, 1, 1, 5, 5, 17)), .flags = DRIVER_FLOATS | DRIVER_SPECIAL },
    { MAX("max pool of odd numbers", three, DRIVER_F32(1, 7, 7, 19)), .flags = DRIVER_FLOATS | DRIVER_SPECIAL },
    { MAX("max pool of no images", two, DRIVER_F32(0, 4, 4, 3)), FLOATS },
    { MAX("max pool of no channels", two, DRIVER_F32(2, 4, 4, 0)), FLOATS },
    { MAX("max pool without kernel", no_kernel, DRIVER_F32(1, 4, 4, 3)), .want = "kernel 0" },
    { MAX("max pool without stride", no_stride, DRIVER_F32(1, 4, 4, 3)), .want = "stride -1" },
    { MAX("max pool of windows far apart", far_stride, DRIVER_F32(1, 4, 4, 3)), .want = "is too large" },
    { MAX("max pool without dilation", no_dilation, DRIVER_F32(1, 4, 4, 3)), .want = "dilation 0" },
    { MAX("max pool, much padding", much_padding, DRIVER_F32(1, 4, 4, 3)), .want = "more than half a window" },
    { MAX("max pool too large", too_large, DRIVER_F32(1, 4, 4, 3)), .want = "does not fit 4" },
    { MAX("max pool of a matrix", two, DRIVER_F32(4, 4)), .want = "[n, h, w, c]" },
    { MAX("max pool of integers", two, DRIVER_SRC(GR_I32, 1, 4, 4, 3)), .want = "floating" },

    { MAX_GRAD("gradient of max pool", three, DRIVER_F32(2, 4, 3, 18), DRIVER_RANGE(GR_U8, 0, 8, 2, 4, 3, 18)), FLOATS },
    { MAX_GRAD("gradient of another shape", three, DRIVER_F32(2, 5, 3, 18), DRIVER_RANGE(GR_U8, 0, 8, 2, 4, 3, 18)), .want = "shape of the result" },
};
/* clang-format on */

const driver_family driver_pool = { "pool", pool_cases, DRIVER_COUNT(pool_cases) };

/* ---- resample ---- */

typedef struct size_arg {
    int64_t h, w;
    gr_resize_mode mode;
} size_arg;

static gr_value *build_avg(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_avg_pool2d(g, src[0], c->arg);
}

static gr_value *build_adaptive(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const size_arg *a = c->arg;

    return gr_adaptive_avg_pool2d(g, src[0], a->h, a->w);
}

static gr_value *build_resize(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const size_arg *a = c->arg;

    return gr_resize(g, src[0], a->h, a->w, a->mode);
}

static const size_arg a_1 = { 1, 1, 0 }, a_3_2 = { 3, 2, 0 }, a_7_9 = { 7, 9, 0 },
                      a_0 = { 0, 2, 0 }, n_7_9 = { 7, 9, GR_NEAREST }, n_2x = { 10, 8, GR_NEAREST },
                      n_same = { 5, 4, GR_NEAREST }, n_down = { 3, 2, GR_NEAREST },
                      e_7_9 = { 7, 9, GR_NEAREST_EXACT }, e_down = { 3, 2, GR_NEAREST_EXACT },
                      e_border = { 23, 3, GR_NEAREST_EXACT }, l_7_9 = { 7, 9, GR_BILINEAR },
                      l_down = { 3, 2, GR_BILINEAR }, l_big = { 33, 41, GR_BILINEAR },
                      c_7_9 = { 7, 9, GR_BILINEAR_CORNERS }, c_down = { 3, 2, GR_BILINEAR_CORNERS },
                      c_1 = { 1, 1, GR_BILINEAR_CORNERS }, c_big = { 33, 41, GR_BILINEAR_CORNERS },
                      b_7_9 = { 7, 9, GR_BICUBIC }, b_down = { 3, 2, GR_BICUBIC },
                      bc_7_9 = { 7, 9, GR_BICUBIC_CORNERS }, no_rows = { 0, 3, GR_BILINEAR };

#define AVG(text, window, ...)                                                                     \
    .name = (text), .op = "resample", .build = build_avg, .arg = &(window), .n_src = 1, .grad = 1, \
    .src = { __VA_ARGS__ }
#define ADAPTIVE(text, size, ...)                                                          \
    .name = (text), .op = "resample", .build = build_adaptive, .arg = &(size), .n_src = 1, \
    .grad = 1, .src = { __VA_ARGS__ }
#define RESIZE(text, size, ...)                                                          \
    .name = (text), .op = "resample", .build = build_resize, .arg = &(size), .n_src = 1, \
    .grad = 1, .src = { __VA_ARGS__ }
/* At most so many terms are added, of size 1 and less. */
#define TERMS(n)  .flags = DRIVER_FLOATS, .n_reduced = (n)
#define GOLDEN(n) .flags = DRIVER_FLOATS | DRIVER_GOLDEN, .n_reduced = (n)

/* clang-format off */
static const driver_case resample_cases[] = {
    { AVG("avg pool", two, DRIVER_F32(2, 6, 4, 5)), GOLDEN(4) },
    { AVG("avg pool of 3 by 2", three, DRIVER_F32(2, 9, 8, 3)), GOLDEN(9) },
    { AVG("avg pool, ceiling", ceiling, DRIVER_F32(1, 8, 10, 2)), GOLDEN(9) },
    { AVG("avg pool, padding not counted", uncounted, DRIVER_F32(2, 9, 8, 3)), GOLDEN(9) },
    { AVG("avg pool, not counted, ceiling", uncounted_ceil, DRIVER_F32(1, 8, 9, 2)), GOLDEN(9) },
    { AVG("avg pool, ceiling over the edge", over_edge_avg, DRIVER_F32(2, 2, 2, 3)), GOLDEN(9) },
    { AVG("avg pool, global", global, DRIVER_F32(2, 5, 4, 3)), TERMS(20) },
    { AVG("avg pool on threads", three, DRIVER_F32(3, 16, 17, 24)), TERMS(9) },
    { AVG("avg pool of no images", two, DRIVER_F32(0, 4, 4, 3)), TERMS(4) },
    { AVG("avg pool, dilated", dilated, DRIVER_F32(1, 7, 9, 2)), .want = "no dilation" },
    { AVG("avg pool too large", too_large, DRIVER_F32(1, 4, 4, 3)), .want = "does not fit 4" },

    { ADAPTIVE("adaptive pool", a_3_2, DRIVER_F32(2, 7, 5, 3)), GOLDEN(12) },
    { ADAPTIVE("adaptive pool to one", a_1, DRIVER_F32(2, 7, 5, 3)), GOLDEN(35) },
    { ADAPTIVE("adaptive pool up", a_7_9, DRIVER_F32(1, 5, 4, 2)), GOLDEN(16) },
    { ADAPTIVE("adaptive pool to none", a_0, DRIVER_F32(1, 5, 4, 2)), .want = "cannot make 0 x 2" },

    { RESIZE("nearest", n_7_9, DRIVER_F32(2, 5, 4, 3)), GOLDEN(9) },
    { RESIZE("nearest by two", n_2x, DRIVER_F32(1, 5, 4, 3)), GOLDEN(4) },
    { RESIZE("nearest, same size", n_same, DRIVER_F32(1, 5, 4, 3)), GOLDEN(1) },
    { RESIZE("nearest, down", n_down, DRIVER_F32(1, 8, 7, 2)), GOLDEN(1) },
    { RESIZE("nearest exact", e_7_9, DRIVER_F32(1, 5, 4, 3)), GOLDEN(9) },
    { RESIZE("nearest exact, down", e_down, DRIVER_F32(1, 8, 7, 2)), GOLDEN(1) },
    { RESIZE("nearest exact, at a border", e_border, DRIVER_F32(1, 6, 10, 2)), GOLDEN(4) },
    { RESIZE("bilinear", l_7_9, DRIVER_F32(2, 5, 4, 3)), GOLDEN(16) },
    { RESIZE("bilinear, down", l_down, DRIVER_F32(1, 8, 7, 2)), GOLDEN(4) },
    { RESIZE("bilinear on threads", l_big, DRIVER_F32(2, 9, 7, 21)), .flags = DRIVER_FLOATS | DRIVER_LARGE, .n_reduced = 100 },
    { RESIZE("bilinear of corners", c_7_9, DRIVER_F32(2, 5, 4, 3)), GOLDEN(16) },
    { RESIZE("bilinear of corners, down", c_down, DRIVER_F32(1, 8, 7, 2)), GOLDEN(4) },
    { RESIZE("bilinear of corners to one", c_1, DRIVER_F32(1, 8, 7, 2)), GOLDEN(1) },
    { RESIZE("bilinear of one pixel", c_7_9, DRIVER_F32(2, 1, 1, 19)), TERMS(63) },
    { RESIZE("bilinear of corners on threads", c_big, DRIVER_F32(2, 9, 7, 21)), .flags = DRIVER_FLOATS | DRIVER_LARGE, .n_reduced = 100 },
    { RESIZE("bicubic", b_7_9, DRIVER_F32(1, 5, 4, 3)), GOLDEN(64) },
    { RESIZE("bicubic, down", b_down, DRIVER_F32(1, 8, 7, 2)), GOLDEN(16) },
    { RESIZE("bicubic of corners", bc_7_9, DRIVER_F32(1, 5, 4, 3)), GOLDEN(64) },
    { RESIZE("bicubic of small images", b_7_9, DRIVER_F32(1, 2, 1, 17)), TERMS(256) },
    { RESIZE("bilinear of no channels", l_7_9, DRIVER_F32(1, 5, 4, 0)), TERMS(4) },
    { RESIZE("resize to nothing", no_rows, DRIVER_F32(1, 5, 4, 2)), .want = "cannot make 0 x 3" },
    { RESIZE("resize nothing", l_7_9, DRIVER_F32(1, 0, 4, 2)), .want = "of 0 x 4" },
    { RESIZE("resize a matrix", l_7_9, DRIVER_F32(5, 4)), .want = "[n, h, w, c]" },
    { RESIZE("resize integers", l_7_9, DRIVER_SRC(GR_U8, 1, 5, 4, 2)), .want = "floating" },
};
/* clang-format on */

const driver_family driver_resample = { "resample", resample_cases, DRIVER_COUNT(resample_cases) };
