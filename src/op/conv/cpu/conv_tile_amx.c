/*
 * Tile products for convolution. The same six products of parts in the same order as
 * matmul_tile_amx.c, where it is explained; here rows of tiles lie apart, and steps come
 * from a table. 24 tile products hide the loads of 14 tiles, from L2 as well.
 */
#include "op/conv/cpu/conv_amx.h"
#include "op/matmul/cpu/matmul_row_body.h"

/* gcc takes tile loads for instructions that read no memory. */
#define MEMORY_IS_WRITTEN __asm__ volatile("" ::: "memory")

#define LOAD_L(tile, p, i) _tile_loadd(tile, l + (p)*l_part + (i)*l_half, l_row)
#define LOAD_R(tile, p, i) _tile_loadd(tile, r + (p)*r_part + (i)*r_half, r_row)

/* A new left (right) part for up to four products. */
#define NEW_LEFT(p)                      \
    do {                                 \
        LOAD_L(4, p, 0);                 \
        _tile_dpbf16ps(0, 4, 6);         \
        if (two_r)                       \
            _tile_dpbf16ps(1, 4, 7);     \
        if (two_l) {                     \
            LOAD_L(5, p, 1);             \
            _tile_dpbf16ps(2, 5, 6);     \
            if (two_r)                   \
                _tile_dpbf16ps(3, 5, 7); \
        }                                \
    } while (0)
#define NEW_RIGHT(p)                     \
    do {                                 \
        LOAD_R(6, p, 0);                 \
        _tile_dpbf16ps(0, 4, 6);         \
        if (two_l)                       \
            _tile_dpbf16ps(2, 5, 6);     \
        if (two_r) {                     \
            LOAD_R(7, p, 1);             \
            _tile_dpbf16ps(1, 4, 7);     \
            if (two_l)                   \
                _tile_dpbf16ps(3, 5, 7); \
        }                                \
    } while (0)
#define STORE(tile, i, j) \
    _tile_stored(tile, t->sums + (int64_t)16 * (32 * (i) + (j)), 32 * sizeof(float))

INLINE void run(const gr_conv_tiles *t, const bool low, const bool two_l, const bool two_r)
{
    const int64_t l_row = t->l_side.row, l_part = t->l_side.part, l_half = t->l_side.half;
    const int64_t r_row = t->r_side.row, r_part = t->r_side.part, r_half = t->r_side.half;

    MEMORY_IS_WRITTEN;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t o = 0; o < t->n_outer; o++)
        for (int64_t n = 0; n < t->n_inner; n++) {
            const int64_t i = t->list[n];
            const char *l = t->l + o * t->l_outer + (t->l_at ? t->l_at[i] : i * t->l_inner);
            const char *r = t->r + o * t->r_outer + i * t->r_inner;

            LOAD_L(4, 0, 0);
            if (two_l)
                LOAD_L(5, 0, 1);
            if (!low) {
                NEW_RIGHT(2);
                NEW_RIGHT(1);
                NEW_LEFT(1);
            }
            NEW_RIGHT(0);
            if (!low) {
                NEW_LEFT(0);
                NEW_LEFT(2);
            }
        }
    STORE(0, 0, 0);
    if (two_r)
        STORE(1, 0, 1);
    if (two_l)
        STORE(2, 1, 0);
    if (two_l && two_r)
        STORE(3, 1, 1);
    MEMORY_IS_WRITTEN;
}

INLINE void run_tiles(const gr_conv_tiles *t, const bool low)
{
    if (t->l_side.tiles == 2 && t->r_side.tiles == 2)
        run(t, low, true, true);
    else if (t->l_side.tiles == 2)
        run(t, low, true, false);
    else if (t->r_side.tiles == 2)
        run(t, low, false, true);
    else
        run(t, low, false, false);
}

void gr_conv_tiles_run(const gr_conv_tiles *t, bool low)
{
    if (low)
        run_tiles(t, true);
    else
        run_tiles(t, false);
}
