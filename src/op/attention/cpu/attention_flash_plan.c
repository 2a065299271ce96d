/* The fast kernels of attention: which nodes they take, sizes of sides, cuts between threads. */
#include "base/alloc.h"
#include "base/deal.h"
#include "op/attention/cpu/attention_flash.h"
#include "op/count.h"
#include "op/matmul/cpu/matmul_amx.h"

#define CHUNK_BYTES ((int64_t)768 << 10) /* of a chunk of queries, of a 2 MiB L2 */
#define PIECES      4                    /* dealt to a thread at least */
#define LEFT_PAD    16 /* floats: lines of a left side do not all fall on the same cache sets */

static int64_t clamp(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

const char *gr_flash_reject(const gr_node *n)
{
    const bool is_grad = n->op == &gr_op_attention_grad;
    const gr_dtype t = n->src[0]->dtype;

    if (t == GR_F64 || n->out[0].dtype == GR_F64)
        return "f64 is left to the reference";
    if (is_grad && (n->src[3]->dtype != t || n->src[5]->dtype != t))
        return "takes q, k, v, o and its gradient of one type";
    for (int s = 0; s < n->n_src; s++)
        if (n->src[s]->dtype == GR_F64)
            return "f64 is left to the reference";
    return n->src[0]->shape.dim[3] < 1 ? "there is nothing in a head" : NULL;
}

static void set_vector_sizes(gr_flash *f)
{
    gr_flash_sizes *z = &f->z;
    const int64_t queries = GR_FLASH_GROUP * GR_FLASH_COLS;

    z->left_rows_step = f->d_pad + LEFT_PAD;
    z->left_rows = (size_t)(GR_FLASH_KEYS * z->left_rows_step) * sizeof(float);
    z->left_cols_step = GR_FLASH_KEYS + LEFT_PAD;
    z->left_cols = (size_t)(f->d_pad * z->left_cols_step) * sizeof(float);
    z->right_rows = (size_t)(f->d_pad * GR_FLASH_COLS) * sizeof(float);
    z->right_cols_step = f->d_pad;
    z->right_cols = (size_t)(queries * f->d_pad) * sizeof(float);
    z->right_cols_panel = GR_FLASH_COLS * sizeof(float);
    z->p_step = GR_FLASH_COLS;
    z->p = 0; /* the scores become p where they are */
    z->p_left_step = queries + LEFT_PAD;
    z->p_left = (size_t)(GR_FLASH_KEYS * z->p_left_step) * sizeof(float);
    z->p_left_panel = GR_FLASH_COLS * sizeof(float);
}

/* The same of words: two numbers of a left side, and two rows of a right one. */
static void set_pair_sizes(gr_flash *f)
{
    gr_flash_sizes *z = &f->z;
    const int64_t queries = GR_FLASH_GROUP * GR_FLASH_COLS, number = sizeof(uint16_t);

    z->left_rows_step = GR_FLASH_PAIRS_LINE(f->d_pad);
    z->left_rows = (size_t)(GR_FLASH_KEYS * z->left_rows_step * number);
    z->left_cols_step = GR_FLASH_PAIRS_LINE(GR_FLASH_KEYS);
    z->left_cols = (size_t)(f->d_pad * z->left_cols_step * number);
    z->right_rows = (size_t)(f->d_pad * GR_FLASH_COLS * number);
    z->right_cols_step = GR_FLASH_COLS;
    z->right_cols_panel = (size_t)(queries * GR_FLASH_COLS * number);
    z->right_cols = (size_t)(f->d_pad / GR_FLASH_COLS) * z->right_cols_panel;
    z->p_step = GR_FLASH_COLS;
    z->p = (size_t)(GR_FLASH_KEYS * GR_FLASH_COLS * number);
    z->p_left_step = GR_FLASH_PAIRS_LINE(queries);
    z->p_left = (size_t)(GR_FLASH_KEYS * z->p_left_step * number);
    z->p_left_panel = (size_t)(GR_FLASH_COLS * number);
}

static void set_tile_sizes(gr_flash *f)
{
    const size_t step = (size_t)gr_amx_step_bytes(f->is_f32, 2);
    const int64_t n_d = f->d_pad / GR_AMX_LINES, n_key = GR_FLASH_KEYS / GR_AMX_LINES;
    gr_flash_sizes *z = &f->z;

    z->left_rows_step = n_d * (int64_t)step;
    z->left_rows = (size_t)n_key * (size_t)z->left_rows_step;
    z->left_cols_step = n_key * (int64_t)step;
    z->left_cols = (size_t)n_d * (size_t)z->left_cols_step;
    z->right_rows = (size_t)n_d * step;
    z->right_cols_panel = (size_t)GR_FLASH_GROUP * step;
    z->right_cols = (size_t)n_d * z->right_cols_panel;
    z->p = (size_t)n_key * step;
    z->p_left_step = GR_FLASH_GROUP * (int64_t)step;
    z->p_left = (size_t)n_key * (size_t)z->p_left_step;
    z->p_left_panel = step;
}

/* Panels of a chunk: as many as stay in L2, whole groups. */
static void set_chunk(gr_flash *f, bool is_grad)
{
    const int64_t per_panel = is_grad ? (int64_t)(2 * f->z.right_rows) +
                                            (int64_t)(2 * f->z.right_cols) / GR_FLASH_GROUP +
                                            f->d_pad * GR_FLASH_COLS * 4
                                      : (int64_t)f->z.right_rows + f->d_pad * GR_FLASH_COLS * 4;
    const int64_t most = gr_div_up(f->n_panels, GR_FLASH_GROUP) * GR_FLASH_GROUP;
    const int64_t fit = CHUNK_BYTES / per_panel / GR_FLASH_GROUP * GR_FLASH_GROUP;

    f->chunk = clamp(fit, GR_FLASH_GROUP, most > 0 ? most : GR_FLASH_GROUP);
}

static void set_cuts(gr_flash *f, int n_threads, bool is_grad)
{
    const int64_t n_heads = f->d.b * f->d.hkv;

    if (!is_grad) {
        f->n_slices = gr_deal_hands(f->d.b * f->d.hq * f->n_panels, n_threads);
        return;
    }
    /* Heads that do not deal out evenly leave threads idle, up to half of them; two separate
     * passes cost seven products for five. */
    f->by_head = n_heads / 2 >= n_threads || n_heads % n_threads == 0;
    f->n_slices = gr_deal_hands(f->by_head ? n_heads : n_heads * f->n_blocks, n_threads);
}

int64_t gr_flash_grain(const gr_flash *f, int64_t n_heads, int64_t n)
{
    const int64_t pieces = PIECES * f->n_slices;

    if (f->n_slices == 1 || n_heads >= pieces || n_heads == 0)
        return clamp(n, 1, n);
    return clamp(n / gr_div_up(pieces, n_heads), 1, n);
}

static void set_plan(gr_flash *f, const gr_node *n, const gr_flash_engine *e)
{
    gr_attention_get_dims(n, &f->d);
    f->at = n->attr;
    f->e = e;
    f->type = n->src[0]->dtype;
    f->is_f32 = f->type == GR_F32;
    f->soft = f->type == GR_BF16 ? e->soft_bf16 : e->soft;
    f->scale_out = e->tiles && f->is_f32 ? 0x1p-48f : 1;
    f->n_panels = gr_div_up(f->d.nq, GR_FLASH_COLS);
    f->n_blocks = gr_div_up(f->d.nk, GR_FLASH_KEYS);
    f->d_pad = gr_div_up(f->d.d, GR_FLASH_COLS) * GR_FLASH_COLS;
    if (e->tiles)
        set_tile_sizes(f);
    else if (e->tile->word > 1)
        set_pair_sizes(f);
    else
        set_vector_sizes(f);
}

gr_status gr_flash_prepare(gr_prepare *p, const gr_flash_engine *e)
{
    const bool is_grad = p->node->op == &gr_op_attention_grad;
    gr_flash *f = gr_calloc(1, sizeof(*f));

    if (!f)
        return GR_ERR_NOMEM;
    set_plan(f, p->node, e);
    set_chunk(f, is_grad);
    set_cuts(f, p->n_threads, is_grad);
    f->slice_bytes = is_grad ? gr_flash_grad_bytes(f) : gr_flash_forward_bytes(f);
    if (e->tiles && f->is_f32) {
        gr_prepare other = *p;
        gr_status st = gr_flash_prepare(&other, &gr_flash_avx512);

        if (st != GR_OK) {
            gr_free(f);
            return st;
        }
        f->other = other.data;
    }
    p->data = f;
    return GR_OK;
}

size_t gr_flash_workspace(const gr_node *n, const void *data)
{
    const gr_flash *f = data;
    const size_t mine = (size_t)f->n_slices * f->slice_bytes;
    const size_t others = f->other ? gr_flash_workspace(n, f->other) : 0;

    return mine > others ? mine : others;
}

void gr_flash_release(void *data)
{
    gr_flash *f = data;

    if (f)
        gr_flash_release(f->other);
    gr_free(f);
}

void *gr_flash_take(gr_flash_room *r, size_t n_bytes)
{
    void *at = r->base ? r->base + r->used : NULL;

    r->used += (n_bytes + 63) / 64 * 64;
    return at;
}
