/*
 * The fast kernels of attention: the backward loops.
 *
 *     for each key head, for each query head of its group
 *       for each chunk of panels             q, do packed both ways; dq begins
 *         for each block of keys             k, v packed
 *           for each group of panels
 *             for each panel
 *               s[key][query] = k · q,  dp[key][query] = v · do     products
 *               p, ds                                               soft->backward
 *               dq[d][query] += k' · ds                             product
 *             dv[key][d] += p · do,  dk[key][d] += ds · q           products over the group
 *         dq is written
 *     dk, dv are written
 *
 * (1) dk and dv of a key are added up over query heads and queries in ascending order, dq over
 *     blocks in ascending order, whatever the threads do: same bits for any number of them.
 * (2) With fewer key heads than threads can share, dk and dv are computed in one pass, cut by
 *     blocks, and dq in another, cut by panels; the scores are then computed twice.
 * (3) Nothing of size queries x keys exists; sums of dk and dv are as large as k and v.
 */
#include "base/deal.h"
#include "op/attention/cpu/attention_flash.h"
#include "op/count.h"
#include "op/matmul/cpu/matmul_amx.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

typedef struct job {
    const gr_flash *f;
    const gr_launch *l;
    bool want_kv, want_q;
    atomic_bool unfit; /* set by any slice; read when all are done */
    gr_deal deal;      /* heads, or blocks or panels of heads */
} job;

/* What one slice works with, and what of it is wanted now. */
typedef struct backward {
    gr_flash_place at;
    gr_flash_pair pair;
    char *k, *v, *k_cols;              /* of a block */
    char *q, *d_o, *q_cols, *d_o_cols; /* of a chunk: by panels, by groups */
    float *lse, *delta, *dq;           /* of a chunk: by panels */
    float *dk, *dv;                    /* of the slice's blocks */
    char *p_left, *ds_left, *ds;
    float *ds_plain;            /* NULL: no bias whose gradient is wanted here */
    int64_t block_lo, block_hi; /* of keys */
    bool want_kv, want_q, unfit;
} backward;

#define BLOCK_BYTES ((size_t)(GR_FLASH_KEYS * GR_FLASH_COLS) * sizeof(float))

/* Floats of dk or dv of a block: panels of 32 columns, each [keys][32]. */
static int64_t block_sums(const gr_flash *f)
{
    return GR_FLASH_KEYS * f->d_pad;
}

static void backward_init(backward *w, const gr_flash *f, const gr_launch *l, gr_flash_room *room)
{
    const int64_t blocks =
        f->by_head ? f->n_blocks : gr_div_up(f->d.b * f->d.hkv * f->n_blocks, f->n_slices);
    const size_t n_sums = (size_t)(gr_min64(blocks, f->n_blocks) * block_sums(f));
    const size_t groups = (size_t)(f->chunk / GR_FLASH_GROUP), panels = (size_t)f->chunk;

    *w = (backward){ 0 };
    gr_flash_place_init(&w->at, f, l, room);
    w->k = gr_flash_take(room, f->z.left_rows);
    w->v = gr_flash_take(room, f->z.left_rows);
    w->k_cols = gr_flash_take(room, f->z.left_cols);
    w->q = gr_flash_take(room, panels * f->z.right_rows);
    w->d_o = gr_flash_take(room, panels * f->z.right_rows);
    w->q_cols = gr_flash_take(room, groups * f->z.right_cols);
    w->d_o_cols = gr_flash_take(room, groups * f->z.right_cols);
    w->lse = gr_flash_take(room, panels * GR_FLASH_COLS * sizeof(float));
    w->delta = gr_flash_take(room, panels * GR_FLASH_COLS * sizeof(float));
    w->dq = gr_flash_take(room, panels * (size_t)(f->d_pad * GR_FLASH_COLS) * sizeof(float));
    w->dk = gr_flash_take(room, n_sums * sizeof(float));
    w->dv = gr_flash_take(room, n_sums * sizeof(float));
    w->p_left = gr_flash_take(room, f->z.p_left);
    w->ds_left = gr_flash_take(room, f->z.p_left);
    w->ds = gr_flash_take(room, f->z.p > 0 ? f->z.p : BLOCK_BYTES);
    w->pair.s = gr_flash_take(room, BLOCK_BYTES);
    w->pair.dp = gr_flash_take(room, BLOCK_BYTES);
    if (f->at->bias_grad && gr_flash_bias_is_full(f))
        w->ds_plain = gr_flash_take(room, BLOCK_BYTES);
}

