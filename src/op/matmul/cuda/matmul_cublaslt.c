/*
 * Matrix products by cuBLASLt.
 *
 * It counts columns first. A row-major matrix is the column-major matrix of its
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
 * are excluded, and the algorithm is chosen once per plan: same shapes, same bits. A variant is
 * an algorithm by all numbers that the library configures it with, so a choice means the same
 * to another process; products for which it has none are declined.
 */
#include "op/matmul/cuda/matmul_cuda.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/lib_cublaslt.h"
#include "base/alloc.h"

#include <stddef.h>

#define MAX_VARIANTS 8
#define WORK_ALIGN   256 /* asked for by cuBLASLt; if the device promises less */
#define VALUE_ALIGN  64

typedef struct product {
    const gr_cublaslt *lt;
    gr_matmul_dims d;
    cublasLtHandle_t blas; /* borrowed from the device */
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, out;
    cublasLtMatmulAlgo_t algo;
    size_t work_bytes;
    bool is_wide; /* f64: alpha and beta are double */
} product;

static gr_status check(const gr_cublaslt *lt, cublasStatus_t s, const char *what)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return GR_OK;
    return gr_fail(s == CUBLAS_STATUS_ALLOC_FAILED ? GR_ERR_NOMEM : GR_ERR_DEVICE, "%s: %s", what,
                   lt->GetStatusString(s));
}

static cudaDataType_t vendor_type(gr_dtype t)
{
    return t == GR_F64    ? CUDA_R_64F
           : t == GR_BF16 ? CUDA_R_16BF
           : t == GR_F16  ? CUDA_R_16F
                          : CUDA_R_32F;
}

const char *gr_matmul_lt_reject(const gr_node *n)
{
    gr_dtype a = n->src[0]->dtype, b = n->src[1]->dtype, out = n->out[0].dtype;
    bool is_half = a == GR_BF16 || a == GR_F16;

    if (a != b)
        return "operand types differ";
    if (out != a && !(is_half && out == GR_F32))
        return "cuBLASLt has no product with this result type";
    return NULL;
}

void gr_matmul_lt_release(void *data)
{
    product *p = (product *)data;

    if (!p)
        return;
    if (p->out)
        p->lt->MatrixLayoutDestroy(p->out);
    if (p->b)
        p->lt->MatrixLayoutDestroy(p->b);
    if (p->a)
        p->lt->MatrixLayoutDestroy(p->a);
    if (p->op)
        p->lt->MatmulDescDestroy(p->op);
    gr_free(p);
}

/* ---- descriptions ---- */

typedef struct operand {
    gr_dtype type;
    int64_t rows, cols; /* column major, so rows is the leading dimension */
    int64_t stride;     /* elements between the matrices of a batch */
} operand;

static gr_status set_layout(const gr_cublaslt *lt, cublasLtMatrixLayout_t layout,
                            cublasLtMatrixLayoutAttribute_t what, const void *mem, size_t n_bytes)
{
    return check(lt, lt->MatrixLayoutSetAttribute(layout, what, mem, n_bytes), "matrix layout");
}

static gr_status make_layout(const gr_cublaslt *lt, cublasLtMatrixLayout_t *out, const operand *o,
                             int64_t batch)
{
    int32_t n = (int32_t)batch;

    /* An operand of one column may have any leading dimension but 0. */
    GR_TRY(check(lt,
                 lt->MatrixLayoutCreate(out, vendor_type(o->type), (uint64_t)o->rows,
                                        (uint64_t)o->cols, o->rows),
                 "matrix layout"));
    if (batch <= 1)
        return GR_OK;
    GR_TRY(set_layout(lt, *out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof(n)));
    return set_layout(lt, *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &o->stride,
                      sizeof(o->stride));
}

static gr_status set_op(product *p, cublasLtMatmulDescAttributes_t what, bool trans)
{
    cublasOperation_t op = trans ? CUBLAS_OP_T : CUBLAS_OP_N;

    return check(p->lt, p->lt->MatmulDescSetAttribute(p->op, what, &op, sizeof(op)),
                 "matmul descriptor");
}

