/*
 * The fast product: packing and loops. The plan is made in matmul_packed_plan.c; tiles come from
 * matmul_avx512.c, matmul_avx2.c, and for bf16 from matmul_avx512_bf16.c.
 *
 * A tile keeps rows x width sums in registers. At each k it loads `width` neighbours of
 * one operand, v, and multiplies them with each of `rows` numbers of the other, s:
 *
 *            v[k][ . . . width . . . ]
 *     s[0][k]  + + + + + + + + + + +        rows x width sums,
 *     s[1][k]  + + + + + + + + + + +        one step of k
 *     s[2][k]  + + + + + + + + + + +
 *
 * (1) s is b's column or a's row as it lies in memory; a tile's worth of it is copied only when
 *     its rows are neighbours (so that k jumps), or a multiple of 4 KiB apart (all of a tile's
 *     fall into the same few lines of L1 then). v is read where it lies when its `width` are
 *     neighbours and few tiles share it; else it is packed into panels [k][width], transposing
 *     on the way if need be.
 * (2) Either operand can be v. With v = b the tile lies in y as it is; with v = aᵀ the
 *     tile is yᵀ and is turned over on its way out.
 * (3) Each element is one chain of multiply-adds in the order of k, whatever the blocks,
 *     the tile and the cuts between threads: so bits do not depend on the thread count.
 * (4) Other types than f32 are widened first, unless the tile takes words of two bf16 numbers,
 *     and the sums are narrowed as soon as their last k is in.
 * (5) An epilogue is applied to rows of y as soon as their last k is in: behind a row of
 *     tiles, or, when y is written turned, behind a block of v, where rows are long.
 */
#include "op/matmul/cpu/matmul_packed.h"

#include <stdatomic.h>
#include <string.h>

#define CONVERT_CUT 4096

typedef struct job {
    const gr_gemm *m;
    const char *a, *b;
    float *y;
    char *work;
    const gr_launch *l;
} job;

/* What one slice works with. */
typedef struct block {
    const gr_gemm *m;
    const char *v, *s;                       /* of this batch entry */
    float *y;                                /* NULL: sums are in y_mem */
    char *narrow_y;                          /* NULL: y is f32 */
    float *v_mem, *s_mem, *turn_mem, *y_mem; /* scratch */
    int64_t v_lo, v_hi, s_lo, s_hi;          /* this slice's part of y */
    int64_t k_lo, k_hi;                      /* this pass */
    int64_t y_at;                            /* element of the output that y points to */
    gr_epilogue_run epilogue;                /* plan NULL: none */
} block;

/* ---- packing ---- */

/* dst[k][width] from columns [i, i + cols) of v; columns that are missing become 0. */
static void pack_panel(const block *b, float *dst, int64_t i, int cols)
{
    const gr_tile_isa *isa = b->m->isa;
    const gr_gemm_side *v = &b->m->v;
    const char *from = b->v + (i * v->step_i + b->k_lo * v->step_k) * b->m->elem;
    const float *src = (const float *)from;
    int64_t n_k = b->k_hi - b->k_lo, width = isa->width;

    if (isa->word > 1) {
        isa->pack_pairs(dst, (const uint16_t *)from, v->step_i, v->step_k, cols, n_k);
        return;
    }
    if (v->step_i == 1 && cols == width) {
        isa->pack_panel(dst, src, v->step_k, n_k);
        return;
    }
    if (cols < width)
        memset(dst, 0, (size_t)(n_k * width) * sizeof(float));
    if (v->step_i == 1) {
        for (int64_t k = 0; k < n_k; k++)
            memcpy(dst + k * width, src + k * v->step_k, (size_t)cols * sizeof(float));
        return;
    }
    for (int64_t k = 0; k < n_k; k += 16)
        for (int c = 0; c < cols; c += 16)
            isa->transpose(src + c * v->step_i + k, v->step_i, dst + k * width + c, width,
                           cols - c < 16 ? cols - c : 16, (int)gr_min64(16, n_k - k));
}