size_t gr_flash_grad_bytes(const gr_flash *f)
{
    gr_flash_room room = { 0 };
    backward w;
    size_t bias = 0;

    backward_init(&w, f, NULL, &room);
    if (f->at->bias_grad && !gr_flash_bias_is_full(f))
        bias = gr_flash_bias_bytes(f);
    return room.used > bias ? room.used : bias;
}

/* ---- a panel and a block ---- */

void gr_flash_rows_stats(const gr_flash_place *p, float *lse, float *delta, int64_t q)
{
    const gr_flash *f = p->f;
    const int64_t n = gr_min64(f->d.nq - q, GR_FLASH_COLS);
    const gr_flash_rows o = gr_flash_rows_of(p, 3, q, n), d_o = gr_flash_rows_of(p, 5, q, n);
    const float *from =
        (const float *)p->l->src[GR_ATTENTION_LSE] + (p->b * f->d.hq + p->h) * f->d.nq + q;

    for (int64_t i = 0; i < GR_FLASH_COLS; i++) {
        lse[i] = i < n && from[i] != -INFINITY ? from[i] * 1.44269504088896341f : INFINITY;
        delta[i] = 0;
    }
    f->soft->dots(delta, &o, &d_o, f->d.d);
}

void gr_flash_backward_of(const gr_flash_place *p, const gr_flash_pair *x, gr_flash_backward *w,
                          int64_t key, int64_t q)
{
    const gr_flash *f = p->f;
    gr_flash_product m = { .left = x->k, .right = x->q, .c = x->s };

    w->in.s = x->s;
    gr_flash_scores_of(p, &w->in, key, q);
    m.left_step = f->z.left_rows_step;
    m.right_step = GR_FLASH_COLS;
    m.lines = w->in.n_keys;
    m.cols = gr_min64(f->d.nq - q, GR_FLASH_COLS);
    m.k = f->d.d;
    f->e->product(f, &m);
    m.left = x->v;
    m.right = x->d_o;
    m.c = x->dp;
    f->e->product(f, &m);
    w->dp = x->dp;
    w->dp_scale = f->scale_out;
    w->lse = x->lse;
    w->delta = x->delta;
    f->soft->backward(w);
}

/* Panel i of the chunk that begins with panel `first`. */
static void run_panel(backward *w, int64_t key, int64_t first, int64_t i)
{
    const gr_flash *f = w->at.f;
    const size_t in_group = (size_t)((i - first) % GR_FLASH_GROUP), at = (size_t)(i - first);
    gr_flash_backward a = { 0 };

    w->pair.q = w->q + at * f->z.right_rows;
    w->pair.d_o = w->d_o + at * f->z.right_rows;
    w->pair.lse = w->lse + at * GR_FLASH_COLS;
    w->pair.delta = w->delta + at * GR_FLASH_COLS;
    a.p = w->want_kv ? w->p_left + in_group * f->z.p_left_panel : NULL;
    a.ds_left = w->want_kv ? w->ds_left + in_group * f->z.p_left_panel : NULL;
    a.ds = w->want_q ? w->ds : NULL;
    a.ds_plain = w->want_q ? w->ds_plain : NULL;
    gr_flash_backward_of(&w->at, &w->pair, &a, key, i * GR_FLASH_COLS);
    if (a.ds_plain)
        gr_flash_bias_put(&w->at, a.ds_plain, key, a.in.n_keys, i * GR_FLASH_COLS);
    if (!w->want_q)
        return;
    f->e->product(f, &(gr_flash_product){ .left = w->k_cols,
                                          .right = w->ds,
                                          .left_step = f->z.left_cols_step,
                                          .right_step = GR_FLASH_COLS,
                                          .lines = f->d.d,
                                          .cols = GR_FLASH_COLS,
                                          .k = a.in.n_keys,
                                          .c = w->dq + at * (size_t)(f->d_pad * GR_FLASH_COLS),
                                          .add = true });
}

