/*
 * Reductions on the CPU: f32, bf16 and f16 to f32, by vectors; and the list of kernels.
 *
 * Dimensions of one kind that are neighbours are joined, so the source is groups that
 * alternate between kept (K) and reduced (R). The last group decides:
 *
 *   .. R K    rows are added down: K neighbours at once            (bias gradients)
 *   .. K R    a row is added along, lanes first, then across them  (losses, softmax sums)
 *
 * Further groups are plain loops around it. Slices take results, or stretches of them at
 * fixed cuts; the order of additions into one result does not depend on the cut.
 */
#include "base/cpu.h"
#include "op/reduce/reduce_kernels.h"

#include <math.h>

#define SLICE_MIN (8 << 10) /* elements that are worth a thread */

typedef struct group {
    int64_t dim, step;
} group;

typedef struct job {
    const gr_span_isa *isa;
    gr_reduce_fn fn;
    const char *src;
    float *out;
    gr_dtype type;
    group kept[GR_MAX_DIMS], reduced[GR_MAX_DIMS]; /* first is outermost */
    int n_kept, n_reduced;
    int64_t n_terms; /* per result */
    int64_t n_outer; /* results, or rows of them when the last group is kept */
    int64_t cols;    /* neighbours in the last kept group; 1 when it is reduced */
    int64_t n_inner; /* walks over reduced groups but the last */
    int64_t n_units;
} job;

static void push(group *list, int *n, int64_t dim, int64_t step)
{
    if (*n > 0 && list[*n - 1].step == dim * step) { /* neighbours of one kind */
        list[*n - 1].dim *= dim;
        list[*n - 1].step = step;
        return;
    }
    list[(*n)++] = (group){ dim, step };
}

static void find_groups(job *j, const gr_node *n)
{
    const gr_reduce_attr *at = n->attr;
    const gr_shape *s = &n->src[0]->shape;
    int64_t step = gr_shape_count(s);

    for (int d = 0; d < s->n_dims; d++) {
        if (s->dim[d] == 1)
            continue;
        step /= s->dim[d];
        if (at->axes & (1u << d))
            push(j->reduced, &j->n_reduced, s->dim[d], step);
        else
            push(j->kept, &j->n_kept, s->dim[d], step);
    }
}

static bool has_step_1(const group *list, int n)
{
    return n > 0 && list[n - 1].step == 1;
}

static void job_init(job *j, const gr_launch *l, const gr_span_isa *isa)
{
    const gr_reduce_attr *at = l->node->attr;

    *j = (job){ .isa = isa, .fn = at->fn, .src = l->src[0], .out = l->out[0] };
    j->type = l->node->src[0]->dtype;
    j->n_outer = j->cols = j->n_inner = j->n_terms = 1;
    find_groups(j, l->node);
    if (j->n_reduced == 0) /* over dimensions of 1 only */
        push(j->reduced, &j->n_reduced, 1, has_step_1(j->kept, j->n_kept) ? 0 : 1);
    for (int i = 0; i < j->n_reduced; i++)
        j->n_terms *= j->reduced[i].dim;
    if (has_step_1(j->kept, j->n_kept))
        j->cols = j->kept[--j->n_kept].dim;
    for (int i = 0; i < j->n_kept; i++)
        j->n_outer *= j->kept[i].dim;
    for (int i = 0; i < j->n_reduced - 1; i++)
        j->n_inner *= j->reduced[i].dim;
    j->n_units = j->n_outer * ((j->cols + GR_SPAN_COLS - 1) / GR_SPAN_COLS);
}

static int64_t offset(const group *list, int n, int64_t i)
{
    int64_t at = 0;

    for (int d = n - 1; d >= 0; d--) {
        at += i % list[d].dim * list[d].step;
        i /= list[d].dim;
    }
    return at;
}

static float joined(const job *j, float a, float b)
{
    if (j->fn != GR_MAX)
        return a + b;
    return !(b <= a) && !isnan(a) ? b : a;
}

