/*
 * The fast kernels of attention: the forward loops.
 *
 *     for each chunk of panels            q packed; top, sum and acc of each query begin
 *       for each block of keys            k and v packed
 *         for each panel of the chunk
 *           s[key][query]  = k · q                                   product
 *           p = 2^(s - top), sum += p, acc shrinks when top rises    soft->forward
 *           acc[d][query] += v' · p                                  product
 *       o = acc / sum, lse = top + log sum
 *
 * (1) Only a block of scores exists at a time, and it stays in L1.
 * (2) Blocks and panels begin at multiples that depend on nothing, so a query's numbers do not
 *     depend on the number of threads.
 * (3) Causal: blocks behind a panel's last query are left out.
 */
#include "op/attention/cpu/attention_flash.h"
#include "base/deal.h"
#include "base/half.h"
#include "op/count.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* ---- what both directions use ---- */

void gr_flash_place_init(gr_flash_place *p, const gr_flash *f, const gr_launch *l,
                         gr_flash_room *room)
{
    const size_t block = (size_t)(GR_FLASH_KEYS * GR_FLASH_COLS) * sizeof(float);

    *p = (gr_flash_place){ .f = f, .l = l };
    p->tmp = gr_flash_take(room, (size_t)(GR_FLASH_KEYS * f->d_pad) * sizeof(float));
    if (f->d.bias >= 0)
        p->bias = gr_flash_take(room, block);
    if (f->at->dropout > 0)
        p->keep = gr_flash_take(room, block);
    if (l)
        p->drop = gr_attention_drop_of(l);
}

void gr_flash_place_at(gr_flash_place *p, int64_t b, int64_t h)
{
    p->b = b;
    p->h = h;
    if (p->keep)
        p->stream = gr_attention_stream_of(&p->drop, b, h);
}

gr_flash_rows gr_flash_rows_of(const gr_flash_place *p, int s, int64_t from, int64_t n)
{
    const gr_attention_dims *d = &p->f->d;
    const int64_t kv = p->h / (d->hq / d->hkv) * d->d;
    const gr_dtype t = p->l->node->src[s]->dtype;
    int64_t at, step;

    if (s == 1 || s == 2) {
        step = s == 1 ? d->row_k : d->row_v;
        at = (p->b * d->nk + from) * step + (s == 1 ? d->at_k : d->at_v) + kv;
    } else {
        step = s == 0 ? d->row_q : d->hq * d->d;
        at = (p->b * d->nq + from) * step + p->h * d->d;
    }
    return (gr_flash_rows){ (const char *)p->l->src[s] + (size_t)at * gr_dtype_bytes(t), t, step,
                            n };
}

/* One element: steps are 0 where the bias is stretched, so this serves every shape. */
static float bias_at(const gr_flash_place *p, int64_t q, int64_t key)
{
    const int64_t *step = p->f->d.bias_step;
    const int64_t at = p->b * step[0] + p->h * step[1] + q * step[2] + key * step[3];
    const void *mem = p->l->src[p->f->d.bias];
    const gr_dtype t = p->l->node->src[p->f->d.bias]->dtype;

    if (t == GR_F32)
        return ((const float *)mem)[at];
    return t == GR_BF16 ? gr_bf16_to_f32(((const uint16_t *)mem)[at])
                        : gr_f16_to_f32(((const uint16_t *)mem)[at]);
}

/* 16 queries of up to 16 keys of a full matrix, turned. */
static void turn_bias(const gr_flash_place *p, float *dst, int64_t key, int64_t q, int n_keys,
                      int n_q)
{
    const int64_t *step = p->f->d.bias_step;
    const gr_value *v = p->l->node->src[p->f->d.bias];
    const int64_t at = p->b * step[0] + p->h * step[1] + q * step[2] + key;
    const char *src = (const char *)p->l->src[p->f->d.bias] + (size_t)at * gr_dtype_bytes(v->dtype);
    float wide[16 * 16];

    if (v->dtype == GR_F32) {
        p->f->e->tile->transpose((const float *)(const void *)src, step[2], dst, GR_FLASH_COLS, n_q,
                                 n_keys);
        return;
    }
    for (int i = 0; i < n_q; i++)
        p->f->e->tile->widen(wide + (size_t)i * 16, src + (size_t)(i * step[2]) * 2, v->dtype,
                             n_keys);
    p->f->e->tile->transpose(wide, 16, dst, GR_FLASH_COLS, n_q, n_keys);
}