static gr_status make_descriptors(product *p, const gr_node *n)
{
    const gr_matmul_attr *at = (const gr_matmul_attr *)n->attr;
    const gr_matmul_dims *d = &p->d;
    operand a = { n->src[0]->dtype, at->trans_a ? d->m : d->k, at->trans_a ? d->k : d->m,
                  d->stride_a };
    operand b = { n->src[1]->dtype, at->trans_b ? d->k : d->n, at->trans_b ? d->n : d->k,
                  d->stride_b };
    operand out = { n->out[0].dtype, d->n, d->m, d->stride_out };

    p->is_wide = a.type == GR_F64;
    GR_TRY(
        check(p->lt,
              p->lt->MatmulDescCreate(&p->op, p->is_wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                      p->is_wide ? CUDA_R_64F : CUDA_R_32F),
              "matmul descriptor"));
    /* Swapped: our b is its first operand. */
    GR_TRY(set_op(p, CUBLASLT_MATMUL_DESC_TRANSA, at->trans_b));
    GR_TRY(set_op(p, CUBLASLT_MATMUL_DESC_TRANSB, at->trans_a));
    GR_TRY(make_layout(p->lt, &p->a, &a, d->batch));
    GR_TRY(make_layout(p->lt, &p->b, &b, d->batch));
    return make_layout(p->lt, &p->out, &out, d->batch);
}

/* ---- the algorithm ---- */

static gr_status prefer(const gr_cublaslt *lt, cublasLtMatmulPreference_t pref,
                        cublasLtMatmulPreferenceAttributes_t what, const void *mem, size_t n_bytes)
{
    return check(lt, lt->MatmulPreferenceSetAttribute(pref, what, mem, n_bytes),
                 "matmul preference");
}

/* Of an address, as far as it is known. Four bytes wide for the library, which asks for 256 at
 * most. */
static uint32_t align_of(const size_t *align, int i)
{
    size_t n = align ? align[i] : VALUE_ALIGN;

    return n < 256 ? (uint32_t)n : 256;
}

/* What an algorithm may use: workspace, alignment of our memory, ordered sums only. */
static gr_status set_preference(const gr_cublaslt *lt, cublasLtMatmulPreference_t pref,
                                const gr_prepare *pr)
{
    uint64_t work = pr->work_limit;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    /* Swapped, as everywhere. */
    uint32_t a = align_of(pr->src_align, 1), b = align_of(pr->src_align, 0);
    uint32_t out = align_of(pr->out_align, 0);

    GR_TRY(prefer(lt, pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &work, sizeof(work)));
    GR_TRY(prefer(lt, pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes)));
    GR_TRY(prefer(lt, pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof(a)));
    GR_TRY(prefer(lt, pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof(b)));
    GR_TRY(prefer(lt, pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &out, sizeof(out)));
    return prefer(lt, pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &out, sizeof(out));
}

/* The library's guesses, best first. None at all is no failure. */
static gr_status ask_heuristic(const product *p, const gr_prepare *pr,
                               cublasLtMatmulHeuristicResult_t *guess, int n_most, int *n_found)
{
    cublasLtMatmulPreference_t pref = NULL;
    cublasStatus_t s;
    gr_status st;

    *n_found = 0;
    GR_TRY(check(p->lt, p->lt->MatmulPreferenceCreate(&pref), "matmul preference"));
    st = set_preference(p->lt, pref, pr);
    if (st == GR_OK) {
        s = p->lt->MatmulAlgoGetHeuristic(p->blas, p->op, p->b, p->a, p->out, p->out, pref, n_most,
                                          guess, n_found);
        st = s == CUBLAS_STATUS_NOT_SUPPORTED ? GR_OK
                                              : check(p->lt, s, "choice of a matmul algorithm");
    }
    p->lt->MatmulPreferenceDestroy(pref);
    return st;
}

/* ---- algorithms by name ---- */

/* What makes up an algorithm, in the library's own numbers. */
typedef struct identity {
    int32_t id;
    uint32_t tile, stages, split_k, reduction, swizzle, custom;
    uint16_t inner, cluster;
} identity;

