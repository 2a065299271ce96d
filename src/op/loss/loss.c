/*
 * Losses that compare element by element. Each is one map, so that forward and backward read
 * their sources once; reductions come behind. Formulas stand in gradus/loss.h.
 */
#include "op/loss/loss.h"

#include "gradus/image.h"
#include "gradus/index.h"
#include "gradus/loss.h"
#include "op/map/map_impl.h"

#include <math.h>

/* clang-format off */
#define CONST(x)          { GR_FN_CONST, { -1, -1, -1 }, x }
#define ONE(f, a)         { GR_FN_##f, { a, -1, -1 }, 0 }
#define TWO(f, a, b)      { GR_FN_##f, { a, b, -1 }, 0 }
#define THREE(f, a, b, c) { GR_FN_##f, { a, b, c }, 0 }
/* clang-format on */

gr_value *gr_loss_map(const char *site, gr_graph *g, gr_value *const *src,
                      const gr_program *program)
{
    gr_program p = *program;

    p.dtype = GR_F32;
    p.shape = GR_SCALAR;
    for (int i = 0; i < p.n_src; i++) {
        gr_shape s = gr_value_shape(src[i]);

        if (gr_value_dtype(src[i]) == GR_F64)
            p.dtype = GR_F64;
        if (!gr_map_broadcast(&p.shape, &s))
            break; /* infer says what is wrong */
    }
    return gr_map_add(g, site, src, &p);
}

static const gr_program ratio_program = {
    .n_src = 2,
    .n_instr = 3,
    .instr = { CONST(1), THREE(WHERE, 1, 1, 2), TWO(DIV, 0, 3) },
};

gr_value *gr_loss_ratio(const char *site, gr_graph *g, gr_value *a, gr_value *b)
{
    return gr_loss_map(site, g, (gr_value *[]){ a, b }, &ratio_program);
}

bool gr_loss_is_ratio(const gr_node *n)
{
    const gr_program *p = n->attr;

    if (n->op != &gr_op_map || p->n_src != 2 || p->n_instr != ratio_program.n_instr)
        return false;
    for (int i = 0; i < p->n_instr; i++) {
        const gr_instr *a = &p->instr[i], *b = &ratio_program.instr[i];

        if (a->fn != b->fn || a->reg[0] != b->reg[0] || a->reg[1] != b->reg[1] ||
            a->reg[2] != b->reg[2] || a->k != b->k)
            return false;
    }
    return true;
}

gr_value *gr_counted_mean_at(const char *site, gr_graph *g, gr_value *sum, gr_value *count)
{
    gr_shape s = gr_value_shape(sum), n = gr_value_shape(count);
    char text[2][GR_SHAPE_TEXT];

    if (sum && count && (gr_shape_count(&s) != 1 || gr_shape_count(&n) != 1)) {
        gr_graph_fail(g, site, "counted_mean: of a sum %s and a count %s, expected one number each",
                      gr_shape_text(&s, text[0], sizeof(text[0])),
                      gr_shape_text(&n, text[1], sizeof(text[1])));
        return NULL;
    }
    return gr_loss_ratio(site, g, sum, count);
}

/* ---- distances ---- */

static gr_value *distance(const char *site, gr_graph *g, gr_value *a, gr_value *b,
                          const gr_program *p)
{
    return gr_loss_map(site, g, (gr_value *[]){ a, b }, p);
}

gr_value *gr_mse_each_at(const char *site, gr_graph *g, gr_value *a, gr_value *b)
{
    static const gr_program program = { .n_src = 2,
                                        .n_instr = 2,
                                        .instr = { TWO(SUB, 0, 1), ONE(SQUARE, 2) } };

    return distance(site, g, a, b, &program);
}

gr_value *gr_l1_each_at(const char *site, gr_graph *g, gr_value *a, gr_value *b)
{
    static const gr_program program = { .n_src = 2,
                                        .n_instr = 2,
                                        .instr = { TWO(SUB, 0, 1), ONE(ABS, 2) } };

    return distance(site, g, a, b, &program);
}