static void pack_block(const block *b, int64_t lo, int64_t hi)
{
    int64_t words = gr_gemm_words(b->m, b->k_hi - b->k_lo), width = b->m->isa->width;

    for (int64_t i = lo; i < hi; i += width)
        pack_panel(b, b->v_mem + (i - lo) * words, i, (int)gr_min64(width, hi - i));
}

/* A tile's rows of s to where they do not meet in L1, and end with a whole word. */
static void copy_rows(const block *b, gr_tile *t, const char *src)
{
    const gr_gemm *m = b->m;
    const int64_t n_k = b->k_hi - b->k_lo, stride = (t->k + GR_GEMM_TURN) * m->isa->word;
    char *dst = (char *)b->s_mem;

    for (int r = 0; r < t->rows; r++, dst += stride * m->elem) {
        memcpy(dst, src + r * m->s.step_i * m->elem, (size_t)(n_k * m->elem));
        memset(dst + n_k * m->elem, 0, (size_t)((t->k * m->isa->word - n_k) * m->elem));
    }
    t->s_stride = stride;
}

/* The rows [j, j + rows) of s, as the tile takes them: where they lie, or copied. */
static void set_rows(const block *b, gr_tile *t, int64_t j, int rows)
{
    const gr_gemm *m = b->m;
    const int64_t n_k = b->k_hi - b->k_lo;
    const char *src = b->s + (j * m->s.step_i + b->k_lo * m->s.step_k) * m->elem;

    t->rows = rows;
    t->s_stride = m->s.step_i;
    t->s_packed = m->s.step_k != 1;
    t->s = b->s_mem;
    if (t->s_packed)
        m->isa->pack_rows(b->s_mem, src, m->s.step_k, n_k, rows);
    else if (m->aside || t->k * m->isa->word != n_k)
        copy_rows(b, t, src);
    else
        t->s = src;
}

/* ---- loops ---- */

/* Rows [i, i_end) and columns [j, j_end) of y, if this was the last pass: the epilogue, or to
 * y's type. */
static void end_rows(const block *b, int64_t i, int64_t i_end, int64_t j, int64_t j_end)
{
    const gr_gemm *m = b->m;
    int64_t ld = m->d.n, acc_step = m->in_slice ? m->v_block : ld;
    const float *acc = m->in_slice ? b->y_mem : b->y + i * ld + j;

    if (b->k_hi < m->d.k)
        return;
    if (b->epilogue.plan) {
        gr_epilogue_rows(&b->epilogue, &(gr_epilogue_rows_args){ .acc = acc,
                                                                 .acc_step = acc_step,
                                                                 .at = b->y_at + i * ld + j,
                                                                 .step = ld,
                                                                 .rows = i_end - i,
                                                                 .cols = j_end - j });
        return;
    }
    for (; b->narrow_y && i < i_end; i++, acc += acc_step)
        m->isa->narrow(b->narrow_y + (size_t)(i * ld + j) * gr_dtype_bytes(m->type_y), acc,
                       m->type_y, j_end - j);
}

/* The tile at v's i, of the columns from lo on, and s's j, out to y. */
static void run_tile(const block *b, gr_tile *t, int64_t i, int64_t j, int64_t lo)
{
    const gr_gemm *m = b->m;
    const gr_tile_isa *isa = m->isa;
    int64_t ld = m->d.n;

    t->add = b->k_lo > 0;
    t->out = m->in_slice ? b->y_mem + (i - lo) : b->y + j * ld + i;
    t->out_stride = m->in_slice ? m->v_block : ld;
    if (!m->turned) {
        isa->tile(t);
        return;
    }
    t->out = b->turn_mem;
    t->out_stride = isa->width;
    for (int c = 0; t->add && c < t->cols; c += 16)
        isa->transpose(b->y + (i + c) * ld + j, ld, b->turn_mem + c, isa->width,
                       t->cols - c < 16 ? t->cols - c : 16, t->rows);
    isa->tile(t);
    for (int c = 0; c < t->cols; c += 16)
        isa->transpose(b->turn_mem + c, isa->width, b->y + (i + c) * ld + j, ld, t->rows,
                       t->cols - c < 16 ? t->cols - c : 16);
}