/* One stretch of at most GR_SPAN_COLS results in the row `outer`. */
static void run_down(const job *j, int64_t outer, int64_t col, int64_t cols)
{
    const group *last = &j->reduced[j->n_reduced - 1];
    int64_t base = offset(j->kept, j->n_kept, outer) + col;
    float *out = j->out + outer * j->cols + col;
    gr_span s = { .type = j->type, .is_max = j->fn == GR_MAX, .cols = cols };

    s.rows = last->dim;
    s.row_step = last->step;
    for (int64_t c = 0; c < cols; c++)
        out[c] = s.is_max ? -INFINITY : 0;
    for (int64_t i = 0; i < j->n_inner; i++) {
        int64_t at = base + offset(j->reduced, j->n_reduced - 1, i);

        s.src = j->src + (size_t)at * gr_dtype_bytes(j->type);
        j->isa->down(&s, out);
    }
    for (int64_t c = 0; j->fn == GR_MEAN && c < cols; c++)
        out[c] /= (float)j->n_terms;
}

static void run_along(const job *j, int64_t outer)
{
    const group *last = &j->reduced[j->n_reduced - 1];
    int64_t base = offset(j->kept, j->n_kept, outer);
    float y = j->fn == GR_MAX ? -INFINITY : 0;
    gr_span s = { .type = j->type, .is_max = j->fn == GR_MAX, .rows = 1, .cols = last->dim };

    for (int64_t i = 0; i < j->n_inner; i++) {
        int64_t at = base + offset(j->reduced, j->n_reduced - 1, i);

        s.src = j->src + (size_t)at * gr_dtype_bytes(j->type);
        y = joined(j, y, j->isa->along(&s));
    }
    j->out[outer] = j->fn == GR_MEAN ? y / (float)j->n_terms : y;
}

static void run_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    int64_t per_row = j->n_units / j->n_outer, lo, hi;

    gr_pool_cut(j->n_units, 1, slice, n_slices, &lo, &hi);
    for (int64_t u = lo; u < hi; u++) {
        int64_t col = u % per_row * GR_SPAN_COLS, left = j->cols - col;

        if (has_step_1(j->reduced, j->n_reduced))
            run_along(j, u);
        else
            run_down(j, u / per_row, col, left < GR_SPAN_COLS ? left : GR_SPAN_COLS);
    }
}

static gr_status run_with(const gr_launch *l, const gr_span_isa *isa)
{
    int64_t n = gr_shape_count(&l->node->src[0]->shape);
    int n_slices = n < SLICE_MIN ? 1 : gr_pool_size(l->pool);
    job j;

    if (n == 0) /* results of nothing: few, and all alike */
        return gr_reduce_ref_run(l);
    job_init(&j, l, isa);
    gr_pool_run(l->pool, run_slice, &j, n_slices);
    return GR_OK;
}

static const char *reject_types(const gr_node *n)
{
    gr_dtype t = n->src[0]->dtype;

    if ((t != GR_F32 && t != GR_BF16 && t != GR_F16) || n->out[0].dtype != GR_F32)
        return "only f32, bf16 and f16 to f32";
    return NULL;
}

static const char *avx512_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? reject_types(n) : "needs AVX-512";
}

static gr_status avx512_run(const gr_launch *l)
{
    return run_with(l, &gr_reduce_span_avx512);
}

static const char *avx2_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? reject_types(n) : "needs AVX2 and F16C";
}

static gr_status avx2_run(const gr_launch *l)
{
    return run_with(l, &gr_reduce_span_avx2);
}

const gr_kernel gr_reduce_cpu[] = {
    { .name = "avx512", .reject = avx512_reject, .run = avx512_run },
    { .name = "avx2", .reject = avx2_reject, .run = avx2_run },
    { .name = "reference", .run = gr_reduce_ref_run },
    { .name = NULL },
};
