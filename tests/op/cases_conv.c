/*
 * Cases of convolution. Each builder makes one of the three operators; the gradient of one
 * is the other two, so a case with a gradient runs all three, and second derivatives are
 * checked by the gradients of conv_data and conv_weight.
 *
 * n_reduced is the longest of the three sums: channels in times taps, channels out times
 * taps, pixels.
 */
#include "op/driver.h"
#include "op/families.h"

#include "op/conv/conv.h"

/* fn is "" or words: "s2" stride, "p1" padding, "d12" dilation, "g4" groups, "o1" out_pad;
 * capital letters set the columns alone. */
static gr_conv parse(const char *text)
{
    gr_conv o = GR_CONV_INIT;

    for (const char *p = text; *p;) {
        char *end, what = *p;
        int64_t v = strtoll(p + 1, &end, 10);
        int64_t *field = what == 's' || what == 'S'   ? o.stride
                         : what == 'p' || what == 'P' ? o.pad
                         : what == 'd' || what == 'D' ? o.dilation
                         : what == 'o'                ? o.out_pad
                                                      : NULL;

        if (what == 'g')
            o.groups = v;
        else if (what >= 'a')
            field[0] = field[1] = v;
        else
            field[1] = v;
        for (p = end; *p == ' '; p++)
            ;
    }
    return o;
}

static gr_value *build_conv(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const gr_conv o = parse(c->fn);

    return gr_conv2d(g, src[0], src[1], &o);
}

static gr_value *build_data(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const gr_conv o = parse(c->fn);

    return gr_conv_transpose2d(g, src[0], src[1], &o);
}

/* arg: kh and kw. */
static gr_value *build_weight(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const int64_t *k = c->arg;
    gr_conv_attr attr = { .opt = parse(c->fn), .size = { k[0], k[1] } };

    attr.dtype = gr_value_dtype(src[0]);
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_conv_weight,
                                              .site = GR_HERE,
                                              .src = src,
                                              .n_src = 2,
                                              .attr = &attr,
                                              .attr_bytes = sizeof(attr) });
}

static const int64_t k1x1[] = { 1, 1 }, k3x3[] = { 3, 3 }, k2x3[] = { 2, 3 };

#define CONV(text, opt, terms, ...)                                             \
    .name = (text), .op = "conv", .build = build_conv, .fn = (opt), .n_src = 2, \
    .n_reduced = (terms), .src = { __VA_ARGS__ }
#define DATA(text, opt, terms, ...)                                                  \
    .name = (text), .op = "conv_data", .build = build_data, .fn = (opt), .n_src = 2, \
    .n_reduced = (terms), .src = { __VA_ARGS__ }
#define WEIGHT(text, opt, kernel, terms, ...)                                            \
    .name = (text), .op = "conv_weight", .build = build_weight, .fn = (opt), .n_src = 2, \
    .arg = (kernel), .n_reduced = (terms), .src = { __VA_ARGS__ }
#define F32    .grad = 3
#define FLOATS .grad = 3, .flags = DRIVER_FLOATS
#define GOLDEN .grad = 3, .flags = DRIVER_FLOATS | DRIVER_GOLDEN
/* Gradients too, but not by finite differences. */
#define LARGE .grad = 3, .flags = DRIVER_LARGE

