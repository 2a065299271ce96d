/*
 * Softmax on the CPU by vectors and threads, and the lists of kernels. A slice takes whole
 * lines, or stretches of neighbouring ones, so bits do not depend on the thread count.
 */
#include "base/cpu.h"
#include "op/softmax/softmax_kernels.h"

#define SLICE_MIN (4 << 10) /* elements that are worth a thread */

gr_axis gr_axis_of(const gr_shape *s, int axis)
{
    gr_axis x = { .outer = 1, .n = s->dim[axis], .inner = 1 };

    for (int i = 0; i < axis; i++)
        x.outer *= s->dim[i];
    for (int i = axis + 1; i < s->n_dims; i++)
        x.inner *= s->dim[i];
    return x;
}

typedef void lines_fn(const gr_softmax_lines *k);

typedef struct job {
    lines_fn *fn;
    gr_axis x;
    int64_t width;          /* columns per call */
    int64_t n_units;        /* rows, or groups of columns */
    gr_softmax_lines lines; /* of the whole */
    size_t src_bytes, dy_bytes, out_bytes;
    bool is_reduced; /* one result per line */
} job;

static gr_softmax_lines lines_at(const job *j, int64_t src, int64_t out)
{
    gr_softmax_lines k = j->lines;

    k.src += (size_t)src * j->src_bytes;
    k.out += (size_t)out * j->out_bytes;
    if (k.dy)
        k.dy += (size_t)src * j->dy_bytes;
    return k;
}

static void rows_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    gr_softmax_lines k;
    int64_t lo, hi;

    gr_pool_cut(j->n_units, 1, slice, n_slices, &lo, &hi);
    k = lines_at(j, lo * j->x.n, j->is_reduced ? lo : lo * j->x.n);
    k.count = hi - lo;
    j->fn(&k);
}

static void columns_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    int64_t per_outer = j->n_units / j->x.outer, lo, hi;

    gr_pool_cut(j->n_units, 1, slice, n_slices, &lo, &hi);
    for (int64_t u = lo; u < hi; u++) {
        int64_t outer = u / per_outer, first = u % per_outer * j->width;
        int64_t left = j->x.inner - first;
        int64_t at = outer * j->x.n * j->x.inner + first;
        gr_softmax_lines k = lines_at(j, at, j->is_reduced ? outer * j->x.inner + first : at);

        k.count = left < j->width ? left : j->width;
        j->fn(&k);
    }
}

static gr_softmax_lines whole(const gr_launch *l, const gr_axis *x)
{
    const gr_node *n = l->node;
    gr_softmax_lines k = { .src = l->src[0],
                           .out = l->out[0],
                           .src_type = n->src[0]->dtype,
                           .out_type = n->out[0].dtype,
                           .n = x->n,
                           .step = x->inner };

    if (n->n_src == 2) {
        k.dy = l->src[1];
        k.dy_type = n->src[1]->dtype;
    }
    return k;
}

static gr_status run_with(const gr_launch *l, lines_fn *const fn[2], int64_t lanes)
{
    const gr_node *n = l->node;
    job j = { .x = gr_axis_of(&n->src[0]->shape, ((const gr_softmax_attr *)n->attr)->axis) };
    bool is_row = j.x.inner == 1;

    j.fn = fn[is_row ? GR_SOFTMAX_ROWS : GR_SOFTMAX_COLUMNS];
    j.width = lanes;
    j.n_units = j.x.outer * (is_row ? 1 : (j.x.inner + lanes - 1) / lanes);
    if (j.n_units == 0)
        return GR_OK;
    j.is_reduced = n->op == &gr_op_logsumexp;
    j.lines = whole(l, &j.x);
    j.src_bytes = gr_dtype_bytes(j.lines.src_type);
    j.dy_bytes = gr_dtype_bytes(j.lines.dy_type);
    j.out_bytes = gr_dtype_bytes(j.lines.out_type);
    gr_pool_run(l->pool, is_row ? rows_slice : columns_slice, &j,
                gr_shape_count(&n->src[0]->shape) < SLICE_MIN ? 1 : gr_pool_size(l->pool));
    return GR_OK;
}

/* ---- the lists ---- */

static const char *reject_f64(const gr_node *n)
{
    if (n->out[0].dtype == GR_F64)
        return "f64 is left to the reference";
    for (int s = 0; s < n->n_src; s++)
        if (n->src[s]->dtype == GR_F64)
            return "f64 is left to the reference";
    return NULL;
}

static const char *avx512_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? reject_f64(n) : "needs AVX-512";
}

static const char *avx2_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? reject_f64(n) : "needs AVX2 and F16C";
}

#define AVX512_LANES 16
#define AVX2_LANES   8

#define KERNELS(table, member, reference)                                      \
    static gr_status avx512_##member(const gr_launch *l)                       \
    {                                                                          \
        return run_with(l, gr_softmax_avx512.member, AVX512_LANES);            \
    }                                                                          \
    static gr_status avx2_##member(const gr_launch *l)                         \
    {                                                                          \
        return run_with(l, gr_softmax_avx2.member, AVX2_LANES);                \
    }                                                                          \
    const gr_kernel table[] = {                                                \
        { .name = "avx512", .reject = avx512_reject, .run = avx512_##member }, \
        { .name = "avx2", .reject = avx2_reject, .run = avx2_##member },       \
        { .name = "reference", .run = reference },                             \
        { .name = NULL },                                                      \
    }

KERNELS(gr_softmax_cpu, softmax, gr_softmax_ref_run);
KERNELS(gr_softmax_grad_cpu, softmax_grad, gr_softmax_grad_ref_run);
KERNELS(gr_log_softmax_cpu, log_softmax, gr_softmax_ref_run);
KERNELS(gr_log_softmax_grad_cpu, log_softmax_grad, gr_softmax_grad_ref_run);
KERNELS(gr_logsumexp_cpu, lse, gr_softmax_ref_run);
