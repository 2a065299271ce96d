/* Cases of gather and scatter_add, with both index types, repeated and wrong indices. */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/index.h"
#include "gradus/ops.h"

static gr_value *build_gather(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    (void)c;
    return gr_gather(g, src[0], src[1]);
}

static gr_value *build_embedding(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_embedding(g, src[0], src[1], *(const int64_t *)c->arg);
}

static gr_value *build_scatter(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_scatter_add(g, src[0], src[1], *(const int64_t *)c->arg);
}

static const int64_t no_rows = 0, four_rows = 4, many_rows = 50, row_2 = 2, row_7 = 7;

#define GATHER(text, ...) \
    .name = (text), .op = "gather", .build = build_gather, .n_src = 2, .src = { __VA_ARGS__ }
#define SCATTER(text, rows, ...)                                                             \
    .name = (text), .op = "scatter_add", .build = build_scatter, .arg = &(rows), .n_src = 2, \
    .src = { __VA_ARGS__ }
#define EMBEDDING(text, row, ...)                                                        \
    .name = (text), .op = "gather", .build = build_embedding, .arg = &(row), .n_src = 2, \
    .src = { __VA_ARGS__ }
#define INDEX(t, n, ...) DRIVER_RANGE(t, 0, (n)-1, __VA_ARGS__)
#define COPIES           .grad = 1, .flags = DRIVER_FLOATS | DRIVER_EXACT

/* clang-format off */
static const driver_case cases[] = {
    { GATHER("gather", DRIVER_F32(7, 5), INDEX(GR_I32, 7, 9)),
      .grad = 1, .flags = DRIVER_FLOATS | DRIVER_GOLDEN | DRIVER_EXACT },
    { GATHER("gather by i64", DRIVER_F32(7, 5), INDEX(GR_I64, 7, 2, 3)),
      .grad = 1, .flags = DRIVER_FLOATS | DRIVER_GOLDEN | DRIVER_EXACT },
    { GATHER("gather of matrices", DRIVER_F32(4, 3, 5), INDEX(GR_I32, 4, 2, 2)), COPIES },
    { GATHER("gather of numbers", DRIVER_F32(9), INDEX(GR_I64, 9, 20)), COPIES },
    { GATHER("gather one row", DRIVER_F32(9, 4), { .dtype = GR_I32, .lo = 3, .hi = 3,
                                                   .shape = DRIVER_DIMS0 }), COPIES },
    { GATHER("gather from one row", DRIVER_F32(1, 4), INDEX(GR_I64, 1, 6)), COPIES },
    { GATHER("gather nothing", DRIVER_F32(9, 4), INDEX(GR_I64, 9, 0)), COPIES },
    { GATHER("gather from nothing", DRIVER_F32(0, 4), INDEX(GR_I64, 1, 0)), COPIES },
    { GATHER("gather on threads", DRIVER_F32(50, 64), INDEX(GR_I64, 50, 300)), COPIES },
    { GATHER("gather whole numbers", DRIVER_SRC(GR_I64, 7, 3), INDEX(GR_I32, 7, 9)),
      .flags = DRIVER_EXACT },
    { GATHER("gather too far", DRIVER_F32(7, 5), DRIVER_RANGE(GR_I32, 7, 7, 3)),
      .flags = DRIVER_FAULTS },
    { GATHER("gather before the first", DRIVER_F32(7, 5), DRIVER_RANGE(GR_I64, -1, -1, 3)),
      .flags = DRIVER_FAULTS },
    { GATHER("gather a row of none", DRIVER_F32(0, 5), DRIVER_RANGE(GR_I64, 0, 0, 3)),
      .flags = DRIVER_FAULTS },
    { GATHER("gather by floats", DRIVER_F32(7, 5), DRIVER_F32(3)), .want = "i32 or i64" },
    { GATHER("gather from a number", { .dtype = GR_F32, .shape = DRIVER_DIMS0 },
             INDEX(GR_I32, 1, 3)), .want = "no rows" },
    { GATHER("gather beyond 8 dimensions", DRIVER_F32(2, 1, 1, 1, 1),
             INDEX(GR_I32, 2, 1, 1, 1, 1, 1)), .want = "9 dimensions" },

    { EMBEDDING("embedding with padding", row_2, DRIVER_F32(7, 5), INDEX(GR_I64, 7, 3, 9)),
      .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { EMBEDDING("embedding, padding beyond", row_7, DRIVER_F32(7, 5), INDEX(GR_I64, 7, 9)),
      .want = "row 7 is not in the table" },

    { SCATTER("scatter", four_rows, DRIVER_F32(6, 5), INDEX(GR_I32, 4, 6)),
      .grad = 1, .n_reduced = 6, .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { SCATTER("scatter matrices", four_rows, DRIVER_F32(2, 3, 2, 5), INDEX(GR_I64, 4, 2, 3)),
      .grad = 1, .n_reduced = 6, .flags = DRIVER_FLOATS },
    { SCATTER("scatter numbers", four_rows, DRIVER_F32(30), INDEX(GR_I64, 4, 30)),
      .grad = 1, .n_reduced = 30, .flags = DRIVER_FLOATS },
    { SCATTER("scatter nothing", four_rows, DRIVER_F32(0, 5), INDEX(GR_I64, 4, 0)),
      .grad = 1, .flags = DRIVER_FLOATS },
    { SCATTER("scatter one row", four_rows, DRIVER_F32(1, 5), INDEX(GR_I64, 4, 1)),
      .grad = 1, .flags = DRIVER_FLOATS },
    { SCATTER("scatter to nothing", no_rows, DRIVER_F32(0, 5), INDEX(GR_I64, 1, 0)),
      .grad = 1, .flags = DRIVER_FLOATS },
    { SCATTER("scatter on threads by columns", many_rows, DRIVER_F32(300, 64),
              INDEX(GR_I64, 50, 300)), .grad = 1, .n_reduced = 20, .flags = DRIVER_FLOATS },
    { SCATTER("scatter on threads by rows", many_rows, DRIVER_F32(3000, 3),
              INDEX(GR_I32, 50, 3000)), .grad = 1, .n_reduced = 100, .flags = DRIVER_FLOATS },
    { SCATTER("scatter too far", four_rows, DRIVER_F32(6, 5), DRIVER_RANGE(GR_I32, 4, 4, 6)),
      .flags = DRIVER_FAULTS },
    { SCATTER("scatter of other rows", four_rows, DRIVER_F32(5, 6), INDEX(GR_I32, 4, 6)),
      .want = "begin with" },
    { SCATTER("scatter integers", four_rows, DRIVER_SRC(GR_I32, 6, 5), INDEX(GR_I32, 4, 6)),
      .want = "floating" },
    { SCATTER("scatter by floats", four_rows, DRIVER_F32(6, 5), DRIVER_F32(6)),
      .want = "i32 or i64" },
};
/* clang-format on */

const driver_family driver_gather = { "gather", cases, DRIVER_COUNT(cases) };
