/*
 * Cases of matmul: the four ways of storing operands, leading dimensions, and shapes at
 * every edge that the kernels know: no row left in the last tile, one row, more rows than
 * a tile, half a panel, k of 0, 1, not a multiple of 4, and more than one block of k.
 */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/ops.h"

#include <string.h>

/* oneDNN chooses its algorithm by the size of the part that a thread gets. That our own
 * kernels do not is tested in test_matmul.c. */
#define DIFFER DRIVER_THREADS_DIFFER

/* fn: "a", "b" and "ab" say which operands are stored transposed. */
static gr_value *build(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const char *trans = c->fn ? c->fn : "";

    return gr_matmul_t(g, src[0], src[1], strchr(trans, 'a') != NULL, strchr(trans, 'b') != NULL);
}

#define CASE(text, trans, terms, ...)                                          \
    .name = (text), .op = "matmul", .build = build, .fn = (trans), .n_src = 2, \
    .n_reduced = (terms), .src = { __VA_ARGS__ }
#define REFUSED(text, trans, why, ...)                                                        \
    .name = (text), .op = "matmul", .build = build, .fn = (trans), .n_src = 2, .want = (why), \
    .src = { __VA_ARGS__ }
/* LARGE: no gradients, since the reference is slow and other cases have their shapes. */
#define LARGE  .flags = DIFFER | DRIVER_LARGE
#define F32    .grad = 3, .flags = DIFFER
#define FLOATS .grad = 3, .flags = DIFFER | DRIVER_FLOATS
#define GOLDEN .grad = 3, .flags = DIFFER | DRIVER_FLOATS | DRIVER_GOLDEN

