/*
 * Cases of normalisation. Weights are given as state where all types are run: they are f32
 * then, as they are in training, and vector kernels take them.
 *
 * A result is a quotient of a difference from the mean and a root of a sum of n squares, all
 * of size 1: the tolerance of a sum of n terms.
 */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/norm.h"
#include "gradus/ops.h"
#include "op/norm/norm.h"
#include "op/norm/sync.h"

static gr_value *source(gr_value *const *src, const driver_case *c, int i)
{
    return i < c->n_src ? src[i] : NULL;
}

static double eps_of(const driver_case *c)
{
    return c->arg ? *(const double *)c->arg : 1e-5;
}

static gr_value *build_layer(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_layer_norm_at("case", g, src[0], source(src, c, 1), source(src, c, 2), eps_of(c));
}

static gr_value *build_bias(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_layer_norm_at("case", g, src[0], NULL, source(src, c, 1), eps_of(c));
}

static gr_value *build_rms(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_rms_norm_at("case", g, src[0], source(src, c, 1), eps_of(c), false);
}

static gr_value *build_clamped(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_rms_norm_at("case", g, src[0], source(src, c, 1), eps_of(c), true);
}

static gr_value *build_op(gr_graph *g, gr_value *const *src, const driver_case *c, const gr_op *op,
                          size_t attr_bytes)
{
    return gr_graph_add_value(g, &(gr_build){ .op = op,
                                              .site = "case",
                                              .src = src,
                                              .n_src = c->n_src,
                                              .attr = c->arg,
                                              .attr_bytes = attr_bytes });
}

static gr_value *build_row_grad(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    bool is_layer = strcmp(c->op, "layer_norm_grad") == 0;

    return build_op(g, src, c, is_layer ? &gr_op_layer_norm_grad : &gr_op_rms_norm_grad,
                    sizeof(gr_row_norm_attr));
}

static gr_value *build_stats(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return build_op(g, src, c, &gr_op_batch_stats, sizeof(gr_channel_attr));
}

static gr_value *build_sums(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return build_op(g, src, c, &gr_op_batch_norm_sums, sizeof(gr_channel_attr));
}

static gr_value *build_share(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    bool is_stats = strcmp(c->op, "share_stats") == 0;

    return build_op(g, src, c, is_stats ? &gr_op_share_stats : &gr_op_share_sums,
                    sizeof(gr_sync_attr));
}

static gr_value *build_sync(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    bool is_stats = strcmp(c->op, "sync_stats") == 0;

    return build_op(g, src, c, is_stats ? &gr_op_sync_stats : &gr_op_sync_sums,
                    sizeof(gr_sync_attr));
}

static gr_value *build_batch(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_batch_norm_args a = GR_BATCH_NORM_INIT;

    a.weight = source(src, c, 1);
    a.bias = source(src, c, 2);
    return gr_batch_norm_at("case", g, src[0], &a);
}

/* By running statistics: sources x, mean, var, weight, bias. */
static gr_value *build_frozen(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_batch_norm_args a = GR_BATCH_NORM_INIT;

    a.running_mean = source(src, c, 1);
    a.running_var = source(src, c, 2);
    a.weight = source(src, c, 3);
    a.bias = source(src, c, 4);
    a.frozen = true;
    return gr_batch_norm_at("case", g, src[0], &a);
}

static gr_value *build_group(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_group_norm_at("case", g, src[0], *(const int64_t *)c->arg, source(src, c, 1),
                            source(src, c, 2), 1e-5);
}

/* A channel_map that does not broadcast, and a batch_norm with a bias that does not fit. */
static gr_value *build_wrong_map(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_program p = { .shape = src[0]->shape, .dtype = GR_F32, .n_src = c->n_src };

    gr_program_push(&p, GR_FN_ADD, 0, 1, -1);
    return gr_channel_map_add(g, "case", src, &p);
}

static const double one_tenth = 0.1, high = 0.8, negative = -1;
static const int64_t groups_0 = 0, groups_1 = 1, groups_3 = 3, groups_4 = 4;
static const gr_channel_attr whole = { 0 }, per_sample = { .per_sample = true },
                             gated = { .gated = true },
                             gated_per_sample = { .per_sample = true, .gated = true };
static const gr_sync_attr first_of_one = { .name = "bn", .n_ranks = 1 },
                          second_of_three = { .name = "bn", .rank = 1, .n_ranks = 3 };
