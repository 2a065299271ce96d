/*
 * Attention: shape and gradient rules.
 *
 *     s[i, j] = scale q[i]·k[j] + bias[i, j]        -inf where j may not be seen from i
 *     lse[i]  = log sum over j of exp(s[i, j])
 *     p[i, j] = exp(s[i, j] - lse[i])
 *     o[i]    = sum over j of m[i, j] p[i, j] v[j]   m: 0 or 1 / (1 - dropout)
 *
 * and with g = do[i], D[i] = g·o[i]:
 *
 *     dv[j]  = sum over i of m p g
 *     ds     = p (m g·v[j] - D[i])                  is dbias
 *     dq[i]  = scale sum over j of ds k[j]
 *     dk[j]  = scale sum over i of ds q[i]
 *
 * D holds with dropout, too, since o is made of what was not dropped. The backward pass needs
 * q, k, v, o and lse, and computes p again: nothing of size nq x nk is kept.
 */
#include "op/attention/attention.h"

#include <string.h>

static bool is_grad_node(const gr_node *n)
{
    return n->op == &gr_op_attention_grad;
}

static int n_fixed(const gr_node *n)
{
    return is_grad_node(n) ? 6 : 3;
}

/* ---- shapes ---- */

static gr_status check_heads(const gr_value *v, const char *what, int64_t heads)
{
    if (v->shape.n_dims != 4)
        return gr_fail(GR_ERR_ARG, "%s must be [batch, tokens, heads, head size]", what);
    if (v->shape.dim[2] != heads)
        return gr_fail(GR_ERR_ARG, "%s must have %lld heads, but has %lld", what, (long long)heads,
                       (long long)v->shape.dim[2]);
    return GR_OK;
}

/* A packed value has the heads of all that it holds, so its gradient has no holes. */
static gr_status check_windows(const gr_node *n)
{
    const gr_attention_attr *at = n->attr;
    const int64_t kv = at->kv_heads;

    if (at->heads < 1 || kv < 1 || at->heads % kv != 0)
        return gr_fail(GR_ERR_ARG, "%lld query heads cannot share %lld key heads",
                       (long long)at->heads, (long long)kv);
    if (at->packing == GR_ATTENTION_QKV)
        return check_heads(n->src[0], "qkv", at->heads + 2 * kv);
    GR_TRY(check_heads(n->src[0], "q", at->heads));
    if (at->packing == GR_ATTENTION_KV)
        return check_heads(n->src[1], "kv", 2 * kv);
    GR_TRY(check_heads(n->src[1], "k", kv));
    return check_heads(n->src[2], "v", kv);
}

static gr_status check_qkv(const gr_node *n)
{
    const gr_value *q = n->src[0], *k = n->src[1], *v = n->src[2];

    if (!gr_dtype_is_float(q->dtype) || k->dtype != q->dtype || v->dtype != q->dtype)
        return gr_fail(GR_ERR_ARG, "q, k and v must be of one floating type");
    GR_TRY(check_windows(n));
    if (k->shape.dim[0] != q->shape.dim[0] || v->shape.dim[0] != q->shape.dim[0])
        return gr_fail(GR_ERR_ARG, "q, k and v must have one batch size");
    if (k->shape.dim[1] != v->shape.dim[1])
        return gr_fail(GR_ERR_ARG, "k and v must have as many tokens");
    if (k->shape.dim[3] != q->shape.dim[3] || v->shape.dim[3] != q->shape.dim[3])
        return gr_fail(GR_ERR_ARG, "q, k and v must have one head size");
    return GR_OK;
}

static gr_status check_bias(const gr_value *b, const int64_t full[4])
{
    bool fits = gr_dtype_is_float(b->dtype) && b->shape.n_dims <= 4;

    for (int i = 0; fits && i < b->shape.n_dims; i++) {
        int64_t have = b->shape.dim[i], want = full[4 - b->shape.n_dims + i];

        fits = have == 1 || have == want;
    }
    if (fits)
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "the bias must be floating and stretch to [%lld, %lld, %lld, %lld]",
                   (long long)full[0], (long long)full[1], (long long)full[2], (long long)full[3]);
}

