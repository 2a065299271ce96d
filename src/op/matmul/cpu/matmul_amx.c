/*
 * The AMX product: the loops. matmul_amx_plan.c says which side is held and which passes.
 *
 *                     held panels, packed, in L2
 *                     [ 0 ]  [ 1 ]  [ 2 ]  [ 3 ]
 *     passing  [ p ]   +      +      +      +        each + is a block of 32 x 32 sums
 *     next     [ p+1]  is packed between the tile products of row p,
 *                      where the block before is written, too
 *
 * (1) f32 has its full precision: numbers are split in three, six products are summed
 *     (matmul_row_body.h, matmul_tile_amx.c). Sums are made of 16 terms each, then added
 *     up in f32: fewer roundings than one chain of multiply-adds has.
 * (2) What AMX cannot do (matmul_row_body.h: 3, 4) is found on the way, and the whole
 *     product is done again: bf16 with numbers that are scaled, for its subnormals, and
 *     what is still unfit by the AVX-512 kernel. So infinities, NaN and numbers of every
 *     size give what f32 arithmetic gives.
 * (3) An element's sum depends on k alone, not on where its block begins: bits do not
 *     depend on the thread count.
 * (4) Threads are dealt panels that pass by a held block (base/deal.h), all panels of a
 *     block before those of the next. Who comes to another block packs it for itself.
 */
#include "op/matmul/cpu/matmul_amx.h"
#include "base/deal.h"
#include "op/count.h"
#include "op/lines.h"
#include "op/matmul/cpu/matmul_kernels.h"
#include "op/matmul/cpu/matmul_row_body.h"

#include <stdatomic.h>
#include <string.h>

#define BLOCK    (GR_AMX_LINES * GR_AMX_LINES)
#define L1_BYTES 32768 /* of a passing panel; with the rest, L1 has 48 KiB */

typedef struct job {
    const gr_amx_plan *p;
    const gr_launch *l;
    int64_t k_lo, n_k; /* of this pass */
    bool scaled;       /* the second attempt, for bf16 */
    atomic_bool unfit; /* set by any slice, which is the end for all */
    gr_deal deal;      /* items: a panel that passes by a held block */
} job;

/* What one slice works with. */
typedef struct slice {
    job *j;
    const gr_amx_plan *p;
    int hand;
    gr_amx_side hold, pass; /* of this batch entry */
    float *y_f32;           /* or y_bf16; the other one is NULL */
    uint16_t *y_bf16;
    float *sums;  /* of a narrow y over several passes or before an epilogue, else NULL */
    int64_t y_at; /* element of the output where this batch entry begins */
    gr_epilogue_run epilogue; /* plan NULL: none */
    char *held, *panel, *next;
    float *c, *c_turned;      /* a block as it comes, and the other way round */
    int64_t block;            /* that is held; -1: none */
    int64_t hold_lo, hold_hi; /* lines of it */
    int64_t n_pass;           /* lines of the other side */
    int64_t k_lo, n_k;        /* this pass */
    int64_t panel_bytes;
    gr_amx_out pending; /* c is NULL: none */
    gr_amx_feed feed;
    bool unfit;
} slice;

static int lines_from(int64_t at, int64_t end)
{
    return (int)gr_min64(end - at, GR_AMX_LINES);
}

static gr_amx_side side_at(const gr_amx_side *s, int64_t line, int64_t k)
{
    gr_amx_side at = *s;
    size_t elem = s->is_f32 ? sizeof(float) : sizeof(uint16_t);

    at.src = (const char *)s->src + (size_t)(line * s->step_line + k * s->step_k) * elem;
    return at;
}

static int64_t n_steps(const slice *s)
{
    return (s->n_k + GR_AMX_K - 1) / GR_AMX_K;
}

/* So many rows a step that all are done in n_steps, `most` at most. */
static void set_share(gr_amx_share *h, int64_t n_rows, int64_t steps, int most, bool is_f32)
{
    const int n_groups = is_f32 ? GR_AMX_GROUPS : 1;
    int n = 1;

    while (n < most && n * steps < n_rows)
        n *= 2;
    h->per_step = n;
    for (int g = 0; g < n_groups; g++)
        h->of_group[g] = n * (g + 1) / n_groups - n * g / n_groups;
}

/* ---- results ---- */

static void write_pending(slice *s)
{
    if (s->pending.c && !gr_amx_write(&s->pending) && (s->p->is_f32 || s->j->scaled))
        s->unfit = true;
    s->pending.c = NULL;
}

