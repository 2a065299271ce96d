/*
 * Cases of epilogues: products with a map program at their end, in shapes that reach each
 * way through the kernels: rows as they are and turned, one and several blocks of k, tiles
 * of AMX, batches, every way of broadcasting. No gradients: they are added after autodiff.
 */
#include "check.h"
#include "op/driver.h"
#include "op/families.h"

#include "op/fusion.h"
#include "op/map/program.h"
#include "op/matmul/matmul.h"

#include <string.h>

#define INSTR(f, ...)                           \
    {                                           \
        .fn = GR_FN_##f, .reg = { __VA_ARGS__ } \
    }

/* Register 0 is the product; sources from 1 on. */
static const gr_program bias_relu = { .n_src = 2,
                                      .n_instr = 2,
                                      .instr = { INSTR(ADD, 0, 1, -1), INSTR(RELU, 2, -1, -1) } };
static const gr_program bias_tanh_residual = {
    .n_src = 3,
    .n_instr = 3,
    .instr = { INSTR(ADD, 0, 1, -1), INSTR(TANH, 3, -1, -1), INSTR(ADD, 4, 2, -1) }
};
static const gr_program scaled = {
    .n_src = 1,
    .n_instr = 2,
    .instr = { { .fn = GR_FN_CONST, .reg = { -1, -1, -1 }, .k = 0.5 }, INSTR(MUL, 0, 1, -1) }
};
static const gr_program gradient = { .n_src = 2,
                                     .n_instr = 1,
                                     .instr = { INSTR(RELU_GRAD, 0, 1, -1) } };

static gr_value *build(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_program *p = gr_arena_new(g->arena, gr_program);
    gr_matmul_attr attr = { .trans_a = strchr(c->fn, 'a') != NULL,
                            .trans_b = strchr(c->fn, 'b') != NULL,
                            .dtype = src[0]->dtype };
    gr_build b = { .op = &gr_op_matmul,
                   .site = "case",
                   .src = src,
                   .n_src = 2,
                   .attr = &attr,
                   .attr_bytes = sizeof(attr) };
    /* A plain product first, for its shape; the driver prunes nothing, and runs it too. */
    gr_value *v = gr_graph_add_value(g, &b);
    const void *wide;
    gr_fusion *f;

    if (!v || !p)
        return NULL;
    *p = *(const gr_program *)c->arg;
    p->shape = v->shape;
    p->dtype = attr.dtype;
    f = gr_fusion_new(g, v->node, &wide);
    GR_CHECK(f);
    f->end = (gr_fused_program){ .program = p, .first = 2 };
    f->ends[0].reg = p->n_src + p->n_instr - 1;
    b.attr = wide;
    b.fusion = f;
    b.n_src = c->n_src;
    return gr_graph_add_value(g, &b);
}

/* clang-format off */
#define CASE(text, trans, program, terms, count, ...)                                  \
    .name = (text), .op = "matmul", .build = build, .fn = (trans), .arg = &(program),  \
    .n_src = (count), .n_reduced = (terms), .src = { __VA_ARGS__ }
#define FLOATS .flags = DRIVER_FLOATS
#define LARGE  .flags = DRIVER_FLOATS | DRIVER_LARGE

static const driver_case cases[] = {
    { CASE("bias and relu", "", bias_relu, 5, 3, DRIVER_F32(3, 5), DRIVER_F32(5, 4),
           DRIVER_F32(4)), FLOATS },
    { CASE("bias, tanh, residual", "b", bias_tanh_residual, 7, 4, DRIVER_F32(6, 7),
           DRIVER_F32(5, 7), DRIVER_F32(5), DRIVER_F32(6, 5)), FLOATS },
    { CASE("scaled", "a", scaled, 9, 2, DRIVER_F32(9, 33), DRIVER_F32(9, 70)), FLOATS },
    { CASE("a column and one number", "", bias_tanh_residual, 5, 4, DRIVER_F32(19, 5),
           DRIVER_F32(5, 40), DRIVER_F32(19, 1), DRIVER_F32(1)), FLOATS },
    { CASE("batched", "", bias_tanh_residual, 6, 4, DRIVER_F32(2, 3, 4, 6), DRIVER_F32(2, 3, 6, 5),
           DRIVER_F32(3, 1, 5), DRIVER_F32(2, 1, 4, 1)), FLOATS },
    { CASE("leading rows", "", bias_tanh_residual, 6, 4, DRIVER_F32(2, 3, 4, 6), DRIVER_F32(6, 5),
           DRIVER_F32(3, 1, 5), DRIVER_F32(2, 3, 4, 5)), FLOATS },
    { CASE("gradient of relu", "b", gradient, 40, 3, DRIVER_F32(24, 40), DRIVER_F32(50, 40),
           DRIVER_F32(24, 50)), FLOATS },
    { CASE("nothing to sum", "", bias_relu, 0, 3, DRIVER_F32(3, 0), DRIVER_F32(0, 4),
           DRIVER_F32(4)), FLOATS },
    { CASE("no rows", "", bias_relu, 5, 3, DRIVER_F32(0, 5), DRIVER_F32(5, 4), DRIVER_F32(4)),
      FLOATS },
    { CASE("a layer", "b", bias_relu, 96, 3, DRIVER_F32(64, 96), DRIVER_F32(160, 96),
           DRIVER_F32(160)), LARGE },
    { CASE("turned and wide", "", bias_tanh_residual, 64, 4, DRIVER_F32(128, 64),
           DRIVER_F32(64, 1100), DRIVER_F32(1100), DRIVER_F32(128, 1100)), LARGE },
    { CASE("two blocks of k", "b", bias_relu, 1100, 3, DRIVER_F32(40, 1100),
           DRIVER_F32(96, 1100), DRIVER_F32(96)), LARGE },
    { CASE("two blocks of k, a transposed", "a", bias_tanh_residual, 1300, 4,
           DRIVER_F32(1300, 33), DRIVER_F32(1300, 65), DRIVER_F32(65), DRIVER_F32(33, 65)),
      LARGE },
    { .name = "a bias of another length", .op = "matmul", .build = build, .fn = "",
      .arg = &bias_relu, .n_src = 3, .src = { DRIVER_F32(3, 5), DRIVER_F32(5, 4), DRIVER_F32(3) },
      .want = "does not broadcast to the result's" },
    { .name = "a bias that is missing", .op = "matmul", .build = build, .fn = "",
      .arg = &bias_relu, .n_src = 2, .src = { DRIVER_F32(3, 5), DRIVER_F32(5, 4) },
      .want = "takes 3 inputs, got 2" },
};
/* clang-format on */

const driver_family driver_epilogue = { "epilogue", cases, DRIVER_COUNT(cases) };