/* All tiles of s's rows [j, j + rows) over v's columns [lo, hi). */
static void run_row(const block *b, int64_t j, int rows, int64_t lo, int64_t hi)
{
    const gr_gemm *m = b->m;
    int64_t width = m->isa->width;
    gr_tile t = { .k = gr_gemm_words(m, b->k_hi - b->k_lo) };

    set_rows(b, &t, j, rows);
    for (int64_t i = lo; i < hi; i += width) {
        t.cols = (int)gr_min64(width, hi - i);
        t.v = b->v_mem + (i - lo) * t.k;
        t.v_step = width;
        if (m->direct && t.cols == width) {
            t.v = (const float *)b->v + i + b->k_lo * m->v.step_k;
            t.v_step = m->v.step_k;
        } else if (m->direct) {
            t.v = b->v_mem;
        }
        run_tile(b, &t, i, j, lo);
    }
}

/* Rows are dealt out evenly, so that no tile is left with one or two. */
static void run_rows(const block *b, int64_t lo, int64_t hi)
{
    int64_t n_s = b->s_hi - b->s_lo, n_tiles = gr_div_up(n_s, b->m->isa->rows);

    for (int64_t t = 0; t < n_tiles; t++) {
        int64_t first = b->s_lo + n_s * t / n_tiles, end = b->s_lo + n_s * (t + 1) / n_tiles;

        run_row(b, first, (int)(end - first), lo, hi);
        if (!b->m->turned)
            end_rows(b, first, end, lo, hi);
    }
    if (b->m->turned)
        end_rows(b, lo, hi, b->s_lo, b->s_hi);
}

static void run_pass(const block *b)
{
    const gr_gemm *m = b->m;
    int64_t width = m->isa->width;

    if (m->direct) {
        int64_t full = b->v_lo + (b->v_hi - b->v_lo) / width * width;

        if (full < b->v_hi)
            pack_panel(b, b->v_mem, full, (int)(b->v_hi - full));
        run_rows(b, b->v_lo, b->v_hi);
        return;
    }
    for (int64_t lo = b->v_lo; lo < b->v_hi; lo += m->v_block) {
        int64_t hi = gr_min64(lo + m->v_block, b->v_hi);

        pack_block(b, lo, hi);
        run_rows(b, lo, hi);
    }
}

static void begin_epilogue(gr_epilogue_run *r, const job *j, int slice)
{
    const gr_gemm *m = j->m;
    size_t n_bytes = gr_epilogue_scratch_bytes(m->epilogue);

    if (!m->epilogue)
        return;
    *r = (gr_epilogue_run){ .plan = m->epilogue,
                            .src = j->l->src + gr_epilogue_first(j->l->node),
                            .out = j->l->out[0],
                            .scratch = j->work + m->at_epilogue + (size_t)slice * n_bytes };
    gr_epilogue_begin(r);
}