static void turn_block(float *dst, const float *src)
{
    for (int i = 0; i < GR_AMX_LINES; i += 16)
        for (int j = 0; j < GR_AMX_LINES; j += 16)
            gr_matmul_tile_avx512.transpose(src + i * GR_AMX_LINES + j, GR_AMX_LINES,
                                            dst + j * GR_AMX_LINES + i, GR_AMX_LINES, 16, 16);
}

/* The block of lines `left` and `right` is in c; where it will go. It is written before the
 * next one is stored there. */
static void set_pending(slice *s, int64_t left, int64_t right, int n_left, int n_right)
{
    const gr_amx_plan *p = s->p;
    const bool last = s->k_lo + s->n_k == p->d.k;
    int64_t at = p->turned ? right * p->d.n + left : left * p->d.n + right;
    float *f32 = s->sums ? s->sums : s->y_f32;
    gr_amx_out *o = &s->pending;

    *o = (gr_amx_out){ .ld = p->d.n };
    o->scale = p->is_f32 || s->j->scaled ? ROW_SCALE_OUT : 1;
    if (s->k_lo > 0)
        o->add = f32 + at;
    if (s->y_f32 || !last || p->epilogue)
        o->y_f32 = f32 + at;
    else
        o->y_bf16 = s->y_bf16 + at;
    o->rows = p->turned ? n_right : n_left;
    o->cols = p->turned ? n_left : n_right;
    o->c = s->c;
    if (p->turned) {
        turn_block(s->c_turned, s->c);
        o->c = s->c_turned;
    }
}

/* A full block behind and a full one ahead: the writing goes between the products. */
static void feed_pending(slice *s, bool full_ahead)
{
    gr_amx_feed *f = &s->feed;
    gr_amx_out *o = &s->pending;

    f->out_at = f->out_end = 0;
    if (!full_ahead || s->j->scaled || !o->c || !o->y_f32 || o->rows < GR_AMX_LINES ||
        o->cols < GR_AMX_LINES) {
        write_pending(s);
        return;
    }
    f->out = *o;
    f->out_end = GR_AMX_LINES;
    o->c = NULL;
}

/* Results of bf16 come faster than the cache lines that they go to: these are asked for, to be
 * written, while the products run. Those of f32 take long enough, and would be disturbed. */
static void ask_for_lines(const slice *s, int64_t left, int64_t right, int n_left, int n_right)
{
    const gr_amx_plan *p = s->p;
    const float *y = s->sums ? s->sums : s->y_f32;
    const int rows = p->turned ? n_right : n_left;

    if (!y || p->is_f32)
        return;
    y += p->turned ? right * p->d.n + left : left * p->d.n + right;
    for (int r = 0; r < rows; r++)
        gr_ask_for_lines(y + r * p->d.n, 2 * GR_LINE_BYTES);
}

/* ---- loops ---- */

static void run_block(slice *s, int64_t hold, int64_t pass, const char *held)
{
    const gr_amx_plan *p = s->p;
    const int n_hold = lines_from(hold, s->hold_hi), n_pass = lines_from(pass, s->n_pass);
    gr_amx_block b = { .n_steps = n_steps(s), .c = s->c };

    b.l = p->hold_left ? held : s->panel;
    b.r = p->hold_left ? s->panel : held;
    b.tiles_l = gr_amx_tiles(p->hold_left ? n_hold : n_pass);
    b.tiles_r = gr_amx_tiles(p->hold_left ? n_pass : n_hold);
    b.stream_left = p->hold_left && s->panel_bytes <= L1_BYTES;
    b.stream_right = !p->hold_left && s->panel_bytes <= L1_BYTES;
    feed_pending(s, b.tiles_l == 2 && b.tiles_r == 2);
    if (p->hold_left)
        ask_for_lines(s, hold, pass, n_hold, n_pass);
    else
        ask_for_lines(s, pass, hold, n_pass, n_hold);
    if (p->is_f32)
        gr_amx_block_f32(&b, &s->feed);
    else
        gr_amx_block_bf16(&b, &s->feed);
    if (p->hold_left)
        set_pending(s, hold, pass, n_hold, n_pass);
    else
        set_pending(s, pass, hold, n_pass, n_hold);
}

/* Tells the feed to pack the panel at `pass`, if it is full and plain. */
static void feed_panel(slice *s, int64_t pass)
{
    gr_amx_feed *f = &s->feed;

    if (pass + GR_AMX_LINES > s->n_pass || s->j->scaled || !gr_amx_is_plain(&s->pass))
        return;
    f->side = side_at(&s->pass, pass, s->k_lo);
    f->dst = s->next;
    f->end = s->n_k / GR_AMX_K * GR_AMX_LINES;
}

