/*
 * The fast product: plan and loops. Tiles come from matmul_avx512.c, matmul_avx2.c, and for
 * bf16 from matmul_avx512_bf16.c.
 *
 * A tile keeps rows x width sums in registers. At each k it loads `width` neighbours of
 * one operand, v, and multiplies them with each of `rows` numbers of the other, s:
 *
 *            v[k][ . . . width . . . ]
 *     s[0][k]  + + + + + + + + + + +        rows x width sums,
 *     s[1][k]  + + + + + + + + + + +        one step of k
 *     s[2][k]  + + + + + + + + + + +
 *
 * (1) s is b's column or a's row as it lies in memory; only when its rows are neighbours
 *     (so that k jumps) a tile's worth of it is copied; also when rows are a multiple of 4 KiB
 *     apart, for then all of a tile's fall into the same few lines of L1. v is read where it lies
 * when its `width` are neighbours and few tiles share it; else it is packed into panels [k][width],
 * transposing on the way if need be. (2) Either operand can be v. With v = b the tile lies in y as
 * it is; with v = aᵀ the tile is yᵀ and is turned over on its way out. The choice weighs the lanes
 * that are wasted, what must be packed and what must be turned: a layer's forward pass packs its
 * 128 samples instead of its 512 rows of weights. (3) Each element is one chain of multiply-adds in
 * the order of k, whatever the blocks, the tile and the cuts between threads: so bits do not depend
 * on the thread count. (4) Sizes: s's tile lives in L1, v's block in L2 (V_BYTES).
 *
 * Other types than f32 are widened first, unless the tile takes words of two bf16 numbers, and
 * the sums are narrowed as soon as their last k is in.
 *
 * (5) An epilogue is applied to rows of y as soon as their last k is in: behind a row of
 *     tiles, or, when y is written turned, behind a block of v, where rows are long.
 */
#include "base/alloc.h"
#include "base/size.h"
#include "op/count.h"
#include "op/epilogue.h"
#include "op/matmul/matmul_kernels.h"

#include <stdatomic.h>
#include <string.h>

#define K_MAX        512                /* longest run of k in one block, in words */
#define K_MAX_TURNED 1024               /* the same when turning makes another pass over y dear */
#define V_BYTES      ((int64_t)1 << 20) /* of packed v: half of a 2 MiB L2 */
#define ALIAS        4096               /* bytes between lines that fall together in L1 */
#define DIRECT_MAX   48                 /* tiles that may read v where it lies */
#define TURN_COLS    16                 /* rows of scratch for a turned tile; none has more */
#define CONVERT_CUT  4096

/* An operand as matrix [i][k] with element steps. */
typedef struct matrix {
    int64_t step_i, step_k;
} matrix;

typedef struct gemm {
    const gr_tile_isa *isa;
    gr_matmul_dims d;
    int64_t elem; /* bytes of an operand's number, as it is read */
    matrix v, s;
    int64_t n_v, n_s; /* length of v and s along their own side of y */
    bool turned;      /* v is a: y is written transposed */
    bool direct;      /* v is read where it lies */
    bool aside;       /* a tile's rows of s are copied, though k are neighbours */
    bool in_slice;    /* sums of a narrow y: a row of tiles at a time, in the slice's workspace */
    int64_t k_block;  /* run of k per pass */
    int64_t v_block;  /* multiple of the width: packed at a time */
    int cuts_batch, cuts_v, cuts_s;
    size_t at_s, at_turn, at_sums; /* in the workspace of a slice, which begins with v */
    size_t slice_bytes;
    size_t at_a, at_b, at_y; /* widened operands and result in the workspace */
    size_t n_bytes;
    gr_dtype type_a, type_b, type_y;
    gr_epilogue_plan *epilogue; /* owned; NULL: none */
    size_t at_epilogue;         /* its scratch in the workspace, one for each slice */
    void *other;                /* prepared for the tile that takes over when numbers do not fit */
} gemm;

typedef struct job {
    const gemm *m;
    const char *a, *b;
    float *y;
    char *work;
    const gr_launch *l;
} job;

/* What one slice works with. */
typedef struct block {
    const gemm *m;
    const char *v, *s;                       /* of this batch entry */
    float *y;                                /* NULL: sums are in y_mem */
    char *narrow_y;                          /* NULL: y is f32 */
    float *v_mem, *s_mem, *turn_mem, *y_mem; /* scratch */
    int64_t v_lo, v_hi, s_lo, s_hi;          /* this slice's part of y */
    int64_t k_lo, k_hi;                      /* this pass */
    int64_t y_at;                            /* element of the output that y points to */
    gr_epilogue_run epilogue;                /* plan NULL: none */
} block;

/* ---- plan ---- */

/* The run of k per pass, all of them about equal. */
static int64_t k_block(int64_t k, bool turned, const gr_tile_isa *isa)
{
    int64_t n_passes = gr_div_up(k, (int64_t)(turned ? K_MAX_TURNED : K_MAX) * isa->word);

    return n_passes > 1 ? (int64_t)gr_round_up((size_t)gr_div_up(k, n_passes), 16) : k;
}

