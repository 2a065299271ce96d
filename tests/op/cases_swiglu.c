/* Cases of swiglu and its gradient. Terms of the sum in the slope are of size 1. */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/ops.h"
#include "op/swiglu/swiglu.h"

static gr_value *build(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    (void)c;
    return gr_swiglu(g, src[0]);
}

/* There is no public builder: autodiff makes this one. */
static gr_value *build_grad(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_graph_add_value(
        g, &(gr_build){ .op = &gr_op_swiglu_grad, .site = GR_HERE, .src = src, .n_src = c->n_src });
}

/* clang-format off */
#define GATE(what, extra, ...)                                                       \
    { .name = what, .op = "swiglu", .build = build, .n_src = 1,                      \
      .src = { DRIVER_F32(__VA_ARGS__) }, .grad = 1, .scale = 4, .flags = DRIVER_FLOATS | (extra) }

static const driver_case cases[] = {
    GATE("swiglu", DRIVER_GOLDEN, 3, 5, 14),
    GATE("swiglu of wide rows", 0, 3, 4200),
    GATE("swiglu of one pair", 0, 2),
    GATE("swiglu of one row", 0, 1, 10),
    GATE("swiglu of whole vectors", 0, 7, 64),
    GATE("swiglu of nothing", 0, 3, 0),
    GATE("swiglu on threads", DRIVER_LARGE, 300, 302),
    { .name = "swiglu far out", .op = "swiglu", .build = build, .n_src = 1,
      .src = { DRIVER_RANGE(GR_F32, -60, 60, 9, 400) }, .scale = 60, .flags = DRIVER_FLOATS },
    { .name = "swiglu of odd", .op = "swiglu", .build = build, .n_src = 1,
      .src = { DRIVER_F32(3, 7) }, .want = "two halves" },
    { .name = "swiglu of integers", .op = "swiglu", .build = build, .n_src = 1,
      .src = { DRIVER_SRC(GR_I32, 3, 8) }, .want = "floating" },
    { .name = "swiglu_grad", .op = "swiglu_grad", .build = build_grad, .n_src = 2,
      .src = { DRIVER_F32(3, 38), DRIVER_F32(3, 19) }, .scale = 4, .flags = DRIVER_FLOATS },
    { .name = "swiglu_grad of other shapes", .op = "swiglu_grad", .build = build_grad, .n_src = 2,
      .src = { DRIVER_F32(3, 38), DRIVER_F32(3, 38) }, .want = "half the last dimension" },
};
/* clang-format on */

const driver_family driver_swiglu = { "swiglu", cases, DRIVER_COUNT(cases) };