/* What the feed has left of a panel: all of it, or the last k. */
static void finish_panel(slice *s, int64_t pass)
{
    const gr_amx_side at = side_at(&s->pass, pass, s->k_lo);
    const int64_t done = s->feed.at / GR_AMX_LINES * GR_AMX_K;

    if (!gr_amx_pack(s->next, &at, lines_from(pass, s->n_pass), done, s->n_k))
        s->unfit = true;
    s->feed.at = s->feed.end = 0;
}

/* Batch entry z. */
static void set_entry(slice *s, int64_t z)
{
    const gr_amx_plan *p = s->p;
    const job *j = s->j;
    const size_t elem = p->is_f32 ? sizeof(float) : sizeof(uint16_t);
    const char *a = (const char *)j->l->src[0] + (size_t)(z * p->d.stride_a) * elem;
    const char *b = (const char *)j->l->src[1] + (size_t)(z * p->d.stride_b) * elem;
    int64_t at = z * p->d.stride_out;

    s->hold = p->hold_left ? p->left : p->right;
    s->pass = p->hold_left ? p->right : p->left;
    s->hold.src = p->hold_left == p->turned ? b : a;
    s->pass.src = p->hold_left == p->turned ? a : b;
    s->hold.scaled = s->pass.scaled = j->scaled;
    if (p->type_y == GR_F32)
        s->y_f32 = (float *)j->l->out[0] + at;
    else
        s->y_bf16 = (uint16_t *)j->l->out[0] + at;
    s->y_at = at;
    if (p->type_y != GR_F32 && (p->k_block < p->d.k || p->epilogue))
        s->sums = (float *)((char *)j->l->work + p->at_sums) + at;
}

/* Holds block `block`, counted over all batch entries. */
static void hold_block(slice *s, int64_t block)
{
    const gr_amx_plan *p = s->p;
    const int64_t n_lines = p->hold_left ? p->n_left : p->n_right;
    int64_t n;

    if (block == s->block)
        return;
    s->block = block;
    set_entry(s, block / p->n_blocks);
    s->hold_lo = block % p->n_blocks * p->n_hold;
    s->hold_hi = gr_min64(s->hold_lo + p->n_hold, n_lines);
    n = (s->hold_hi - s->hold_lo + GR_AMX_LINES - 1) / GR_AMX_LINES;
    set_share(&s->feed.pack, s->n_k / GR_AMX_K * GR_AMX_LINES, n * n_steps(s), 16, p->is_f32);
    set_share(&s->feed.write, GR_AMX_LINES, n_steps(s), GR_AMX_LINES, p->is_f32);
    for (int64_t i = 0; i < n; i++) {
        const int64_t line = s->hold_lo + i * GR_AMX_LINES;
        const gr_amx_side at = side_at(&s->hold, line, s->k_lo);

        if (!gr_amx_pack(s->held + i * s->panel_bytes, &at, lines_from(line, s->hold_hi), 0,
                         s->n_k))
            s->unfit = true;
    }
}

/* The held lines against the panel at `pass`; has_next: the one after it comes next. */
static void run_panel(slice *s, int64_t pass, bool has_next)
{
    char *spare = s->panel;
    const char *held = s->held;

    finish_panel(s, pass);
    s->panel = s->next;
    s->next = spare;
    if (has_next)
        feed_panel(s, pass + GR_AMX_LINES);
    for (int64_t line = s->hold_lo; line < s->hold_hi; line += GR_AMX_LINES) {
        run_block(s, line, pass, held);
        held += s->panel_bytes;
    }
}

/* The epilogue of what the held lines gave with the lines [lo, hi), if this was the last
 * pass. */
static void end_lines(slice *s, int64_t lo, int64_t hi)
{
    const gr_amx_plan *p = s->p;
    const float *y = s->sums ? s->sums : s->y_f32;
    bool holds_rows = p->hold_left != p->turned; /* of y, not columns */
    int64_t i = holds_rows ? s->hold_lo : lo, i_end = holds_rows ? s->hold_hi : hi;
    int64_t j = holds_rows ? lo : s->hold_lo, j_end = holds_rows ? hi : s->hold_hi;

    if (!p->epilogue || s->k_lo + s->n_k < p->d.k)
        return;
    write_pending(s);
    gr_epilogue_rows(&s->epilogue, &(gr_epilogue_rows_args){ .acc = y + i * p->d.n + j,
                                                             .acc_step = p->d.n,
                                                             .at = s->y_at + i * p->d.n + j,
                                                             .step = p->d.n,
                                                             .rows = i_end - i,
                                                             .cols = j_end - j });
}

