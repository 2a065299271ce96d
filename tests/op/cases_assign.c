/* Cases of assign: every type it takes, and who is refused. Order and place in a step are
 * tested in tests/step/test_buffers.c, skipped steps in tests/step/test_guard.c. */
#include "op/assign/assign.h"
#include "op/driver.h"
#include "op/families.h"

static gr_value *build(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_build b = { .op = &gr_op_assign, .site = "case", .src = src, .n_src = c->n_src };

    return gr_graph_add_value(g, &b);
}

static gr_value *build_hold(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_build b = { .op = &gr_op_hold, .site = "case", .src = src, .n_src = c->n_src };

    return gr_graph_add_value(g, &b);
}

static const gr_scalars second = { .micro = 1 };

#define CASE(text, ...) \
    .name = (text), .op = "assign", .build = build, .n_src = 2, .src = { __VA_ARGS__ }
#define GUARDED(text, ...) \
    .name = (text), .op = "assign", .build = build, .src = { __VA_ARGS__ }, .flags = DRIVER_EXACT
#define HOLD(text, ...) \
    .name = (text), .op = "hold", .build = build_hold, .n_src = 2, .src = { __VA_ARGS__ }
/* All four of a control value, of which the second is skip. */
#define CONTROL(x) DRIVER_RANGE(GR_F32, x, x, 4)
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
    { GUARDED("assign, not skipped", DRIVER_STATE(7), DRIVER_F32(7), CONTROL(0)), .n_src = 3 },
    { GUARDED("assign, skipped", DRIVER_STATE(7), DRIVER_F32(7), CONTROL(1)), .n_src = 3 },
    { GUARDED("assign, held", DRIVER_STATE(7), DRIVER_F32(7), CONTROL(0), DRIVER_STATE(7)), .n_src = 4 },
    { GUARDED("assign, given back", I64_STATE(7), DRIVER_SRC(GR_I64, 7), CONTROL(1), I64_STATE(7)), .n_src = 4 },
    { GUARDED("assign, other control", DRIVER_STATE(7), DRIVER_F32(7), DRIVER_F32(3)), .n_src = 3, .want = "another shape" },
    { GUARDED("assign, other held", DRIVER_STATE(7), DRIVER_F32(7), CONTROL(0), DRIVER_STATE(6)), .n_src = 4, .want = "another shape" },
    { CASE("assign, other shape", DRIVER_STATE(7), DRIVER_F32(6)), .want = "another shape" },
    { CASE("assign, other type", DRIVER_STATE(7), DRIVER_SRC(GR_I64, 7)), .want = "cast first" },
    { CASE("assign to an input", DRIVER_F32(7), DRIVER_F32(7)), .want = "only a buffer" },
    { HOLD("hold", DRIVER_STATE(3, 5), DRIVER_STATE(3, 5)), .flags = DRIVER_EXACT },
    { HOLD("hold i64", I64_STATE(3), I64_STATE(3)), .flags = DRIVER_EXACT },
    { HOLD("hold one", DRIVER_STATE(1), DRIVER_STATE(1)), .flags = DRIVER_EXACT },
    { HOLD("hold nothing", DRIVER_STATE(0, 3), DRIVER_STATE(0, 3)), .flags = DRIVER_EXACT },
    { HOLD("hold, later", DRIVER_STATE(7), DRIVER_STATE(7)), .flags = DRIVER_EXACT, .scalars = &second },
    { HOLD("hold, other shape", DRIVER_STATE(7), DRIVER_STATE(6)), .want = "another shape" },
    { HOLD("hold in an input", DRIVER_F32(7), DRIVER_STATE(7)), .want = "only a variable" },
};
/* clang-format on */

const driver_family driver_assign = { "assign", cases, DRIVER_COUNT(cases) };
