/* The reference of top_k: each place is the best of those that come after the one before. */
#include "op/element.h"
#include "op/topk/topk_kernels.h"

#include <math.h>

typedef struct row {
    const void *mem;
    gr_dtype type;
    int64_t at, n; /* first element, elements */
    bool is_smallest;
} row;

/* Whether element i comes before element j. */
static bool precedes(const row *r, int64_t i, int64_t j)
{
    double x = gr_element_f64(r->mem, r->type, r->at + i);
    double y = gr_element_f64(r->mem, r->type, r->at + j);
    bool is_greater = x > y || (isnan(x) && !isnan(y)), is_less = x < y || (isnan(y) && !isnan(x));

    if (is_greater || is_less)
        return r->is_smallest ? is_less : is_greater;
    return i < j;
}

gr_status gr_top_k_ref_run(const gr_launch *l)
{
    const gr_top_k_attr *at = l->node->attr;
    const gr_value *x = l->node->src[0];
    row r = { .mem = l->src[0], .type = x->dtype, .is_smallest = at->is_smallest };
    int64_t n_rows = gr_shape_count(&l->node->out[0].shape) / at->k;

    r.n = x->shape.dim[x->shape.n_dims - 1];
    for (int64_t i = 0; i < n_rows; i++) {
        int64_t before = -1;

        r.at = i * r.n;
        for (int64_t k = 0; k < at->k; k++) {
            int64_t best = -1;

            for (int64_t e = 0; e < r.n; e++)
                if ((before < 0 || precedes(&r, before, e)) && (best < 0 || precedes(&r, e, best)))
                    best = e;
            gr_element_put_f64(l->out[0], x->dtype, i * at->k + k,
                               gr_element_f64(r.mem, r.type, r.at + best));
            gr_element_put_i64(l->out[1], GR_I32, i * at->k + k, best);
            before = best;
        }
    }
    return GR_OK;
}
