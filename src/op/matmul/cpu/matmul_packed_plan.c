/*
 * The fast product: which operand is vectorised, blocks, cuts between threads, workspace.
 *
 * Which operand is v weighs the lanes that are wasted, what must be packed and what must be
 * turned: a layer's forward pass packs its 128 samples instead of its 512 rows of weights. A
 * tile's rows of s live in L1, a block of v in L2.
 */
#include "base/alloc.h"
#include "base/size.h"
#include "op/matmul/cpu/matmul_packed.h"

#define K_MAX        512                /* longest run of k in one block, in words */
#define K_MAX_TURNED 1024               /* the same when turning makes another pass over y dear */
#define V_BYTES      ((int64_t)1 << 20) /* of packed v: half of a 2 MiB L2 */
#define ALIAS        4096               /* bytes between lines that fall together in L1 */
#define DIRECT_MAX   48                 /* tiles that may read v where it lies */

/* The run of k per pass, all of them about equal. Passes begin where chains of sums do
 * (matmul_chain_body.h), so that how many there are changes no bit: which side is turned depends on
 * the number of rows, and a sample's result must not depend on what stands beside it. */
static int64_t k_block(int64_t k, bool turned, const gr_tile_isa *isa)
{
    int64_t n_passes = gr_div_up(k, (int64_t)(turned ? K_MAX_TURNED : K_MAX) * isa->word);

    if (n_passes <= 1)
        return k;
    return (int64_t)gr_round_up((size_t)gr_div_up(k, n_passes), (size_t)GR_TILE_CHAIN);
}

/* v may be read where it lies when its neighbours are neighbours in memory, few tiles
 * share them, a pass stays within L2 and the reach of the TLB, and successive k do not
 * fall into the same few lines of L1. */
static bool may_be_direct(const gr_matmul_dims *d, bool turned, const gr_gemm_side *v,
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
static double cost(const gr_matmul_dims *d, bool turned, const gr_gemm_side *v,
                   const gr_tile_isa *isa)
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

static void choose_sides(gr_gemm *m, const gr_matmul_attr *at)
{
    const gr_matmul_dims *d = &m->d;
    gr_gemm_side a = { at->trans_a ? 1 : d->k, at->trans_a ? d->m : 1 };
    gr_gemm_side b = { at->trans_b ? d->k : 1, at->trans_b ? 1 : d->n };

    m->turned = cost(d, true, &a, m->isa) < cost(d, false, &b, m->isa);
    m->v = m->turned ? a : b;
    m->s = m->turned ? b : a;
    m->n_v = m->turned ? d->m : d->n;
    m->n_s = m->turned ? d->n : d->m;
    m->direct = may_be_direct(d, m->turned, &m->v, m->isa);
    m->aside = m->s.step_k == 1 && m->s.step_i * m->elem % ALIAS == 0 && m->n_v > m->isa->width;
}

/* Batch entries first, then panels of v (nothing is packed twice), then rows of s. */
static void choose_cuts(gr_gemm *m, int n_threads)
{
    int64_t panels = gr_div_up(m->n_v, m->isa->width), tiles = gr_div_up(m->n_s, m->isa->rows);
    int64_t left = n_threads;

    m->cuts_batch = (int)gr_min64(left, m->d.batch > 0 ? m->d.batch : 1);
    left /= m->cuts_batch;
    m->cuts_v = (int)gr_min64(left, panels > 0 ? panels : 1);
    left /= m->cuts_v;
    m->cuts_s = (int)gr_min64(left, tiles > 0 ? tiles : 1);
}

static void choose_blocks(gr_gemm *m)
{
    int64_t width = m->isa->width;
    int64_t most = gr_div_up(gr_div_up(m->n_v, width), m->cuts_v) * width;

    m->k_block = k_block(m->d.k, m->turned, m->isa);
    m->v_block = width; /* direct: for a last panel that is not full */
    if (!m->direct && m->k_block > 0) {
        int64_t fits = V_BYTES / (gr_gemm_words(m, m->k_block) * (int64_t)sizeof(float)) / width;

        m->v_block = gr_min64(most, (fits > 0 ? fits : 1) * width);
    }
    m->in_slice = m->type_y != GR_F32 && !m->turned && !m->direct && m->k_block == m->d.k;
}

static size_t scratch_bytes(int64_t n_floats)
{
    return gr_round_up((size_t)n_floats * sizeof(float), 64);
}

static void lay_out(gr_gemm *m)
{
    const gr_matmul_dims *d = &m->d;
    const int64_t rows = m->isa->rows, words = gr_gemm_words(m, m->k_block);
    const bool widens = m->isa->word == 1;
    size_t at;

    m->at_s = scratch_bytes(m->v_block * words);
    m->at_turn = m->at_s + scratch_bytes(rows * (words + GR_GEMM_TURN));
    m->at_sums = m->at_turn + scratch_bytes((int64_t)GR_GEMM_TURN * m->isa->width);
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

static gr_status plan_epilogue(gr_gemm *m, const gr_node *n)
{
    bool is_512 = m->isa != &gr_matmul_tile_avx2;

    if (!n->fusion)
        return GR_OK;
    return gr_epilogue_plan_create(&m->epilogue, n, is_512 ? &gr_map_avx512 : &gr_map_avx2);
}

/* For numbers that do not fit. */
static gr_status plan_other(gr_gemm *m, const gr_prepare *p)
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
    gr_gemm *m = gr_calloc(1, sizeof(*m));

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
    gr_gemm *m = data;

    if (m) {
        gr_matmul_packed_release(m->other);
        gr_free(m->epilogue);
    }
    gr_free(m);
}

size_t gr_matmul_packed_workspace(const gr_node *n, const void *data)
{
    const gr_gemm *m = data;
    size_t others = m->other ? gr_matmul_packed_workspace(n, m->other) : 0;

    return m->n_bytes > others ? m->n_bytes : others;
}
