/*
 * Cases of the toy: plain, and with fusions made by hand. What it cannot do itself (a mean, a
 * tanh, a program on load of w) is run in pieces.
 */
#include "toy/cases.h"

#include "check.h"
#include "op/fusion.h"
#include "op/map/program.h"
#include "toy/toy.h"

#include <string.h>

#define INSTR(f, ...)                           \
    {                                           \
        .fn = GR_FN_##f, .reg = { __VA_ARGS__ } \
    }

static const gr_program relu = { .n_src = 1, .n_instr = 1, .instr = { INSTR(RELU, 0, -1, -1) } };
static const gr_program add_relu = { .n_src = 2,
                                     .n_instr = 2,
                                     .instr = { INSTR(ADD, 0, 1, -1), INSTR(RELU, 2, -1, -1) } };
static const gr_program add_tanh = { .n_src = 2,
                                     .n_instr = 2,
                                     .instr = { INSTR(ADD, 0, 1, -1), INSTR(TANH, 2, -1, -1) } };

/* What a case adds to the operator; sources are x, w, the end's, the loads'. */
typedef struct recipe {
    const gr_program *load_x, *load_w, *end;
    int n_ends;
    gr_fused_end ends[GR_FUSION_MAX_ENDS];
} recipe;

static gr_fused_program place(gr_graph *g, const gr_program *p, const gr_shape *shape, int *next)
{
    gr_program *kept = gr_arena_new(g->arena, gr_program);
    gr_fused_program f = { .program = kept, .first = *next };

    GR_CHECK(kept);
    *kept = *p;
    kept->shape = *shape;
    kept->dtype = GR_F32;
    *next += p->n_src - 1;
    return f;
}

static gr_value *build(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const recipe *r = c->arg;
    gr_value *plain = toy_at("case", g, src[0], src[1]);
    gr_fused_program *load = gr_arena_array(g->arena, 2, sizeof(*load));
    const void *attr;
    gr_fusion *f;
    int next = 2;

    if (!r || !plain)
        return plain;
    f = gr_fusion_new(g, plain->node, &attr);
    GR_CHECK(f && load);
    if (r->end)
        f->end = place(g, r->end, &plain->shape, &next);
    if (r->load_x)
        load[0] = place(g, r->load_x, &src[0]->shape, &next);
    if (r->load_w)
        load[1] = place(g, r->load_w, &src[1]->shape, &next);
    f->load = load;
    f->n_ends = r->n_ends;
    memcpy(f->ends, r->ends, sizeof(f->ends));
    return gr_graph_add_value(
        g,
        &(gr_build){ .op = &toy_op, .site = "case", .src = src, .n_src = c->n_src, .fusion = f });
}

#define STORED(r)                 \
    {                             \
        GR_FATE_STORE, .reg = (r) \
    }
#define REDUCED(f, r, over)                     \
    {                                           \
        GR_FATE_##f, .reg = (r), .axes = (over) \
    }

static const recipe bias_relu = { .end = &add_relu, .n_ends = 1, .ends = { STORED(3) } };
static const recipe kept = { .end = &add_relu,
                             .n_ends = 3,
                             .ends = { STORED(0), STORED(3), REDUCED(SUM, 3, 1) } };
static const recipe loaded = {
    .load_x = &add_relu, .end = &relu, .n_ends = 1, .ends = { STORED(1) }
};
static const recipe statistics = { .end = &add_relu,
                                   .n_ends = 4,
                                   .ends = { STORED(3),
                                             REDUCED(MEAN, 3, 1),
                                             REDUCED(M2, 3, 1),
                                             { GR_FATE_SUM, .reg = 2, .axes = 2, .keep = true } } };
static const recipe both_loaded = {
    .load_x = &relu,
    .load_w = &add_tanh,
    .end = &add_tanh,
    .n_ends = 2,
    .ends = { REDUCED(M2, 0, 2), { .fate = GR_FATE_STORE, .reg = 3, .dtype = GR_BF16 } }
};

static const driver_case cases[] = {
    { .name = "plain",
      .op = "toy",
      .build = build,
      .n_src = 2,
      .grad = 3,
      .src = { DRIVER_F32(6, 5), DRIVER_F32(5) } },
    { .name = "no rows",
      .op = "toy",
      .build = build,
      .n_src = 2,
      .src = { DRIVER_F32(0, 5), DRIVER_F32(5) } },
    { .name = "no columns",
      .op = "toy",
      .build = build,
      .n_src = 2,
      .src = { DRIVER_F32(4, 0), DRIVER_F32(0) } },
    { .name = "bias and relu",
      .op = "toy",
      .build = build,
      .n_src = 3,
      .arg = &bias_relu,
      .src = { DRIVER_F32(6, 5), DRIVER_F32(5), DRIVER_F32(5) } },
    { .name = "kept and summed",
      .op = "toy",
      .build = build,
      .n_src = 3,
      .arg = &kept,
      .n_reduced = 9,
      .src = { DRIVER_F32(9, 70), DRIVER_F32(70), DRIVER_F32(9, 1) } },
    { .name = "loaded",
      .op = "toy",
      .build = build,
      .n_src = 3,
      .arg = &loaded,
      .src = { DRIVER_F32(6, 5), DRIVER_F32(5), DRIVER_F32(6, 5) } },
    { .name = "statistics",
      .op = "toy",
      .build = build,
      .n_src = 3,
      .arg = &statistics,
      .n_reduced = 70,
      .scale = 16,
      .src = { DRIVER_F32(40, 70), DRIVER_F32(70), DRIVER_F32(70) } },
    { .name = "both loaded, in bf16",
      .op = "toy",
      .build = build,
      .n_src = 4,
      .arg = &both_loaded,
      .n_reduced = 9,
      .scale = 16,
      .src = { DRIVER_F32(8, 9), DRIVER_F32(9), DRIVER_F32(8, 1), DRIVER_F32(9) } },
    { .name = "another length",
      .op = "toy",
      .build = build,
      .n_src = 2,
      .src = { DRIVER_F32(6, 5), DRIVER_F32(4) },
      .want = "x must be [m, n], w [n]" },
    { .name = "a bias of another length",
      .op = "toy",
      .build = build,
      .n_src = 3,
      .arg = &bias_relu,
      .src = { DRIVER_F32(6, 5), DRIVER_F32(5), DRIVER_F32(6) },
      .want = "does not broadcast to the result's" },
    { .name = "a bias that is missing",
      .op = "toy",
      .build = build,
      .n_src = 2,
      .arg = &bias_relu,
      .src = { DRIVER_F32(6, 5), DRIVER_F32(5) },
      .want = "takes 3 inputs, got 2" },
};

const driver_family driver_toy = { "toy", cases, DRIVER_COUNT(cases) };