static const gr_row_norm_attr full = { .eps = 1e-5, .has_weight = true, .has_bias = true },
                              plain = { .eps = 1e-5 },
                              clamped = { .eps = 0.8, .clamped = true, .has_weight = true },
                              to_bf16 = { .eps = 1e-5,
                                          .has_weight = true,
                                          .has_bias = true,
                                          .dtype = GR_BF16 };

#define CASE(text, name_of_op, fn, n, ...) \
    .name = (text), .op = (name_of_op), .build = (fn), .n_src = (n), .src = { __VA_ARGS__ }
#define LAYER(text, n, ...)   CASE(text, "layer_norm", build_layer, n, __VA_ARGS__)
#define RMS(text, n, ...)     CASE(text, "rms_norm", build_rms, n, __VA_ARGS__)
#define CLAMPED(text, n, ...) CASE(text, "rms_norm", build_clamped, n, __VA_ARGS__)
#define STATS(text, ...)      CASE(text, "batch_stats", build_stats, 1, __VA_ARGS__)
#define SUMS(text, n, ...)    CASE(text, "batch_norm_sums", build_sums, n, __VA_ARGS__)
#define BATCH(text, n, ...)   CASE(text, "batch_norm", build_batch, n, __VA_ARGS__)
#define FROZEN(text, n, ...)  CASE(text, "channel_map", build_frozen, n, __VA_ARGS__)
#define GROUP(text, n, ...)   CASE(text, "batch_norm", build_group, n, __VA_ARGS__)
#define POSITIVE(...)         DRIVER_RANGE(GR_F32, 0.5, 2, __VA_ARGS__)
#define VECTORS(c)            DRIVER_STATE(c), DRIVER_STATE(c)
#define GOLDEN(which)         .grad = (which), .flags = DRIVER_GOLDEN
#define FLOATS                .grad = 1, .flags = DRIVER_FLOATS

