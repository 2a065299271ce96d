/*
 * Tile products. A block is 2 x 2 tiles of sums; tiles 4 and 5 hold lines of the left,
 * 6 and 7 of the right side.
 *
 * For f32 each number is a1 + a2 + a3 (matmul_pack_amx.c), and of the nine products the
 * six that matter are summed, in an order in which each changes one operand only:
 *
 *     a1 b3,  a1 b2,  a2 b2,  a2 b1,  a1 b1,  a3 b1
 *
 * 24 tile products of 16 cycles hide 14 tile loads even from L2, and all of the vector
 * work in `feed`: it is spread evenly, because what it costs is the way between L1 and
 * L2, which the tile loads need as well.
 */
#include "op/matmul/cpu/matmul_amx.h"
#include "op/matmul/cpu/matmul_row_body.h"

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* The compiler does not know what the instruction reads: a constant is always there. */
static const tile_config config = {
    .palette = 1,
    .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
    .rows = { 16, 16, 16, 16, 16, 16, 16, 16 },
};

void gr_amx_begin(void)
{
    _tile_loadconfig(&config);
}

void gr_amx_end(void)
{
    _tile_release();
}

/* ---- feed ---- */

static const int nothing[GR_AMX_GROUPS] = { 0 };

/* What of the feed lives in registers while a block runs. */
typedef struct served {
    const int *n_pack, *n_write; /* rows of each group in this step */
    const char *src;
    int64_t src_step, pair; /* bytes to the next row, elements to k + 16 */
    char *dst;
    const float *c, *add;
    float *y;
    int64_t ld;
    __m512 scale, sum;
    __m512i low;
} served;

INLINE void serve_open(served *s, const gr_amx_feed *f, const bool is_f32)
{
    const gr_amx_side *side = &f->side;
    const size_t elem = is_f32 ? sizeof(float) : sizeof(uint16_t);
    const gr_amx_out *o = &f->out;

    s->src_step = (side->is_left ? side->step_line : side->step_k) * (int64_t)elem;
    s->pair = 16 * side->step_k;
    s->c = o->c;
    s->add = o->add;
    s->y = o->y_f32;
    s->ld = o->ld;
    s->scale = _mm512_set1_ps(o->scale);
    s->sum = _mm512_setzero_ps();
    s->low = _mm512_set1_epi32(-1);
}

INLINE void serve_close(const served *s, gr_amx_feed *f, const bool is_f32)
{
    if (is_f32)
        f->unfit |= row_is_unfit_f32(s->sum);
    else
        f->unfit |= row_is_unfit_bf16(s->low);
}

/* The rows of one step begin here; they do not leave their tile. */
INLINE void serve_step(served *s, gr_amx_feed *f, const bool is_f32)
{
    const gr_amx_side *side = &f->side;
    const int64_t row = f->at & 15, tile = f->at >> 4 & 1, step = f->at >> 5;
    const size_t elem = is_f32 ? sizeof(float) : sizeof(uint16_t);

    s->n_pack = s->n_write = nothing;
    if (f->at < f->end) {
        s->src = (const char *)side->src + row * s->src_step +
                 (size_t)(step * GR_AMX_K * side->step_k + tile * 16 * side->step_line) * elem;
        s->dst = f->dst + step * gr_amx_step_bytes(is_f32, 2) + tile * GR_AMX_TILE + row * 64;
        s->n_pack = f->pack.of_group;
        f->at += f->pack.per_step;
    }
    if (f->out_at < f->out_end) {
        s->n_write = f->write.of_group;
        f->out_at += f->write.per_step;
    }
}

INLINE void serve_half(served *s, int64_t col)
{
    __m512 x = _mm512_mul_ps(_mm512_load_ps(s->c + col), s->scale);

    if (s->add)
        x = _mm512_add_ps(x, _mm512_loadu_ps(s->add + col));
    s->sum = row_watch(x, s->sum);
    _mm512_storeu_ps(s->y + col, x);
}