static void fill_bias(const gr_flash_place *p, int64_t key, int64_t q, int64_t n_keys)
{
    const int64_t n_q = gr_min64(p->f->d.nq - q, GR_FLASH_COLS);
    const int64_t *step = p->f->d.bias_step;

    if (n_q < GR_FLASH_COLS)
        memset(p->bias, 0, (size_t)(n_keys * GR_FLASH_COLS) * sizeof(float));
    if (step[2] > 0 && step[3] > 0) {
        for (int64_t r = 0; r < n_keys; r += 16)
            for (int64_t i = 0; i < n_q; i += 16)
                turn_bias(p, p->bias + r * GR_FLASH_COLS + i, key + r, q + i,
                          (int)gr_min64(n_keys - r, 16), (int)gr_min64(n_q - i, 16));
        return;
    }
    for (int64_t r = 0; r < n_keys; r++)
        for (int64_t i = 0; i < n_q; i++)
            p->bias[r * GR_FLASH_COLS + i] = bias_at(p, q + i, key + r);
}

void gr_flash_scores_of(const gr_flash_place *p, gr_flash_scores *w, int64_t key, int64_t q)
{
    const gr_flash *f = p->f;

    w->n_rows = w->n_keys = gr_min64(f->d.nk - key, GR_FLASH_KEYS);
    if (f->at->causal)
        w->n_keys = gr_min64(w->n_keys, q + GR_FLASH_COLS - key);
    w->n_pad = gr_div_up(w->n_keys, f->e->pad) * f->e->pad;
    w->n_rows = gr_div_up(w->n_rows, f->e->pad) * f->e->pad;
    w->ahead = key - q;
    w->causal = f->at->causal && w->ahead + w->n_keys > 1;
    w->c = (float)(f->at->scale * 1.4426950408889634 * (double)f->scale_out);
    w->mask = f->d.mask < 0 ? NULL : (const uint8_t *)p->l->src[f->d.mask] + p->b * f->d.nk + key;
    w->bias = p->bias;
    w->keep = p->keep;
    if (p->bias)
        fill_bias(p, key, q, w->n_keys);
    if (p->keep)
        f->soft->drop(p->keep, &p->drop, &p->stream, key, q, w->n_pad);
}

void gr_flash_widen(const gr_flash *f, float *dst, const gr_flash_rows *m, int64_t n)
{
    const char *src = m->src;
    const size_t d = (size_t)f->d.d, pad = (size_t)(f->d_pad - f->d.d) * sizeof(float);
    const size_t row_bytes = (size_t)m->step * gr_dtype_bytes(m->type);

    for (int64_t i = 0; i < m->n; i++, src += row_bytes, dst += f->d_pad) {
        if (m->type == GR_F32)
            memcpy(dst, src, d * sizeof(float));
        else
            f->e->tile->widen(dst, src, m->type, f->d.d);
        memset(dst + d, 0, pad);
    }
    if (m->n < n)
        memset(dst, 0, (size_t)((n - m->n) * f->d_pad) * sizeof(float));
}

/* ---- forward ---- */

typedef struct job {
    const gr_flash *f;
    const gr_launch *l;
    atomic_bool unfit; /* set by any slice; read when all are done */
    gr_deal deal;      /* panels of heads */
} job;

/* What of a panel lives through the blocks. */
typedef struct panel {
    char *q;
    float *acc, *top, *sum;
} panel;

typedef struct forward {
    gr_flash_place at;
    char *k, *v; /* of a block */
    float *s;
    char *p;
    char *panels; /* chunk of them */
    size_t panel_bytes;
    bool unfit;
} forward;

