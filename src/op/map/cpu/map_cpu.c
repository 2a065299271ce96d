/*
 * The tiled kernels of map: avx512 and avx2 share everything but their loops.
 *
 * A run cuts the result into one stretch per thread and walks each in tiles: sources are
 * fetched into registers, each step is one loop over a tile, the last one writes the
 * result. An element's value does not depend on the cuts.
 *
 * Nothing is allocated: each stretch has its slots in the workspace.
 */
#include "op/isa.h"
#include "op/map/cpu/map_plan.h"

#include "base/alloc.h"
#include "base/deal.h"

#include <string.h>

/* Less work per thread than this is not worth waking it. */
#define MIN_STRETCH 16384
#define PIECES      4 /* dealt to a thread, if there are enough elements */

typedef struct stretch {
    const gr_map_plan *plan;
    const gr_launch *launch;
    char *slots;
    void *reg[GR_MAP_MAX_SRC + GR_MAP_MAX_INSTR];
    /* Wide rows: which row and where in it, and each source's offset at the row's start. */
    int64_t index[GR_MAX_DIMS], in_row, row_at[GR_MAP_MAX_SRC];
    /* What a source's slot holds: the offset it was fetched from and how many elements;
     * 0 elements: nothing yet. */
    int64_t held_at[GR_MAP_MAX_SRC], held_n[GR_MAP_MAX_SRC];
} stretch;

/* NULL when the register has none. */
static char *slot_at(const stretch *w, int slot)
{
    return slot == GR_MAP_NO_SLOT ? NULL : w->slots + (size_t)slot * GR_MAP_SLOT_BYTES;
}

/* ---- fetching ---- */

/* dst[0..n) = *src, elements of n_bytes. */
static void spread(void *dst, const void *src, size_t n_bytes, int64_t n)
{
    if (n_bytes == 4) {
        uint32_t x, *out = (uint32_t *)dst;

        memcpy(&x, src, sizeof(x));
        for (int64_t i = 0; i < n; i++)
            out[i] = x;
    } else {
        uint64_t x, *out = (uint64_t *)dst;

        memcpy(&x, src, sizeof(x));
        for (int64_t i = 0; i < n; i++)
            out[i] = x;
    }
}

/* n elements from src on, converted. */
static void load(const stretch *w, const gr_map_src *s, char *dst, const char *src, int64_t n)
{
    if (s->load)
        s->load(dst, src, n);
    else
        memcpy(dst, src, (size_t)n * w->plan->elem_bytes);
}

/* One row's part of a source: contiguous elements, or one that is repeated. */
static void load_row(const stretch *w, const gr_map_src *s, char *dst, const char *src, int64_t n)
{
    uint64_t x;

    if (s->stride[w->plan->n_dims - 1] != 0) {
        load(w, s, dst, src, n);
        return;
    }
    load(w, s, (char *)&x, src, 1);
    spread(dst, &x, w->plan->elem_bytes, n);
}

/* Splits place `at` of the result into indices. */
static void split(const gr_map_plan *p, int64_t at, int64_t *index)
{
    for (int d = p->n_dims - 1; d >= 0; d--) {
        index[d] = at % p->dim[d];
        at /= p->dim[d];
    }
}

/* The source's offset where the row begins that `index` points into. */
static int64_t row_offset(const gr_map_plan *p, const gr_map_src *s, const int64_t *index)
{
    int64_t offset = 0;

    for (int d = 0; d + 1 < p->n_dims; d++)
        offset += index[d] * s->stride[d];
    return offset;
}

static void next_row(const gr_map_plan *p, int64_t *index)
{
    for (int d = p->n_dims - 2; d >= 0; d--) {
        if (++index[d] < p->dim[d])
            return;
        index[d] = 0;
    }
}

/* Narrow rows: the tile's part of the source, row after row, into its slot. */
static void fetch_rows(const stretch *w, const gr_map_src *s, const char *base, int64_t at,
                       int64_t n, char *dst)
{
    const gr_map_plan *p = w->plan;
    int64_t index[GR_MAX_DIMS];
    int64_t in_row;

    split(p, at, index);
    in_row = index[p->n_dims - 1];
    while (n > 0) {
        int64_t len = p->row - in_row < n ? p->row - in_row : n;
        int64_t offset = row_offset(p, s, index) + in_row * s->stride[p->n_dims - 1];

        load_row(w, s, dst, base + (size_t)offset * s->elem_bytes, len);
        dst += (size_t)len * p->elem_bytes;
        n -= len;
        in_row = 0;
        next_row(p, index);
    }
}