/* sums += left · right over a group's queries from its panel lo on; m says left, lines and k. */
static void add_group(const gr_flash *f, gr_flash_product m, const char *right, int64_t lo,
                      float *sums)
{
    m.left = (const char *)m.left + (size_t)lo * f->z.p_left_panel;
    m.left_step = f->z.p_left_step;
    m.right_step = f->z.right_cols_step;
    m.add = true;
    for (int64_t c = 0; c < f->d.d; c += GR_FLASH_COLS) {
        const char *panel = right + (size_t)(c / GR_FLASH_COLS) * f->z.right_cols_panel;

        m.cols = gr_min64(f->d.d - c, GR_FLASH_COLS);
        m.right = panel + (f->e->tiles
                               ? lo * gr_amx_step_bytes(f->is_f32, gr_amx_tiles((int)m.cols))
                               : lo * GR_FLASH_COLS / f->e->tile->word * f->z.right_cols_step * 4);
        m.c = sums + c * GR_FLASH_KEYS;
        f->e->product(f, &m);
    }
}

/* Panels [lo, hi) of the group at `from`, in the chunk at `first`. */
static void run_group(backward *w, int64_t block, int64_t first, int64_t from, int64_t hi)
{
    const gr_flash *f = w->at.f;
    const int64_t key = block * GR_FLASH_KEYS, q_end = gr_min64(hi * GR_FLASH_COLS, f->d.nq);
    const size_t group = (size_t)((from - first) / GR_FLASH_GROUP);
    const int64_t at = (block - w->block_lo) * block_sums(f);
    const int64_t n_keys = gr_min64(f->d.nk - key, GR_FLASH_KEYS);
    gr_flash_product m = { 0 };
    int64_t lo = from;

    if (f->at->causal) /* panels whose last query is before the first key see nothing */
        lo = gr_max64(lo, key / GR_FLASH_COLS);
    for (int64_t i = lo; i < hi; i++)
        run_panel(w, key, first, i);
    if (!w->want_kv || lo >= hi)
        return;
    m.lines = f->e->tiles ? gr_div_up(n_keys, 32) * 32 : n_keys; /* tiles: rows of 0 are there */
    m.k = q_end - lo * GR_FLASH_COLS;
    m.left = w->p_left;
    add_group(f, m, w->d_o_cols + group * f->z.right_cols, lo - from, w->dv + at);
    m.left = w->ds_left;
    add_group(f, m, w->q_cols + group * f->z.right_cols, lo - from, w->dk + at);
}

/* ---- chunks ---- */

static void open_chunk(backward *w, int64_t first, int64_t end)
{
    const gr_flash *f = w->at.f;

    for (int64_t i = first; i < end; i++) {
        const int64_t q = i * GR_FLASH_COLS, n = gr_min64(f->d.nq - q, GR_FLASH_COLS);
        const gr_flash_rows rows = gr_flash_rows_of(&w->at, 0, q, n);
        const gr_flash_rows grads = gr_flash_rows_of(&w->at, 5, q, n);
        const size_t at = (size_t)(i - first);

        f->e->right_rows(f, w->q + at * f->z.right_rows, &rows, w->at.tmp);
        f->e->right_rows(f, w->d_o + at * f->z.right_rows, &grads, w->at.tmp);
        gr_flash_rows_stats(&w->at, w->lse + at * GR_FLASH_COLS, w->delta + at * GR_FLASH_COLS, q);
    }
    for (int64_t i = first; w->want_kv && i < end; i += GR_FLASH_GROUP) {
        const int64_t q = i * GR_FLASH_COLS;
        const int64_t n = gr_min64(f->d.nq - q, GR_FLASH_GROUP * GR_FLASH_COLS);
        const gr_flash_rows rows = gr_flash_rows_of(&w->at, 0, q, n);
        const gr_flash_rows grads = gr_flash_rows_of(&w->at, 5, q, n);
        const size_t at = (size_t)((i - first) / GR_FLASH_GROUP) * f->z.right_cols;

        f->e->right_cols(f, w->q_cols + at, &rows);
        f->e->right_cols(f, w->d_o_cols + at, &grads);
    }
    if (w->want_q)
        memset(w->dq, 0, (size_t)((end - first) * f->d_pad * GR_FLASH_COLS) * sizeof(float));
}

