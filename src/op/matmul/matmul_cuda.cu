/*
 * Matrix products on the GPU: cuBLASLt, and a plain kernel for what it does not take.
 *
 * cuBLASLt counts columns first. A row-major matrix is the column-major matrix of its
 * transpose, so out = a b is asked for as out^T = b^T a^T: operands swapped, no copies.
 *
 *           stored (row major)     as cuBLASLt sees it     op
 *   b       [k, n]                 n x k, ld n             N
 *   b       [n, k]  trans_b        k x n, ld k             T
 *   a       [m, k]                 k x m, ld k             N
 *   a       [k, m]  trans_a        m x k, ld m             T
 *   out     [m, n]                 n x m, ld n
 *
 * f32 products are true f32 (no TF32). Schemes that add partial sums in varying order
 * are excluded, and the algorithm is chosen once per plan: same shapes, same bits.
 */
#include "op/matmul/matmul.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "base/alloc.h"
#include "base/log.h"
#include "op/module_cuda.h"

#include <cublasLt.h>

#define MAX_WORK_BYTES ((size_t)32 << 20)
#define WORK_ALIGN     256 /* asked for by cuBLASLt; the arena promises 64 */
#define VALUE_ALIGN    64

/* ---- plain kernel ---- */

typedef struct plain_args {
    void *out;
    const void *a, *b;
    gr_matmul_dims d;
    gr_dtype t_a, t_b, t_out;
    bool trans_a, trans_b;
} plain_args;

/* Result elements, grid-stride. Sums in double. */
static __global__ void matmul_plain(plain_args p)
{
    int64_t mn = p.d.m * p.d.n;
    int64_t step_a = p.trans_a ? p.d.m : 1, step_b = p.trans_b ? 1 : p.d.n;

    GR_CUDA_EACH(i, p.d.batch * mn)
    {
        int64_t g = i / mn, row = i % mn / p.d.n, col = i % p.d.n;
        int64_t a = g * p.d.stride_a + row * (p.trans_a ? 1 : p.d.k);
        int64_t b = g * p.d.stride_b + col * (p.trans_b ? p.d.k : 1);
        double sum = 0.0;

        for (int64_t k = 0; k < p.d.k; k++, a += step_a, b += step_b)
            sum += gr_load_f64(p.a, a, p.t_a) * gr_load_f64(p.b, b, p.t_b);
        gr_store_f64(p.out, g * p.d.stride_out + row * p.d.n + col, p.t_out, sum);
    }
}

static gr_status plain_run(const gr_launch *l)
{
    const gr_matmul_attr *at = (const gr_matmul_attr *)l->node->attr;
    plain_args p;

    p.out = l->out[0];
    p.a = l->src[0];
    p.b = l->src[1];
    gr_matmul_get_dims(l->node, &p.d);
    p.t_a = l->node->src[0]->dtype;
    p.t_b = l->node->src[1]->dtype;
    p.t_out = l->node->out[0].dtype;
    p.trans_a = at->trans_a;
    p.trans_b = at->trans_b;
    return gr_cuda_launch("matmul launch", gr_cuda_grid_for(p.d.batch * p.d.m * p.d.n),
                          gr_cuda_stream(l->stream), matmul_plain, p);
}

/* ---- cuBLASLt ---- */

typedef struct product {
    gr_matmul_dims d;
    cublasLtHandle_t blas; /* borrowed from the device */
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, out;
    cublasLtMatmulAlgo_t algo;
    size_t work_bytes;
    bool is_wide; /* f64: alpha and beta are double */
    bool plain;   /* no algorithm for this shape: the plain kernel runs */
} product;

static gr_status check(cublasStatus_t s, const char *what)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return GR_OK;
    return gr_fail(s == CUBLAS_STATUS_ALLOC_FAILED ? GR_ERR_NOMEM : GR_ERR_DEVICE, "%s: %s", what,
                   cublasLtGetStatusString(s));
}

