/*
 * layer_norm and rms_norm on the CPU by vectors and threads, and their lists of kernels.
 *
 * Forward a slice takes whole rows. Backward rows are cut into blocks that depend on the shape
 * alone; each block adds up dw and db on its own, and blocks are added in order. So bits do
 * not depend on the number of threads.
 */
#include "base/cpu.h"
#include "op/norm/cpu/norm_kernels.h"

#include <string.h>

#define SLICE_MIN  (8 << 10) /* elements that are worth a thread */
#define BLOCK_ROWS 64        /* at least; more where there would be more than MAX_BLOCKS */
#define MAX_BLOCKS 64

typedef struct job {
    const gr_norm_rows_isa *isa;
    gr_norm_rows rows;
    int64_t block_rows, n_blocks;
    float *sums; /* of each block: dw [c], db [c] */
} job;

static int64_t channels_of(const gr_node *n)
{
    const gr_shape *s = &n->src[0]->shape;

    return s->dim[s->n_dims - 1];
}

static int64_t rows_of(const gr_node *n)
{
    int64_t rows = 1;

    for (int i = 0; i < n->src[0]->shape.n_dims - 1; i++)
        rows *= n->src[0]->shape.dim[i];
    return rows;
}

static int64_t block_rows_of(const gr_node *n)
{
    int64_t rows = rows_of(n), most = (rows + MAX_BLOCKS - 1) / MAX_BLOCKS;

    return most > BLOCK_ROWS ? most : BLOCK_ROWS;
}

static int64_t blocks_of(const gr_node *n)
{
    int64_t block = block_rows_of(n);

    return (rows_of(n) + block - 1) / block;
}

/* Ones and zeros in the place of weight and bias. */
static size_t forward_workspace(const gr_node *n, const void *data)
{
    (void)data;
    return 2 * (size_t)channels_of(n) * sizeof(float);
}

static size_t backward_workspace(const gr_node *n, const void *data)
{
    (void)data;
    return (1 + 2 * (size_t)blocks_of(n)) * (size_t)channels_of(n) * sizeof(float);
}

static const float *ones(float *mem, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        mem[i] = value;
    return mem;
}

static gr_norm_rows rows_init(const gr_launch *l)
{
    const gr_row_norm_attr *a = l->node->attr;

    return (gr_norm_rows){ .x = l->src[0],
                           .out = l->out[0],
                           .x_type = l->node->src[0]->dtype,
                           .out_type = l->node->out[0].dtype,
                           .n = rows_of(l->node),
                           .c = channels_of(l->node),
                           .eps = (float)a->eps,
                           .clamped = a->clamped };
}

static int slices_for(const gr_launch *l, const gr_norm_rows *k)
{
    return k->n * k->c < SLICE_MIN ? 1 : gr_pool_size(l->pool);
}

static void forward_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    int64_t lo, hi;

    gr_pool_cut(j->rows.n, 1, slice, n_slices, &lo, &hi);
    j->isa->forward(&j->rows, lo, hi);
}

static gr_status run_forward(const gr_launch *l, const gr_norm_rows_isa *isa)
{
    const gr_row_norm_attr *a = l->node->attr;
    job j = { .isa = isa, .rows = rows_init(l) };
    gr_norm_rows *k = &j.rows;
    float *work = l->work;

    k->weight = a->has_weight ? l->src[1] : ones(work, k->c, 1);
    k->bias = a->has_bias ? l->src[1 + a->has_weight] : ones(work + k->c, k->c, 0);
    k->mean = l->node->n_out == 3 ? l->out[1] : NULL;
    k->rstd = l->out[l->node->n_out - 1];
    gr_pool_run(l->pool, forward_slice, &j, slices_for(l, k));
    return GR_OK;
}

static void backward_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    int64_t lo, hi;

    gr_pool_cut(j->n_blocks, 1, slice, n_slices, &lo, &hi);
    for (int64_t b = lo; b < hi; b++) {
        float *dw = j->sums + 2 * b * j->rows.c;
        int64_t first = b * j->block_rows, end = first + j->block_rows;

        memset(dw, 0, 2 * (size_t)j->rows.c * sizeof(float));
        j->isa->backward(&j->rows, first, end < j->rows.n ? end : j->rows.n, dw, dw + j->rows.c);
    }
}

