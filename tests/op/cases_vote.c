/* Cases of vote and verdict. What they are for is tested in tests/step/test_vote.c. */
#include <math.h>

#include "op/driver.h"
#include "op/families.h"
#include "op/vote/vote.h"

static const gr_vote_attr third = { .rank = 2, .n_ranks = 5 };
static const gr_verdict_attr halts = { .halts = true }, goes_on = { .halts = false };

static gr_value *build_vote(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_build b = { .op = &gr_op_vote,
                   .site = "case",
                   .src = src,
                   .n_src = c->n_src,
                   .attr = &third,
                   .attr_bytes = sizeof(third) };
    gr_node *n = gr_graph_add(g, &b);

    return n ? &n->out[1] : NULL;
}

static gr_value *build_verdict(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_build b = { .op = &gr_op_verdict,
                   .site = "case",
                   .src = src,
                   .n_src = c->n_src,
                   .attr = c->arg,
                   .attr_bytes = sizeof(gr_verdict_attr) };

    return gr_graph_add_value(g, &b);
}

static const gr_scalars first = { .stop = 15 }, second = { .micro = 1, .stop = 2 };

/* The code so far, all four of a record. */
#define CODE(from, to)                                                                     \
    {                                                                                      \
        .dtype = GR_I32, .shape = DRIVER_DIMS0, .is_state = true, .lo = (from), .hi = (to) \
    }
#define RECORD(x)                                                                         \
    {                                                                                     \
        .dtype = GR_I32, .shape = DRIVER_DIMS(4), .is_state = true, .lo = (x), .hi = (x), \
        .has_range = true                                                                 \
    }
#define VOTE(x)    DRIVER_RANGE(GR_I32, x, x, 2)
#define CONTROL(x) DRIVER_RANGE(GR_F32, x, x, 4)

#define VOTES(text, ...) \
    .name = (text), .op = "vote", .build = build_vote, .n_src = 2, .src = { __VA_ARGS__ }
#define VERDICT(text, how, ...)                                                         \
    .name = (text), .op = "verdict", .build = build_verdict, .arg = &(how), .n_src = 3, \
    .src = { __VA_ARGS__ }

/* clang-format off */
static const driver_case cases[] = {
    { VOTES("vote", CODE(3, 3), DRIVER_F32(1)), .flags = DRIVER_EXACT | DRIVER_FLOATS, .scalars = &first },
    { VOTES("vote, later", CODE(3, 3), DRIVER_F32(1, 1)), .flags = DRIVER_EXACT | DRIVER_FLOATS, .scalars = &second },
    { VOTES("vote of what is not finite", CODE(3, 3), DRIVER_RANGE(GR_F32, HUGE_VAL, HUGE_VAL, 1)), .flags = DRIVER_EXACT | DRIVER_FLOATS, .scalars = &second },
    { VOTES("vote of two", CODE(0, 0), DRIVER_F32(2)), .want = "must be one floating number" },
    { VOTES("vote of a count", CODE(0, 0), DRIVER_SRC(GR_I64, 1)), .want = "must be one floating number" },
    { VOTES("vote with a real code", DRIVER_STATE(1), DRIVER_F32(1)), .want = "must be i32 []" },

    { VERDICT("verdict", halts, RECORD(0), CONTROL(0), VOTE(0)), .flags = DRIVER_EXACT },
    { VERDICT("verdict on a loss", halts, RECORD(0), CONTROL(0), VOTE(9)), .flags = DRIVER_EXACT },
    { VERDICT("verdict on gradients", halts, RECORD(0), CONTROL(1), VOTE(0)), .flags = DRIVER_EXACT },
    { VERDICT("verdict that sticks", halts, RECORD(1), CONTROL(0), VOTE(0)), .flags = DRIVER_EXACT },
    { VERDICT("verdict that goes on", goes_on, RECORD(0), CONTROL(1), VOTE(9)), .flags = DRIVER_EXACT },
    { VERDICT("verdict without a vote", halts, RECORD(0), CONTROL(0), DRIVER_SRC(GR_I32, 3)), .want = "must be i32 [2]" },
};
/* clang-format on */

const driver_family driver_vote = { "vote", cases, DRIVER_COUNT(cases) };
