/* Strided copies on the CPU; see strided.h. */
#include "op/shape/strided.h"

#include "base/cpu.h"

#include <string.h>

#define PIECE_BYTES ((size_t)32 << 10) /* a longer row is cut, so that threads can share it */
#define THIN        4                  /* planes this narrow are not worth tiles */
#define THIN_ROWS   1024               /* of a thin plane in one unit */

void gr_strided_steps(const gr_shape *s, int64_t *step)
{
    for (int d = s->n_dims - 1; d >= 0; d--)
        step[d] = d == s->n_dims - 1 ? 1 : step[d + 1] * s->dim[d + 1];
}

/* ---- turned planes ---- */

/* A row of the result at a time, in tiles of 16 x 16; thin planes a column at a time. */
#define TURN(type)                                                                 \
    static void turn_##type(const gr_turn *t)                                      \
    {                                                                              \
        type *dst = t->dst;                                                        \
        const type *src = t->src;                                                  \
                                                                                   \
        for (int64_t c = 0; c < t->cols; c += GR_TURN_ROWS) {                      \
            int64_t end = t->cols - c < GR_TURN_ROWS ? t->cols : c + GR_TURN_ROWS; \
                                                                                   \
            for (int64_t r = 0; r < t->rows; r++)                                  \
                for (int64_t i = c; i < end; i++)                                  \
                    dst[r * t->dst_step + i] = src[i * t->src_step + r];           \
        }                                                                          \
    }                                                                              \
    static void thin_##type(const gr_turn *t)                                      \
    {                                                                              \
        type *dst = t->dst;                                                        \
        const type *src = t->src;                                                  \
        const int64_t to = t->dst_step, from = t->src_step;                        \
                                                                                   \
        for (int64_t r = 0; t->cols == 3 && r < t->rows; r++) {                    \
            dst[r * to] = src[r];                                                  \
            dst[r * to + 1] = src[from + r];                                       \
            dst[r * to + 2] = src[2 * from + r];                                   \
        }                                                                          \
        for (int64_t r = 0; t->cols == 4 && r < t->rows; r++) {                    \
            dst[r * to] = src[r];                                                  \
            dst[r * to + 1] = src[from + r];                                       \
            dst[r * to + 2] = src[2 * from + r];                                   \
            dst[r * to + 3] = src[3 * from + r];                                   \
        }                                                                          \
        for (int64_t c = 0; t->cols < 3 && c < t->cols; c++)                       \
            for (int64_t r = 0; r < t->rows; r++)                                  \
                dst[r * to + c] = src[c * from + r];                               \
    }
TURN(uint8_t)
TURN(uint16_t)
TURN(uint32_t)
TURN(uint64_t)

static gr_turn_fn *plain_turn(size_t elem_bytes, bool is_thin)
{
    switch (elem_bytes) {
    case 1: return is_thin ? thin_uint8_t : turn_uint8_t;
    case 2: return is_thin ? thin_uint16_t : turn_uint16_t;
    case 4: return is_thin ? thin_uint32_t : turn_uint32_t;
    case 8: return is_thin ? thin_uint64_t : turn_uint64_t;
    default: GR_BUG_IF(true);
    }
}

/* Few rows or columns would leave a tile mostly empty. */
static gr_turn_fn *best_turn(const gr_strided *s)
{
    const gr_turn_isa *isa = gr_cpu_has_avx512() ? &gr_turn_avx512 : &gr_turn_avx2;
    int last = s->n_dims - 1, size = s->elem_bytes == 4;
    int64_t rows = s->dim[s->fast], cols = s->dim[last];

    if (!gr_cpu_has_avx2() || s->elem_bytes == 1 || s->elem_bytes == 8)
        return plain_turn(s->elem_bytes, cols <= THIN);
    if (cols <= THIN && s->to[s->fast] == cols)
        return isa->weave[size];
    if (rows <= THIN && s->from[last] == rows && cols > THIN)
        return isa->unweave[size];
    if (rows <= THIN || cols <= THIN)
        return plain_turn(s->elem_bytes, cols <= THIN);
    return isa->tiles[size];
}

/* ---- planning ---- */