INLINE void serve(served *s, const int group, const bool is_f32)
{
    for (int i = s->n_pack[group]; i > 0; i--) {
        if (is_f32)
            row_put_f32(s->dst, 2 * GR_AMX_TILE, (const float *)s->src, s->pair);
        else
            s->low = row_put_bf16(s->dst, (const uint16_t *)s->src, s->pair, s->low);
        s->src += s->src_step;
        s->dst += 64;
    }
    for (int i = s->n_write[group]; i > 0; i--) {
        serve_half(s, 0);
        serve_half(s, 16);
        s->c += GR_AMX_LINES;
        s->y += s->ld;
        if (s->add)
            s->add += s->ld;
    }
}

/* ---- blocks ---- */

/* gcc takes tile loads for instructions that read no memory. */
#define MEMORY_IS_WRITTEN __asm__ volatile("" ::: "memory")

#define TILE_AT(side, n, part, i)    ((side) + ((n) * (part) + (i)) * GR_AMX_TILE)
#define LOAD(tile, side, n, part, i) _tile_loadd(tile, TILE_AT(side, n, part, i), 64)
/* `past` L1, where it would push out what is used again. */
#define LOAD_SIDE(tile, side, past, part, i)                         \
    do {                                                             \
        if (past)                                                    \
            _tile_stream_loadd(tile, TILE_AT(side, 2, part, i), 64); \
        else                                                         \
            _tile_loadd(tile, TILE_AT(side, 2, part, i), 64);        \
    } while (0)
#define LOAD_LEFT(tile, part, i)  LOAD_SIDE(tile, l, stream_l, part, i)
#define LOAD_RIGHT(tile, part, i) LOAD_SIDE(tile, r, stream_r, part, i)
#define STORE(tile, i, j) \
    _tile_stored(tile, b->c + 16 * ((i)*GR_AMX_LINES + (j)), GR_AMX_LINES * sizeof(float))
#define FETCH(tile, i, j) \
    _tile_loadd(tile, b->c + 16 * ((i)*GR_AMX_LINES + (j)), GR_AMX_LINES * sizeof(float))
/* Sums begin as 0, or with what is there. */
#define BEGIN(tile, i, j)      \
    do {                       \
        if (b->add)            \
            FETCH(tile, i, j); \
        else                   \
            _tile_zero(tile);  \
    } while (0)
#define MULTIPLY(sum, left, right) _tile_dpbf16ps(sum, left, right)

/* A new left (right) part for four products. Each tile is loaded where its last use is
 * over and the next is not yet due. */
#define NEW_LEFT(part, group)     \
    do {                          \
        LOAD_LEFT(4, part, 0);    \
        MULTIPLY(0, 4, 6);        \
        MULTIPLY(1, 4, 7);        \
        LOAD_LEFT(5, part, 1);    \
        MULTIPLY(2, 5, 6);        \
        MULTIPLY(3, 5, 7);        \
        serve(&s, group, is_f32); \
    } while (0)
#define NEW_RIGHT(part, group)    \
    do {                          \
        LOAD_RIGHT(6, part, 0);   \
        MULTIPLY(0, 4, 6);        \
        MULTIPLY(2, 5, 6);        \
        LOAD_RIGHT(7, part, 1);   \
        MULTIPLY(1, 4, 7);        \
        MULTIPLY(3, 5, 7);        \
        serve(&s, group, is_f32); \
    } while (0)

