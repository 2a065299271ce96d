/*
 * Cases of the update: accumulate, grad_control, count_step, scale_update, sgd, adamw, ema, and
 * several of them as one node.
 * None has a gradient: they come after the backward pass.
 */
#include "op/driver.h"
#include "op/families.h"
#include "op/update/many.h"
#include "op/update/update.h"

static gr_value *add(gr_graph *g, const gr_op *op, gr_value *const *src, const driver_case *c,
                     size_t attr_bytes)
{
    gr_build b = { .op = op,
                   .site = "case",
                   .src = src,
                   .n_src = c->n_src,
                   .attr = c->arg,
                   .attr_bytes = c->arg ? attr_bytes : 0 };

    return gr_graph_add_value(g, &b);
}

static gr_value *build_accumulate(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return add(g, &gr_op_accumulate, src, c, 0);
}

static gr_value *build_control(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return add(g, &gr_op_grad_control, src, c, sizeof(gr_control_attr));
}

static gr_value *build_count(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return add(g, &gr_op_count_step, src, c, sizeof(gr_count_attr));
}

static gr_value *build_scale(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return add(g, &gr_op_scale_update, src, c, 0);
}

/* An operator whose attributes `of` say whether it writes a copy behind its n_out results. */
static gr_value *add_update(gr_graph *g, gr_build b, gr_value *const *src, const driver_case *c,
                            const gr_update_attr *of)
{
    b.site = "case";
    b.src = src;
    b.n_src = c->n_src;
    b.n_out += of->has_copy;
    b.attr = c->arg;
    return gr_graph_add_value(g, &b);
}

static gr_value *build_sgd(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_build b = { .op = &gr_op_sgd, .n_out = 2, .attr_bytes = sizeof(gr_sgd_attr) };

    return add_update(g, b, src, c, &((const gr_sgd_attr *)c->arg)->of);
}

static gr_value *build_adamw(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_build b = { .op = &gr_op_adamw, .n_out = 3, .attr_bytes = sizeof(gr_adamw_attr) };

    return add_update(g, b, src, c, &((const gr_adamw_attr *)c->arg)->of);
}

static gr_value *build_ema(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return add(g, &gr_op_ema, src, c, sizeof(gr_ema_attr));
}

/* Two of sgd with the attributes c->arg as one node, each over half of the sources. */
static gr_value *build_many(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_node part[2] = { { .op = &gr_op_sgd, .site = "case", .attr = c->arg } };
    gr_value *half[2][DRIVER_MAX_SRC];
    gr_node *many;

    part[0].n_src = c->n_src / 2;
    part[0].n_out = 2 + ((const gr_sgd_attr *)c->arg)->of.has_copy;
    part[1] = part[0];
    for (int p = 0; p < 2; p++) {
        for (int s = 0; s < part[p].n_src; s++)
            half[p][s] = src[p * part[p].n_src + s];
        part[p].src = half[p];
    }
    many = gr_many_add(g, (gr_node *[]){ &part[0], &part[1] }, 2, NULL);
    return many ? &many->out[0] : NULL;
}

#define I64_STATE(from, to)                                                                \
    {                                                                                      \
        .dtype = GR_I64, .shape = DRIVER_DIMS0, .is_state = true, .lo = (from), .hi = (to) \
    }
#define F32_STATE0(from, to)                                                               \
    {                                                                                      \
        .dtype = GR_F32, .shape = DRIVER_DIMS0, .is_state = true, .lo = (from), .hi = (to) \
    }
/* A second moment is never negative; kept away from 0, where the root is steep. */
#define MOMENT(...)                                                                              \
    {                                                                                            \
        .dtype = GR_F32, .shape = DRIVER_DIMS(__VA_ARGS__), .is_state = true, .lo = 0.5, .hi = 2 \
    }