static void forward_init(forward *w, const gr_flash *f, const gr_launch *l, gr_flash_room *room)
{
    gr_flash_place_init(&w->at, f, l, room);
    w->k = gr_flash_take(room, f->z.left_rows);
    w->v = gr_flash_take(room, f->z.left_cols);
    w->s = gr_flash_take(room, (size_t)(GR_FLASH_KEYS * GR_FLASH_COLS) * sizeof(float));
    w->p = gr_flash_take(room, f->z.p);
    w->panel_bytes = f->z.right_rows + (size_t)((f->d_pad + 2) * GR_FLASH_COLS) * sizeof(float);
    w->panels = gr_flash_take(room, (size_t)f->chunk * w->panel_bytes);
    w->unfit = false;
}

size_t gr_flash_forward_bytes(const gr_flash *f)
{
    gr_flash_room room = { 0 };
    forward w;

    forward_init(&w, f, NULL, &room);
    return room.used;
}

static panel panel_at(const forward *w, int64_t i)
{
    const gr_flash *f = w->at.f;
    panel p = { .q = w->panels + (size_t)i * w->panel_bytes };

    p.acc = (float *)(void *)(p.q + f->z.right_rows);
    p.top = p.acc + f->d_pad * GR_FLASH_COLS;
    p.sum = p.top + GR_FLASH_COLS;
    return p;
}

static void open_panel(const forward *w, const panel *p, int64_t q)
{
    const gr_flash *f = w->at.f;
    const gr_flash_rows rows = gr_flash_rows_of(&w->at, 0, q, gr_min64(f->d.nq - q, GR_FLASH_COLS));

    f->e->right_rows(f, p->q, &rows, w->at.tmp);
    memset(p->acc, 0, (size_t)(f->d_pad * GR_FLASH_COLS) * sizeof(float));
    for (int64_t i = 0; i < GR_FLASH_COLS; i++) {
        p->top[i] = -INFINITY;
        p->sum[i] = 0;
    }
}

static void run_block(const forward *w, const panel *p, int64_t key, int64_t q)
{
    const gr_flash *f = w->at.f;
    gr_flash_forward a = { .top = p->top, .sum = p->sum, .acc = p->acc, .n_acc = f->d.d };
    gr_flash_product m = { .left = w->k, .right = p->q, .c = w->s };

    a.in.s = w->s;
    gr_flash_scores_of(&w->at, &a.in, key, q);
    m.left_step = f->z.left_rows_step;
    m.right_step = GR_FLASH_COLS;
    m.lines = a.in.n_keys;
    m.cols = gr_min64(f->d.nq - q, GR_FLASH_COLS);
    m.k = f->d.d;
    f->e->product(f, &m);
    a.p = f->z.p > 0 ? w->p : (void *)w->s;
    f->soft->forward(&a);
    f->e->product(f, &(gr_flash_product){ .left = w->v,
                                          .right = a.p,
                                          .left_step = f->z.left_cols_step,
                                          .right_step = f->z.p_step,
                                          .lines = f->d.d,
                                          .cols = GR_FLASH_COLS,
                                          .k = a.in.n_keys,
                                          .c = p->acc,
                                          .add = true });
}

/* o = acc / sum, turned back; a query without keys has sum 0 and gives 0. */
static void close_panel(forward *w, const panel *p, int64_t q)
{
    const gr_flash *f = w->at.f;
    const gr_launch *l = w->at.l;
    const int64_t n = gr_min64(f->d.nq - q, GR_FLASH_COLS), b = w->at.b, h = w->at.h;
    const gr_dtype t = l->node->out[0].dtype;
    float *lse = (float *)l->out[1] + (b * f->d.hq + h) * f->d.nq + q, factor[GR_FLASH_COLS];

    for (int64_t i = 0; i < GR_FLASH_COLS; i++)
        factor[i] = p->sum[i] == 0 || i >= n ? 0 : f->scale_out / p->sum[i];
    for (int64_t i = 0; i < n; i++)
        lse[i] = (p->top[i] + log2f(p->sum[i])) * 0.69314718055994531f;
    w->unfit = !f->soft->finish(p->acc, f->d.d, factor) || w->unfit;
    for (int64_t c = 0; c < f->d_pad; c += 16)
        for (int64_t i = 0; i < GR_FLASH_COLS; i += 16)
            f->e->tile->transpose(p->acc + c * GR_FLASH_COLS + i, GR_FLASH_COLS,
                                  w->at.tmp + i * f->d_pad + c, f->d_pad, 16, 16);
    for (int64_t i = 0; i < n; i++) {
        const float *row = w->at.tmp + i * f->d_pad;
        char *o = (char *)l->out[0] +
                  (size_t)(((b * f->d.nq + q + i) * f->d.hq + h) * f->d.d) * gr_dtype_bytes(t);

        if (t == GR_F32)
            memcpy(o, row, (size_t)f->d.d * sizeof(float));
        else
            f->e->tile->narrow(o, row, t, f->d.d);
    }
}

