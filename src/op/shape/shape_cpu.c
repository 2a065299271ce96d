/*
 * Transpose on the CPU, and its list of kernels.
 *
 * Dimensions that stay neighbours are joined first; what is left is one of two cases:
 *
 *   the last dimension stays last     rows are copied whole
 *   it does not                       the source's last dimension (step 1 when read) and
 *                                     the result's (step 1 when written) span a plane;
 *                                     planes are turned in tiles that fit L1, so that
 *                                     every line fetched is used up
 *
 * Elements are moved by their size, not their type. A slice writes its own part of the
 * result; nothing is added, so bits cannot depend on threads.
 */
#include "op/shape/shape_kernels.h"

#include <string.h>

#define TILE      16         /* elements on a side: 16 lines of both sides */
#define SLICE_MIN (16 << 10) /* bytes that are worth a thread */

typedef struct move {
    const char *src;
    char *dst;
    size_t elem_bytes;
    int n_dims; /* of the result, joined; at least 1 */
    int64_t dim[GR_MAX_DIMS];
    int64_t from[GR_MAX_DIMS]; /* elements between neighbours in the source */
    int64_t to[GR_MAX_DIMS];   /* the same in the result */
    int fast;                  /* the dimension with from == 1; n_dims - 1: rows */
    int64_t n_units;           /* rows, or strips of TILE along `fast` times planes */
} move;

/* Joins dimension d into d - 1 wherever both sides step through them as through one. */
static void join(move *m)
{
    int n = 0;

    for (int d = 0; d < m->n_dims; d++) {
        if (m->dim[d] == 1)
            continue;
        if (n > 0 && m->from[n - 1] == m->from[d] * m->dim[d]) {
            m->dim[n - 1] *= m->dim[d];
            m->from[n - 1] = m->from[d];
        } else {
            m->dim[n] = m->dim[d];
            m->from[n++] = m->from[d];
        }
    }
    if (n == 0) { /* one element */
        m->dim[0] = m->from[0] = 1;
        n = 1;
    }
    m->n_dims = n;
    for (int d = n - 1; d >= 0; d--)
        m->to[d] = d == n - 1 ? 1 : m->to[d + 1] * m->dim[d + 1];
}

static void move_init(move *m, const gr_launch *l)
{
    const gr_transpose_attr *at = l->node->attr;
    const gr_shape *in = &l->node->src[0]->shape, *out = &l->node->out[0].shape;
    int64_t step[GR_MAX_DIMS] = { 0 };

    *m = (move){ .src = l->src[0], .dst = l->out[0], .n_dims = out->n_dims };
    m->elem_bytes = gr_dtype_bytes(l->node->out[0].dtype);
    for (int d = in->n_dims - 1; d >= 0; d--)
        step[d] = d == in->n_dims - 1 ? 1 : step[d + 1] * in->dim[d + 1];
    for (int d = 0; d < out->n_dims; d++) {
        m->dim[d] = out->dim[d];
        m->from[d] = step[at->order[d]];
    }
    join(m);
    m->n_units = 1;
    for (int d = 0; d < m->n_dims; d++)
        if (m->from[d] == 1)
            m->fast = d;
    for (int d = 0; d < m->n_dims - 1; d++)
        m->n_units *= d == m->fast ? (m->dim[d] + TILE - 1) / TILE : m->dim[d];
}

/* Where unit u begins; *n_fast: elements along `fast` in its strip. */
static void find_unit(const move *m, int64_t u, int64_t *from, int64_t *to, int64_t *n_fast)
{
    *from = *to = 0;
    *n_fast = 1;
    for (int d = m->n_dims - 2; d >= 0; d--) {
        int64_t n = d == m->fast ? (m->dim[d] + TILE - 1) / TILE : m->dim[d];
        int64_t i = u % n;

        u /= n;
        if (d == m->fast) {
            i *= TILE;
            *n_fast = m->dim[d] - i < TILE ? m->dim[d] - i : TILE;
        }
        *from += i * m->from[d];
        *to += i * m->to[d];
    }
}

/* A strip: `rows` rows of the result, `cols` long, whose sources are neighbours. */
#define STRIP(type)                                                                          \
    static void strip_##type(type *dst, const type *src, int64_t dst_step, int64_t src_step, \
                             int64_t rows, int64_t cols)                                     \
    {                                                                                        \
        for (int64_t c = 0; c < cols; c += TILE) {                                           \
            int64_t end = cols - c < TILE ? cols : c + TILE;                                 \
                                                                                             \
            for (int64_t r = 0; r < rows; r++)                                               \
                for (int64_t i = c; i < end; i++)                                            \
                    dst[r * dst_step + i] = src[i * src_step + r];                           \
        }                                                                                    \
    }
STRIP(uint8_t)
STRIP(uint16_t)
STRIP(uint32_t)
STRIP(uint64_t)

static void turn_strip(const move *m, int64_t from, int64_t to, int64_t rows)
{
    const char *src = m->src + (size_t)from * m->elem_bytes;
    char *dst = m->dst + (size_t)to * m->elem_bytes;
    int last = m->n_dims - 1;
    int64_t cols = m->dim[last], src_step = m->from[last], dst_step = m->to[m->fast];

    switch (m->elem_bytes) {
    case 1: strip_uint8_t((void *)dst, (const void *)src, dst_step, src_step, rows, cols); break;
    case 2: strip_uint16_t((void *)dst, (const void *)src, dst_step, src_step, rows, cols); break;
    case 4: strip_uint32_t((void *)dst, (const void *)src, dst_step, src_step, rows, cols); break;
    case 8: strip_uint64_t((void *)dst, (const void *)src, dst_step, src_step, rows, cols); break;
    default: GR_BUG_IF(true);
    }
}

static void run_slice(void *arg, int slice, int n_slices)
{
    const move *m = arg;
    int last = m->n_dims - 1;
    int64_t lo, hi, from, to, n_fast;

    gr_pool_cut(m->n_units, 1, slice, n_slices, &lo, &hi);
    for (int64_t u = lo; u < hi; u++) {
        find_unit(m, u, &from, &to, &n_fast);
        if (m->fast == last)
            memcpy(m->dst + (size_t)to * m->elem_bytes, m->src + (size_t)from * m->elem_bytes,
                   (size_t)m->dim[last] * m->elem_bytes);
        else
            turn_strip(m, from, to, n_fast);
    }
}

static gr_status tiled_run(const gr_launch *l)
{
    size_t n_bytes = gr_value_bytes(&l->node->out[0]);
    int n_slices = n_bytes < SLICE_MIN ? 1 : gr_pool_size(l->pool);
    move m;

    if (n_bytes == 0)
        return GR_OK;
    move_init(&m, l);
    gr_pool_run(l->pool, run_slice, &m, n_slices);
    return GR_OK;
}

const gr_kernel gr_transpose_cpu[] = {
    { .name = "tiled", .run = tiled_run },
    { .name = "reference", .run = gr_transpose_ref_run },
    { .name = NULL },
};