/* clang-format off */
static const driver_case cases[] = {
    { LAYER("layer norm", 3, DRIVER_F32(6, 10), DRIVER_F32(10), DRIVER_F32(10)),
      .n_reduced = 10, GOLDEN(7) },
    { LAYER("layer norm of a cube", 3, DRIVER_F32(2, 3, 37), DRIVER_F32(37), DRIVER_F32(37)),
      .n_reduced = 37, GOLDEN(7) },
    { LAYER("layer norm, plain", 1, DRIVER_F32(6, 10)), .n_reduced = 10, GOLDEN(1) },
    { LAYER("layer norm of all types", 3, DRIVER_F32(7, 67), VECTORS(67)), .n_reduced = 67,
      FLOATS },
    { LAYER("layer norm by narrow weights", 3, DRIVER_F32(5, 16), DRIVER_F32(16), DRIVER_F32(16)),
      .n_reduced = 16, .grad = 7, .flags = DRIVER_FLOATS },
    { LAYER("layer norm, weight only", 2, DRIVER_F32(5, 16), DRIVER_STATE(16)), .n_reduced = 16,
      FLOATS },
    { CASE("layer norm, bias only", "layer_norm", build_bias, 2, DRIVER_F32(5, 33),
           DRIVER_F32(33)), .n_reduced = 33, .grad = 3 },
    { LAYER("layer norm of one channel", 3, DRIVER_F32(5, 1), VECTORS(1)), .n_reduced = 1,
      .arg = &one_tenth, FLOATS },
    { LAYER("layer norm of one row", 3, DRIVER_F32(48), VECTORS(48)), .n_reduced = 48, FLOATS },
    { LAYER("layer norm of no channel", 3, DRIVER_F32(4, 0), VECTORS(0)), FLOATS },
    { LAYER("layer norm of no row", 3, DRIVER_F32(0, 8), VECTORS(8)), FLOATS },
    { LAYER("layer norm on threads", 3, DRIVER_F32(133, 129), VECTORS(129)), .n_reduced = 133,
      FLOATS },
    { LAYER("layer norm of long rows", 3, DRIVER_F32(5, 2051), VECTORS(2051)), .n_reduced = 2051,
      .grad = 1, .flags = DRIVER_FLOATS | DRIVER_LARGE },
    { LAYER("layer norm of many rows", 3, DRIVER_F32(1030, 96), VECTORS(96)), .n_reduced = 1030,
      .grad = 1, .flags = DRIVER_FLOATS | DRIVER_LARGE },
    /* For kernels that share long rows out, or let one walk many rows. */
    { LAYER("layer norm of wide rows", 3, DRIVER_F32(9, 1536), VECTORS(1536)), .n_reduced = 1536,
      .grad = 1, .flags = DRIVER_FLOATS | DRIVER_LARGE },
    { LAYER("layer norm of wider rows", 3, DRIVER_F32(5, 5120), VECTORS(5120)), .n_reduced = 5120,
      .grad = 1, .flags = DRIVER_FLOATS | DRIVER_LARGE },
    { LAYER("layer norm of the widest rows", 3, DRIVER_F32(3, 9216), VECTORS(9216)),
      .n_reduced = 9216, .grad = 1, .flags = DRIVER_FLOATS | DRIVER_LARGE },
    { LAYER("layer norm of more narrow rows", 3, DRIVER_F32(2500, 16), VECTORS(16)),
      .n_reduced = 2500, .grad = 1, .flags = DRIVER_FLOATS | DRIVER_LARGE },
    { LAYER("layer norm of more wide rows", 3, DRIVER_F32(600, 640), VECTORS(640)),
      .n_reduced = 640, .grad = 1, .flags = DRIVER_FLOATS | DRIVER_LARGE },
    /* Far from 0: 1000 +- 1, where squares would cancel; 1e-4 of 1 is what f32 keeps. */
    { LAYER("layer norm far away", 3, DRIVER_RANGE(GR_F32, 999, 1001, 9, 64), VECTORS(64)),
      .n_reduced = 64, .scale = 100, .grad = 1 },
    { LAYER("layer norm of integers", 1, DRIVER_SRC(GR_I32, 6, 10)), .want = "floating" },
    { LAYER("layer norm, other weight", 2, DRIVER_F32(6, 10), DRIVER_F32(9)),
      .want = "weight must be [10]" },
    { LAYER("layer norm, integer bias", 3, DRIVER_F32(6, 10), DRIVER_F32(10),
            DRIVER_SRC(GR_I32, 10)), .want = "bias must be of a floating type" },
    { LAYER("layer norm, eps", 1, DRIVER_F32(6, 10)), .arg = &negative, .want = "eps is -1" },
    { LAYER("layer norm of a number", 1, { .dtype = GR_F32, .shape = DRIVER_DIMS0 }),
      .want = "no dimension" },

    { CASE("layer norm grad", "layer_norm_grad", build_row_grad, 5, DRIVER_F32(6, 10),
           DRIVER_F32(6, 10), DRIVER_F32(6), POSITIVE(6), DRIVER_STATE(10)), .arg = &full,
      .n_reduced = 10, .scale = 8 },
    { CASE("layer norm grad to bf16", "layer_norm_grad", build_row_grad, 5,
           DRIVER_SRC(GR_BF16, 6, 40), DRIVER_SRC(GR_BF16, 6, 40), DRIVER_F32(6), POSITIVE(6),
           DRIVER_STATE(40)), .arg = &to_bf16, .n_reduced = 40, .scale = 8 },
    { CASE("layer norm grad of both", "layer_norm_grad", build_row_grad, 5,
           DRIVER_SRC(GR_BF16, 6, 40), DRIVER_F32(6, 40), DRIVER_F32(6), POSITIVE(6),
           DRIVER_STATE(40)), .arg = &full, .n_reduced = 40, .scale = 8 },
    { CASE("layer norm grad, plain", "layer_norm_grad", build_row_grad, 4, DRIVER_F32(6, 10),
           DRIVER_F32(6, 10), DRIVER_F32(6), POSITIVE(6)), .arg = &plain, .n_reduced = 10,
      .scale = 8 },
    { CASE("layer norm grad, other rows", "layer_norm_grad", build_row_grad, 4, DRIVER_F32(6, 10),
           DRIVER_F32(6, 10), DRIVER_F32(6), POSITIVE(5)), .arg = &plain,
      .want = "one number per row" },
    { CASE("layer norm grad, no weight", "layer_norm_grad", build_row_grad, 4, DRIVER_F32(6, 10),
           DRIVER_F32(6, 10), DRIVER_F32(6), POSITIVE(6)), .arg = &full, .want = "takes 5 inputs" },
    { CASE("layer norm grad, other shape", "layer_norm_grad", build_row_grad, 4,
           DRIVER_F32(6, 10), DRIVER_F32(6, 11), DRIVER_F32(6), POSITIVE(6)), .arg = &plain,
      .want = "shape of x" },

    { RMS("rms norm", 2, DRIVER_F32(6, 10), DRIVER_F32(10)), .n_reduced = 10, GOLDEN(3) },
    { RMS("rms norm, plain", 1, DRIVER_F32(6, 10)), .n_reduced = 10, GOLDEN(1) },
    { RMS("rms norm of all types", 2, DRIVER_F32(7, 67), DRIVER_STATE(67)), .n_reduced = 67,
      FLOATS },
    { RMS("rms norm on threads", 2, DRIVER_F32(133, 129), DRIVER_STATE(129)), .n_reduced = 133,
      FLOATS },
    { RMS("rms norm of one channel", 2, DRIVER_F32(5, 1), DRIVER_STATE(1)), .arg = &one_tenth,
      .n_reduced = 1, FLOATS },
    { RMS("rms norm of nothing", 2, DRIVER_F32(3, 0), DRIVER_STATE(0)), FLOATS },
    { CLAMPED("rms norm, clamped", 2, DRIVER_RANGE(GR_F32, -1.5, 1.5, 9, 10), DRIVER_F32(10)),
      .arg = &high, .n_reduced = 10, GOLDEN(3) },
    { CLAMPED("rms norm, clamped, all types", 2, DRIVER_RANGE(GR_F32, -1.5, 1.5, 40, 20),
              DRIVER_STATE(20)), .arg = &high, .n_reduced = 40, FLOATS },
    { CLAMPED("rms norm of zeros", 2, DRIVER_RANGE(GR_F32, 0, 0, 3, 20), DRIVER_F32(20)),
      .arg = &high, .n_reduced = 20, .grad = 3 },
    { RMS("rms norm, other weight", 2, DRIVER_F32(6, 10), DRIVER_F32(6, 10)),
      .want = "weight must be [10]" },
    { CASE("rms norm grad", "rms_norm_grad", build_row_grad, 4, DRIVER_F32(6, 10),
           DRIVER_F32(6, 10), POSITIVE(6), DRIVER_STATE(10)), .arg = &clamped, .n_reduced = 10,
      .scale = 8 },
    { CASE("rms norm grad, other type", "rms_norm_grad", build_row_grad, 3, DRIVER_F32(6, 10),
           DRIVER_F32(6, 10), DRIVER_SRC(GR_I32, 6)), .arg = &plain,
      .want = "f32 with one number per row" },

    { STATS("batch stats", DRIVER_F32(5, 3, 7)), .arg = &whole, .n_reduced = 15, .grad = 1,
      .grad_outs = 1, .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { STATS("batch stats, both gradients", DRIVER_F32(5, 3, 7)), .arg = &whole, .n_reduced = 15,
      .grad = 1, .grad_outs = 3, .flags = DRIVER_FLOATS },
    { STATS("batch stats per sample", DRIVER_F32(5, 3, 7)), .arg = &per_sample, .n_reduced = 15,
      .grad = 1, .grad_outs = 3, .flags = DRIVER_FLOATS },
    { STATS("batch stats of one row", DRIVER_F32(1, 9)), .arg = &whole, .n_reduced = 1,
      .grad = 1, .grad_outs = 2, .flags = DRIVER_FLOATS },
    { STATS("batch stats of no channel", DRIVER_F32(5, 0)), .arg = &whole,
      .flags = DRIVER_FLOATS },
    { STATS("batch stats of no sample", DRIVER_F32(0, 4, 5)), .arg = &per_sample,
      .flags = DRIVER_FLOATS },
    { STATS("batch stats of nothing", DRIVER_F32(0, 9)), .arg = &whole, .flags = DRIVER_FLOATS },
    { STATS("batch stats of many rows", DRIVER_F32(1037, 37)), .arg = &whole, .n_reduced = 1037,
      .flags = DRIVER_FLOATS },
    { STATS("batch stats of many channels", DRIVER_F32(67, 301)), .arg = &whole, .n_reduced = 67,
      .flags = DRIVER_FLOATS },
    { STATS("batch stats of images", DRIVER_F32(4, 33, 33, 64)), .arg = &whole,
      .n_reduced = 4356, .flags = DRIVER_FLOATS | DRIVER_LARGE },
    { STATS("batch stats of images per sample", DRIVER_F32(4, 33, 33, 16)), .arg = &per_sample,
      .n_reduced = 4356, .flags = DRIVER_FLOATS | DRIVER_LARGE },
    /* The mean of numbers near 1000 is off by some 1e-4; m2, of size 300, by less than 1e-3. */
    { STATS("batch stats far away", DRIVER_RANGE(GR_F32, 999, 1001, 1000, 5)), .arg = &whole,
      .n_reduced = 1000, .scale = 3 },
    { STATS("batch stats of a vector", DRIVER_F32(7)), .arg = &whole, .want = "two dimensions" },
    { STATS("batch stats of integers", DRIVER_SRC(GR_I64, 7, 2)), .arg = &whole,
      .want = "floating" },

    { SUMS("sums", 4, DRIVER_F32(5, 3, 7), DRIVER_F32(5, 3, 7), DRIVER_STATE(7),
           DRIVER_STATE(7)), .arg = &whole, .n_reduced = 15, .scale = 6 },
    { SUMS("sums per sample", 4, DRIVER_F32(5, 3, 7), DRIVER_F32(5, 3, 7), DRIVER_STATE(5, 7),
           DRIVER_STATE(5, 1, 7)), .arg = &per_sample, .n_reduced = 15, .scale = 6 },
    { SUMS("sums behind a relu", 6, DRIVER_F32(50, 3, 37), DRIVER_F32(50, 3, 37),
           DRIVER_STATE(37), DRIVER_STATE(37), DRIVER_STATE(37), DRIVER_STATE(37)),
      .arg = &gated, .n_reduced = 150, .scale = 6 },
    { SUMS("sums behind a relu per sample", 6, DRIVER_F32(5, 30, 21), DRIVER_F32(5, 30, 21),
           DRIVER_STATE(5, 21), DRIVER_STATE(5, 21), DRIVER_STATE(5, 21), DRIVER_STATE(5, 21)),
      .arg = &gated_per_sample, .n_reduced = 30, .scale = 6 },
    { SUMS("sums of bf16", 4, DRIVER_SRC(GR_BF16, 40, 19), DRIVER_SRC(GR_BF16, 40, 19),
           DRIVER_STATE(19), DRIVER_STATE(19)), .arg = &whole, .n_reduced = 40, .scale = 6 },
    { SUMS("sums of bf16 and f32", 4, DRIVER_SRC(GR_BF16, 40, 19), DRIVER_F32(40, 19),
           DRIVER_STATE(19), DRIVER_STATE(19)), .arg = &whole, .n_reduced = 40, .scale = 6 },
    { SUMS("sums of f16 behind a relu", 6, DRIVER_SRC(GR_F16, 40, 19), DRIVER_SRC(GR_F16, 40, 19),
           DRIVER_STATE(19), DRIVER_STATE(19), DRIVER_STATE(19), DRIVER_STATE(19)), .arg = &gated,
      .n_reduced = 40, .scale = 6 },
    { SUMS("sums of many rows", 4, DRIVER_F32(2100, 64), DRIVER_F32(2100, 64), DRIVER_STATE(64),
           DRIVER_STATE(64)), .arg = &whole, .n_reduced = 2100, .scale = 6,
      .flags = DRIVER_LARGE },
    { SUMS("sums of no channel", 4, DRIVER_F32(5, 0), DRIVER_F32(5, 0), DRIVER_STATE(0),
           DRIVER_STATE(0)), .arg = &whole },
    { SUMS("sums of nothing", 4, DRIVER_F32(0, 7), DRIVER_F32(0, 7), DRIVER_STATE(7),
           DRIVER_STATE(7)), .arg = &whole },
    { SUMS("sums, other shape", 4, DRIVER_F32(5, 7), DRIVER_F32(6, 7), DRIVER_STATE(7),
           DRIVER_STATE(7)), .arg = &whole, .want = "shape of x" },
    { SUMS("sums, other vectors", 4, DRIVER_F32(5, 7), DRIVER_F32(5, 7), DRIVER_STATE(7),
           DRIVER_STATE(6)), .arg = &whole, .want = "one number per channel" },
    { SUMS("sums, no gate", 4, DRIVER_F32(5, 7), DRIVER_F32(5, 7), DRIVER_STATE(7),
           DRIVER_STATE(7)), .arg = &gated, .want = "takes 6 inputs" },

    { CASE("shared statistics", "share_stats", build_share, 3, DRIVER_F32(19), DRIVER_F32(19),
           { .dtype = GR_F32, .shape = DRIVER_DIMS0 }), .arg = &second_of_three,
      .flags = DRIVER_EXACT },
    { CASE("shared statistics of one rank", "share_stats", build_share, 3, DRIVER_SRC(GR_F64, 300),
           DRIVER_SRC(GR_F64, 300), { .dtype = GR_F64, .shape = DRIVER_DIMS0 }),
      .arg = &first_of_one, .flags = DRIVER_EXACT },
    { CASE("shared statistics of one channel", "share_stats", build_share, 3, DRIVER_F32(1),
           DRIVER_F32(1), { .dtype = GR_F32, .shape = DRIVER_DIMS0 }), .arg = &second_of_three,
      .flags = DRIVER_EXACT },
    { CASE("shared statistics of no channel", "share_stats", build_share, 3, DRIVER_F32(0),
           DRIVER_F32(0), { .dtype = GR_F32, .shape = DRIVER_DIMS0 }), .arg = &second_of_three,
      .flags = DRIVER_EXACT },
    { CASE("shared statistics, other lengths", "share_stats", build_share, 3, DRIVER_F32(19),
           DRIVER_F32(18), { .dtype = GR_F32, .shape = DRIVER_DIMS0 }), .arg = &second_of_three,
      .want = "vectors of one length" },
    { CASE("joined statistics", "sync_stats", build_sync, 1, POSITIVE(3, 39)),
      .arg = &second_of_three, .n_reduced = 3 },
    { CASE("joined statistics of one rank", "sync_stats", build_sync, 1,
           DRIVER_RANGE(GR_F64, 0.5, 2, 1, 601)), .arg = &first_of_one, .n_reduced = 1 },
    { CASE("joined statistics of no channel", "sync_stats", build_sync, 1, POSITIVE(3, 1)),
      .arg = &second_of_three, .n_reduced = 3 },
    { CASE("joined statistics of no rank", "sync_stats", build_sync, 1, DRIVER_F32(0, 39)),
      .arg = &second_of_three, .n_reduced = 3 },
    { CASE("joined statistics of nothing", "sync_stats", build_sync, 1,
           DRIVER_RANGE(GR_F32, 0, 0, 3, 39)), .arg = &second_of_three, .n_reduced = 3 },
    { CASE("joined statistics, open", "sync_stats", build_sync, 1, DRIVER_F32(3, 38)),
      .arg = &second_of_three, .want = "what its share node gives" },
    { CASE("shared sums", "share_sums", build_share, 2, DRIVER_F32(300), DRIVER_F32(300)),
      .arg = &second_of_three, .flags = DRIVER_EXACT },
    { CASE("shared sums of one channel", "share_sums", build_share, 2, DRIVER_F32(1),
           DRIVER_F32(1)), .arg = &second_of_three, .flags = DRIVER_EXACT },
    { CASE("shared sums of no channel", "share_sums", build_share, 2, DRIVER_F32(0),
           DRIVER_F32(0)), .arg = &second_of_three, .flags = DRIVER_EXACT },
    { CASE("shared sums, other lengths", "share_sums", build_share, 2, DRIVER_F32(19),
           DRIVER_F32(18)), .arg = &second_of_three, .want = "vectors of one length" },
    { CASE("joined sums", "sync_sums", build_sync, 1, DRIVER_F32(2, 300)),
      .arg = &second_of_three, .flags = DRIVER_EXACT },
    { CASE("joined sums of one channel", "sync_sums", build_sync, 1, DRIVER_F32(2, 1)),
      .arg = &second_of_three, .flags = DRIVER_EXACT },
    { CASE("joined sums of no channel", "sync_sums", build_sync, 1, DRIVER_F32(2, 0)),
      .arg = &second_of_three, .flags = DRIVER_EXACT },
    { CASE("joined sums in double", "sync_sums", build_sync, 1, DRIVER_SRC(GR_F64, 2, 19)),
      .arg = &second_of_three, .flags = DRIVER_EXACT },
    { CASE("joined sums, three", "sync_sums", build_sync, 1, DRIVER_F32(3, 19)),
      .arg = &second_of_three, .want = "what its share node gives" },

    { BATCH("batch norm of images", 3, DRIVER_F32(2, 3, 4, 5), DRIVER_F32(5), DRIVER_F32(5)),
      .n_reduced = 24, GOLDEN(7) },
    { BATCH("batch norm of rows", 3, DRIVER_F32(7, 5), DRIVER_F32(5), DRIVER_F32(5)),
      .n_reduced = 7, GOLDEN(7) },
    { BATCH("batch norm, plain", 1, DRIVER_F32(4, 3, 5)), .n_reduced = 12, GOLDEN(1) },
    { BATCH("batch norm of all types", 3, DRIVER_F32(40, 19), VECTORS(19)), .n_reduced = 40,
      FLOATS },
    { BATCH("batch norm, weight only", 2, DRIVER_F32(4, 3, 17), DRIVER_F32(17)), .n_reduced = 12,
      .grad = 3, .flags = DRIVER_FLOATS },
    { BATCH("batch norm of one channel", 3, DRIVER_F32(6, 1), VECTORS(1)), .n_reduced = 6, FLOATS },
    { BATCH("batch norm of no channel", 3, DRIVER_F32(6, 0), VECTORS(0)), FLOATS },
    { BATCH("batch norm of one value", 1, DRIVER_F32(1, 5)), .want = "more than one value" },
    { BATCH("batch norm of a vector", 1, DRIVER_F32(5)), .want = "[n, .., c]" },
    { BATCH("batch norm, other weight", 2, DRIVER_F32(4, 5), DRIVER_F32(4)),
      .want = "must be [5]", .flags = DRIVER_NO_SHAPES },
    { FROZEN("batch norm, frozen", 5, DRIVER_F32(4, 3, 17), DRIVER_F32(17), POSITIVE(17),
             DRIVER_F32(17), DRIVER_F32(17)), .n_reduced = 12, GOLDEN(1) },
    { FROZEN("batch norm, frozen, all types", 5, DRIVER_F32(4, 3, 17), DRIVER_STATE(17),
             { .dtype = GR_F32, .shape = DRIVER_DIMS(17), .is_state = true, .lo = 0.5, .hi = 2 },
             VECTORS(17)), .n_reduced = 12, FLOATS },
    { FROZEN("batch norm, frozen, of one channel", 5, DRIVER_F32(4, 1), DRIVER_F32(1), POSITIVE(1),
             DRIVER_F32(1), DRIVER_F32(1)), .n_reduced = 4, .grad = 1 },
    { FROZEN("batch norm, frozen, of nothing", 5, DRIVER_F32(0, 3), DRIVER_F32(3), POSITIVE(3),
             DRIVER_F32(3), DRIVER_F32(3)), .grad = 1 },
    { CASE("a channel map that does not fit", "channel_map", build_wrong_map, 2,
           DRIVER_F32(4, 5), DRIVER_F32(4)), .want = "broadcast" },

    { GROUP("group norm", 3, DRIVER_F32(2, 3, 4, 6), DRIVER_F32(6), DRIVER_F32(6)),
      .arg = &groups_3, .n_reduced = 24, GOLDEN(7) },
    { GROUP("group norm of one group", 3, DRIVER_F32(3, 5, 4), DRIVER_F32(4), DRIVER_F32(4)),
      .arg = &groups_1, .n_reduced = 20, GOLDEN(7) },
    { GROUP("group norm, plain", 1, DRIVER_F32(3, 5, 4)), .arg = &groups_4, .n_reduced = 5,
      GOLDEN(1) },
    { GROUP("group norm of all types", 3, DRIVER_F32(3, 20, 36), VECTORS(36)), .arg = &groups_4,
      .n_reduced = 180, FLOATS },
    { CASE("group norm, no group", "group_norm", build_group, 1, DRIVER_F32(3, 5, 4)), .arg = &groups_0,
      .want = "0 groups do not divide 4", .flags = DRIVER_NO_SHAPES },
    { CASE("group norm, other groups", "group_norm", build_group, 1, DRIVER_F32(3, 5, 4)), .arg = &groups_3,
      .want = "3 groups do not divide 4", .flags = DRIVER_NO_SHAPES },
};
/* clang-format on */

const driver_family driver_norm = { "norm", cases, DRIVER_COUNT(cases) };