/* Drops dimensions of 1 and joins d into d - 1 wherever both sides allow it. */
static void join(gr_strided *s)
{
    int n = 0;

    for (int d = 0; d < s->n_dims; d++) {
        if (s->dim[d] == 1)
            continue;
        if (n > 0 && s->from[n - 1] == s->from[d] * s->dim[d] &&
            s->to[n - 1] == s->to[d] * s->dim[d]) {
            s->dim[n - 1] *= s->dim[d];
        } else {
            n++;
            s->dim[n - 1] = s->dim[d];
        }
        s->from[n - 1] = s->from[d];
        s->to[n - 1] = s->to[d];
    }
    if (n == 0) { /* one element */
        s->dim[0] = s->from[0] = s->to[0] = 1;
        n = 1;
    }
    s->n_dims = n;
}

static void add_walk(gr_strided *s, int64_t dim, int64_t from, int64_t to)
{
    s->walk[s->n_walks++] = (gr_walk){ dim, from, to };
    s->n_units *= dim;
}

static void plan_turned(gr_strided *s)
{
    int last = s->n_dims - 1;
    int64_t rows = s->dim[s->fast];

    s->turn = best_turn(s);
    s->strip = s->dim[last] <= THIN ? THIN_ROWS : GR_TURN_ROWS;
    for (int d = 0; d < last; d++)
        if (d != s->fast)
            add_walk(s, s->dim[d], s->from[d], s->to[d]);
    add_walk(s, (rows + s->strip - 1) / s->strip, s->strip, s->strip * s->to[s->fast]);
}

void gr_strided_plan(gr_strided *s)
{
    int last;

    s->n_walks = 0;
    s->n_units = 1;
    for (int d = 0; d < s->n_dims; d++)
        if (s->dim[d] == 0) {
            s->n_units = 0;
            return;
        }
    join(s);
    last = s->n_dims - 1;
    s->fast = -1;
    for (int d = 0; d < s->n_dims; d++)
        if (s->from[d] == 1)
            s->fast = d;
    s->strip = 0;
    if (s->fast >= 0 && s->fast != last && s->to[last] == 1) {
        plan_turned(s);
        return;
    }
    for (int d = 0; d < last; d++)
        add_walk(s, s->dim[d], s->from[d], s->to[d]);
    s->piece = s->dim[last];
    if ((size_t)s->piece * s->elem_bytes > PIECE_BYTES) {
        s->piece = (int64_t)(PIECE_BYTES / s->elem_bytes);
        add_walk(s, (s->dim[last] + s->piece - 1) / s->piece, s->piece * s->from[last],
                 s->piece * s->to[last]);
    }
}

/* ---- walking ---- */

/* A place of the walks, and the element offsets that belong to it. */
typedef struct place {
    int64_t i[GR_MAX_DIMS];
    int64_t from, to;
} place;

static void place_at(const gr_strided *s, int64_t u, place *p)
{
    p->from = p->to = 0;
    for (int d = s->n_walks - 1; d >= 0; d--) {
        p->i[d] = u % s->walk[d].dim;
        u /= s->walk[d].dim;
        p->from += p->i[d] * s->walk[d].from;
        p->to += p->i[d] * s->walk[d].to;
    }
}

/* n places on in the last walk, which it may end but not pass. */
static void place_step(const gr_strided *s, place *p, int64_t n)
{
    int d = s->n_walks - 1;

    p->i[d] += n;
    p->from += n * s->walk[d].from;
    p->to += n * s->walk[d].to;
    for (; p->i[d] == s->walk[d].dim && d > 0; d--) {
        p->i[d] = 0;
        p->from += s->walk[d - 1].from - s->walk[d].dim * s->walk[d].from;
        p->to += s->walk[d - 1].to - s->walk[d].dim * s->walk[d].to;
        p->i[d - 1]++;
    }
}

static void run_turned(const gr_strided *s, int64_t lo, int64_t hi)
{
    int last = s->n_dims - 1, inner = s->n_walks - 1;
    int64_t bytes = (int64_t)s->elem_bytes, rows = s->dim[s->fast];
    gr_turn t = { .dst_step = s->to[s->fast], .src_step = s->from[last], .cols = s->dim[last] };
    place p;

    place_at(s, lo, &p);
    for (int64_t u = lo; u < hi; u++) {
        int64_t left = rows - p.i[inner] * s->strip;

        t.rows = left < s->strip ? left : s->strip;
        t.src = s->src + p.from * bytes;
        t.dst = s->dst + p.to * bytes;
        s->turn(&t);
        place_step(s, &p, 1);
    }
}

/* ---- rows ---- */

typedef struct run {
    char *dst;
    const char *src;
    int64_t n, dst_step, src_step; /* rows, and bytes between them */
    size_t n_bytes;                /* of a row */
} run;