/* { factor, skip, norm, scale }: every number the same, so skip is on or off by range. */
#define CONTROL_GO   DRIVER_RANGE(GR_F32, 0, 1e-300, 4)
#define CONTROL_STOP DRIVER_RANGE(GR_F32, 1, 1.5, 4)

static const gr_control_attr no_clip = { 0, false }, clip = { 0.5, false }, scaled = { 0.5, true };
static const gr_count_attr free_count = { false }, checked_count = { true };
#define OWN(decay, checked)                                              \
    {                                                                    \
        .lr_scale = 1, .weight_decay = (decay), .has_control = (checked) \
    }
#define CUT                                                       \
    {                                                             \
        .lr_scale = 0.5, .weight_decay = 0.01, .clip_value = 0.75 \
    }
#define COPIES                                                \
    {                                                         \
        .lr_scale = 1, .weight_decay = 0.01, .has_copy = true \
    }
/* Its numbers count for nothing: they are written. */
#define COPY(t, ...)                                                      \
    {                                                                     \
        .dtype = (t), .shape = DRIVER_DIMS(__VA_ARGS__), .is_state = true \
    }
/* Elements 7 to 52 of a parameter; their gradients begin at element 3 of a row. */
#define PART(whole)                                                                           \
    {                                                                                         \
        .lr_scale = 1, .weight_decay = 0.01, .has_copy = (whole), .has_part = true, .part = { \
            .of = { .first = 7, .n = 46 },                                                    \
            .grad_at = 3,                                                                     \
            .in_whole = (whole)                                                               \
        }                                                                                     \
    }
static const gr_sgd_attr sgd_plain = { .of = OWN(0, false) },
                         sgd_decay = { .of = OWN(0.01, false) },
                         sgd_momentum = { .of = OWN(0.01, false), .momentum = 0.9 },
                         sgd_checked = { .of = OWN(0.01, true), .momentum = 0.9 },
                         sgd_nesterov = { .of = OWN(0.01, false),
                                          .momentum = 0.9,
                                          .nesterov = true },
                         sgd_cut = { .of = CUT, .momentum = 0.9, .nesterov = true },
                         sgd_plain_cut = { .of = CUT }, sgd_copies = { .of = COPIES },
                         sgd_momentum_copies = { .of = COPIES, .momentum = 0.9 },
                         sgd_part = { .of = PART(false), .momentum = 0.9 },
                         sgd_part_in_whole = { .of = PART(true), .momentum = 0.9 };
static const gr_adamw_attr adamw_plain = { OWN(0.01, false), 0.9, 0.999, 1e-8, false },
                           adamw_checked = { OWN(0.01, true), 0.9, 0.999, 1e-8, false },
                           adam_l2 = { OWN(0.01, false), 0.9, 0.999, 1e-8, true },
                           adamw_cut = { CUT, 0.9, 0.999, 1e-8, false },
                           adamw_copies = { COPIES, 0.9, 0.999, 1e-8, false },
                           adamw_part = { PART(false), 0.9, 0.999, 1e-8, false },
                           adamw_part_in_whole = { PART(true), 0.9, 0.999, 1e-8, false };
static const gr_ema_attr ema_plain = { .decay = 0.75 },
                         ema_checked = { .decay = 0.75, .has_control = true },
                         ema_part = { .decay = 0.75,
                                      .has_part = true,
                                      .part = { .of = { .first = 7, .n = 46 } } },
                         ema_part_in_whole = { .decay = 0.75,
                                               .has_part = true,
                                               .part = { .of = { .first = 7, .n = 46 },
                                                         .in_whole = true } };

/* New parameters are sums of about four terms of size 2, which may cancel: hence n_reduced
 * and scale there. */