/* A broadcast source: from memory when its row can be read there, else through its slot,
 * unless the slot holds the same already. */
static void *fetch_broadcast(stretch *w, int i, int64_t at, int64_t n)
{
    const gr_map_plan *p = w->plan;
    const gr_map_src *s = &p->src[i];
    const char *base = (const char *)w->launch->src[i];
    char *slot = slot_at(w, s->slot);
    int64_t offset = s->repeats ? 0 : at;

    if (p->is_wide && s->layout == GR_MAP_ROWS) {
        offset = w->row_at[i] + w->in_row * s->stride[p->n_dims - 1];
        if (s->slot == GR_MAP_NO_SLOT)
            return (char *)w->launch->src[i] + (size_t)offset * s->elem_bytes;
    }
    if (w->held_n[i] >= n && w->held_at[i] == offset)
        return slot;
    if (s->layout == GR_MAP_ONE) {
        load(w, s, slot, base, 1);
        spread(slot, slot, p->elem_bytes, p->tile);
        n = p->tile;
    } else if (p->is_wide) {
        load_row(w, s, slot, base + (size_t)offset * s->elem_bytes, n);
    } else {
        fetch_rows(w, s, base, at, n, slot);
    }
    w->held_at[i] = offset;
    w->held_n[i] = n;
    return slot;
}

static void *fetch(stretch *w, int i, int64_t at, int64_t n)
{
    const gr_map_plan *p = w->plan;
    const gr_map_src *s = &p->src[i];
    char *mem = (char *)w->launch->src[i] + (size_t)at * s->elem_bytes;
    char *slot;

    if (s->layout != GR_MAP_FLAT)
        return fetch_broadcast(w, i, at, n);
    if (!s->load)
        return mem;
    slot = slot_at(w, s->slot);
    s->load(slot, mem, n);
    return slot;
}

/* ---- running ---- */

static void fill_constants(stretch *w)
{
    const gr_map_plan *p = w->plan;

    for (int i = 0; i < p->n_consts; i++) {
        double k = p->constant[i].value;
        char *slot = slot_at(w, p->constant[i].slot);

        if (p->type == GR_MAP_F32)
            spread(slot, &(float){ (float)k }, sizeof(float), p->tile);
        else if (p->type == GR_MAP_F64)
            spread(slot, &k, sizeof(double), p->tile);
        else
            spread(slot, &(int64_t){ (int64_t)k }, sizeof(int64_t), p->tile);
    }
}

static void run_tile(stretch *w, int64_t at, int64_t n)
{
    const gr_map_plan *p = w->plan;
    char *out = (char *)w->launch->out[0] + (size_t)at * p->out_bytes;

    if (p->is_cast) {
        p->src[0].load(out, (char *)w->launch->src[0] + (size_t)at * p->src[0].elem_bytes, n);
        return;
    }
    for (int i = 0; i < p->n_src; i++)
        w->reg[i] = fetch(w, i, at, n);
    if (!p->store && p->n_steps > 0)
        w->reg[p->result] = out;
    for (int i = 0; i < p->n_steps; i++) {
        const gr_map_step *s = &p->step[i];

        s->loop(w->reg[s->dst], w->reg[s->arg[0]], s->arg[1] < 0 ? NULL : w->reg[s->arg[1]],
                s->arg[2] < 0 ? NULL : w->reg[s->arg[2]], n);
    }
    if (p->store)
        p->store(out, w->reg[p->result], n);
    else if (p->n_steps == 0 && out != (char *)w->reg[p->result])
        memcpy(out, w->reg[p->result], (size_t)n * p->elem_bytes);
}

/* Wide rows: to the end of the row; narrow: to the next multiple of the tile, which is
 * where stretches begin. */
static int64_t tile_end(const stretch *w, int64_t at, int64_t hi)
{
    const gr_map_plan *p = w->plan;
    int64_t end = at + p->tile;

    if (p->is_wide && at + p->row - w->in_row < end)
        end = at + p->row - w->in_row;
    return end < hi ? end : hi;
}

