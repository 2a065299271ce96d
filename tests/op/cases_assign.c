/* Cases of assign: every type it takes, and who is refused. Order and place in a step are
 * tested in tests/step/test_buffers.c. */
#include "op/assign/assign.h"
#include "op/driver.h"
#include "op/families.h"

static gr_value *build(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_build b = { .op = &gr_op_assign, .site = "case", .src = src, .n_src = c->n_src };

    return gr_graph_add_value(g, &b);
}

#define CASE(text, ...) \
    .name = (text), .op = "assign", .build = build, .n_src = 2, .src = { __VA_ARGS__ }
#define I64_STATE(...)                                                       \
    {                                                                        \
        .dtype = GR_I64, .shape = DRIVER_DIMS(__VA_ARGS__), .is_state = true \
    }

/* clang-format off */
static const driver_case cases[] = {
    { CASE("assign", DRIVER_STATE(7), DRIVER_F32(7)), .flags = DRIVER_EXACT },
    { CASE("assign bf16", DRIVER_STATE(3, 5), DRIVER_SRC(GR_BF16, 3, 5)), .flags = DRIVER_EXACT },
    { CASE("assign f16", DRIVER_STATE(3, 5), DRIVER_SRC(GR_F16, 3, 5)), .flags = DRIVER_EXACT },
    { CASE("assign i64", I64_STATE(3), DRIVER_SRC(GR_I64, 3)), .flags = DRIVER_EXACT },
    { CASE("assign one", DRIVER_STATE(1), DRIVER_F32(1)), .flags = DRIVER_EXACT },
    { CASE("assign nothing", DRIVER_STATE(0, 3), DRIVER_F32(0, 3)), .flags = DRIVER_EXACT },
    { CASE("assign, other shape", DRIVER_STATE(7), DRIVER_F32(6)), .want = "another shape" },
    { CASE("assign, other type", DRIVER_STATE(7), DRIVER_SRC(GR_I64, 7)), .want = "cast first" },
    { CASE("assign to an input", DRIVER_F32(7), DRIVER_F32(7)), .want = "only a buffer" },
};
/* clang-format on */

const driver_family driver_assign = { "assign", cases, DRIVER_COUNT(cases) };