static cudaDataType_t vendor_type(gr_dtype t)
{
    switch (t) {
    case GR_F64: return CUDA_R_64F;
    case GR_BF16: return CUDA_R_16BF;
    case GR_F16: return CUDA_R_16F;
    default: return CUDA_R_32F;
    }
}

static const char *lt_reject(const gr_node *n)
{
    gr_dtype a = n->src[0]->dtype, b = n->src[1]->dtype, out = n->out[0].dtype;
    bool is_half = a == GR_BF16 || a == GR_F16;

    if (a != b)
        return "operand types differ";
    if (out != a && !(is_half && out == GR_F32))
        return "cuBLASLt has no product with this result type";
    return NULL;
}

static void lt_release(void *data)
{
    product *p = (product *)data;

    if (!p)
        return;
    if (p->out)
        cublasLtMatrixLayoutDestroy(p->out);
    if (p->b)
        cublasLtMatrixLayoutDestroy(p->b);
    if (p->a)
        cublasLtMatrixLayoutDestroy(p->a);
    if (p->op)
        cublasLtMatmulDescDestroy(p->op);
    gr_free(p);
}

typedef struct operand {
    gr_dtype type;
    int64_t rows, cols; /* column major, so rows is the leading dimension */
    int64_t stride;     /* elements between the matrices of a batch */
} operand;

static gr_status make_layout(cublasLtMatrixLayout_t *out, const operand *o, int64_t batch)
{
    int32_t n = (int32_t)batch;

    /* An operand of one column may have any leading dimension but 0. */
    GR_TRY(check(cublasLtMatrixLayoutCreate(out, vendor_type(o->type), (uint64_t)o->rows,
                                            (uint64_t)o->cols, o->rows),
                 "matrix layout"));
    if (batch <= 1)
        return GR_OK;
    GR_TRY(check(
        cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof(n)),
        "matrix layout"));
    return check(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                  &o->stride, sizeof(o->stride)),
                 "matrix layout");
}

static gr_status make_descriptors(product *p, const gr_node *n)
{
    const gr_matmul_attr *at = (const gr_matmul_attr *)n->attr;
    const gr_matmul_dims *d = &p->d;
    cublasOperation_t op_a = at->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = at->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    operand a = { n->src[0]->dtype, at->trans_a ? d->m : d->k, at->trans_a ? d->k : d->m,
                  d->stride_a };
    operand b = { n->src[1]->dtype, at->trans_b ? d->k : d->n, at->trans_b ? d->n : d->k,
                  d->stride_b };
    operand out = { n->out[0].dtype, d->n, d->m, d->stride_out };

    p->is_wide = a.type == GR_F64;
    GR_TRY(
        check(cublasLtMatmulDescCreate(&p->op, p->is_wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                       p->is_wide ? CUDA_R_64F : CUDA_R_32F),
              "matmul descriptor"));
    /* Swapped: our b is its first operand. */
    GR_TRY(check(
        cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSA, &op_b, sizeof(op_b)),
        "matmul descriptor"));
    GR_TRY(check(
        cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSB, &op_a, sizeof(op_a)),
        "matmul descriptor"));
    GR_TRY(make_layout(&p->a, &a, d->batch));
    GR_TRY(make_layout(&p->b, &b, d->batch));
    return make_layout(&p->out, &out, d->batch);
}

/* What an algorithm may use: workspace, alignment of our memory, ordered sums only. */
static gr_status set_preference(cublasLtMatmulPreference_t pref)
{
    uint64_t work = MAX_WORK_BYTES;
    uint32_t align = VALUE_ALIGN;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
    };

    GR_TRY(check(cublasLtMatmulPreferenceSetAttribute(
                     pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &work, sizeof(work)),
                 "matmul preference"));
    GR_TRY(check(cublasLtMatmulPreferenceSetAttribute(
                     pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes)),
                 "matmul preference"));
    for (size_t i = 0; i < sizeof(aligned) / sizeof(aligned[0]); i++)
        GR_TRY(check(cublasLtMatmulPreferenceSetAttribute(pref, aligned[i], &align, sizeof(align)),
                     "matmul preference"));
    return GR_OK;
}

