/*
 * The gradient of the bias. A full one ([b, heads, nq, nk]) is written panel by panel, block by
 * block while the other gradients are made. One that is stretched is a sum over samples,
 * heads, queries or keys, and has a pass of its own: a slice takes whole parts of the bias and
 * adds up, in ascending order, everything that goes there.
 */
#include "base/deal.h"
#include "op/attention/cpu/attention_flash.h"
#include "op/count.h"

#include <string.h>

#define BLOCK_BYTES ((size_t)(GR_FLASH_KEYS * GR_FLASH_COLS) * sizeof(float))

bool gr_flash_bias_is_full(const gr_flash *f)
{
    const gr_attention_dims *d = &f->d;

    return d->bias_dim[0] == d->b && d->bias_dim[1] == d->hq && d->bias_dim[2] == d->nq &&
           d->bias_dim[3] == d->nk;
}

static void put(const gr_launch *l, int64_t at, const float *row, int64_t n, const gr_tile_isa *isa)
{
    const gr_dtype t = l->node->out[3].dtype;
    char *to = (char *)l->out[3] + (size_t)at * gr_dtype_bytes(t);

    if (t == GR_F32)
        memcpy(to, row, (size_t)n * sizeof(float));
    else
        isa->narrow(to, row, t, n);
}

/* Where element (q, key) of this place's part of the bias is. */
static int64_t bias_index(const gr_flash_place *p, int64_t q, int64_t key)
{
    const int64_t *step = p->f->d.bias_step;

    return p->b * step[0] + p->h * step[1] + q * step[2] + key * step[3];
}

void gr_flash_bias_put(const gr_flash_place *p, const float *ds, int64_t key, int64_t n_keys,
                       int64_t q)
{
    const gr_flash *f = p->f;
    const int64_t n_q = gr_min64(f->d.nq - q, GR_FLASH_COLS);
    float turned[16 * 16];

    for (int64_t r = 0; r < n_keys; r += 16)
        for (int64_t i = 0; i < n_q; i += 16) {
            const int rows = (int)gr_min64(n_keys - r, 16), cols = (int)gr_min64(n_q - i, 16);

            f->e->tile->transpose(ds + r * GR_FLASH_COLS + i, GR_FLASH_COLS, turned, 16, rows,
                                  cols);
            for (int c = 0; c < cols; c++)
                put(p->l, bias_index(p, q + i + c, key + r), turned + (ptrdiff_t)c * 16, rows,
                    f->e->tile);
        }
}

/* ---- sums ---- */

typedef struct adder {
    gr_flash_place at;
    gr_flash_pair pair;
    char *k, *v, *q, *d_o;
    float *lse, *delta, *ds;
    float *sums; /* [keys][32] */
} adder;

static void adder_init(adder *w, const gr_flash *f, const gr_launch *l, gr_flash_room *room)
{
    *w = (adder){ 0 };
    gr_flash_place_init(&w->at, f, l, room);
    w->k = gr_flash_take(room, f->z.left_rows);
    w->v = gr_flash_take(room, f->z.left_rows);
    w->q = gr_flash_take(room, f->z.right_rows);
    w->d_o = gr_flash_take(room, f->z.right_rows);
    w->lse = gr_flash_take(room, GR_FLASH_COLS * sizeof(float));
    w->delta = gr_flash_take(room, GR_FLASH_COLS * sizeof(float));
    w->ds = gr_flash_take(room, BLOCK_BYTES);
    w->pair.s = gr_flash_take(room, BLOCK_BYTES);
    w->pair.dp = gr_flash_take(room, BLOCK_BYTES);
    w->sums = gr_flash_take(room, (size_t)f->n_blocks * BLOCK_BYTES);
}

size_t gr_flash_bias_bytes(const gr_flash *f)
{
    gr_flash_room room = { 0 };
    adder w;

    adder_init(&w, f, NULL, &room);
    return room.used;
}

/* Adds ds of one sample, head and panel. */
static void add_panel(adder *w, int64_t q)
{
    const gr_flash *f = w->at.f;
    const int64_t n = gr_min64(f->d.nq - q, GR_FLASH_COLS);
    const gr_flash_rows rows = gr_flash_rows_of(&w->at, 0, q, n);
    const gr_flash_rows grads = gr_flash_rows_of(&w->at, 5, q, n);

    f->e->right_rows(f, w->q, &rows, w->at.tmp);
    f->e->right_rows(f, w->d_o, &grads, w->at.tmp);
    gr_flash_rows_stats(&w->at, w->lse, w->delta, q);
    for (int64_t key = 0; key < f->d.nk; key += GR_FLASH_KEYS) {
        const int64_t n_keys = gr_min64(f->d.nk - key, GR_FLASH_KEYS);
        const gr_flash_rows k = gr_flash_rows_of(&w->at, 1, key, n_keys);
        const gr_flash_rows v = gr_flash_rows_of(&w->at, 2, key, n_keys);
        gr_flash_backward a = { .ds_plain = w->ds };

        if (f->at->causal && key >= q + GR_FLASH_COLS)
            break;
        f->e->left_rows(f, w->k, &k, w->at.tmp);
        f->e->left_rows(f, w->v, &v, w->at.tmp);
        gr_flash_backward_of(&w->at, &w->pair, &a, key, q);
        for (int64_t i = 0; i < a.in.n_keys * GR_FLASH_COLS; i++)
            w->sums[key * GR_FLASH_COLS + i] += w->ds[i];
    }
}