/* A row of floats to an output, in its type. */
static void put_row(const gr_flash *f, const gr_launch *l, int out, int64_t at, const float *row)
{
    const gr_dtype t = l->node->out[out].dtype;
    char *to = (char *)l->out[out] + (size_t)at * gr_dtype_bytes(t);

    if (t == GR_F32)
        memcpy(to, row, (size_t)f->d.d * sizeof(float));
    else
        f->e->tile->narrow(to, row, t, f->d.d);
}

static void fill(float *factor, float x)
{
    for (int64_t i = 0; i < GR_FLASH_COLS; i++)
        factor[i] = x;
}

static void put_dq(backward *w, int64_t first, int64_t end)
{
    const gr_flash *f = w->at.f;
    float factor[GR_FLASH_COLS];

    fill(factor, (float)f->at->scale * f->scale_out);
    for (int64_t i = first; i < end; i++) {
        float *dq = w->dq + (i - first) * f->d_pad * GR_FLASH_COLS;
        const int64_t q = i * GR_FLASH_COLS, n = gr_min64(f->d.nq - q, GR_FLASH_COLS);

        w->unfit = !f->soft->finish(dq, f->d.d, factor) || w->unfit;
        for (int64_t c = 0; c < f->d_pad; c += 16)
            for (int64_t j = 0; j < GR_FLASH_COLS; j += 16)
                f->e->tile->transpose(dq + c * GR_FLASH_COLS + j, GR_FLASH_COLS,
                                      w->at.tmp + j * f->d_pad + c, f->d_pad, 16, 16);
        for (int64_t j = 0; j < n; j++)
            put_row(f, w->at.l, 0, (w->at.b * f->d.nq + q + j) * f->d.row_q + w->at.h * f->d.d,
                    w->at.tmp + j * f->d_pad);
    }
}

static void run_chunk(backward *w, int64_t first, int64_t end)
{
    const gr_flash *f = w->at.f;
    const int64_t q_end = gr_min64(end * GR_FLASH_COLS, f->d.nq);

    open_chunk(w, first, end);
    for (int64_t b = w->block_lo; b < w->block_hi; b++) {
        const int64_t key = b * GR_FLASH_KEYS, n = gr_min64(f->d.nk - key, GR_FLASH_KEYS);
        const gr_flash_rows k = gr_flash_rows_of(&w->at, 1, key, n);
        const gr_flash_rows v = gr_flash_rows_of(&w->at, 2, key, n);

        if (f->at->causal && key >= q_end)
            break;
        f->e->left_rows(f, w->k, &k, w->at.tmp);
        f->e->left_rows(f, w->v, &v, w->at.tmp);
        if (w->want_q)
            f->e->left_cols(f, w->k_cols, &k, w->at.tmp);
        w->pair.k = w->k;
        w->pair.v = w->v;
        for (int64_t i = first; i < end; i += GR_FLASH_GROUP)
            run_group(w, b, first, i, gr_min64(i + GR_FLASH_GROUP, end));
    }
    if (w->want_q)
        put_dq(w, first, end);
}

/* ---- key heads ---- */

static void put_sums(backward *w, int64_t block, float *sums, int source, float scale)
{
    const gr_flash *f = w->at.f;
    const gr_attention_packing packing = f->at->packing;
    const int out_k = packing == GR_ATTENTION_QKV ? 0 : 1;
    const int out = source == 1 || packing != GR_ATTENTION_SEPARATE ? out_k : 2;
    const int64_t step = source == 1 ? f->d.row_k : f->d.row_v;
    const int64_t head =
        (source == 1 ? f->d.at_k : f->d.at_v) + w->at.h / (f->d.hq / f->d.hkv) * f->d.d;
    const int64_t key = block * GR_FLASH_KEYS, n = gr_min64(f->d.nk - key, GR_FLASH_KEYS);
    float factor[GR_FLASH_COLS];

    fill(factor, scale * f->scale_out);
    for (int64_t c = 0; c < f->d.d; c += GR_FLASH_COLS)
        w->unfit = !f->soft->finish(sums + c * GR_FLASH_KEYS, n, factor) || w->unfit;
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < f->d.d; c += GR_FLASH_COLS)
            memcpy(w->at.tmp + c, sums + c * GR_FLASH_KEYS + r * GR_FLASH_COLS,
                   GR_FLASH_COLS * sizeof(float));
        put_row(f, w->at.l, out, (w->at.b * f->d.nk + key + r) * step + head, w->at.tmp);
    }
}

