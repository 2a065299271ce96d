/*
 * The AMX product: which nodes it takes, and how it goes about them. Plain code: it may
 * run on any processor.
 *
 * One side is *held*: packed once, a block of it stays in L2. The other *passes by* in
 * panels of 32 lines, and while one panel meets the held ones, the next is packed. Packing
 * on the way only works for a plain side, so that is the one that passes.
 *
 * Either operand can be the left side; with b on the left, blocks are transposed on their
 * way out. What is weighed is how much has to be transposed, in and out.
 */
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/deal.h"
#include "base/size.h"
#include "op/count.h"
#include "op/matmul/cpu/matmul_amx.h"
#include "op/matmul/cpu/matmul_kernels.h"

#include <math.h>

#define HOLD_BYTES ((int64_t)1 << 20) /* half of a 2 MiB L2 */
#define K_MAX      1024               /* longest pass: a panel is 192 KiB */
#define K_LOW      512                /* of bf16, if there must be several: a panel stays in L1 */

/* Cycles of a step of k: packing a panel to hold, what a panel that passes costs beside its
 * products (its packing is not all hidden, nor its way into L1), and 32 x 32 products. */
typedef struct step_cycles {
    double hold, pass, product;
} step_cycles;

static const step_cycles f32_cycles = { 512, 384, 384 }, bf16_cycles = { 400, 256, 64 };

#define LEAST_CYCLES 20000 /* a whole product below runs in one thread */

/* Cycles, fitted to what bench/gemm measures: 16 for a tile product, half a one for a
 * number that is packed; 26 multiply-adds in one by the AVX-512 kernel, which has to widen
 * bf16 first. */
static bool is_worth_it(const gr_matmul_dims *d, bool is_f32)
{
    double m = (double)d->m, n = (double)d->n, k = (double)d->k;
    double tiles = (double)(gr_div_up(d->m, 16) * gr_div_up(d->n, 16) * gr_div_up(d->k, GR_AMX_K));
    double amx = tiles * 16 * (is_f32 ? 6 : 1) + 0.5 * (m * k + n * k) + 0.3 * m * n + 2000;
    double avx512 = m * n * k / 26 + (is_f32 ? 0 : 0.3 * (m * k + n * k));

    return amx < 0.9 * avx512;
}

const char *gr_matmul_amx_reject(const gr_node *n)
{
    gr_dtype a = n->src[0]->dtype, b = n->src[1]->dtype, y = n->out[0].dtype;
    gr_matmul_dims d;

    if (!gr_cpu_has_amx())
        return "needs AMX";
    if (a != b || (a != GR_F32 && a != GR_BF16) || (y != GR_F32 && y != GR_BF16))
        return "takes two f32 or two bf16 matrices to f32 or bf16";
    gr_matmul_get_dims(n, &d);
    if (gr_matmul_is_empty_sum(n))
        return "an epilogue over sums of nothing is left to the reference";
    return is_worth_it(&d, a == GR_F32) ? NULL : "packing would cost more than tiles save";
}

/* Elements to transpose: on the way in where k runs the wrong way, and y when turned. */
static bool turning_is_cheaper(const gr_matmul_dims *d, const gr_matmul_attr *at)
{
    double a = (double)d->m * (double)d->k, b = (double)d->n * (double)d->k;
    double plain = (at->trans_a ? a : 0) + (at->trans_b ? b : 0);
    double turned = (at->trans_a ? 0 : a) + (at->trans_b ? 0 : b) + (double)d->m * (double)d->n;

    return turned < plain;
}

static void choose_sides(gr_amx_plan *p, const gr_matmul_attr *at)
{
    const gr_matmul_dims *d = &p->d;
    gr_amx_side a = {
        NULL, at->trans_a ? 1 : d->k, at->trans_a ? d->m : 1, true, p->is_f32, false
    };
    gr_amx_side b = {
        NULL, at->trans_b ? d->k : 1, at->trans_b ? 1 : d->n, false, p->is_f32, false
    };
    bool left_plain, right_plain;

    p->turned = turning_is_cheaper(d, at);
    p->left = p->turned ? b : a;
    p->left.is_left = true;
    p->right = p->turned ? a : b;
    p->right.is_left = false;
    p->n_left = p->turned ? d->n : d->m;
    p->n_right = p->turned ? d->m : d->n;
    left_plain = gr_amx_is_plain(&p->left);
    right_plain = gr_amx_is_plain(&p->right);
    p->hold_left = left_plain == right_plain ? p->n_left < p->n_right : right_plain;
}

/* What a hand does, in cycles per step of k, when blocks of h panels are held: it packs each
 * block that it meets, and its panels pass by. */
