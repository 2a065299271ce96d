/*
 * Matrix products.
 *
 *     y[.., m, n] = sum over k of a[.., m, k] * b[.., k, n]
 *     da = dy · bᵀ        db = aᵀ · dy
 *
 * Nothing is ever transposed in memory: an operand stored the other way round is a flag
 * of the product, and so is each operand of the gradients. With the stored operands:
 *
 *     trans_a trans_b      da                 db
 *        -       -         dy · bᵀ            aᵀ · dy
 *        -       b         dy · b             dyᵀ · a
 *        a       -         b · dyᵀ            a · dy
 *        a       b         bᵀ · dyᵀ           dyᵀ · aᵀ
 *
 * When b has no leading dimensions, a's count as rows: [.., m, k] is [rows, k]. Its
 * gradient then sums over all rows, which one product of the flattened views does.
 */
#include "op/matmul/matmul.h"

#include "gradus/ops.h"

#include <string.h>

static gr_dtype result_dtype(gr_dtype a, gr_dtype b)
{
    if (a == b)
        return a;
    return a == GR_F64 || b == GR_F64 ? GR_F64 : GR_F32;
}

/* Rows and columns of an operand as it enters the product. */
static void matrix_of(const gr_shape *s, bool trans, int64_t *rows, int64_t *cols)
{
    int64_t last = s->dim[s->n_dims - 1], before = s->dim[s->n_dims - 2];

    *rows = trans ? last : before;
    *cols = trans ? before : last;
}

static bool same_lead(const gr_shape *a, const gr_shape *b)
{
    if (a->n_dims != b->n_dims)
        return false;
    for (int i = 0; i < a->n_dims - 2; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

static gr_status matmul_infer(gr_node *n)
{
    const gr_matmul_attr *at = n->attr;
    const gr_value *a = n->src[0], *b = n->src[1];
    int64_t m, k, k_b, cols;

    if (!gr_dtype_is_float(a->dtype) || !gr_dtype_is_float(b->dtype) ||
        !gr_dtype_is_float(at->dtype))
        return gr_fail(GR_ERR_ARG, "takes and gives floating types only");
    if (a->shape.n_dims < 2 || b->shape.n_dims < 2)
        return gr_fail(GR_ERR_ARG, "both sides need two dimensions or more");
    matrix_of(&a->shape, at->trans_a, &m, &k);
    matrix_of(&b->shape, at->trans_b, &k_b, &cols);
    if (k != k_b)
        return gr_fail(GR_ERR_ARG,
                       "the inner dimensions differ: %lld of the first%s, %lld of the second%s",
                       (long long)k, at->trans_a ? ", transposed" : "", (long long)k_b,
                       at->trans_b ? ", transposed" : "");
    if (!same_lead(&a->shape, &b->shape)) {
        if (b->shape.n_dims > 2)
            return gr_fail(GR_ERR_ARG,
                           "leading dimensions must be equal, or missing in the second");
        if (at->trans_a)
            return gr_fail(GR_ERR_ARG,
                           "leading dimensions of a transposed first side must be those "
                           "of the second");
    }
    n->out[0].shape = a->shape;
    n->out[0].shape.dim[a->shape.n_dims - 2] = m;
    n->out[0].shape.dim[a->shape.n_dims - 1] = cols;
    n->out[0].dtype = at->dtype;
    return gr_shape_check(&n->out[0].shape, at->dtype);
}

void gr_matmul_get_dims(const gr_node *n, gr_matmul_dims *d)
{
    const gr_matmul_attr *at = n->attr;
    const gr_shape *a = &n->src[0]->shape, *b = &n->src[1]->shape;
    int64_t lead = 1;

    matrix_of(a, at->trans_a, &d->m, &d->k);
    matrix_of(b, at->trans_b, &d->k, &d->n);
    for (int i = 0; i < a->n_dims - 2; i++)
        lead *= a->dim[i];
    if (b->n_dims == 2 && !at->trans_a) { /* leading dimensions count as rows */
        d->m *= lead;
        lead = 1;
    }
    d->batch = lead;
    d->stride_a = d->m * d->k;
    d->stride_b = d->k * d->n;
    d->stride_out = d->m * d->n;
}

static gr_value *add(gr_graph *g, const char *site, gr_value *const src[2],
                     const gr_matmul_attr *attr)
{
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_matmul,
                                              .site = site,
                                              .src = src,
                                              .n_src = 2,
                                              .attr = attr,
                                              .attr_bytes = sizeof(*attr) });
}

/* [.., r, c] as [.. * r, c]. */
static gr_value *flat(gr_graph *g, const char *site, gr_value *v)
{
    gr_shape s = { .n_dims = 2, .dim = { 1 } };

    if (!v || v->shape.n_dims == 2)
        return v;
    for (int i = 0; i < v->shape.n_dims - 1; i++)
        s.dim[0] *= v->shape.dim[i];
    s.dim[1] = v->shape.dim[v->shape.n_dims - 1];
    return gr_reshape_at(site, g, v, s);
}

static gr_status matmul_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_matmul_attr *at = n->attr;
    gr_value *a = n->src[0], *b = n->src[1], *dy = d_out[0];
    gr_matmul_attr da = { .trans_a = false, .trans_b = !at->trans_b, .dtype = a->dtype };
    gr_matmul_attr db = { .trans_a = !at->trans_a, .trans_b = false, .dtype = b->dtype };

    if (at->trans_a) {
        da = (gr_matmul_attr){ .trans_a = at->trans_b, .trans_b = true, .dtype = a->dtype };
        d_src[0] = add(g, n->site, (gr_value *[]){ b, dy }, &da);
    } else {
        d_src[0] = add(g, n->site, (gr_value *[]){ dy, b }, &da);
    }
    if (b->shape.n_dims == 2) {
        a = flat(g, n->site, a);
        dy = flat(g, n->site, dy);
    }
    if (at->trans_b) {
        db = (gr_matmul_attr){ .trans_a = true, .trans_b = at->trans_a, .dtype = b->dtype };
        d_src[1] = add(g, n->site, (gr_value *[]){ dy, a }, &db);
    } else {
        d_src[1] = add(g, n->site, (gr_value *[]){ a, dy }, &db);
    }
    return gr_graph_status(g);
}

static const void *matmul_retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    gr_matmul_attr *attr = gr_arena_new(g->arena, gr_matmul_attr);

    if (!attr)
        return NULL;
    memcpy(attr, n->attr, sizeof(*attr));
    attr->dtype = t;
    return attr;
}

static void matmul_print(const gr_node *n, gr_text *out)
{
    const gr_matmul_attr *at = n->attr;

    if (at->trans_a)
        gr_text_add(out, " trans_a");
    if (at->trans_b)
        gr_text_add(out, " trans_b");
}

gr_value *gr_matmul_at(const char *site, gr_graph *g, gr_value *a, gr_value *b, bool trans_a,
                       bool trans_b)
{
    gr_matmul_attr attr = { .trans_a = trans_a, .trans_b = trans_b };

    attr.dtype = result_dtype(gr_value_dtype(a), gr_value_dtype(b));
    return add(g, site, (gr_value *[]){ a, b }, &attr);
}

const gr_op gr_op_matmul = {
    .name = "matmul",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_LOW,
    .tunes = true,
    .infer = matmul_infer,
    .grad = matmul_grad,
    .retype = matmul_retype,
    .print = matmul_print,
    .kernels = gr_matmul_cpu,
};