/* v may be read where it lies when its neighbours are neighbours in memory, few tiles
 * share them, a pass stays within L2 and the reach of the TLB, and successive k do not
 * fall into the same few lines of L1. */
static bool may_be_direct(const gr_matmul_dims *d, bool turned, const matrix *v,
                          const gr_tile_isa *isa)
{
    int64_t n_s = turned ? d->n : d->m;
    int64_t n_bytes = k_block(d->k, turned, isa) * v->step_k * (int64_t)sizeof(float);

    if (v->step_i != 1 || isa->word > 1)
        return false;
    if (n_s <= isa->rows)
        return true;
    return n_s <= (int64_t)DIRECT_MAX * isa->rows && n_bytes <= V_BYTES &&
           v->step_k * (int64_t)sizeof(float) % ALIAS != 0;
}

/* Cycles, roughly: one per tile row and k, and what packing and turning cost. Measured:
 * about half a cycle for an element that is packed, 0.6 for one that is turned. */
static double cost(const gr_matmul_dims *d, bool turned, const matrix *v, const gr_tile_isa *isa)
{
    int64_t n_v = turned ? d->m : d->n, n_s = turned ? d->n : d->m;
    double words = (double)gr_div_up(d->k, isa->word);
    double c = (double)gr_div_up(n_v, isa->width) * (double)n_s * words;

    if (!may_be_direct(d, turned, v, isa))
        c += 0.5 * (double)n_v * words;
    if (turned)
        c += 0.6 * (double)d->m * (double)d->n;
    return c;
}

static void choose_sides(gemm *m, const gr_matmul_attr *at)
{
    const gr_matmul_dims *d = &m->d;
    matrix a = { at->trans_a ? 1 : d->k, at->trans_a ? d->m : 1 };
    matrix b = { at->trans_b ? d->k : 1, at->trans_b ? 1 : d->n };

    m->turned = cost(d, true, &a, m->isa) < cost(d, false, &b, m->isa);
    m->v = m->turned ? a : b;
    m->s = m->turned ? b : a;
    m->n_v = m->turned ? d->m : d->n;
    m->n_s = m->turned ? d->n : d->m;
    m->direct = may_be_direct(d, m->turned, &m->v, m->isa);
    m->aside = m->s.step_k == 1 && m->s.step_i * m->elem % ALIAS == 0 && m->n_v > m->isa->width;
}

/* Batch entries first, then panels of v (nothing is packed twice), then rows of s. */
static void choose_cuts(gemm *m, int n_threads)
{
    int64_t panels = gr_div_up(m->n_v, m->isa->width), tiles = gr_div_up(m->n_s, m->isa->rows);
    int64_t left = n_threads;

    m->cuts_batch = (int)gr_min64(left, m->d.batch > 0 ? m->d.batch : 1);
    left /= m->cuts_batch;
    m->cuts_v = (int)gr_min64(left, panels > 0 ? panels : 1);
    left /= m->cuts_v;
    m->cuts_s = (int)gr_min64(left, tiles > 0 ? tiles : 1);
}

static int64_t words_of(const gemm *m, int64_t n_k)
{
    return gr_div_up(n_k, m->isa->word);
}

static void choose_blocks(gemm *m)
{
    int64_t width = m->isa->width;
    int64_t most = gr_div_up(gr_div_up(m->n_v, width), m->cuts_v) * width;

    m->k_block = k_block(m->d.k, m->turned, m->isa);
    m->v_block = width; /* direct: for a last panel that is not full */
    if (!m->direct && m->k_block > 0) {
        int64_t fits = V_BYTES / (words_of(m, m->k_block) * (int64_t)sizeof(float)) / width;

        m->v_block = gr_min64(most, (fits > 0 ? fits : 1) * width);
    }
    m->in_slice = m->type_y != GR_F32 && !m->turned && !m->direct && m->k_block == m->d.k;
}

static size_t scratch_bytes(int64_t n_floats)
{
    return gr_round_up((size_t)n_floats * sizeof(float), 64);
}

static void lay_out(gemm *m)
{
    const gr_matmul_dims *d = &m->d;
    const int64_t rows = m->isa->rows, words = words_of(m, m->k_block);
    const bool widens = m->isa->word == 1;
    size_t at;

    m->at_s = scratch_bytes(m->v_block * words);
    m->at_turn = m->at_s + scratch_bytes(rows * (words + TURN_COLS));
    m->at_sums = m->at_turn + scratch_bytes((int64_t)TURN_COLS * m->isa->width);
    m->slice_bytes = m->at_sums + scratch_bytes(m->in_slice ? rows * m->v_block : 0);
    at = m->slice_bytes * (size_t)(m->cuts_batch * m->cuts_v * m->cuts_s);
    m->at_a = at;
    if (m->type_a != GR_F32 && widens)
        at += scratch_bytes(d->batch * d->m * d->k);
    m->at_b = at;
    if (m->type_b != GR_F32 && widens)
        at += scratch_bytes(d->batch * d->k * d->n);
    m->at_y = at;
    if (m->type_y != GR_F32 && !m->in_slice)
        at += scratch_bytes(d->batch * d->m * d->n);
    m->at_epilogue = at;
    at += gr_epilogue_scratch_bytes(m->epilogue) * (size_t)(m->cuts_batch * m->cuts_v * m->cuts_s);
    m->n_bytes = at;
}