/* Blocks [block_lo, block_hi) of a key head against the panels [first, end) of its queries. */
static void run_head(backward *w, int64_t head, int64_t first, int64_t end)
{
    const gr_flash *f = w->at.f;
    const int64_t group = f->d.hq / f->d.hkv, b = head / f->d.hkv, h = head % f->d.hkv * group;
    const size_t n_bytes = (size_t)((w->block_hi - w->block_lo) * block_sums(f)) * sizeof(float);

    if (w->want_kv && n_bytes > 0) {
        memset(w->dk, 0, n_bytes);
        memset(w->dv, 0, n_bytes);
    }
    for (int64_t i = 0; i < group; i++) {
        gr_flash_place_at(&w->at, b, h + i);
        for (int64_t c = first; c < end; c += f->chunk)
            run_chunk(w, c, gr_min64(c + f->chunk, end));
    }
    gr_flash_place_at(&w->at, b, h);
    for (int64_t i = w->block_lo; w->want_kv && i < w->block_hi; i++) {
        const int64_t at = (i - w->block_lo) * block_sums(f);

        put_sums(w, i, w->dk + at, 1, (float)f->at->scale);
        put_sums(w, i, w->dv + at, 2, 1);
    }
}

/* Items [at, end) of n per head, as parts of heads: blocks in the pass of dk and dv, panels in
 * that of dq. */
static void run_parts(backward *w, int64_t n, int64_t at, int64_t end)
{
    const gr_flash *f = w->at.f;

    while (at < end) {
        const int64_t head = at / n, lo = at % n, hi = gr_min64(n, lo + end - at);

        w->block_lo = w->want_q ? 0 : lo;
        w->block_hi = w->want_q ? f->n_blocks : hi;
        run_head(w, head, w->want_q ? lo : 0, w->want_q ? hi : f->n_panels);
        at += hi - lo;
    }
}

static void run_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    const gr_flash *f = j->f;
    const int64_t n = j->want_kv ? f->n_blocks : f->n_panels;
    gr_flash_room room = { .base = (char *)j->l->work + (size_t)slice * f->slice_bytes };
    backward w;
    int64_t at, end;

    (void)n_slices;
    backward_init(&w, f, j->l, &room);
    w.want_kv = j->want_kv;
    w.want_q = j->want_q;
    /* columns of queries that do not exist are never written, but read */
    memset(w.pair.s, 0, BLOCK_BYTES);
    memset(w.pair.dp, 0, BLOCK_BYTES);
    f->e->begin();
    w.block_hi = f->n_blocks;
    while (gr_deal_take(&j->deal, slice, &at, &end)) {
        if (!f->by_head)
            run_parts(&w, n, at, end);
        for (; f->by_head && at < end; at++)
            run_head(&w, at, 0, f->n_panels);
    }
    f->e->end();
    if (w.unfit)
        atomic_store_explicit(&j->unfit, true, memory_order_relaxed);
}

static void run_pass(job *j)
{
    const gr_flash *f = j->f;
    const int64_t n_heads = f->d.b * f->d.hkv, n = j->want_kv ? f->n_blocks : f->n_panels;

    if (f->by_head)
        gr_deal_open(&j->deal, n_heads, 1, f->n_slices);
    else
        gr_deal_open(&j->deal, n_heads * n, gr_flash_grain(f, n_heads, n), f->n_slices);
    gr_pool_run(j->l->pool, run_slice, j, f->n_slices);
}

gr_status gr_flash_grad_run(const gr_launch *l)
{
    const gr_flash *f = l->data;
    job j = { .f = f, .l = l, .want_kv = true, .want_q = f->by_head };

    if (f->at->bias_grad && f->d.b * f->d.hq > 0) {
        memset(l->out[3], 0, gr_value_bytes(&l->node->out[3])); /* what no query sees */
        if (!gr_flash_bias_is_full(f))
            gr_flash_bias_run(f, l);
    }
    run_pass(&j);
    if (!f->by_head) {
        j.want_kv = false;
        j.want_q = true;
        run_pass(&j);
    }
    if (f->other && atomic_load_explicit(&j.unfit, memory_order_relaxed)) {
        gr_launch again = *l;

        again.data = f->other;
        return gr_flash_grad_run(&again);
    }
    return GR_OK;
}