static gr_status choose_algorithm(product *p)
{
    cublasLtMatmulPreference_t pref = NULL;
    cublasLtMatmulHeuristicResult_t best;
    cublasStatus_t s;
    int n_found = 0;
    gr_status st;

    GR_TRY(check(cublasLtMatmulPreferenceCreate(&pref), "matmul preference"));
    GR_TRY_GOTO(st, set_preference(pref), done);
    s = cublasLtMatmulAlgoGetHeuristic(p->blas, p->op, p->b, p->a, p->out, p->out, pref, 1, &best,
                                       &n_found);
    if (s == CUBLAS_STATUS_NOT_SUPPORTED || (s == CUBLAS_STATUS_SUCCESS && n_found == 0)) {
        p->plain = true;
        gr_log(CUDA, DEBUG, "matmul: no cuBLASLt algorithm, the plain kernel runs");
        goto done;
    }
    GR_TRY_GOTO(st, check(s, "choice of a matmul algorithm"), done);
    p->algo = best.algo;
    p->work_bytes = best.workspaceSize;
done:
    cublasLtMatmulPreferenceDestroy(pref);
    return st;
}

static gr_status lt_prepare(gr_prepare *pr)
{
    product *p = (product *)gr_calloc(1, sizeof(*p));
    gr_status st;

    if (!p)
        return GR_ERR_NOMEM;
    gr_matmul_get_dims(pr->node, &p->d);
    if (p->d.batch * p->d.m * p->d.n * p->d.k > 0) {
        GR_TRY_GOTO(st, gr_cuda_blas((gr_cuda_device *)pr->device, pr->stream, &p->blas), fail);
        GR_TRY_GOTO(st, make_descriptors(p, pr->node), fail);
        GR_TRY_GOTO(st, choose_algorithm(p), fail);
    }
    pr->data = p;
    return GR_OK;

fail:
    lt_release(p);
    return st;
}

static size_t lt_workspace(const gr_node *n, const void *data)
{
    const product *p = (const product *)data;

    (void)n;
    return p->work_bytes ? p->work_bytes + WORK_ALIGN : 0;
}

/* The product over an empty k: zeros. */
static gr_status run_empty(const gr_launch *l, const gr_matmul_dims *d)
{
    size_t n_bytes = (size_t)(d->batch * d->m * d->n) * gr_dtype_bytes(l->node->out[0].dtype);

    if (n_bytes == 0)
        return GR_OK;
    return gr_cuda_check(cudaMemsetAsync(l->out[0], 0, n_bytes, gr_cuda_stream(l->stream)),
                         "matmul of nothing");
}

static gr_status lt_run(const gr_launch *l)
{
    const product *p = (const product *)l->data;
    static const float one = 1.0f, zero = 0.0f;
    static const double one_wide = 1.0, zero_wide = 0.0;
    uintptr_t work = ((uintptr_t)l->work + WORK_ALIGN - 1) & ~(uintptr_t)(WORK_ALIGN - 1);
    const void *alpha = p->is_wide ? (const void *)&one_wide : (const void *)&one;
    const void *beta = p->is_wide ? (const void *)&zero_wide : (const void *)&zero;

    if (p->d.batch * p->d.m * p->d.n * p->d.k == 0)
        return run_empty(l, &p->d);
    if (p->plain)
        return plain_run(l);
    return check(cublasLtMatmul(p->blas, p->op, alpha, l->src[1], p->b, l->src[0], p->a, beta,
                                l->out[0], p->out, l->out[0], p->out, &p->algo,
                                p->work_bytes ? (void *)work : NULL, p->work_bytes,
                                gr_cuda_stream(l->stream)),
                 "cublasLtMatmul");
}

const gr_kernel gr_matmul_cuda[] = {
    {
        .name = "cublaslt",
        .reject = lt_reject,
        .prepare = lt_prepare,
        .workspace = lt_workspace,
        .run = lt_run,
        .release = lt_release,
        .no_capture = false,
        .in_place = false,
    },
    {
        .name = "reference",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = plain_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