/* clang-format off */
static const driver_case cases[] = {
    { CASE("plain", "", 5, DRIVER_F32(3, 5), DRIVER_F32(5, 4)), GOLDEN },
    { CASE("a transposed", "a", 5, DRIVER_F32(5, 3), DRIVER_F32(5, 4)), GOLDEN },
    { CASE("b transposed", "b", 5, DRIVER_F32(3, 5), DRIVER_F32(4, 5)), GOLDEN },
    { CASE("both transposed", "ab", 5, DRIVER_F32(5, 3), DRIVER_F32(4, 5)), GOLDEN },
    { CASE("batched", "", 6, DRIVER_F32(2, 3, 4, 6), DRIVER_F32(2, 3, 6, 5)), GOLDEN },
    { CASE("batched, b transposed", "b", 6, DRIVER_F32(3, 4, 6), DRIVER_F32(3, 5, 6)), GOLDEN },
    { CASE("batched, a transposed", "a", 6, DRIVER_F32(3, 6, 4), DRIVER_F32(3, 6, 5)), F32 },
    { CASE("batched, both transposed", "ab", 6, DRIVER_F32(3, 6, 4), DRIVER_F32(3, 5, 6)), F32 },
    { CASE("leading dimensions are rows", "", 7, DRIVER_F32(2, 3, 4, 7), DRIVER_F32(7, 5)),
      GOLDEN },
    { CASE("rows, b transposed", "b", 7, DRIVER_F32(2, 3, 7), DRIVER_F32(5, 7)), GOLDEN },

    { CASE("one element", "", 1, DRIVER_F32(1, 1), DRIVER_F32(1, 1)), FLOATS },
    { CASE("a row by a column", "", 77, DRIVER_F32(1, 77), DRIVER_F32(77, 1)), FLOATS },
    { CASE("a column by a row", "", 1, DRIVER_F32(19, 1), DRIVER_F32(1, 35)), FLOATS },
    { CASE("nothing to sum", "", 0, DRIVER_F32(3, 0), DRIVER_F32(0, 4)), FLOATS },
    { CASE("no rows", "", 5, DRIVER_F32(0, 5), DRIVER_F32(5, 4)), FLOATS },
    { CASE("no columns", "b", 5, DRIVER_F32(3, 5), DRIVER_F32(0, 5)), F32 },
    { CASE("no batch", "", 5, DRIVER_F32(0, 3, 5), DRIVER_F32(0, 5, 4)), F32 },
    { CASE("no leading rows", "", 5, DRIVER_F32(0, 3, 5), DRIVER_F32(5, 4)), F32 },

    { CASE("odd sizes", "", 37, DRIVER_F32(29, 37), DRIVER_F32(37, 45)), FLOATS },
    { CASE("odd sizes, a", "a", 37, DRIVER_F32(37, 29), DRIVER_F32(37, 45)), F32 },
    { CASE("odd sizes, b", "b", 37, DRIVER_F32(29, 37), DRIVER_F32(45, 37)), F32 },
    { CASE("odd sizes, ab", "ab", 37, DRIVER_F32(37, 29), DRIVER_F32(45, 37)), F32 },
    { CASE("one more than a tile", "", 16, DRIVER_F32(15, 16), DRIVER_F32(16, 33)), F32 },
    { CASE("one more than a tile, a", "a", 16, DRIVER_F32(16, 15), DRIVER_F32(16, 33)), F32 },
    { CASE("one more than a tile, b", "b", 16, DRIVER_F32(15, 16), DRIVER_F32(33, 16)), F32 },
    { CASE("tall", "", 9, DRIVER_F32(300, 9), DRIVER_F32(9, 10)), F32 },
    { CASE("tall, b", "b", 9, DRIVER_F32(300, 9), DRIVER_F32(10, 9)), F32 },
    { CASE("wide", "", 9, DRIVER_F32(10, 9), DRIVER_F32(9, 300)), F32 },
    { CASE("wide, a", "a", 9, DRIVER_F32(9, 10), DRIVER_F32(9, 300)), F32 },
    { CASE("rows 4 KiB apart", "", 24, DRIVER_F32(40, 24), DRIVER_F32(24, 1024)), LARGE },

    { CASE("two blocks of k", "", 1500, DRIVER_F32(20, 1500), DRIVER_F32(1500, 40)), LARGE },
    { CASE("two blocks of k, a", "a", 1500, DRIVER_F32(1500, 20), DRIVER_F32(1500, 40)), LARGE },
    { CASE("two blocks of k, b", "b", 1500, DRIVER_F32(20, 1500), DRIVER_F32(40, 1500)), LARGE },
    { CASE("two blocks of k, ab", "ab", 1500, DRIVER_F32(1500, 20), DRIVER_F32(40, 1500)), LARGE },
    { CASE("two blocks of v", "b", 1000, DRIVER_F32(300, 1000), DRIVER_F32(300, 1000)), LARGE },

    { CASE("first layer", "b", 784, DRIVER_F32(128, 784), DRIVER_F32(512, 784)), LARGE },
    { CASE("last layer", "b", 512, DRIVER_F32(128, 512), DRIVER_F32(10, 512)), LARGE },

    { REFUSED("inner dimensions differ", "", "differ: 5 of the first, 4 of the second",
              DRIVER_F32(3, 5), DRIVER_F32(4, 5)) },
    { REFUSED("inner dimensions differ, a", "a", "differ: 3 of the first, transposed",
              DRIVER_F32(3, 5), DRIVER_F32(4, 5)) },
    { REFUSED("a vector", "", "two dimensions", DRIVER_F32(5), DRIVER_F32(5, 4)) },
    { REFUSED("integers", "", "floating", DRIVER_SRC(GR_I32, 3, 5), DRIVER_F32(5, 4)) },
    { REFUSED("other leading dimensions", "", "leading", DRIVER_F32(2, 3, 5),
              DRIVER_F32(3, 5, 4)) },
    { REFUSED("transposed rows", "a", "leading", DRIVER_F32(2, 5, 3), DRIVER_F32(5, 4)) },
};
/* clang-format on */

const driver_family driver_matmul = { "matmul", cases, DRIVER_COUNT(cases) };