/* Panels [first, end) of the place. */
static void run_chunk(forward *w, int64_t first, int64_t end)
{
    const gr_flash *f = w->at.f;
    const int64_t q_end = gr_min64(end * GR_FLASH_COLS, f->d.nq);

    for (int64_t i = first; i < end; i++) {
        const panel p = panel_at(w, i - first);

        open_panel(w, &p, i * GR_FLASH_COLS);
    }
    for (int64_t key = 0; key < f->d.nk; key += GR_FLASH_KEYS) {
        const int64_t n = gr_min64(f->d.nk - key, GR_FLASH_KEYS);
        const gr_flash_rows k = gr_flash_rows_of(&w->at, 1, key, n);
        const gr_flash_rows v = gr_flash_rows_of(&w->at, 2, key, n);

        if (f->at->causal && key >= q_end)
            break;
        f->e->left_rows(f, w->k, &k, w->at.tmp);
        f->e->left_cols(f, w->v, &v, w->at.tmp);
        for (int64_t i = first; i < end; i++) {
            const panel p = panel_at(w, i - first);

            if (!f->at->causal || key < (i + 1) * GR_FLASH_COLS)
                run_block(w, &p, key, i * GR_FLASH_COLS);
        }
    }
    for (int64_t i = first; i < end; i++) {
        const panel p = panel_at(w, i - first);

        close_panel(w, &p, i * GR_FLASH_COLS);
    }
}

/* Panels [at, end), counted over all heads. */
static void run_panels(forward *w, int64_t at, int64_t end)
{
    const gr_flash *f = w->at.f;

    while (at < end) {
        const int64_t head = at / f->n_panels, first = at % f->n_panels;
        const int64_t n = gr_min64(gr_min64(f->n_panels - first, end - at), f->chunk);

        gr_flash_place_at(&w->at, head / f->d.hq, head % f->d.hq);
        run_chunk(w, first, first + n);
        at += n;
    }
}

static void run_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    const gr_flash *f = j->f;
    gr_flash_room room = { .base = (char *)j->l->work + (size_t)slice * f->slice_bytes };
    forward w;
    int64_t at, end;

    (void)n_slices;
    forward_init(&w, f, j->l, &room);
    /* columns of queries that do not exist are never written, but read */
    memset(w.s, 0, (size_t)(GR_FLASH_KEYS * GR_FLASH_COLS) * sizeof(float));
    f->e->begin();
    while (gr_deal_take(&j->deal, slice, &at, &end))
        run_panels(&w, at, end);
    f->e->end();
    if (w.unfit)
        atomic_store_explicit(&j->unfit, true, memory_order_relaxed);
}

gr_status gr_flash_run(const gr_launch *l)
{
    const gr_flash *f = l->data;
    const int64_t n_heads = f->d.b * f->d.hq;
    job j = { .f = f, .l = l };

    gr_deal_open(&j.deal, n_heads * f->n_panels, gr_flash_grain(f, n_heads, f->n_panels),
                 f->n_slices);
    gr_pool_run(l->pool, run_slice, &j, f->n_slices);
    if (f->other && atomic_load_explicit(&j.unfit, memory_order_relaxed)) {
        gr_launch again = *l;

        again.data = f->other;
        return gr_flash_run(&again);
    }
    return GR_OK;
}