/* What the lanes of a row, or a lane of all rows, or everything adds up to. */
static float add_up(const adder *w, int64_t row, int64_t lane)
{
    const gr_flash *f = w->at.f;
    const bool all_rows = f->d.bias_dim[3] == 1, all_lanes = f->d.bias_dim[2] == 1;
    float sum = 0;

    for (int64_t r = all_rows ? 0 : row; r < (all_rows ? f->d.nk : row + 1); r++)
        for (int64_t i = all_lanes ? 0 : lane; i < (all_lanes ? GR_FLASH_COLS : lane + 1); i++)
            sum += w->sums[r * GR_FLASH_COLS + i];
    return sum;
}

static void put_sums(const adder *w, int64_t q)
{
    const gr_flash *f = w->at.f;
    const bool by_query = f->d.bias_dim[2] > 1;
    const int64_t n_q = by_query ? gr_min64(f->d.nq - q, GR_FLASH_COLS) : 1;

    for (int64_t i = 0; i < n_q; i++)
        for (int64_t r = 0; r < f->d.bias_dim[3]; r++) {
            const float x = add_up(w, r, i);

            put(w->at.l, bias_index(&w->at, by_query ? q + i : 0, r), &x, 1, f->e->tile);
        }
}

/* One part of the bias: a sample or all, a head or all, a panel or all. */
static void run_part(adder *w, int64_t b, int64_t h, int64_t panel)
{
    const gr_flash *f = w->at.f;
    const int64_t *dim = f->d.bias_dim;
    const int64_t b_end = dim[0] > 1 ? b + 1 : f->d.b, h_end = dim[1] > 1 ? h + 1 : f->d.hq;
    const int64_t p_end = dim[2] > 1 ? panel + 1 : f->n_panels;

    memset(w->sums, 0, (size_t)f->n_blocks * BLOCK_BYTES);
    for (int64_t i = b; i < b_end; i++)
        for (int64_t j = h; j < h_end; j++) {
            gr_flash_place_at(&w->at, i, j);
            for (int64_t p = panel; p < p_end; p++)
                add_panel(w, p * GR_FLASH_COLS);
        }
    gr_flash_place_at(&w->at, b, h);
    put_sums(w, panel * GR_FLASH_COLS);
}

typedef struct job {
    const gr_flash *f;
    const gr_launch *l;
    gr_deal deal; /* parts */
} job;

static int64_t count_parts(const gr_flash *f, int64_t *n_panels)
{
    *n_panels = f->d.bias_dim[2] > 1 ? f->n_panels : 1;
    return f->d.bias_dim[0] * f->d.bias_dim[1] * *n_panels;
}

static void run_slice(void *arg, int slice, int n_slices)
{
    job *j = arg;
    const gr_flash *f = j->f;
    gr_flash_room room = { .base = (char *)j->l->work + (size_t)slice * f->slice_bytes };
    int64_t n_panels, at, end;
    adder w;

    adder_init(&w, f, j->l, &room);
    w.pair.k = w.k;
    w.pair.v = w.v;
    w.pair.q = w.q;
    w.pair.d_o = w.d_o;
    w.pair.lse = w.lse;
    w.pair.delta = w.delta;
    memset(w.pair.s, 0, BLOCK_BYTES);
    memset(w.pair.dp, 0, BLOCK_BYTES);
    (void)n_slices;
    count_parts(f, &n_panels);
    f->e->begin();
    while (gr_deal_take(&j->deal, slice, &at, &end))
        for (; at < end; at++)
            run_part(&w, at / n_panels / f->d.bias_dim[1], at / n_panels % f->d.bias_dim[1],
                     at % n_panels);
    f->e->end();
}

void gr_flash_bias_run(const gr_flash *f, const gr_launch *l)
{
    job j = { .f = f, .l = l };
    int64_t n_panels;

    gr_deal_open(&j.deal, count_parts(f, &n_panels), 1, f->n_slices);
    if (f->d.nk > 0)
        gr_pool_run(l->pool, run_slice, &j, f->n_slices);
}