/* Each part of it: its word, its attribute, where it is. */
static const struct part {
    const char *word;
    cublasLtMatmulAlgoConfigAttributes_t attribute;
    size_t offset, n_bytes;
} parts[] = {
#define PART(word, attribute, field)                                       \
    {                                                                      \
        word, CUBLASLT_ALGO_CONFIG_##attribute, offsetof(identity, field), \
            sizeof(((identity *)NULL)->field)                              \
    }
    PART("id", ID, id), /* first: it is given when an algorithm is made */
    PART("tile", TILE_ID, tile),
    PART("stages", STAGES_ID, stages),
    PART("splitk", SPLITK_NUM, split_k),
    PART("reduction", REDUCTION_SCHEME, reduction),
    PART("swizzle", CTA_SWIZZLING, swizzle),
    PART("custom", CUSTOM_OPTION, custom),
    PART("inner", INNER_SHAPE_ID, inner),
    PART("cluster", CLUSTER_SHAPE_ID, cluster),
#undef PART
};

#define N_PARTS ((int)(sizeof(parts) / sizeof(parts[0])))

static uint32_t get_part(const identity *a, const struct part *p)
{
    uint32_t wide = 0;
    uint16_t narrow = 0;

    if (p->n_bytes == sizeof(narrow))
        memcpy(&narrow, (const char *)a + p->offset, sizeof(narrow));
    else
        memcpy(&wide, (const char *)a + p->offset, sizeof(wide));
    return p->n_bytes == sizeof(narrow) ? narrow : wide;
}

static void set_part(identity *a, const struct part *p, uint32_t x)
{
    uint16_t narrow = (uint16_t)x;

    if (p->n_bytes == sizeof(narrow))
        memcpy((char *)a + p->offset, &narrow, sizeof(narrow));
    else
        memcpy((char *)a + p->offset, &x, sizeof(x));
}

/* "id=66 tile=20 stages=35 ..." */
static gr_status name_algorithm(const gr_cublaslt *lt, const cublasLtMatmulAlgo_t *algo,
                                gr_text *out)
{
    identity a = { 0 };

    for (int i = 0; i < N_PARTS; i++) {
        size_t written;

        GR_TRY(check(lt,
                     lt->MatmulAlgoConfigGetAttribute(algo, parts[i].attribute,
                                                      (char *)&a + parts[i].offset,
                                                      parts[i].n_bytes, &written),
                     "matmul algorithm"));
        gr_text_addf(out, "%s%s=%u", i ? " " : "", parts[i].word, get_part(&a, &parts[i]));
    }
    return gr_text_status(out);
}

/* False: it is not what name_algorithm() writes. */
static bool read_name(const char *text, identity *a)
{
    for (int i = 0; i < N_PARTS; i++) {
        size_t len = strlen(parts[i].word);
        char *end;

        if (strncmp(text, parts[i].word, len) != 0 || text[len] != '=')
            return false;
        set_part(a, &parts[i], (uint32_t)strtoul(text + len + 1, &end, 10));
        if (end == text + len + 1 || *end != (i + 1 < N_PARTS ? ' ' : '\0'))
            return false;
        text = end + 1;
    }
    return true;
}

/* The algorithm of that name, if this library and device still have it for this product. */
static gr_status take_named(product *p, gr_prepare *pr)
{
    gr_dtype t_a = pr->node->src[0]->dtype, t_b = pr->node->src[1]->dtype;
    cudaDataType_t t_out = vendor_type(pr->node->out[0].dtype);
    cublasLtMatmulHeuristicResult_t found;
    identity a = { 0 };
    bool fits;

    if (!read_name(pr->variant, &a))
        return gr_decline(pr, "'%s' names no algorithm of cuBLASLt", pr->variant);
    fits = a.reduction == CUBLASLT_REDUCTION_SCHEME_NONE ||
           a.reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    fits = fits && p->lt->MatmulAlgoInit(
                       p->blas, p->is_wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                       p->is_wide ? CUDA_R_64F : CUDA_R_32F, vendor_type(t_b), vendor_type(t_a),
                       t_out, t_out, a.id, &p->algo) == CUBLAS_STATUS_SUCCESS;
    for (int i = 1; i < N_PARTS && fits; i++)
        fits = p->lt->MatmulAlgoConfigSetAttribute(&p->algo, parts[i].attribute,
                                                   (char *)&a + parts[i].offset,
                                                   parts[i].n_bytes) == CUBLAS_STATUS_SUCCESS;
    fits = fits && p->lt->MatmulAlgoCheck(p->blas, p->op, p->b, p->a, p->out, p->out, &p->algo,
                                          &found) == CUBLAS_STATUS_SUCCESS;
    if (!fits)
        return gr_decline(pr, "cuBLASLt %zu has no algorithm '%s' for it", p->lt->GetVersion(),
                          pr->variant);
    if (found.workspaceSize > pr->work_limit)
        return gr_decline(pr, "algorithm '%s' needs %zu bytes of workspace, the limit is %zu",
                          pr->variant, found.workspaceSize, pr->work_limit);
    p->work_bytes = found.workspaceSize;
    return GR_OK;
}