static gr_status check_extras(const gr_node *n)
{
    const gr_attention_attr *at = n->attr;
    const int64_t full[4] = { n->src[0]->shape.dim[0], at->heads, n->src[0]->shape.dim[1],
                              n->src[1]->shape.dim[1] };
    int s = n_fixed(n);

    if (n->n_src != s + at->has_mask + at->has_bias)
        return gr_fail(GR_ERR_ARG, "takes %d inputs, got %d", s + at->has_mask + at->has_bias,
                       n->n_src);
    if (at->has_mask) {
        const gr_value *m = n->src[s++];

        if (m->dtype != GR_BOOL || m->shape.n_dims != 2 || m->shape.dim[0] != full[0] ||
            m->shape.dim[1] != full[3])
            return gr_fail(GR_ERR_ARG, "the key mask must be bool [%lld, %lld]", (long long)full[0],
                           (long long)full[3]);
    }
    if (at->has_bias)
        GR_TRY(check_bias(n->src[s], full));
    if (!(at->dropout >= 0 && at->dropout < 1))
        return gr_fail(GR_ERR_ARG, "dropout must be in [0, 1), not %g", at->dropout);
    if (!gr_dtype_is_float(at->dtype))
        return gr_fail(GR_ERR_ARG, "gives floating types only");
    return GR_OK;
}

static gr_shape shape_of_o(const gr_node *n)
{
    const gr_attention_attr *at = n->attr;
    gr_shape s = n->src[0]->shape;

    s.dim[2] = at->heads;
    return s;
}

static gr_shape shape_of_lse(const gr_node *n)
{
    const gr_attention_attr *at = n->attr;
    const gr_shape *q = &n->src[0]->shape;

    return GR_SHAPE(q->dim[0], at->heads, q->dim[1]);
}

static gr_dtype wide(gr_dtype t)
{
    return t == GR_F64 ? GR_F64 : GR_F32;
}

static gr_status attention_infer(gr_node *n)
{
    const gr_attention_attr *at = n->attr;

    if (n->n_src < 3)
        return gr_fail(GR_ERR_ARG, "takes q, k and v");
    GR_TRY(check_qkv(n));
    GR_TRY(check_extras(n));
    n->out[0].shape = shape_of_o(n);
    n->out[0].dtype = at->dtype;
    n->out[1].shape = shape_of_lse(n);
    n->out[1].dtype = wide(n->src[0]->dtype);
    return GR_OK;
}

static gr_status grad_infer(gr_node *n)
{
    const gr_attention_attr *at = n->attr;
    const int n_made = at->packing == GR_ATTENTION_QKV ? 1 : at->packing == GR_ATTENTION_KV ? 2 : 3;
    gr_shape o, lse;

    if (n->n_src < 6)
        return gr_fail(GR_ERR_ARG, "takes q, k, v, o, lse and the gradient of o");
    GR_TRY(check_qkv(n));
    GR_TRY(check_extras(n));
    o = shape_of_o(n);
    lse = shape_of_lse(n);
    for (int s = 3; s < 6; s += 2)
        if (!gr_shape_equal(&n->src[s]->shape, &o) || !gr_dtype_is_float(n->src[s]->dtype))
            return gr_fail(GR_ERR_ARG, "input %d must be floating and have the result's shape", s);
    if (!gr_shape_equal(&n->src[4]->shape, &lse) || n->src[4]->dtype != wide(n->src[0]->dtype))
        return gr_fail(GR_ERR_ARG, "input 4 must be the %s log-sum-exp of each row",
                       gr_dtype_name(wide(n->src[0]->dtype)));
    for (int i = 0; i < 4; i++) {
        n->out[i].shape = GR_SCALAR;
        n->out[i].dtype = at->dtype;
        n->out[i].space = GR_SPACE_NONE;
    }
    for (int i = 0; i < n_made; i++) {
        n->out[i].shape = n->src[i]->shape;
        n->out[i].space = GR_SPACE_ARENA;
    }
    if (at->has_bias && at->bias_grad) {
        n->out[3].shape = n->src[n->n_src - 1]->shape;
        n->out[3].space = GR_SPACE_ARENA;
    }
    return GR_OK;
}