/* With c = min(|d|, k): c (|d| - c / 2), which is d^2 / 2 up to k and k (|d| - k / 2) beyond,
 * and whose slope is c sign(d) on both sides. */
static gr_value *bent(const char *site, gr_graph *g, gr_value *a, gr_value *b, double k,
                      double factor)
{
    gr_program p = {
        .n_src = 2,
        .n_instr = 9,
        .instr = { TWO(SUB, 0, 1), ONE(ABS, 2), CONST(0), TWO(MIN, 3, 4), CONST(0.5),
                   TWO(MUL, 5, 6), TWO(SUB, 3, 7), TWO(MUL, 5, 8), CONST(0) },
    };

    p.instr[2].k = k;
    p.instr[8].k = factor;
    p.instr[p.n_instr++] = (gr_instr)TWO(MUL, 9, 10);
    return distance(site, g, a, b, &p);
}

gr_value *gr_smooth_l1_each_at(const char *site, gr_graph *g, gr_value *a, gr_value *b, double beta)
{
    if (!(beta > 0)) {
        gr_graph_fail(g, site, "smooth_l1: beta is %g, must be above 0", beta);
        return NULL;
    }
    return bent(site, g, a, b, beta, 1 / beta);
}

gr_value *gr_huber_each_at(const char *site, gr_graph *g, gr_value *a, gr_value *b, double delta)
{
    if (!(delta > 0)) {
        gr_graph_fail(g, site, "huber: delta is %g, must be above 0", delta);
        return NULL;
    }
    return bent(site, g, a, b, delta, 1);
}

gr_value *gr_masked_mse_at(const char *site, gr_graph *g, gr_value *a, gr_value *b, gr_value *mask)
{
    static const gr_program program = {
        .n_src = 3, .n_instr = 3, .instr = { TWO(SUB, 0, 1), ONE(SQUARE, 3), TWO(MUL, 4, 2) }
    };
    gr_value *sum = gr_loss_map(site, g, (gr_value *[]){ a, b, mask }, &program), *count;

    if (!sum)
        return NULL;
    sum = gr_reduce_at(site, g, "sum", sum, GR_AXES_ALL, false);
    count = gr_cast_at(site, g, mask, sum ? gr_value_dtype(sum) : GR_F32);
    count = count ? gr_reduce_at(site, g, "sum", count, GR_AXES_ALL, false) : NULL;
    return gr_loss_ratio(site, g, sum, count);
}

/* ---- yes or no ---- */

/* softplus(z) - z y; with weights w of target 1: (1 - y) z + (1 + (w - 1) y) softplus(-z). */
gr_value *gr_bce_logits_each_at(const char *site, gr_graph *g, gr_value *z, gr_value *target,
                                gr_value *pos_weight)
{
    static const gr_program plain = {
        .n_src = 2,
        .n_instr = 3,
        .instr = { ONE(SOFTPLUS, 0), TWO(MUL, 0, 1), TWO(SUB, 2, 3) },
    };
    static const gr_program weighted = {
        .n_src = 3,
        .n_instr = 10,
        .instr = { CONST(1), TWO(SUB, 3, 1), TWO(MUL, 4, 0), TWO(SUB, 2, 3), TWO(MUL, 6, 1),
                   TWO(ADD, 7, 3), ONE(NEG, 0), ONE(SOFTPLUS, 9), TWO(MUL, 8, 10),
                   TWO(ADD, 5, 11) },
    };

    if (!pos_weight)
        return distance(site, g, z, target, &plain);
    return gr_loss_map(site, g, (gr_value *[]){ z, target, pos_weight }, &weighted);
}