/* out[c] = the blocks' sums at `from`, in order. */
static void add_blocks(const job *j, float *out, int64_t from)
{
    memset(out, 0, (size_t)j->rows.c * sizeof(float));
    for (int64_t b = 0; b < j->n_blocks; b++) {
        const float *sum = j->sums + 2 * b * j->rows.c + from;

        for (int64_t c = 0; c < j->rows.c; c++)
            out[c] += sum[c];
    }
}

static gr_status run_backward(const gr_launch *l, const gr_norm_rows_isa *isa)
{
    const gr_row_norm_attr *a = l->node->attr;
    bool centred = l->node->op == &gr_op_layer_norm_grad;
    job j = { .isa = isa, .rows = rows_init(l) };
    gr_norm_rows *k = &j.rows;
    float *work = l->work;

    if (k->c == 0)
        return GR_OK; /* nothing, and no workspace */
    k->dy = l->src[1];
    k->dy_type = l->node->src[1]->dtype;
    k->mean = centred ? l->src[2] : NULL;
    k->rstd = l->src[centred ? 3 : 2];
    k->weight = a->has_weight ? l->src[centred ? 4 : 3] : ones(work, k->c, 1);
    j.block_rows = block_rows_of(l->node);
    j.n_blocks = blocks_of(l->node);
    j.sums = work + k->c;
    gr_pool_run(l->pool, backward_slice, &j, slices_for(l, k));
    if (a->has_weight)
        add_blocks(&j, l->out[1], 0);
    if (a->has_bias)
        add_blocks(&j, l->out[2], k->c);
    return GR_OK;
}

/* ---- the lists ---- */

static bool is_fast(gr_dtype t)
{
    return t == GR_F32 || t == GR_BF16 || t == GR_F16;
}

/* Sources that are vectors of channels stand behind x (and dy and statistics). */
static const char *reject_types(const gr_node *n)
{
    if (!is_fast(n->src[0]->dtype) || !is_fast(n->out[0].dtype))
        return "f64 is left to the reference";
    for (int s = 1; s < n->n_src; s++)
        if (n->src[s]->dtype != GR_F32 && n->src[s]->shape.n_dims == 1)
            return "weight and bias must be f32";
    return is_fast(n->src[n->n_src - 1]->dtype) ? NULL : "f64 is left to the reference";
}

static const char *avx512_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? reject_types(n) : "needs AVX-512";
}

static const char *avx2_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? reject_types(n) : "needs AVX2 and F16C";
}

static gr_status avx512_forward(const gr_launch *l)
{
    return run_forward(l, &gr_norm_rows_avx512);
}

static gr_status avx2_forward(const gr_launch *l)
{
    return run_forward(l, &gr_norm_rows_avx2);
}

static gr_status avx512_backward(const gr_launch *l)
{
    return run_backward(l, &gr_norm_rows_avx512);
}

static gr_status avx2_backward(const gr_launch *l)
{
    return run_backward(l, &gr_norm_rows_avx2);
}

#define KERNELS(table, direction, reference)       \
    const gr_kernel table[] = {                    \
        { .name = "avx512",                        \
          .reject = avx512_reject,                 \
          .workspace = direction##_workspace,      \
          .run = avx512_##direction },             \
        { .name = "avx2",                          \
          .reject = avx2_reject,                   \
          .workspace = direction##_workspace,      \
          .run = avx2_##direction },               \
        { .name = "reference", .run = reference }, \
        { .name = NULL },                          \
    }

KERNELS(gr_layer_norm_cpu, forward, gr_row_norm_ref_run);
KERNELS(gr_layer_norm_grad_cpu, backward, gr_row_norm_grad_ref_run);
KERNELS(gr_rms_norm_cpu, forward, gr_row_norm_ref_run);
KERNELS(gr_rms_norm_grad_cpu, backward, gr_row_norm_grad_ref_run);