static gr_status plan_epilogue(gemm *m, const gr_node *n)
{
    const gr_matmul_attr *at = n->attr;
    bool is_512 = m->isa != &gr_matmul_tile_avx2;

    if (!at->epilogue)
        return GR_OK;
    return gr_epilogue_plan_create(&m->epilogue, n, GR_MATMUL_N_SRC, at->epilogue,
                                   is_512 ? &gr_map_avx512 : &gr_map_avx2);
}

/* For numbers that do not fit. */
static gr_status plan_other(gemm *m, const gr_prepare *p)
{
    gr_prepare other = *p;

    if (!m->isa->fits)
        return GR_OK;
    GR_TRY(gr_matmul_packed_prepare(&other, &gr_matmul_tile_avx512));
    m->other = other.data;
    return GR_OK;
}

gr_status gr_matmul_packed_prepare(gr_prepare *p, const gr_tile_isa *isa)
{
    const gr_node *n = p->node;
    gemm *m = gr_calloc(1, sizeof(*m));

    if (!m)
        return GR_ERR_NOMEM;
    m->isa = isa;
    m->elem = isa->word > 1 ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float);
    m->type_a = n->src[0]->dtype;
    m->type_b = n->src[1]->dtype;
    m->type_y = n->out[0].dtype;
    gr_matmul_get_dims(n, &m->d);
    choose_sides(m, n->attr);
    choose_cuts(m, p->n_threads);
    choose_blocks(m);
    if (plan_epilogue(m, n) != GR_OK || plan_other(m, p) != GR_OK) {
        gr_matmul_packed_release(m);
        return GR_ERR_NOMEM;
    }
    lay_out(m);
    p->data = m;
    return GR_OK;
}

void gr_matmul_packed_release(void *data)
{
    gemm *m = data;

    if (m) {
        gr_matmul_packed_release(m->other);
        gr_free(m->epilogue);
    }
    gr_free(m);
}

size_t gr_matmul_packed_workspace(const gr_node *n, const void *data)
{
    const gemm *m = data;
    size_t others = m->other ? gr_matmul_packed_workspace(n, m->other) : 0;

    return m->n_bytes > others ? m->n_bytes : others;
}

/* ---- packing ---- */

/* dst[k][width] from columns [i, i + cols) of v; columns that are missing become 0. */
static void pack_panel(const block *b, float *dst, int64_t i, int cols)
{
    const gr_tile_isa *isa = b->m->isa;
    const matrix *v = &b->m->v;
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
    int64_t words = words_of(b->m, b->k_hi - b->k_lo), width = b->m->isa->width;

    for (int64_t i = lo; i < hi; i += width)
        pack_panel(b, b->v_mem + (i - lo) * words, i, (int)gr_min64(width, hi - i));
}

/* A tile's rows of s to where they do not meet in L1, and end with a whole word. */
static void copy_rows(const block *b, gr_tile *t, const char *src)
{
    const gemm *m = b->m;
    const int64_t n_k = b->k_hi - b->k_lo, stride = (t->k + TURN_COLS) * m->isa->word;
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
    const gemm *m = b->m;
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
    const gemm *m = b->m;
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
    const gemm *m = b->m;
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
    const gemm *m = b->m;
    int64_t width = m->isa->width;
    gr_tile t = { .k = words_of(m, b->k_hi - b->k_lo) };

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
    const gemm *m = b->m;
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
    const gemm *m = j->m;
    size_t n_bytes = gr_epilogue_scratch_bytes(m->epilogue);

    if (!m->epilogue)
        return;
    *r = (gr_epilogue_run){ .plan = m->epilogue,
                            .src = j->l->src + GR_MATMUL_N_SRC,
                            .out = j->l->out[0],
                            .scratch = j->work + m->at_epilogue + (size_t)slice * n_bytes };
    gr_epilogue_begin(r);
}

static void run_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gemm *m = j->m;
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

static const char *widened(const gr_launch *l, const gemm *m, const void *src, gr_dtype t,
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

static bool all_fit(const gr_launch *l, const gemm *m, const void *src, int64_t n)
{
    conversion c = { .isa = m->isa, .src = src, .n = n };

    if (!m->isa->fits)
        return true;
    gr_pool_run(l->pool, check_slice, &c, gr_pool_size(l->pool));
    return !atomic_load_explicit(&c.unfit, memory_order_relaxed);
}

gr_status gr_matmul_packed_run(const gr_launch *l)
{
    const gemm *m = l->data;
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