/* bce q^gamma with q = 1 - p_t = p + y - 2 p y; alpha_t = (1 - alpha) + (2 alpha - 1) y. */
gr_value *gr_focal_each_at(const char *site, gr_graph *g, gr_value *z, gr_value *target,
                           double alpha, double gamma)
{
    gr_program p = {
        .n_src = 2,
        .n_instr = 12,
        .instr = { ONE(SOFTPLUS, 0), TWO(MUL, 0, 1), TWO(SUB, 2, 3), ONE(SIGMOID, 0),
                   TWO(ADD, 5, 1), TWO(MUL, 5, 1), CONST(2), TWO(MUL, 7, 8), TWO(SUB, 6, 9),
                   CONST(0), TWO(POW, 10, 11), TWO(MUL, 4, 12) },
    };

    if (!(gamma >= 0)) {
        gr_graph_fail(g, site, "focal: gamma is %g, must not be negative", gamma);
        return NULL;
    }
    p.instr[9].k = gamma;
    if (alpha >= 0) {
        p.instr[p.n_instr++] = (gr_instr)CONST(2 * alpha - 1);
        p.instr[p.n_instr++] = (gr_instr)TWO(MUL, 1, 14);
        p.instr[p.n_instr++] = (gr_instr)CONST(1 - alpha);
        p.instr[p.n_instr++] = (gr_instr)TWO(ADD, 15, 16);
        p.instr[p.n_instr++] = (gr_instr)TWO(MUL, 13, 17);
    }
    return distance(site, g, z, target, &p);
}

/* Sums over everything but the classes. */
static gr_value *by_class(const char *site, gr_graph *g, gr_value *v)
{
    return v && v->shape.n_dims > 1
               ? gr_reduce_at(site, g, "sum", v, GR_AXIS(v->shape.n_dims - 1) - 1, false)
               : v;
}

gr_value *gr_dice_at(const char *site, gr_graph *g, gr_value *logits, gr_value *target, double s)
{
    /* 1 - (2 a + s) / (b + c + s) */
    gr_program ratio = {
        .n_src = 3,
        .n_instr = 9,
        .instr = { CONST(2), TWO(MUL, 0, 3), CONST(0), TWO(ADD, 4, 5), TWO(ADD, 1, 2),
                   TWO(ADD, 7, 5), TWO(DIV, 6, 8), CONST(1), TWO(SUB, 10, 9) },
    };
    static const gr_program sigmoid = { .n_src = 1, .n_instr = 1, .instr = { ONE(SIGMOID, 0) } };
    gr_value *p = gr_loss_map(site, g, &logits, &sigmoid), *y, *v[3];

    if (!p || !gr_graph_given(g, site, "dice", target))
        return NULL;
    y = gr_cast_at(site, g, target, p->dtype);
    v[0] = by_class(site, g, gr_map2_at(site, g, "mul", p, y));
    v[1] = by_class(site, g, p);
    v[2] = by_class(site, g, y);
    ratio.instr[2].k = s;
    p = gr_loss_map(site, g, v, &ratio);
    return p ? gr_reduce_at(site, g, "mean", p, GR_AXES_ALL, false) : NULL;
}

/* ---- JPEG's weights ---- */

/* The table of luminance in annex K of the JPEG standard, for quality 50. */
static const int jpeg_table[64] = {
    16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,
    14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,
    18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
};

/* Reciprocals of the table at a quality, the greatest 1. Halves are rounded to even. */
static void jpeg_weights(int quality, float w[64])
{
    double scale = quality < 50 ? 5000.0 / quality : 200.0 - 2 * quality, most = 0, q[64];

    for (int i = 0; i < 64; i++) {
        q[i] = 1 / fmin(fmax(nearbyint(jpeg_table[i] * scale / 100), 1), 255);
        most = fmax(most, q[i]);
    }
    for (int i = 0; i < 64; i++)
        w[i] = (float)(q[i] / most);
}

/* [1, h, w, 1] of the 8 x 8 weights, stretched. */
static gr_value *jpeg_map(const char *site, gr_graph *g, int quality, int64_t h, int64_t w)
{
    float weight[64];

    jpeg_weights(quality, weight);
    return gr_resize_at(site, g, gr_constant_at(site, g, GR_F32, GR_SHAPE(1, 8, 8, 1), weight), h,
                        w, GR_NEAREST);
}

