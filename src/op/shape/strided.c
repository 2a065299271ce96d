/* Strided copies on the CPU; see strided.h. */
#include "op/shape/strided.h"

#include <string.h>

#define TILE        GR_TURN_ROWS
#define PIECE_BYTES ((size_t)32 << 10) /* a longer row is cut, so that threads can share it */

void gr_strided_steps(const gr_shape *s, int64_t *step)
{
    for (int d = s->n_dims - 1; d >= 0; d--)
        step[d] = d == s->n_dims - 1 ? 1 : step[d + 1] * s->dim[d + 1];
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

static bool is_turned(const gr_strided *s)
{
    return s->fast >= 0 && s->fast != s->n_dims - 1 && s->to[s->n_dims - 1] == 1;
}

void gr_strided_plan(gr_strided *s)
{
    int last;

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
    s->n_units = 1;
    s->piece = s->dim[last];
    for (int d = 0; d < last; d++)
        s->n_units *= is_turned(s) && d == s->fast ? (s->dim[d] + TILE - 1) / TILE : s->dim[d];
    if (!is_turned(s) && (size_t)s->piece * s->elem_bytes > PIECE_BYTES) {
        s->piece = (int64_t)(PIECE_BYTES / s->elem_bytes);
        s->n_units *= (s->dim[last] + s->piece - 1) / s->piece;
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
        COPY_ROWS(32)
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

/* Element offsets of both sides at row `u` of the dimensions before the last; returns the
 * place in the dimension before the last. */
static int64_t find_row(const gr_strided *s, int64_t u, int64_t *from, int64_t *to)
{
    int64_t inner = 0;

    *from = *to = 0;
    for (int d = s->n_dims - 2; d >= 0; d--) {
        int64_t i = u % s->dim[d];

        u /= s->dim[d];
        inner = d == s->n_dims - 2 ? i : inner;
        *from += i * s->from[d];
        *to += i * s->to[d];
    }
    return inner;
}

/* Units [lo, hi) of whole rows: as many at a time as the dimension before the last has. */
static void run_rows(const gr_strided *s, int64_t lo, int64_t hi)
{
    int last = s->n_dims - 1;
    int64_t bytes = (int64_t)s->elem_bytes;
    bool whole = s->from[last] == 1 && s->to[last] == 1;

    for (int64_t u = lo; u < hi;) {
        int64_t from, to, inner = find_row(s, u, &from, &to);
        int64_t n = last > 0 ? s->dim[last - 1] - inner : 1;
        run r = { .dst = s->dst + to * bytes, .src = s->src + from * bytes };

        r.n = n < hi - u ? n : hi - u;
        r.dst_step = last > 0 ? s->to[last - 1] * bytes : 0;
        r.src_step = last > 0 ? s->from[last - 1] * bytes : 0;
        r.n_bytes = (size_t)(s->dim[last] * bytes);
        if (whole)
            copy_rows(&r);
        for (int64_t i = 0; !whole && i < r.n; i++)
            copy_singles(s, r.dst + i * r.dst_step, r.src + i * r.src_step, s->dim[last]);
        u += r.n;
    }
}

/* Units [lo, hi) of pieces of long rows. */
static void run_pieces(const gr_strided *s, int64_t lo, int64_t hi)
{
    int last = s->n_dims - 1;
    int64_t bytes = (int64_t)s->elem_bytes, per_row = (s->dim[last] + s->piece - 1) / s->piece;

    for (int64_t u = lo; u < hi; u++) {
        int64_t from, to, at = u % per_row * s->piece;
        int64_t n = s->dim[last] - at < s->piece ? s->dim[last] - at : s->piece;
        const char *src;
        char *dst;

        find_row(s, u / per_row, &from, &to);
        src = s->src + (from + at * s->from[last]) * bytes;
        dst = s->dst + (to + at * s->to[last]) * bytes;
        if (s->from[last] == 1 && s->to[last] == 1)
            memcpy(dst, src, (size_t)(n * bytes));
        else
            copy_singles(s, dst, src, n);
    }
}

/* ---- turned planes ---- */

#define STRIP(type)                                                      \
    static void strip_##type(const gr_turn *t)                           \
    {                                                                    \
        type *dst = t->dst;                                              \
        const type *src = t->src;                                        \
                                                                         \
        for (int64_t c = 0; c < t->cols; c += TILE) {                    \
            int64_t end = t->cols - c < TILE ? t->cols : c + TILE;       \
                                                                         \
            for (int64_t r = 0; r < t->rows; r++)                        \
                for (int64_t i = c; i < end; i++)                        \
                    dst[r * t->dst_step + i] = src[i * t->src_step + r]; \
        }                                                                \
    }
STRIP(uint8_t)
STRIP(uint16_t)
STRIP(uint32_t)
STRIP(uint64_t)

static gr_turn_fn *turn_of(size_t elem_bytes)
{
    switch (elem_bytes) {
    case 1: return strip_uint8_t;
    case 2: return strip_uint16_t;
    case 4: return strip_uint32_t;
    case 8: return strip_uint64_t;
    default: GR_BUG_IF(true);
    }
}

/* Where unit u begins; *rows: elements along `fast` in its strip. */
static void find_strip(const gr_strided *s, int64_t u, int64_t *from, int64_t *to, int64_t *rows)
{
    *from = *to = 0;
    *rows = 1;
    for (int d = s->n_dims - 2; d >= 0; d--) {
        int64_t n = d == s->fast ? (s->dim[d] + TILE - 1) / TILE : s->dim[d];
        int64_t i = u % n;

        u /= n;
        if (d == s->fast) {
            i *= TILE;
            *rows = s->dim[d] - i < TILE ? s->dim[d] - i : TILE;
        }
        *from += i * s->from[d];
        *to += i * s->to[d];
    }
}

static void run_turned(const gr_strided *s, int64_t lo, int64_t hi)
{
    int last = s->n_dims - 1;
    int64_t bytes = (int64_t)s->elem_bytes;
    gr_turn_fn *turn = turn_of(s->elem_bytes);
    gr_turn t = { .dst_step = s->to[s->fast], .src_step = s->from[last], .cols = s->dim[last] };

    for (int64_t u = lo; u < hi; u++) {
        int64_t from, to;

        find_strip(s, u, &from, &to, &t.rows);
        t.src = s->src + from * bytes;
        t.dst = s->dst + to * bytes;
        turn(&t);
    }
}

void gr_strided_run(const gr_strided *s, int slice, int n_slices)
{
    int64_t lo, hi;

    if (s->n_units == 0)
        return;
    gr_pool_cut(s->n_units, 1, slice, n_slices, &lo, &hi);
    if (is_turned(s))
        run_turned(s, lo, hi);
    else if (s->piece < s->dim[s->n_dims - 1])
        run_pieces(s, lo, hi);
    else
        run_rows(s, lo, hi);
}