/* Whether it is of no use to go on. */
static bool is_lost(const slice *s)
{
    if (s->unfit || s->feed.unfit)
        atomic_store_explicit(&s->j->unfit, true, memory_order_relaxed);
    return atomic_load_explicit(&s->j->unfit, memory_order_relaxed);
}

/* The items [at, end), and those that follow as long as they are this hand's. */
static void run_items(slice *s, int64_t at, int64_t end)
{
    const int64_t n_panels = s->p->n_panels;

    while (at < end) {
        const int64_t block = at / n_panels, first = at % n_panels * GR_AMX_LINES;
        int64_t pass = first;

        hold_block(s, block);
        do {
            if (at + 1 == end) /* known before this panel's products: they pack the next one */
                gr_deal_take_next(&s->j->deal, s->hand, end, &end);
            at++;
            run_panel(s, pass, at < end && at % n_panels != 0);
            pass += GR_AMX_LINES;
            if (is_lost(s))
                return;
        } while (at < end && at % n_panels != 0);
        end_lines(s, first, gr_min64(pass, s->n_pass));
    }
}

static void begin_epilogue(slice *s)
{
    const gr_amx_plan *p = s->p;
    const gr_launch *l = s->j->l;
    const size_t each = gr_epilogue_scratch_bytes(p->epilogue);

    s->epilogue = (gr_epilogue_run){ .plan = p->epilogue,
                                     .src = l->src + gr_epilogue_first(l->node),
                                     .out = l->out[0] };
    s->epilogue.scratch = (char *)l->work + p->at_epilogue + (size_t)s->hand * each;
    gr_epilogue_begin(&s->epilogue);
}

static void run_slice(void *arg, int hand, int n_hands)
{
    job *j = arg;
    const gr_amx_plan *p = j->p;
    char *work = (char *)j->l->work + (size_t)hand * p->slice_bytes;
    slice s = { .j = j, .p = p, .hand = hand, .held = work, .panel = work + p->at_panels };
    int64_t at, end;

    (void)n_hands;
    s.next = s.panel + (p->at_c - p->at_panels) / 2;
    s.c = (float *)(work + p->at_c);
    s.c_turned = s.c + BLOCK;
    s.n_pass = p->hold_left ? p->n_right : p->n_left;
    s.block = -1;
    s.k_lo = j->k_lo;
    s.n_k = j->n_k;
    s.panel_bytes = n_steps(&s) * gr_amx_step_bytes(p->is_f32, 2);
    if (p->epilogue)
        begin_epilogue(&s);
    gr_amx_begin();
    while (gr_deal_take(&j->deal, hand, &at, &end) && !is_lost(&s))
        run_items(&s, at, end);
    write_pending(&s);
    gr_amx_end();
    (void)is_lost(&s);
}

/* False: numbers that this cannot do. */
static bool run_passes(job *j)
{
    const gr_amx_plan *p = j->p;

    atomic_store_explicit(&j->unfit, false, memory_order_relaxed);
    for (j->k_lo = 0; j->k_lo < p->d.k; j->k_lo += j->n_k) {
        j->n_k = gr_min64(p->k_block, p->d.k - j->k_lo);
        gr_deal_open(&j->deal, p->d.batch * p->n_blocks * p->n_panels, 1, p->n_hands);
        gr_pool_run(j->l->pool, run_slice, j, p->n_hands);
        if (atomic_load_explicit(&j->unfit, memory_order_relaxed))
            return false;
    }
    return true;
}

gr_status gr_matmul_amx_run(const gr_launch *l)
{
    const gr_amx_plan *p = l->data;
    job j = { .p = p, .l = l };
    bool is_done;

    if (p->d.k == 0 || p->d.batch * p->d.m * p->d.n == 0) { /* a sum of nothing */
        memset(l->out[0], 0, gr_value_bytes(&l->node->out[0]));
        return GR_OK;
    }
    is_done = run_passes(&j);
    if (!is_done && !p->is_f32) {
        j.scaled = true;
        is_done = run_passes(&j);
    }
    if (!is_done) {
        gr_launch again = *l;

        again.data = p->other;
        return gr_matmul_packed_run(&again);
    }
    return GR_OK;
}