/* clang-format off */
static const driver_case cases[] = {
    { CONV("plain", "", 45, DRIVER_F32(2, 5, 6, 3), DRIVER_F32(4, 3, 3, 3)), GOLDEN },
    { CONV("padded", "p1", 36, DRIVER_F32(2, 5, 4, 4), DRIVER_F32(3, 4, 3, 3)), GOLDEN },
    { CONV("stride 2", "s2 p1", 36, DRIVER_F32(2, 7, 6, 4), DRIVER_F32(3, 4, 3, 3)), GOLDEN },
    { CONV("dilated", "p2 d2", 36, DRIVER_F32(1, 6, 7, 4), DRIVER_F32(3, 4, 3, 3)), GOLDEN },
    { CONV("axes differ", "s2 S1 p0 P2 d1 D3", 48, DRIVER_F32(2, 7, 8, 3),
           DRIVER_F32(5, 3, 2, 3)), GOLDEN },
    { CONV("groups", "p1 g2", 36, DRIVER_F32(1, 4, 5, 4), DRIVER_F32(6, 2, 3, 3)), GOLDEN },
    { CONV("depthwise", "p1 g4", 20, DRIVER_F32(1, 4, 5, 4), DRIVER_F32(4, 1, 3, 3)), GOLDEN },
    { CONV("depthwise, twice the channels", "s2 p1 g3", 18, DRIVER_F32(1, 6, 6, 3),
           DRIVER_F32(6, 1, 3, 3)), GOLDEN },
    { CONV("1x1", "", 40, DRIVER_F32(2, 4, 5, 7), DRIVER_F32(6, 7, 1, 1)), GOLDEN },
    { CONV("1x1 stride 2", "s2", 12, DRIVER_F32(2, 4, 5, 7), DRIVER_F32(6, 7, 1, 1)), GOLDEN },
    { CONV("stem 7x7", "s2 p3", 200, DRIVER_F32(1, 9, 11, 3), DRIVER_F32(4, 3, 7, 7)), GOLDEN },
    { CONV("patches", "s4", 48, DRIVER_F32(1, 8, 12, 3), DRIVER_F32(5, 3, 4, 4)), GOLDEN },
    { CONV("even kernel", "p1", 42, DRIVER_F32(1, 5, 6, 2), DRIVER_F32(3, 2, 2, 4)), F32 },
    { CONV("kernel as large as the image", "", 60, DRIVER_F32(2, 4, 5, 3),
           DRIVER_F32(2, 3, 4, 5)), FLOATS },
    { CONV("dilation 12", "p12 d12", 64, DRIVER_F32(1, 9, 7, 4), DRIVER_F32(4, 4, 3, 3)), F32 },
    { CONV("dilation 24", "p24 d24", 64, DRIVER_F32(1, 5, 6, 4), DRIVER_F32(4, 4, 3, 3)), F32 },
    { CONV("more padding than image", "p3", 49, DRIVER_F32(1, 2, 3, 2), DRIVER_F32(2, 2, 3, 3)),
      F32 },
    { CONV("stride beyond the kernel", "s3", 16, DRIVER_F32(1, 8, 9, 2), DRIVER_F32(3, 2, 2, 2)),
      F32 },
    { CONV("one pixel", "p1", 9, DRIVER_F32(1, 1, 1, 1), DRIVER_F32(1, 1, 3, 3)), FLOATS },
    { CONV("one number", "", 1, DRIVER_F32(1, 1, 1, 1), DRIVER_F32(1, 1, 1, 1)), FLOATS },
    { CONV("no images", "p1", 9, DRIVER_F32(0, 4, 4, 3), DRIVER_F32(2, 3, 3, 3)), FLOATS },
    { CONV("no rows", "p1", 27, DRIVER_F32(1, 0, 4, 3), DRIVER_F32(2, 3, 2, 3)), F32 },
    { CONV("no channels out", "p1", 27, DRIVER_F32(1, 4, 4, 3), DRIVER_F32(0, 3, 3, 3)), F32 },
    { CONV("no channels in", "p1", 16, DRIVER_F32(1, 4, 4, 0), DRIVER_F32(2, 0, 3, 3)), F32 },
    { CONV("odd channels", "p1", 450, DRIVER_F32(1, 4, 3, 35), DRIVER_F32(50, 35, 2, 3)), FLOATS },

    { CONV("layer of 64", "p1", 600, DRIVER_F32(2, 6, 17, 64), DRIVER_F32(40, 64, 3, 3)), LARGE },
    { CONV("layer of 64, stride 2", "s2 p1", 600, DRIVER_F32(3, 8, 17, 64),
           DRIVER_F32(48, 64, 3, 3)), LARGE },
    { CONV("layer of 96, dilated", "p4 d4", 900, DRIVER_F32(2, 9, 11, 96),
           DRIVER_F32(17, 96, 3, 3)), LARGE },
    { CONV("many lines", "p1", 900, DRIVER_F32(2, 20, 21, 5), DRIVER_F32(33, 5, 3, 3)), LARGE },
    { CONV("small images of 16", "p1", 1000, DRIVER_F32(16, 2, 2, 40), DRIVER_F32(50, 40, 3, 3)),
      LARGE },
    { CONV("small images of 32", "s2 p1", 1000, DRIVER_F32(32, 5, 4, 19), DRIVER_F32(33, 19, 3, 3)),
      LARGE },
    { CONV("small images of 8", "p2 d2", 1000, DRIVER_F32(8, 7, 5, 33), DRIVER_F32(20, 33, 3, 3)),
      LARGE },
    { CONV("small images of 4", "p1", 1000, DRIVER_F32(4, 3, 4, 64), DRIVER_F32(40, 64, 3, 3)),
      LARGE },
    { CONV("small images of 16 in bf16", "p1", 1000, DRIVER_SRC(GR_BF16, 16, 4, 4, 40),
           DRIVER_SRC(GR_BF16, 33, 40, 3, 3)), LARGE },
    { CONV("several passes", "p2", 5500, DRIVER_F32(1, 3, 4, 200), DRIVER_F32(34, 200, 5, 5)),
      LARGE },
    { CONV("groups of 32", "p1 g2", 300, DRIVER_F32(2, 7, 9, 64), DRIVER_F32(64, 32, 3, 3)),
      LARGE },
    { CONV("groups of 3", "p1 g5", 200, DRIVER_F32(2, 9, 11, 15), DRIVER_F32(20, 3, 3, 3)), LARGE },
    { CONV("depthwise of 67", "p2 d2 g67", 600, DRIVER_F32(2, 19, 15, 67),
           DRIVER_F32(67, 1, 3, 3)), LARGE },
    { CONV("depthwise of 67, stride 2", "s2 p3 g67", 600, DRIVER_F32(2, 19, 15, 67),
           DRIVER_F32(67, 1, 7, 7)), LARGE },
    { CONV("stem", "s2 p3", 2000, DRIVER_F32(2, 17, 35, 3), DRIVER_F32(40, 3, 7, 7)), LARGE },
    { CONV("patches of 14", "s14", 600, DRIVER_F32(2, 28, 42, 3), DRIVER_F32(48, 3, 14, 14)),
      LARGE },
    { CONV("1x1 of 128", "", 640, DRIVER_F32(2, 9, 17, 128), DRIVER_F32(64, 128, 1, 1)), LARGE },
    { CONV("1x1 of 128, stride 2", "s2", 640, DRIVER_F32(2, 17, 17, 128),
           DRIVER_F32(64, 128, 1, 1)), LARGE },

    { CONV("layer of 64 in bf16", "p1", 600, DRIVER_SRC(GR_BF16, 2, 6, 17, 64),
           DRIVER_SRC(GR_BF16, 40, 64, 3, 3)), LARGE },
    { CONV("stride 2 in bf16", "s2 p1", 600, DRIVER_SRC(GR_BF16, 3, 8, 17, 64),
           DRIVER_SRC(GR_BF16, 48, 64, 3, 3)), LARGE },
    { CONV("several passes in bf16", "p2", 5500, DRIVER_SRC(GR_BF16, 1, 3, 4, 600),
           DRIVER_SRC(GR_BF16, 10, 600, 5, 5)), LARGE },
    { CONV("layer of 64 in f16", "p1", 600, DRIVER_SRC(GR_F16, 1, 6, 9, 64),
           DRIVER_SRC(GR_F16, 40, 64, 3, 3)), LARGE },
    { CONV("stem in bf16", "s2 p3", 2000, DRIVER_SRC(GR_BF16, 2, 17, 35, 3),
           DRIVER_SRC(GR_BF16, 20, 3, 7, 7)), LARGE },

    { DATA("transposed", "", 45, DRIVER_F32(2, 4, 5, 3), DRIVER_F32(3, 4, 3, 3)), GOLDEN },
    { DATA("transposed 2x2 stride 2", "s2", 40, DRIVER_F32(2, 4, 5, 6), DRIVER_F32(6, 4, 2, 2)),
      GOLDEN },
    { DATA("transposed, out_pad", "s2 p1 o1", 54, DRIVER_F32(1, 4, 3, 6), DRIVER_F32(6, 2, 3, 3)),
      GOLDEN },
    { DATA("transposed groups", "s2 p1 g2", 40, DRIVER_F32(1, 4, 5, 6), DRIVER_F32(6, 2, 4, 4)),
      GOLDEN },
    { DATA("transposed, stride 3 of 2", "s3", 24, DRIVER_F32(1, 3, 4, 6), DRIVER_F32(6, 2, 2, 2)),
      F32 },
    { DATA("transposed, no images", "s2", 12, DRIVER_F32(0, 4, 5, 6), DRIVER_F32(6, 4, 2, 2)),
      F32 },
    { DATA("transposed 2x2 of 64", "s2", 600, DRIVER_F32(2, 9, 13, 64),
           DRIVER_F32(64, 48, 2, 2)), LARGE },
    { WEIGHT("weight", "s2 p1", k3x3, 24, DRIVER_F32(2, 5, 6, 3), DRIVER_F32(2, 3, 3, 4)), FLOATS },
    { WEIGHT("weight of groups", "g2 P1", k2x3, 50, DRIVER_F32(2, 5, 6, 4),
             DRIVER_F32(2, 4, 6, 2)), FLOATS },

    { CONV("special numbers", "", 36, DRIVER_F32(1, 5, 4, 4), DRIVER_F32(3, 4, 3, 3)),
      .flags = DRIVER_SPECIAL | DRIVER_FLOATS },

#define REFUSED .want
    { CONV("three dimensions", "", 0, DRIVER_F32(5, 6, 3), DRIVER_F32(4, 3, 3, 3)),
      REFUSED = "source 0 has 3 dimensions, not 4" },
    { CONV("integers", "", 0, DRIVER_SRC(GR_I32, 1, 5, 6, 3), DRIVER_F32(4, 3, 3, 3)),
      REFUSED = "floating" },
    { CONV("other channels", "", 0, DRIVER_F32(1, 5, 6, 3), DRIVER_F32(4, 2, 3, 3)),
      REFUSED = "takes 2 channels, but there are 3 in 1 groups" },
    { CONV("groups do not divide", "g2", 0, DRIVER_F32(1, 5, 6, 3), DRIVER_F32(4, 2, 3, 3)),
      REFUSED = "2 groups do not divide 3 and 4 channels" },
    { CONV("kernel too large", "d2", 0, DRIVER_F32(1, 5, 4, 3), DRIVER_F32(4, 3, 3, 3)),
      REFUSED = "a kernel of 3, 2 apart, does not fit into 4 padded by 0 (axis 1)" },
    { CONV("no stride", "s0", 0, DRIVER_F32(1, 5, 6, 3), DRIVER_F32(4, 3, 3, 3)),
      REFUSED = "stride and dilation must be 1 or more" },
    { CONV("no groups", "g0", 0, DRIVER_F32(1, 5, 6, 3), DRIVER_F32(4, 3, 3, 3)),
      REFUSED = "groups must be 1 or more" },
    { CONV("out_pad of a convolution", "o1 s2", 0, DRIVER_F32(1, 5, 6, 3), DRIVER_F32(4, 3, 3, 3)),
      REFUSED = "out_pad is for transposed" },
    { CONV("no kernel", "", 0, DRIVER_F32(1, 5, 6, 3), DRIVER_F32(4, 3, 0, 3)),
      REFUSED = "a kernel of 0" },
    { DATA("transposed, other channels", "", 0, DRIVER_F32(1, 5, 6, 3), DRIVER_F32(4, 3, 3, 3)),
      REFUSED = "takes 4 channels, but there are 3" },
    { DATA("transposed, out_pad too large", "s2 o2", 0, DRIVER_F32(1, 5, 6, 3),
           DRIVER_F32(3, 3, 3, 3)),
      REFUSED = "out_pad 2 of axis 0 is not less than the stride, 2, or the dilation, 1" },
    { DATA("transposed, padding eats out_pad", "d2 o1 p4", 0, DRIVER_F32(1, 1, 2, 3),
           DRIVER_F32(3, 3, 2, 2)), REFUSED = "dimension 1 is negative" },
    { DATA("transposed, padding eats all", "p3", 0, DRIVER_F32(1, 2, 2, 3),
           DRIVER_F32(3, 3, 3, 3)), REFUSED = "dimension 1 is negative" },
    { WEIGHT("weight, other size", "", k1x1, 0, DRIVER_F32(1, 5, 6, 3), DRIVER_F32(1, 4, 6, 2)),
      REFUSED = "5 along axis 0 gives 5, not 4" },
    { WEIGHT("weight, other batch", "", k1x1, 0, DRIVER_F32(1, 5, 6, 3), DRIVER_F32(2, 5, 6, 2)),
      REFUSED = "batch or channels differ" },
};
/* clang-format on */

const driver_family driver_conv = { "conv", cases, DRIVER_COUNT(cases) };