static const driver_case cases[] = {
    { .name = "accumulate",
      .op = "accumulate",
      .build = build_accumulate,
      .n_src = 1,
      .src = { DRIVER_F32(7, 13) },
      .flags = DRIVER_EXACT },
    { .name = "accumulate large",
      .op = "accumulate",
      .build = build_accumulate,
      .n_src = 1,
      .src = { DRIVER_F32(100003) },
      .flags = DRIVER_EXACT },
    { .name = "accumulate one",
      .op = "accumulate",
      .build = build_accumulate,
      .n_src = 1,
      .src = { DRIVER_F32(1) },
      .flags = DRIVER_EXACT },
    { .name = "accumulate empty",
      .op = "accumulate",
      .build = build_accumulate,
      .n_src = 1,
      .src = { DRIVER_F32(0, 3) },
      .flags = DRIVER_EXACT },
    { .name = "accumulate wrong type",
      .op = "accumulate",
      .build = build_accumulate,
      .n_src = 1,
      .src = { DRIVER_SRC(GR_I32, 3) },
      .want = "input 0 must be f32 [3], not i32 [3]" },

    { .name = "control",
      .op = "grad_control",
      .build = build_control,
      .arg = &no_clip,
      .n_src = 2,
      .src = { DRIVER_F32(3, 5), DRIVER_F32(9001) },
      .n_reduced = 9016,
      .scale = 4 },
    { .name = "control clips",
      .op = "grad_control",
      .build = build_control,
      .arg = &clip,
      .n_src = 3,
      .src = { DRIVER_F32(64), DRIVER_F32(1), DRIVER_F32(30000) },
      .n_reduced = 30065,
      .scale = 4 },
    { .name = "control clips a little",
      .op = "grad_control",
      .build = build_control,
      .arg = &clip,
      .n_src = 3,
      .src = { DRIVER_F32(3, 5), DRIVER_F32(7), DRIVER_F32(1) },
      .n_reduced = 23,
      .scale = 4,
      .flags = DRIVER_GOLDEN },
    { .name = "control of nothing",
      .op = "grad_control",
      .build = build_control,
      .arg = &clip,
      .n_src = 1,
      .src = { DRIVER_F32(0) } },
    { .name = "control with scale",
      .op = "grad_control",
      .build = build_control,
      .arg = &scaled,
      .n_src = 2,
      .src = { F32_STATE0(1024, 1024), DRIVER_F32(20001) },
      .n_reduced = 20001,
      .scale = 4 },
    { .name = "control without gradient",
      .op = "grad_control",
      .build = build_control,
      .arg = &scaled,
      .n_src = 1,
      .src = { F32_STATE0(1024, 1024) },
      .want = "takes at least one gradient" },

    { .name = "count",
      .op = "count_step",
      .build = build_count,
      .arg = &free_count,
      .n_src = 2,
      .src = { I64_STATE(4, 9), I64_STATE(0, 3) },
      .flags = DRIVER_EXACT },
    { .name = "count a skip",
      .op = "count_step",
      .build = build_count,
      .arg = &checked_count,
      .n_src = 3,
      .src = { I64_STATE(4, 9), I64_STATE(0, 3), CONTROL_STOP },
      .flags = DRIVER_EXACT },
    { .name = "count of too few",
      .op = "count_step",
      .build = build_count,
      .arg = &checked_count,
      .n_src = 2,
      .src = { I64_STATE(4, 9), I64_STATE(0, 3) },
      .want = "takes 3 inputs, got 2" },

    { .name = "scale goes on",
      .op = "scale_update",
      .build = build_scale,
      .n_src = 3,
      .src = { F32_STATE0(1024, 1024), I64_STATE(5, 9), CONTROL_GO },
      .flags = DRIVER_EXACT },
    { .name = "scale grows",
      .op = "scale_update",
      .build = build_scale,
      .n_src = 3,
      .src = { F32_STATE0(1024, 1024), I64_STATE(1999, 1999), CONTROL_GO },
      .flags = DRIVER_EXACT },
    { .name = "scale halves",
      .op = "scale_update",
      .build = build_scale,
      .n_src = 3,
      .src = { F32_STATE0(1024, 1024), I64_STATE(5, 9), CONTROL_STOP },
      .flags = DRIVER_EXACT },
    { .name = "scale of wrong type",
      .op = "scale_update",
      .build = build_scale,
      .n_src = 3,
      .src = { I64_STATE(5, 9), I64_STATE(5, 9), CONTROL_GO },
      .want = "must be f32 []" },

    { .name = "sgd",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_plain,
      .n_src = 2,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11) },
      .flags = DRIVER_GOLDEN },
    { .name = "sgd of one",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_plain,
      .n_src = 2,
      .src = { DRIVER_STATE(1), DRIVER_F32(1) } },
    { .name = "sgd with decay",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_decay,
      .n_src = 2,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11) },
      .flags = DRIVER_GOLDEN },
    { .name = "sgd with momentum",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_momentum,
      .n_src = 3,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11), DRIVER_STATE(9, 11) },
      .flags = DRIVER_GOLDEN },
    { .name = "sgd with nesterov",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_nesterov,
      .n_src = 3,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11), DRIVER_STATE(9, 11) },
      .flags = DRIVER_GOLDEN },
    { .name = "sgd that cuts",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_cut,
      .n_src = 3,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11), DRIVER_STATE(9, 11) },
      .flags = DRIVER_GOLDEN },
    { .name = "plain sgd that cuts",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_plain_cut,
      .n_src = 2,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11) },
      .flags = DRIVER_GOLDEN },
    { .name = "sgd large",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_momentum,
      .n_src = 3,
      .src = { DRIVER_STATE(100003), DRIVER_F32(100003), DRIVER_STATE(100003) } },
    { .name = "sgd with a copy",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_copies,
      .n_src = 3,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11), COPY(GR_BF16, 9, 11) } },
    { .name = "sgd large with a copy",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_momentum_copies,
      .n_src = 4,
      .src = { DRIVER_STATE(100003), DRIVER_F32(100003), DRIVER_STATE(100003),
               COPY(GR_F16, 100003) } },
    { .name = "sgd of a part",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_part,
      .n_src = 3,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(64), DRIVER_STATE(46) } },
    { .name = "sgd of a part in whole",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_part_in_whole,
      .n_src = 4,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(64), DRIVER_STATE(9, 11), COPY(GR_BF16, 9, 11) } },
    { .name = "sgd with a copy of f32",
      .op = "sgd",
      .build = build_sgd,
      .arg = &sgd_copies,
      .n_src = 3,
      .src = { DRIVER_STATE(3), DRIVER_F32(3), DRIVER_STATE(3) },
      .want = "the copy must be bf16 or f16, not f32" },
    { .name = "sgd with a copy of another shape",
      .op = "sgd",
      .build = build_sgd,
      .arg = &sgd_copies,
      .n_src = 3,
      .src = { DRIVER_STATE(3), DRIVER_F32(3), COPY(GR_BF16, 4) },
      .want = "input 2 must be bf16 [3], not bf16 [4]" },
    { .name = "sgd skips",
      .op = "sgd",
      .build = build_sgd,
      .arg = &sgd_checked,
      .n_src = 4,
      .src = { DRIVER_STATE(33), DRIVER_F32(33), CONTROL_STOP, DRIVER_STATE(33) },
      .flags = DRIVER_EXACT },
    { .name = "sgd of nothing",
      .op = "sgd",
      .build = build_sgd,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_plain,
      .n_src = 2,
      .src = { DRIVER_STATE(0), DRIVER_F32(0) } },
    { .name = "sgd of another shape",
      .op = "sgd",
      .build = build_sgd,
      .arg = &sgd_plain,
      .n_src = 2,
      .src = { DRIVER_STATE(3), DRIVER_F32(4) },
      .want = "input 1 must be f32 [3], not f32 [4]" },

    { .name = "adamw",
      .op = "adamw",
      .build = build_adamw,
      .n_reduced = 4,
      .scale = 2,
      .arg = &adamw_plain,
      .n_src = 5,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11), I64_STATE(3, 3), DRIVER_STATE(9, 11),
               MOMENT(9, 11) },
      .flags = DRIVER_GOLDEN },
    { .name = "adam",
      .op = "adamw",
      .build = build_adamw,
      .n_reduced = 4,
      .scale = 2,
      .arg = &adam_l2,
      .n_src = 5,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11), I64_STATE(3, 3), DRIVER_STATE(9, 11),
               MOMENT(9, 11) },
      .flags = DRIVER_GOLDEN },
    { .name = "adamw that cuts",
      .op = "adamw",
      .build = build_adamw,
      .n_reduced = 4,
      .scale = 2,
      .arg = &adamw_cut,
      .n_src = 5,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11), I64_STATE(3, 3), DRIVER_STATE(9, 11),
               MOMENT(9, 11) },
      .flags = DRIVER_GOLDEN },
    { .name = "adamw of one",
      .op = "adamw",
      .build = build_adamw,
      .n_reduced = 4,
      .scale = 2,
      .arg = &adamw_plain,
      .n_src = 5,
      .src = { DRIVER_STATE(1), DRIVER_F32(1), I64_STATE(3, 3), DRIVER_STATE(1), MOMENT(1) } },
    { .name = "adamw of nothing",
      .op = "adamw",
      .build = build_adamw,
      .n_reduced = 4,
      .scale = 2,
      .arg = &adamw_plain,
      .n_src = 5,
      .src = { DRIVER_STATE(0), DRIVER_F32(0), I64_STATE(3, 3), DRIVER_STATE(0), MOMENT(0) } },
    { .name = "adamw large",
      .op = "adamw",
      .build = build_adamw,
      .n_reduced = 4,
      .scale = 2,
      .arg = &adamw_plain,
      .n_src = 5,
      .src = { DRIVER_STATE(100003), DRIVER_F32(100003), I64_STATE(1, 1), DRIVER_STATE(100003),
               MOMENT(100003) } },
    { .name = "adamw with a copy",
      .op = "adamw",
      .build = build_adamw,
      .n_reduced = 4,
      .scale = 2,
      .arg = &adamw_copies,
      .n_src = 6,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11), I64_STATE(3, 3), DRIVER_STATE(9, 11),
               MOMENT(9, 11), COPY(GR_BF16, 9, 11) } },
    { .name = "adamw of a part",
      .op = "adamw",
      .build = build_adamw,
      .n_reduced = 4,
      .scale = 2,
      .arg = &adamw_part,
      .n_src = 5,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(64), I64_STATE(3, 3), DRIVER_STATE(46),
               MOMENT(46) } },
    { .name = "adamw of a part in whole",
      .op = "adamw",
      .build = build_adamw,
      .n_reduced = 4,
      .scale = 2,
      .arg = &adamw_part_in_whole,
      .n_src = 6,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(64), I64_STATE(3, 3), DRIVER_STATE(9, 11),
               MOMENT(9, 11), COPY(GR_F16, 9, 11) } },
    { .name = "adamw skips",
      .op = "adamw",
      .build = build_adamw,
      .arg = &adamw_checked,
      .n_src = 6,
      .src = { DRIVER_STATE(33), DRIVER_F32(33), I64_STATE(3, 3), CONTROL_STOP, DRIVER_STATE(33),
               MOMENT(33) },
      .flags = DRIVER_EXACT },
    { .name = "adamw of too few",
      .op = "adamw",
      .build = build_adamw,
      .arg = &adamw_plain,
      .n_src = 4,
      .src = { DRIVER_STATE(3), DRIVER_F32(3), I64_STATE(1, 1), DRIVER_STATE(3) },
      .want = "takes 5 inputs, got 4" },

    { .name = "ema",
      .op = "ema",
      .build = build_ema,
      .n_reduced = 4,
      .scale = 2,
      .arg = &ema_plain,
      .n_src = 3,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11), I64_STATE(3, 3) },
      .flags = DRIVER_GOLDEN },
    { .name = "ema of one",
      .op = "ema",
      .build = build_ema,
      .n_reduced = 4,
      .scale = 2,
      .arg = &ema_plain,
      .n_src = 3,
      .src = { DRIVER_STATE(1), DRIVER_F32(1), I64_STATE(3, 3) } },
    { .name = "ema of nothing",
      .op = "ema",
      .build = build_ema,
      .n_reduced = 4,
      .scale = 2,
      .arg = &ema_plain,
      .n_src = 3,
      .src = { DRIVER_STATE(0), DRIVER_F32(0), I64_STATE(3, 3) } },
    { .name = "ema of a part",
      .op = "ema",
      .build = build_ema,
      .n_reduced = 4,
      .scale = 2,
      .arg = &ema_part,
      .n_src = 3,
      .src = { DRIVER_STATE(46), DRIVER_F32(9, 11), I64_STATE(3, 3) } },
    { .name = "ema of a part in whole",
      .op = "ema",
      .build = build_ema,
      .n_reduced = 4,
      .scale = 2,
      .arg = &ema_part_in_whole,
      .n_src = 3,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11), I64_STATE(3, 3) } },
    { .name = "ema, the first",
      .op = "ema",
      .build = build_ema,
      .arg = &ema_plain,
      .n_src = 3,
      .src = { DRIVER_STATE(50003), DRIVER_F32(50003), I64_STATE(1, 1) },
      .flags = DRIVER_EXACT },
    { .name = "ema skips",
      .op = "ema",
      .build = build_ema,
      .arg = &ema_checked,
      .n_src = 4,
      .src = { DRIVER_STATE(33), DRIVER_F32(33), I64_STATE(3, 3), CONTROL_STOP },
      .flags = DRIVER_EXACT },
    { .name = "ema of another shape",
      .op = "ema",
      .build = build_ema,
      .arg = &ema_plain,
      .n_src = 3,
      .src = { DRIVER_STATE(3), DRIVER_F32(4), I64_STATE(1, 1) },
      .want = "input 1 must be f32 [3], not f32 [4]" },

    { .name = "many of sgd",
      .op = "many_updates",
      .build = build_many,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_momentum,
      .n_src = 6,
      .src = { DRIVER_STATE(9, 11), DRIVER_F32(9, 11), DRIVER_STATE(9, 11), DRIVER_STATE(20001),
               DRIVER_F32(20001), DRIVER_STATE(20001) } },
    { .name = "many of sgd skip",
      .op = "many_updates",
      .build = build_many,
      .arg = &sgd_checked,
      .n_src = 8,
      .src = { DRIVER_STATE(33), DRIVER_F32(33), CONTROL_STOP, DRIVER_STATE(33), DRIVER_STATE(5),
               DRIVER_F32(5), CONTROL_STOP, DRIVER_STATE(5) },
      .flags = DRIVER_EXACT },
    { .name = "many of nothing and something",
      .op = "many_updates",
      .build = build_many,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_plain,
      .n_src = 4,
      .src = { DRIVER_STATE(0), DRIVER_F32(0), DRIVER_STATE(8193), DRIVER_F32(8193) } },
    { .name = "many of one",
      .op = "many_updates",
      .build = build_many,
      .n_reduced = 4,
      .scale = 2,
      .arg = &sgd_plain,
      .n_src = 4,
      .src = { DRIVER_STATE(1), DRIVER_F32(1), DRIVER_STATE(1, 1), DRIVER_F32(1, 1) } },
    { .name = "many of another shape",
      .op = "many_updates",
      .build = build_many,
      .arg = &sgd_plain,
      .n_src = 4,
      .src = { DRIVER_STATE(3), DRIVER_F32(3), DRIVER_STATE(3), DRIVER_F32(4) },
      .want = "input 1 must be f32 [3], not f32 [4]" },
};

const driver_family driver_update = { "update", cases, DRIVER_COUNT(cases) };