/* Its dimensions, aligned at the last one. */
static void get_bias(gr_attention_dims *d, const gr_shape *bias)
{
    int from = bias ? bias->n_dims - 1 : -1;
    int64_t step = 1;

    for (int i = 3; i >= 0; i--, from--) {
        int64_t have = from >= 0 ? bias->dim[from] : 1;

        d->bias_dim[i] = have;
        d->bias_step[i] = have == 1 ? 0 : step;
        step *= have;
    }
}

void gr_attention_get_dims(const gr_node *n, gr_attention_dims *d)
{
    const gr_attention_attr *at = n->attr;
    const gr_shape *q = &n->src[0]->shape, *k = &n->src[1]->shape, *v = &n->src[2]->shape;
    int s = n_fixed(n);

    *d = (gr_attention_dims){ .b = q->dim[0],
                              .nq = q->dim[1],
                              .nk = k->dim[1],
                              .hq = at->heads,
                              .hkv = at->kv_heads,
                              .d = q->dim[3] };
    d->row_q = q->dim[2] * d->d;
    d->row_k = k->dim[2] * d->d;
    d->row_v = v->dim[2] * d->d;
    d->at_k = at->first_k * d->d;
    d->at_v = at->first_v * d->d;
    d->mask = at->has_mask ? s++ : -1;
    d->bias = at->has_bias ? s : -1;
    get_bias(d, at->has_bias ? &n->src[s]->shape : NULL);
}

/* ---- gradient ---- */

static gr_status attention_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    gr_attention_attr at;
    gr_value *src[8] = { n->src[0], n->src[1], n->src[2], &n->out[0], &n->out[1], d_out[0] };
    gr_node *grad;

    memcpy(&at, n->attr, sizeof(at));
    if (d_out[1])
        return gr_fail(GR_ERR_ARG, "attention: the log-sum-exp has no gradient");
    for (int i = 3; i < n->n_src; i++)
        src[i + 3] = n->src[i];
    at.dtype = n->src[0]->dtype;
    at.bias_grad = at.has_bias && gr_graph_wants(g, n->src[n->n_src - 1]);
    grad = gr_graph_add(g, &(gr_build){ .op = &gr_op_attention_grad,
                                        .site = n->site,
                                        .src = src,
                                        .n_src = n->n_src + 3,
                                        .attr = &at,
                                        .attr_bytes = sizeof(at) });
    if (!grad)
        return gr_graph_status(g);
    for (int i = 0; i < 3; i++)
        if (grad->out[i].space != GR_SPACE_NONE)
            d_src[i] = &grad->out[i];
    if (at.bias_grad)
        d_src[n->n_src - 1] = &grad->out[3];
    return GR_OK;
}

static const void *retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    gr_attention_attr *attr = gr_arena_new(g->arena, gr_attention_attr);

    if (!attr)
        return NULL;
    memcpy(attr, n->attr, sizeof(*attr));
    attr->dtype = t;
    return attr;
}

static void print(const gr_node *n, gr_text *out)
{
    const gr_attention_attr *at = n->attr;

    gr_text_addf(out, " heads %lld", (long long)at->heads);
    if (at->kv_heads != at->heads)
        gr_text_addf(out, " kv_heads %lld", (long long)at->kv_heads);
    if (at->packing != GR_ATTENTION_SEPARATE)
        gr_text_add(out, at->packing == GR_ATTENTION_KV ? " kv" : " qkv");
    if (at->causal)
        gr_text_add(out, " causal");
    if (at->has_mask)
        gr_text_add(out, " mask");
    if (at->has_bias)
        gr_text_add(out, " bias");
    if (at->dropout > 0)
        gr_text_addf(out, " dropout %g stream %u", at->dropout, at->stream);
}

const gr_op gr_op_attention = {
    .name = "attention",
    .n_src = GR_ANY_COUNT,
    .n_out = 2,
    .amp = GR_AMP_LOW,
    .tunes = true,
    .infer = attention_infer,
    .grad = attention_grad,
    .retype = retype,
    .print = print,
    .kernels = gr_attention_cpu,
};

const gr_op gr_op_attention_grad = {
    .name = "attention_grad",
    .n_src = GR_ANY_COUNT,
    .n_out = 4,
    .amp = GR_AMP_LOW,
    .tunes = true,
    .wide_src = 1u << GR_ATTENTION_LSE,
    .infer = grad_infer,
    .retype = retype,
    .print = print,
    .kernels = gr_attention_grad_cpu,
};
