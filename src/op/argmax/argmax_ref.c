/* The references: element by element; integers as i64. */
#include "op/argmax/argmax_kernels.h"
#include "op/element.h"

#include <math.h>
#include <string.h>

gr_around gr_around_axis(const gr_shape *s, int axis)
{
    gr_around x = { 1, s->dim[axis], 1 };

    for (int i = 0; i < axis; i++)
        x.outer *= s->dim[i];
    for (int i = axis + 1; i < s->n_dims; i++)
        x.inner *= s->dim[i];
    return x;
}

/* Whether x goes before the best so far: NaN before everything but NaN. */
static bool beats(double x, double best, bool is_min)
{
    if (isnan(best))
        return false;
    return isnan(x) || (is_min ? x < best : x > best);
}

static int64_t place_of(const gr_launch *l, int64_t first, int64_t n, int64_t step)
{
    const gr_arg_reduce_attr *a = l->node->attr;
    gr_dtype t = l->node->src[0]->dtype;
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++) {
        int64_t at = first + i * step, best_at = first + best * step;

        if (gr_dtype_is_float(t)) {
            if (beats(gr_element_f64(l->src[0], t, at), gr_element_f64(l->src[0], t, best_at),
                      a->is_min))
                best = i;
        } else {
            int64_t x = gr_element_i64(l->src[0], t, at), y = gr_element_i64(l->src[0], t, best_at);

            if (a->is_min ? x < y : x > y)
                best = i;
        }
    }
    return best;
}

gr_status gr_arg_reduce_ref_run(const gr_launch *l)
{
    const gr_arg_reduce_attr *a = l->node->attr;
    const gr_value *x = l->node->src[0];
    gr_around k = gr_around_axis(&x->shape, a->axis);
    size_t size = gr_dtype_bytes(x->dtype);

    for (int64_t i = 0; i < k.outer * k.inner; i++) {
        int64_t first = i / k.inner * k.n * k.inner + i % k.inner;
        int64_t best = place_of(l, first, k.n, k.inner);

        ((int64_t *)l->out[1])[i] = best;
        memcpy((char *)l->out[0] + (size_t)i * size,
               (const char *)l->src[0] + (size_t)(first + best * k.inner) * size, size);
    }
    return GR_OK;
}

gr_status gr_arg_scatter_ref_run(const gr_launch *l)
{
    const gr_arg_scatter_attr *a = l->node->attr;
    const gr_value *dx = &l->node->out[0];
    gr_around k = gr_around_axis(&dx->shape, a->axis);
    const int64_t *index = l->src[0];
    size_t size = gr_dtype_bytes(dx->dtype);

    memset(l->out[0], 0, gr_value_bytes(dx));
    for (int64_t i = 0; i < k.outer * k.inner; i++) {
        int64_t first = i / k.inner * k.n * k.inner + i % k.inner;

        if (index[i] >= 0 && index[i] < k.n) /* others would come from a broken graph only */
            memcpy((char *)l->out[0] + (size_t)(first + index[i] * k.inner) * size,
                   (const char *)l->src[1] + (size_t)i * size, size);
    }
    return GR_OK;
}
