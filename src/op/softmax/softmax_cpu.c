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
    int64_t width;          /* lines per call */
    int64_t n_groups;       /* of lines per outer index */
    gr_softmax_lines lines; /* of the whole */
    size_t src_bytes, dy_bytes, out_bytes;
    bool is_reduced; /* one result per line */
} job;

static void run_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    int64_t lo, hi;

    gr_pool_cut(j->x.outer * j->n_groups, 1, slice, n_slices, &lo, &hi);
    for (int64_t u = lo; u < hi; u++) {
        int64_t first = u % j->n_groups * j->width, left = j->x.inner - first;
        int64_t at = u / j->n_groups * j->x.n * j->x.inner + first;
        int64_t to = j->is_reduced ? u / j->n_groups * j->x.inner + first : at;
        gr_softmax_lines k = j->lines;

        k.width = left < j->width ? left : j->width;
        k.src += (size_t)at * j->src_bytes;
        k.out += (size_t)to * j->out_bytes;
        if (k.dy)
            k.dy += (size_t)at * j->dy_bytes;
        j->fn(&k);
    }
}

static gr_status run_with(const gr_launch *l, lines_fn *const fn[2], int64_t lanes)
{
    const gr_node *n = l->node;
    job j = { .x = gr_axis_of(&n->src[0]->shape, ((const gr_softmax_attr *)n->attr)->axis) };
    bool is_row = j.x.inner == 1;

    j.fn = fn[is_row ? GR_SOFTMAX_ROW : GR_SOFTMAX_COLUMNS];
    j.width = is_row ? 1 : lanes;
    j.n_groups = (j.x.inner + j.width - 1) / j.width;
    j.is_reduced = n->op == &gr_op_logsumexp;
    j.lines = (gr_softmax_lines){ .src = l->src[0],
                                  .out = l->out[0],
                                  .src_type = n->src[0]->dtype,
                                  .out_type = n->out[0].dtype,
                                  .n = j.x.n,
                                  .step = j.x.inner };
    if (n->n_src == 2) {
        j.lines.dy = l->src[1];
        j.lines.dy_type = n->src[1]->dtype;
        j.dy_bytes = gr_dtype_bytes(n->src[1]->dtype);
    }
    j.src_bytes = gr_dtype_bytes(n->src[0]->dtype);
    j.out_bytes = gr_dtype_bytes(n->out[0].dtype);
    gr_pool_run(l->pool, run_slice, &j,
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