static gr_status take_best(product *p, gr_prepare *pr)
{
    cublasLtMatmulHeuristicResult_t best;
    int n_found;

    GR_TRY(ask_heuristic(p, pr, &best, 1, &n_found));
    if (n_found == 0)
        return gr_decline(pr, "cuBLASLt has no algorithm for it");
    p->algo = best.algo;
    p->work_bytes = best.workspaceSize;
    return GR_OK;
}

/* ---- the kernel ---- */

static bool is_empty(const product *p)
{
    return p->d.batch * p->d.m * p->d.n * p->d.k == 0;
}

static gr_status open_product(product *p, const gr_prepare *pr)
{
    GR_TRY(gr_cublaslt_load(&p->lt));
    gr_matmul_get_dims(pr->node, &p->d);
    if (is_empty(p))
        return GR_OK;
    GR_TRY(gr_cuda_blas((gr_cuda_device *)pr->device, pr->stream, &p->blas));
    return make_descriptors(p, pr->node);
}

gr_status gr_matmul_lt_prepare(gr_prepare *pr)
{
    const gr_cublaslt *lt;
    product *p;
    gr_status st;

    if (gr_cublaslt_load(&lt) != GR_OK)
        return gr_decline(pr, "%s", gr_error_message());
    p = (product *)gr_calloc(1, sizeof(*p));
    if (!p)
        return GR_ERR_NOMEM;
    st = open_product(p, pr);
    if (st == GR_OK && !is_empty(p))
        st = pr->variant ? take_named(p, pr) : take_best(p, pr);
    if (st != GR_OK)
        gr_matmul_lt_release(p);
    else
        pr->data = p;
    return st;
}

gr_status gr_matmul_lt_variants(const gr_prepare *pr, gr_text *out)
{
    cublasLtMatmulHeuristicResult_t guess[MAX_VARIANTS];
    const gr_cublaslt *lt;
    product *p;
    int n_found = 0;
    gr_status st;

    if (gr_cublaslt_load(&lt) != GR_OK)
        return GR_OK; /* prepare() says it */
    p = (product *)gr_calloc(1, sizeof(*p));
    if (!p)
        return GR_ERR_NOMEM;
    st = open_product(p, pr);
    if (st == GR_OK && !is_empty(p))
        st = ask_heuristic(p, pr, guess, MAX_VARIANTS, &n_found);
    for (int i = 0; i < n_found && st == GR_OK; i++) {
        if (guess[i].state != CUBLAS_STATUS_SUCCESS)
            continue;
        st = name_algorithm(p->lt, &guess[i].algo, out);
        gr_text_add(out, "\n");
    }
    gr_matmul_lt_release(p);
    return st == GR_OK ? gr_text_status(out) : st;
}

/* ---- running ---- */

size_t gr_matmul_lt_workspace(const gr_node *n, const void *data)
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

gr_status gr_matmul_lt_run(const gr_launch *l)
{
    const product *p = (const product *)l->data;
    static const float one = 1.0f, zero = 0.0f;
    static const double one_wide = 1.0, zero_wide = 0.0;
    uintptr_t work = ((uintptr_t)l->work + WORK_ALIGN - 1) & ~(uintptr_t)(WORK_ALIGN - 1);
    const void *alpha = p->is_wide ? (const void *)&one_wide : (const void *)&one;
    const void *beta = p->is_wide ? (const void *)&zero_wide : (const void *)&zero;

    if (is_empty(p))
        return run_empty(l, &p->d);
    return check(p->lt,
                 p->lt->Matmul(p->blas, p->op, alpha, l->src[1], p->b, l->src[0], p->a, beta,
                               l->out[0], p->out, l->out[0], p->out, &p->algo,
                               p->work_bytes ? (void *)work : NULL, p->work_bytes,
                               gr_cuda_stream(l->stream)),
                 "cublasLtMatmul");
}