static void start_rows(stretch *w, int64_t at)
{
    const gr_map_plan *p = w->plan;

    split(p, at, w->index);
    w->in_row = p->n_dims > 0 ? w->index[p->n_dims - 1] : 0;
    for (int i = 0; i < p->n_src; i++)
        w->row_at[i] = row_offset(p, &p->src[i], w->index);
}

static void advance_rows(stretch *w, int64_t n)
{
    const gr_map_plan *p = w->plan;

    w->in_row += n;
    if (w->in_row < p->row)
        return;
    w->in_row = 0;
    next_row(p, w->index);
    for (int i = 0; i < p->n_src; i++)
        if (p->src[i].layout == GR_MAP_ROWS)
            w->row_at[i] = row_offset(p, &p->src[i], w->index);
}

typedef struct job {
    const gr_map_plan *plan;
    const gr_launch *launch;
    gr_deal *deal; /* elements */
} job;

static void run_stretch(void *arg, int slice, int n_slices)
{
    const job *j = (const job *)arg;
    const gr_map_plan *p = j->plan;
    stretch w = { .plan = p, .launch = j->launch };
    int64_t lo, hi, end;

    if (p->n_slots > 0)
        w.slots = (char *)j->launch->work + (size_t)slice * (size_t)p->n_slots * GR_MAP_SLOT_BYTES;
    for (int r = 0; r <= p->result; r++)
        w.reg[r] = slot_at(&w, p->slot_of[r]);
    fill_constants(&w);
    (void)n_slices;
    while (gr_deal_take(j->deal, slice, &lo, &hi)) {
        start_rows(&w, lo);
        for (; lo < hi; lo = end) {
            end = tile_end(&w, lo, hi);
            run_tile(&w, lo, end - lo);
            if (p->is_wide)
                advance_rows(&w, end - lo);
        }
    }
}

/* Elements of a piece: whole tiles, enough of them to be worth taking. */
static int64_t grain_for(const gr_map_plan *p, int n_slices)
{
    int64_t least = p->total / (n_slices == 1 ? 1 : PIECES * n_slices);

    least = least < MIN_STRETCH / 2 ? MIN_STRETCH / 2 : least;
    return (least + p->tile - 1) / p->tile * p->tile;
}

static gr_status tiled_run(const gr_launch *l)
{
    gr_deal deal;
    job j = { .plan = (const gr_map_plan *)l->data, .launch = l, .deal = &deal };
    int n_slices, n_threads = gr_pool_size(l->pool);

    if (n_threads > j.plan->n_threads)
        n_threads = j.plan->n_threads;
    n_slices = gr_deal_hands(j.plan->total / MIN_STRETCH, n_threads);
    if (j.plan->total == 0)
        return GR_OK;
    gr_deal_open(&deal, j.plan->total, grain_for(j.plan, n_slices), n_slices);
    gr_pool_run(l->pool, run_stretch, &j, n_slices);
    return GR_OK;
}

static size_t tiled_workspace(const gr_node *n, const void *data)
{
    const gr_map_plan *p = (const gr_map_plan *)data;

    (void)n;
    return (size_t)p->n_slots * GR_MAP_SLOT_BYTES * (size_t)p->n_threads;
}

static gr_status prepare_with(gr_prepare *p, const gr_map_isa *isa)
{
    gr_map_plan *plan;

    GR_TRY(gr_map_plan_create(&plan, p->node, isa, p->n_threads < 1 ? 1 : p->n_threads));
    p->data = plan;
    return GR_OK;
}

static gr_status avx512_prepare(gr_prepare *p)
{
    return prepare_with(p, &gr_map_avx512);
}

static gr_status avx2_prepare(gr_prepare *p)
{
    return prepare_with(p, &gr_map_avx2);
}

const gr_kernel gr_map_cpu[] = {
    {
        .name = "avx512",
        .reject = gr_no_avx512,
        .prepare = avx512_prepare,
        .workspace = tiled_workspace,
        .run = tiled_run,
        .release = gr_free,
        .in_place = true,
    },
    {
        .name = "avx2",
        .reject = gr_no_avx2,
        .prepare = avx2_prepare,
        .workspace = tiled_workspace,
        .run = tiled_run,
        .release = gr_free,
        .in_place = true,
    },
    { .name = "reference", .run = gr_map_ref_run, .in_place = true },
    { 0 },
};
