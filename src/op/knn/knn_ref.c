/* The reference of knn: each neighbour is the nearest of those that come after the one
 * before. NaN distances come last. */
#include "op/element.h"
#include "op/knn/knn_kernels.h"

#include <math.h>

static double distance(const gr_launch *l, int64_t i, int64_t j)
{
    const gr_value *x = l->node->src[0];
    int64_t d = x->shape.dim[2];
    double wide = 0;
    float sum = 0;

    for (int64_t c = 0; c < d; c++) {
        double p = gr_element_f64(l->src[0], x->dtype, i * d + c);
        double q = gr_element_f64(l->src[0], x->dtype, j * d + c);
        float narrow = (float)q - (float)p;

        wide += (q - p) * (q - p);
        sum += narrow * narrow;
    }
    return x->dtype == GR_F64 ? wide : (double)sum;
}

static bool is_point(const gr_launch *l, int64_t i)
{
    return l->node->n_src < 2 || ((const uint8_t *)l->src[1])[i] != 0;
}

/* Whether distance a of point i comes before distance b of point j. */
static bool precedes(double a, int64_t i, double b, int64_t j)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? i < j : !isnan(a);
    return a < b || (a == b && i < j);
}

/* Of sample `first`.., the neighbour of point i next after `before`; -1: none is left. */
static int64_t next_of(const gr_launch *l, int64_t first, int64_t i, int64_t before)
{
    int64_t n = l->node->src[0]->shape.dim[1], best = -1;
    double least = 0, last = before < 0 ? 0 : distance(l, i, before);

    for (int64_t j = first; j < first + n; j++) {
        double d;

        if (j == i || !is_point(l, i) || !is_point(l, j))
            continue;
        d = distance(l, i, j);
        if ((before < 0 || precedes(last, before, d, j)) &&
            (best < 0 || precedes(d, j, least, best))) {
            best = j;
            least = d;
        }
    }
    return best;
}

gr_status gr_knn_ref_run(const gr_launch *l)
{
    const gr_knn_config *at = l->node->attr;
    const gr_shape *s = &l->node->src[0]->shape;

    for (int64_t i = 0; i < s->dim[0] * s->dim[1]; i++) {
        int64_t first = i / s->dim[1] * s->dim[1], before = -1;
        bool is_left = true;

        for (int64_t k = 0; k < at->k; k++) {
            int64_t j = is_left ? next_of(l, first, i, before) : -1;

            is_left = j >= 0;
            before = j;
            gr_element_put_i64(l->out[0], GR_I32, i * at->k + k,
                               (is_left ? j : i) - (at->in_batch ? 0 : first));
            gr_element_put_f64(l->out[1], l->node->out[1].dtype, i * at->k + k,
                               is_left ? distance(l, i, j) : (double)INFINITY);
        }
    }
    return GR_OK;
}