static bool is_mask(const gr_shape *mask, const gr_shape *image)
{
    gr_shape want = *image;

    want.dim[3] = 1;
    return gr_shape_equal(mask, &want);
}

static bool check_jpeg(const char *site, gr_graph *g, gr_value *a, gr_value *mask, int quality)
{
    gr_shape s = gr_value_shape(a), m = gr_value_shape(mask);
    char text[GR_SHAPE_TEXT], given[GR_SHAPE_TEXT];

    if (s.n_dims != 4 || s.dim[3] != 3 || quality < 1 || quality > 100)
        gr_graph_fail(g, site,
                      "jpeg_mse: needs images [n, h, w, 3] and a quality from 1 to 100, "
                      "not %s and %d",
                      gr_shape_text(&s, text, sizeof(text)), quality);
    else if (mask && !is_mask(&m, &s))
        gr_graph_fail(g, site, "jpeg_mse: the mask of images %s must be [n, h, w, 1], not %s",
                      gr_shape_text(&s, text, sizeof(text)),
                      gr_shape_text(&m, given, sizeof(given)));
    else
        return true;
    return false;
}

gr_value *gr_jpeg_mse_at(const char *site, gr_graph *g, gr_value *a, gr_value *b, gr_value *mask,
                         int quality)
{
    /* w (Y^2 + (Cb^2 + Cr^2) / 2) of the differences r, g, b, in the colours of JFIF, whose offsets
     * cancel. */
    static const gr_program program = {
        .n_src = 4,
        .n_instr = 30,
        .instr = { CONST(0.5),       CONST(0.299),     TWO(MUL, 0, 5),   CONST(0.587),
                   TWO(MUL, 1, 7),   TWO(ADD, 6, 8),   CONST(0.114),     TWO(MUL, 2, 10),
                   TWO(ADD, 9, 11),  CONST(-0.168736), TWO(MUL, 0, 13),  CONST(-0.331264),
                   TWO(MUL, 1, 15),  TWO(ADD, 14, 16), TWO(MUL, 2, 4),   TWO(ADD, 17, 18),
                   CONST(-0.418688), TWO(MUL, 1, 20),  CONST(-0.081312), TWO(MUL, 2, 22),
                   TWO(ADD, 21, 23), TWO(MUL, 0, 4),   TWO(ADD, 24, 25), ONE(SQUARE, 19),
                   ONE(SQUARE, 26),  TWO(ADD, 27, 28), TWO(MUL, 29, 4),  ONE(SQUARE, 12),
                   TWO(ADD, 31, 30), TWO(MUL, 32, 3) },
    };
    gr_shape s = gr_value_shape(a);
    gr_value *d, *part[4], *count;

    if (!gr_graph_given(g, site, "jpeg_mse", a) || !gr_graph_given(g, site, "jpeg_mse", b) ||
        !check_jpeg(site, g, a, mask, quality))
        return NULL;
    d = gr_map2_at(site, g, "sub", a, b);
    if (!d)
        return NULL;
    gr_split_at(site, g, d, 3, 3, NULL, part);
    part[3] = jpeg_map(site, g, quality, s.dim[1], s.dim[2]);
    d = gr_loss_map(site, g, part, &program);
    if (!mask)
        return d ? gr_reduce_at(site, g, "mean", d, GR_AXES_ALL, false) : NULL;
    d = gr_map2_at(site, g, "mul", d, gr_cast_at(site, g, mask, gr_value_dtype(d)));
    d = gr_reduce_at(site, g, "sum", d, GR_AXES_ALL, false);
    count = gr_cast_at(site, g, mask, gr_value_dtype(d));
    count = gr_reduce_at(site, g, "sum", count, GR_AXES_ALL, false);
    return gr_loss_ratio(site, g, d, count);
}