static double hand_cycles(const gr_amx_plan *p, int64_t h, int64_t n_held, int n_threads)
{
    const double items = (double)(p->d.batch * gr_div_up(n_held, h) * p->n_panels) / n_threads;
    const double blocks = ceil(items / (double)p->n_panels);
    const step_cycles *c = p->is_f32 ? &f32_cycles : &bf16_cycles;

    return blocks * (double)h * c->hold + items * ((double)h * c->product + c->pass);
}

static void choose_blocks(gr_amx_plan *p, int64_t panel_bytes, int n_threads)
{
    const int64_t n_held =
        gr_max64(gr_div_up(p->hold_left ? p->n_left : p->n_right, GR_AMX_LINES), 1);
    const int64_t most = gr_max64(gr_min64(n_held, HOLD_BYTES / panel_bytes), 1);
    int64_t best = most;
    double steps = (double)gr_div_up(p->d.k, GR_AMX_K), cycles = INFINITY;

    p->n_panels = gr_div_up(p->hold_left ? p->n_right : p->n_left, GR_AMX_LINES);
    for (int64_t h = most; h > 0 && p->n_panels > 0; h--) {
        double c = hand_cycles(p, h, n_held, n_threads);

        if (c < cycles) {
            cycles = c;
            best = h;
        }
    }
    p->n_blocks = gr_div_up(n_held, best);
    p->n_hold = gr_div_up(n_held, p->n_blocks) * GR_AMX_LINES;
    p->n_hands = gr_deal_hands(p->d.batch * p->n_blocks * p->n_panels, n_threads);
    if (cycles * n_threads * steps < LEAST_CYCLES)
        p->n_hands = 1;
}

static void lay_out(gr_amx_plan *p, int n_threads)
{
    const int64_t k_most = p->is_f32 || p->d.k <= K_MAX ? K_MAX : K_LOW;
    int64_t n_passes = gr_max64(gr_div_up(p->d.k, k_most), 1), panel;

    p->k_block = gr_max64(gr_div_up(gr_div_up(p->d.k, n_passes), GR_AMX_K), 1) * GR_AMX_K;
    panel = p->k_block / GR_AMX_K * gr_amx_step_bytes(p->is_f32, 2);
    choose_blocks(p, panel, n_threads);
    p->at_panels = (size_t)(p->n_hold / GR_AMX_LINES * panel);
    p->at_c = p->at_panels + 2 * (size_t)panel;
    p->slice_bytes = p->at_c + 2 * sizeof(float) * GR_AMX_LINES * GR_AMX_LINES;
    p->at_sums = p->slice_bytes * (size_t)p->n_hands;
    p->n_bytes = p->at_sums;
    if (p->type_y != GR_F32 && (n_passes > 1 || p->epilogue))
        p->n_bytes += gr_round_up((size_t)(p->d.batch * p->d.m * p->d.n) * sizeof(float), 64);
    p->at_epilogue = p->n_bytes;
    p->n_bytes += gr_epilogue_scratch_bytes(p->epilogue) * (size_t)p->n_hands;
}

gr_status gr_matmul_amx_prepare(gr_prepare *prep)
{
    const gr_node *n = prep->node;
    gr_prepare other = *prep;
    gr_amx_plan *p = gr_calloc(1, sizeof(*p));
    size_t n_other;
    gr_status st;

    if (!p)
        return GR_ERR_NOMEM;
    st = gr_matmul_packed_prepare(&other, &gr_matmul_tile_avx512);
    if (st == GR_OK) {
        p->other = other.data;
        if (n->fusion)
            st = gr_epilogue_plan_create(&p->epilogue, n, &gr_map_avx512);
    }
    if (st != GR_OK) {
        gr_matmul_amx_release(p);
        return st;
    }
    p->is_f32 = n->src[0]->dtype == GR_F32;
    p->type_y = n->out[0].dtype;
    gr_matmul_get_dims(n, &p->d);
    choose_sides(p, n->attr);
    lay_out(p, prep->n_threads < 1 ? 1 : prep->n_threads);
    n_other = gr_matmul_packed_workspace(n, p->other);
    p->n_bytes = p->n_bytes > n_other ? p->n_bytes : n_other;
    prep->data = p;
    return GR_OK;
}

size_t gr_matmul_amx_workspace(const gr_node *n, const void *data)
{
    const gr_amx_plan *p = data;

    (void)n;
    return p->n_bytes;
}

void gr_matmul_amx_release(void *data)
{
    gr_amx_plan *p = data;

    if (p) {
        gr_matmul_packed_release(p->other);
        gr_free(p->epilogue);
    }
    gr_free(p);
}