/* Short rows of a known length cost a load and a store each; others a call. */
#define COPY_ROWS(bytes)                                                       \
    case bytes:                                                                \
        for (int64_t i = 0; i < r->n; i++)                                     \
            memcpy(r->dst + i * r->dst_step, r->src + i * r->src_step, bytes); \
        return;

static void copy_rows(const run *r)
{
    switch (r->n_bytes) {
        COPY_ROWS(1)
        COPY_ROWS(2)
        COPY_ROWS(4)
        COPY_ROWS(6)
        COPY_ROWS(8)
        COPY_ROWS(12)
        COPY_ROWS(16)
        COPY_ROWS(24)
        COPY_ROWS(32)
        COPY_ROWS(48)
        COPY_ROWS(64)
        COPY_ROWS(128)
    default:
        for (int64_t i = 0; i < r->n; i++)
            memcpy(r->dst + i * r->dst_step, r->src + i * r->src_step, r->n_bytes);
    }
}

#define SINGLES(type)                                                                           \
    static void singles_##type(char *dst, const char *src, int64_t n, int64_t to, int64_t from) \
    {                                                                                           \
        type *y = (void *)dst;                                                                  \
        const type *x = (const void *)src;                                                      \
                                                                                                \
        for (int64_t i = 0; i < n; i++)                                                         \
            y[i * to] = x[i * from];                                                            \
    }
SINGLES(uint8_t)
SINGLES(uint16_t)
SINGLES(uint32_t)
SINGLES(uint64_t)

static void copy_singles(const gr_strided *s, char *dst, const char *src, int64_t n)
{
    int64_t to = s->to[s->n_dims - 1], from = s->from[s->n_dims - 1];

    switch (s->elem_bytes) {
    case 1: singles_uint8_t(dst, src, n, to, from); break;
    case 2: singles_uint16_t(dst, src, n, to, from); break;
    case 4: singles_uint32_t(dst, src, n, to, from); break;
    case 8: singles_uint64_t(dst, src, n, to, from); break;
    default: GR_BUG_IF(true);
    }
}

/* One row, or a piece of one: `at` is where the piece begins in it. */
static void copy_one(const gr_strided *s, const place *p, int64_t at)
{
    int last = s->n_dims - 1;
    int64_t bytes = (int64_t)s->elem_bytes, left = s->dim[last] - at;
    int64_t n = left < s->piece ? left : s->piece;

    if (s->from[last] == 1 && s->to[last] == 1)
        memcpy(s->dst + p->to * bytes, s->src + p->from * bytes, (size_t)(n * bytes));
    else
        copy_singles(s, s->dst + p->to * bytes, s->src + p->from * bytes, n);
}

/* As many whole rows at a time as the last walk has. */
static void run_rows(const gr_strided *s, int64_t lo, int64_t hi)
{
    int last = s->n_dims - 1, inner = s->n_walks - 1;
    int64_t bytes = (int64_t)s->elem_bytes;
    bool is_whole = s->from[last] == 1 && s->to[last] == 1;
    run r = { .n_bytes = (size_t)(s->dim[last] * bytes) };
    place p;

    r.dst_step = s->walk[inner].to * bytes;
    r.src_step = s->walk[inner].from * bytes;
    place_at(s, lo, &p);
    for (int64_t u = lo; u < hi; u += r.n) {
        int64_t left = s->walk[inner].dim - p.i[inner];

        r.n = !is_whole ? 1 : left < hi - u ? left : hi - u;
        r.dst = s->dst + p.to * bytes;
        r.src = s->src + p.from * bytes;
        if (is_whole)
            copy_rows(&r);
        else
            copy_one(s, &p, 0);
        place_step(s, &p, r.n);
    }
}

static void run_pieces(const gr_strided *s, int64_t lo, int64_t hi)
{
    place p;

    place_at(s, lo, &p);
    for (int64_t u = lo; u < hi; u++) {
        copy_one(s, &p, p.i[s->n_walks - 1] * s->piece);
        place_step(s, &p, 1);
    }
}

void gr_strided_run(const gr_strided *s, int slice, int n_slices)
{
    int64_t lo, hi;

    if (s->n_units == 0)
        return;
    gr_pool_cut(s->n_units, 1, slice, n_slices, &lo, &hi);
    if (lo == hi)
        return;
    if (s->strip > 0)
        run_turned(s, lo, hi);
    else if (s->n_walks == 0)
        copy_one(s, &(place){ { 0 }, 0, 0 }, 0);
    else if (s->piece < s->dim[s->n_dims - 1])
        run_pieces(s, lo, hi);
    else
        run_rows(s, lo, hi);
}