static void run_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gr_gemm *m = j->m;
    int per_batch = m->cuts_v * m->cuts_s, in_batch = slice % per_batch;
    char *work = j->work + (size_t)slice * m->slice_bytes;
    block b = { .m = m, .v_mem = (float *)work };
    int64_t z, z_end;

    (void)n_slices;
    b.s_mem = (float *)(work + m->at_s);
    b.turn_mem = (float *)(work + m->at_turn);
    b.y_mem = (float *)(work + m->at_sums);
    gr_pool_cut(m->n_v, m->isa->width, in_batch % m->cuts_v, m->cuts_v, &b.v_lo, &b.v_hi);
    gr_pool_cut(m->n_s, m->isa->rows, in_batch / m->cuts_v, m->cuts_s, &b.s_lo, &b.s_hi);
    gr_pool_cut(m->d.batch, 1, slice / per_batch, m->cuts_batch, &z, &z_end);
    begin_epilogue(&b.epilogue, j, slice);
    for (; z < z_end; z++) {
        const char *a = j->a + z * m->d.stride_a * m->elem;
        const char *bb = j->b + z * m->d.stride_b * m->elem;

        b.v = m->turned ? a : bb;
        b.s = m->turned ? bb : a;
        b.y_at = z * m->d.stride_out;
        b.y = m->in_slice ? NULL : j->y + b.y_at;
        if (m->type_y != GR_F32)
            b.narrow_y = (char *)j->l->out[0] + (size_t)b.y_at * gr_dtype_bytes(m->type_y);
        for (b.k_lo = 0; b.k_lo < m->d.k; b.k_lo = b.k_hi) {
            b.k_hi = gr_min64(b.k_lo + m->k_block, m->d.k);
            run_pass(&b);
        }
    }
}

/* ---- other types ---- */

typedef struct conversion {
    const gr_tile_isa *isa;
    float *dst;
    const void *src;
    gr_dtype type;
    int64_t n;
    atomic_bool unfit;
} conversion;

static void widen_slice(void *arg, int slice, int n_slices)
{
    const conversion *c = arg;
    int64_t lo, hi;

    gr_pool_cut(c->n, CONVERT_CUT, slice, n_slices, &lo, &hi);
    c->isa->widen(c->dst + lo, (const char *)c->src + (size_t)lo * gr_dtype_bytes(c->type), c->type,
                  hi - lo);
}

static const char *widened(const gr_launch *l, const gr_gemm *m, const void *src, gr_dtype t,
                           char *dst, int64_t n)
{
    conversion c = { .isa = m->isa, .dst = (float *)dst, .src = src, .type = t, .n = n };

    if (t == GR_F32 || m->isa->word > 1)
        return src;
    gr_pool_run(l->pool, widen_slice, &c, gr_pool_size(l->pool));
    return dst;
}

static void check_slice(void *arg, int slice, int n_slices)
{
    conversion *c = arg;
    int64_t lo, hi;

    gr_pool_cut(c->n, CONVERT_CUT, slice, n_slices, &lo, &hi);
    if (!c->isa->fits((const uint16_t *)c->src + lo, hi - lo))
        atomic_store_explicit(&c->unfit, true, memory_order_relaxed);
}

static bool all_fit(const gr_launch *l, const gr_gemm *m, const void *src, int64_t n)
{
    conversion c = { .isa = m->isa, .src = src, .n = n };

    if (!m->isa->fits)
        return true;
    gr_pool_run(l->pool, check_slice, &c, gr_pool_size(l->pool));
    return !atomic_load_explicit(&c.unfit, memory_order_relaxed);
}

gr_status gr_matmul_packed_run(const gr_launch *l)
{
    const gr_gemm *m = l->data;
    const gr_matmul_dims *d = &m->d;
    const int64_t n_a = d->batch * d->m * d->k, n_b = d->batch * d->k * d->n;
    char *work = l->work;
    job j = { .m = m, .work = work, .y = l->out[0], .l = l };

    if (d->k == 0 || d->batch * d->m * d->n == 0) { /* a sum of nothing */
        memset(l->out[0], 0, gr_value_bytes(&l->node->out[0]));
        return GR_OK;
    }
    if (!all_fit(l, m, l->src[0], n_a) || !all_fit(l, m, l->src[1], n_b)) {
        gr_launch again = *l;

        again.data = m->other;
        return gr_matmul_packed_run(&again);
    }
    j.a = widened(l, m, l->src[0], m->type_a, work + m->at_a, n_a);
    j.b = widened(l, m, l->src[1], m->type_b, work + m->at_b, n_b);
    if (m->type_y != GR_F32)
        j.y = (float *)(work + m->at_y);
    gr_pool_run(l->pool, run_slice, &j, m->cuts_batch * m->cuts_v * m->cuts_s);
    return GR_OK;
}