INLINE void block_full(const gr_amx_block *b, gr_amx_feed *f, const bool is_f32,
                       const bool stream_l, const bool stream_r)
{
    const int64_t step = gr_amx_step_bytes(is_f32, 2);
    const char *l = b->l, *r = b->r;
    served s = { .n_pack = nothing, .n_write = nothing };

    serve_open(&s, f, is_f32);
    BEGIN(0, 0, 0);
    BEGIN(1, 0, 1);
    BEGIN(2, 1, 0);
    BEGIN(3, 1, 1);
    for (int64_t n = b->n_steps; n > 0; n--, l += step, r += step) {
        serve_step(&s, f, is_f32);
        if (is_f32) {
            LOAD_LEFT(4, 0, 0);
            LOAD_LEFT(5, 0, 1);
            NEW_RIGHT(2, 0);
            NEW_RIGHT(1, 1);
            NEW_LEFT(1, 2);
            NEW_RIGHT(0, 3);
            NEW_LEFT(0, 4);
            NEW_LEFT(2, 5);
        } else { /* four loads for four products: none waits for two of them in a row */
            LOAD_RIGHT(6, 0, 0);
            LOAD_LEFT(4, 0, 0);
            MULTIPLY(0, 4, 6);
            LOAD_RIGHT(7, 0, 1);
            MULTIPLY(1, 4, 7);
            LOAD_LEFT(5, 0, 1);
            MULTIPLY(2, 5, 6);
            MULTIPLY(3, 5, 7);
            serve(&s, 0, is_f32);
        }
    }
    serve_close(&s, f, is_f32);
    STORE(0, 0, 0);
    STORE(1, 0, 1);
    STORE(2, 1, 0);
    STORE(3, 1, 1);
}

/* At the edges: the same products in the same order, without the art. */
#define PAIR_2X1(p, q)       \
    do {                     \
        LOAD(4, l, 2, p, 0); \
        LOAD(6, r, 1, q, 0); \
        MULTIPLY(0, 4, 6);   \
        LOAD(5, l, 2, p, 1); \
        MULTIPLY(2, 5, 6);   \
    } while (0)
#define PAIR_1X2(p, q)       \
    do {                     \
        LOAD(4, l, 1, p, 0); \
        LOAD(6, r, 2, q, 0); \
        MULTIPLY(0, 4, 6);   \
        LOAD(7, r, 2, q, 1); \
        MULTIPLY(1, 4, 7);   \
    } while (0)
#define PAIR_1X1(p, q)       \
    do {                     \
        LOAD(4, l, 1, p, 0); \
        LOAD(6, r, 1, q, 0); \
        MULTIPLY(0, 4, 6);   \
    } while (0)
#define ALL_STEPS(PAIR)                                                  \
    for (int64_t n = b->n_steps; n > 0; n--, l += l_step, r += r_step) { \
        if (is_f32) {                                                    \
            PAIR(0, 2);                                                  \
            PAIR(0, 1);                                                  \
            PAIR(1, 1);                                                  \
            PAIR(1, 0);                                                  \
        }                                                                \
        PAIR(0, 0);                                                      \
        if (is_f32)                                                      \
            PAIR(2, 0);                                                  \
    }

INLINE void block_edge(const gr_amx_block *b, const bool is_f32)
{
    const int64_t l_step = gr_amx_step_bytes(is_f32, b->tiles_l);
    const int64_t r_step = gr_amx_step_bytes(is_f32, b->tiles_r);
    const char *l = b->l, *r = b->r;

    BEGIN(0, 0, 0);
    if (b->tiles_r == 2)
        BEGIN(1, 0, 1);
    if (b->tiles_l == 2)
        BEGIN(2, 1, 0);
    if (b->tiles_l == 2)
        ALL_STEPS(PAIR_2X1)
    else if (b->tiles_r == 2)
        ALL_STEPS(PAIR_1X2)
    else
        ALL_STEPS(PAIR_1X1)
    STORE(0, 0, 0);
    if (b->tiles_r == 2)
        STORE(1, 0, 1);
    if (b->tiles_l == 2)
        STORE(2, 1, 0);
}

INLINE void block_any(const gr_amx_block *b, gr_amx_feed *f, const bool is_f32)
{
    MEMORY_IS_WRITTEN;
    if (b->tiles_l < 2 || b->tiles_r < 2)
        block_edge(b, is_f32);
    else if (b->stream_left)
        block_full(b, f, is_f32, true, false);
    else if (b->stream_right)
        block_full(b, f, is_f32, false, true);
    else
        block_full(b, f, is_f32, false, false);
    MEMORY_IS_WRITTEN;
}

void gr_amx_block_f32(const gr_amx_block *b, gr_amx_feed *f)
{
    block_any(b, f, true);
}

void gr_amx_block_bf16(const gr_amx_block *b, gr_amx_feed *f)
{
    block_any(b, f, false);
}
