/*
 * Rules of batch_stats, batch_norm, batch_norm_sums and channel_map.
 *
 *   mean, m2    statistics of each channel       dx = dmean / count + 2 (x - mean) dm2
 *   y           x scale + shift, with scale = w rstd, shift = b - mean scale, and
 *               rstd = 1 / sqrt(m2 / count + eps)
 *   s1, s2      sum of dy, sum of dy xhat        db = s1, dw = s2
 *   dx          rstd (w dy - a - xhat b), with a = w s1 / count, b = w s2 / count, summed
 *               over the channels of a group where there are groups
 *
 * Memory passes, in streams of the size of x: forward reads x for the statistics, then reads
 * x and writes y; backward reads x and dy for the sums, then reads both and writes dx.
 *
 * A relu behind it: the gradient that arrives is then relu_grad(dz, z) of z = relu(y), a
 * pass of its own (reads dz and z, writes dy) that the rule avoids: both later passes read dz
 * and decide by x scale + shift > 0, which is what z was made of. 5 streams instead of 8, and
 * z is not kept for it.
 */
#include "gradus/ops.h"
#include "op/norm/norm.h"
#include "op/norm/sync.h"

/* ---- programs ---- */

int16_t gr_program_push(gr_program *p, gr_scalar_fn fn, int a, int b, int c)
{
    GR_BUG_IF(p->n_instr == GR_MAP_MAX_INSTR);
    p->instr[p->n_instr] =
        (gr_instr){ .fn = (int16_t)fn, .reg = { (int16_t)a, (int16_t)b, (int16_t)c } };
    return (int16_t)(p->n_src + p->n_instr++);
}

int16_t gr_program_push_const(gr_program *p, double k)
{
    int16_t r = gr_program_push(p, GR_FN_CONST, -1, -1, -1);

    p->instr[p->n_instr - 1].k = k;
    return r;
}

static gr_status channel_map_infer(gr_node *n)
{
    return gr_op_map.infer(n);
}

static gr_status channel_map_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    return gr_op_map.grad(g, n, d_out, d_src);
}

static const void *channel_map_retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    return gr_op_map.retype(g, n, t);
}

static void channel_map_print(const gr_node *n, gr_text *out)
{
    gr_op_map.print(n, out);
}

const gr_op gr_op_channel_map = {
    .name = "channel_map",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_FIRST,
    .infer = channel_map_infer,
    .grad = channel_map_grad,
    .retype = channel_map_retype,
    .print = channel_map_print,
    .kernels = gr_map_cpu,
};

gr_value *gr_channel_map_add(gr_graph *g, const char *site, gr_value *const *src,
                             const gr_program *p)
{
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_channel_map,
                                              .site = site,
                                              .src = src,
                                              .n_src = p->n_src,
                                              .attr = p,
                                              .attr_bytes = sizeof(*p) });
}

/* A value per channel and sample [n, c] as [n, 1, .., 1, c], to go with x. */
static gr_value *spread(gr_graph *g, const char *site, gr_value *v, const gr_value *x)
{
    gr_shape s = x->shape;

    if (!v || v->shape.n_dims != 2)
        return v;
    for (int i = 1; i < s.n_dims - 1; i++)
        s.dim[i] = 1;
    return gr_reshape_at(site, g, v, s);
}

/* ---- batch_stats ---- */

static gr_status check_x(const gr_value *x)
{
    if (!gr_dtype_is_float(x->dtype))
        return gr_fail(GR_ERR_ARG, "only floating types can be normalised: cast first");
    if (x->shape.n_dims < 2)
        return gr_fail(GR_ERR_ARG, "x must be [n, .., c], of two dimensions at least");
    return GR_OK;
}

static gr_shape vector_shape(const gr_value *x, bool per_sample)
{
    int64_t c = x->shape.dim[x->shape.n_dims - 1];

    return per_sample ? GR_SHAPE(x->shape.dim[0], c) : gr_shape_of(1, &c);
}

static gr_status stats_infer(gr_node *n)
{
    const gr_channel_attr *a = n->attr;

    GR_TRY(check_x(n->src[0]));
    for (int i = 0; i < 3; i++) {
        n->out[i].shape = i < 2 ? vector_shape(n->src[0], a->per_sample) : GR_SCALAR;
        n->out[i].dtype = gr_norm_wide(n->src[0]->dtype);
    }
    return GR_OK;
}

static gr_status stats_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    gr_value *x = n->src[0], *src[5] = { x };
    gr_program p = { .shape = x->shape, .dtype = x->dtype, .n_src = 1 };
    int16_t sum = -1;

    if (d_out[2])
        return gr_fail(GR_ERR_ARG, "batch_stats: the count has no gradient");
    if (d_out[0]) {
        src[p.n_src++] = spread(g, n->site, d_out[0], x);
        src[p.n_src++] = &n->out[2];
    }
    if (d_out[1]) {
        src[p.n_src++] = spread(g, n->site, &n->out[0], x);
        src[p.n_src++] = spread(g, n->site, d_out[1], x);
    }
    if (d_out[0])
        sum = gr_program_push(&p, GR_FN_DIV, 1, 2, -1);
    if (d_out[1]) {
        int16_t t = gr_program_push(&p, GR_FN_SUB, 0, p.n_src - 2, -1);

        t = gr_program_push(&p, GR_FN_MUL, t, p.n_src - 1, -1);
        t = gr_program_push(&p, GR_FN_ADD, t, t, -1);
        if (sum >= 0)
            gr_program_push(&p, GR_FN_ADD, t, sum, -1);
    }
    d_src[0] = gr_channel_map_add(g, n->site, src, &p);
    return gr_graph_status(g);
}

static void channel_print(const gr_node *n, gr_text *out)
{
    const gr_channel_attr *a = n->attr;

    gr_text_addf(out, "%s%s", a->per_sample ? " per sample" : "", a->gated ? " gated" : "");
}

const gr_op gr_op_batch_stats = {
    .name = "batch_stats",
    .n_src = 1,
    .n_out = 3,
    .amp = GR_AMP_WIDE,
    .infer = stats_infer,
    .grad = stats_grad,
    .print = channel_print,
    .kernels = gr_batch_stats_cpu,
};

/* ---- batch_norm_sums ---- */

static gr_status sums_infer(gr_node *n)
{
    const gr_channel_attr *a = n->attr;
    const gr_value *x = n->src[0];
    gr_shape vector;

    GR_TRY(check_x(x));
    if (n->n_src != (a->gated ? 6 : 4))
        return gr_fail(GR_ERR_ARG, "takes %d inputs, got %d", a->gated ? 6 : 4, n->n_src);
    if (!gr_shape_equal(&n->src[1]->shape, &x->shape) || !gr_dtype_is_float(n->src[1]->dtype))
        return gr_fail(GR_ERR_ARG, "the gradient must have the shape of x and a floating type");
    vector = vector_shape(x, a->per_sample);
    for (int s = 2; s < n->n_src; s++)
        if (gr_shape_count(&n->src[s]->shape) != gr_shape_count(&vector) ||
            n->src[s]->dtype != gr_norm_wide(x->dtype))
            return gr_fail(GR_ERR_ARG, "input %d must be %s with one number per channel%s", s,
                           gr_dtype_name(gr_norm_wide(x->dtype)),
                           a->per_sample ? " and sample" : "");
    for (int i = 0; i < 2; i++) {
        n->out[i].shape = vector;
        n->out[i].dtype = gr_norm_wide(x->dtype);
    }
    return GR_OK;
}

const gr_op gr_op_batch_norm_sums = {
    .name = "batch_norm_sums",
    .n_src = GR_ANY_COUNT,
    .n_out = 2,
    .amp = GR_AMP_WIDE,
    .infer = sums_infer,
    .print = channel_print,
    .kernels = gr_batch_norm_sums_cpu,
};

/* ---- batch_norm ---- */

static gr_status norm_infer(gr_node *n)
{
    const gr_batch_norm_attr *a = n->attr;
    const gr_value *x = n->src[GR_BN_X];
    int64_t c;

    GR_TRY(check_x(x));
    c = x->shape.dim[x->shape.n_dims - 1];
    for (int s = GR_BN_N_FIXED; s < n->n_src; s++)
        if (n->src[s]->shape.n_dims != 1 || n->src[s]->shape.dim[0] != c ||
            !gr_dtype_is_float(n->src[s]->dtype))
            return gr_fail(GR_ERR_ARG, "the %s must be [%lld], one floating number per channel",
                           s == GR_BN_N_FIXED && a->has_weight ? "weight" : "bias", (long long)c);
    return gr_op_map.infer(n);
}

static const void *norm_retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    gr_batch_norm_attr *a = gr_arena_new(g->arena, gr_batch_norm_attr);

    if (!a)
        return NULL;
    *a = *(const gr_batch_norm_attr *)n->attr;
    a->program.dtype = t;
    return a;
}

/* The gradient that the two passes read: dy, or what lies behind a relu. */
typedef struct arriving {
    gr_value *dy;
    bool gated;
} arriving;

static bool is_one_fn(const gr_node *n, gr_scalar_fn fn)
{
    const gr_program *p = n->attr;

    return n->op == &gr_op_map && p->n_instr == 1 && p->instr[0].fn == (int16_t)fn;
}

static arriving look_behind_relu(const gr_node *n, gr_value *dy)
{
    const gr_program *p = dy->node->attr;
    gr_value *dz, *z;

    if (!is_one_fn(dy->node, GR_FN_RELU_GRAD) || dy->node->n_src != 2)
        return (arriving){ dy, false };
    dz = dy->node->src[p->instr[0].reg[0]];
    z = dy->node->src[p->instr[0].reg[1]];
    if (!is_one_fn(z->node, GR_FN_RELU) || z->node->src[0] != &n->out[0] ||
        !gr_shape_equal(&dz->shape, &n->out[0].shape) || dz->dtype != dy->dtype)
        return (arriving){ dy, false };
    return (arriving){ dz, true };
}

static gr_node *add_sums(gr_graph *g, gr_node *n, const arriving *in)
{
    const gr_batch_norm_attr *a = n->attr;
    gr_channel_attr attr = { .per_sample = a->n_groups > 0, .gated = in->gated };
    gr_value *src[6] = { n->src[GR_BN_X],     in->dy,
                         n->src[GR_BN_MEAN],  n->src[GR_BN_RSTD],
                         n->src[GR_BN_SCALE], n->src[GR_BN_SHIFT] };

    return gr_graph_add(g, &(gr_build){ .op = &gr_op_batch_norm_sums,
                                        .site = n->site,
                                        .src = src,
                                        .n_src = in->gated ? 6 : 4,
                                        .attr = &attr,
                                        .attr_bytes = sizeof(attr) });
}

/* -(factor * sum) / count, times rstd if `again`; factor is scale, or rstd with groups. */
static gr_value *coefficient(gr_graph *g, gr_node *n, gr_value *sum, bool again)
{
    const gr_batch_norm_attr *a = n->attr;
    gr_value *factor = n->src[a->n_groups > 0 ? GR_BN_RSTD : GR_BN_SCALE];
    gr_value *src[4] = { sum, factor, n->src[GR_BN_COUNT], n->src[GR_BN_RSTD] };
    gr_program p = { .shape = factor->shape, .dtype = factor->dtype, .n_src = again ? 4 : 3 };
    int16_t r = gr_program_push(&p, GR_FN_MUL, 0, 1, -1);

    r = gr_program_push(&p, GR_FN_DIV, r, 2, -1);
    r = gr_program_push(&p, GR_FN_NEG, r, -1, -1);
    if (again)
        gr_program_push(&p, GR_FN_MUL, r, 3, -1);
    return gr_map_add(g, n->site, src, &p);
}

/* Sums [n, c] times the weight, added up within groups, and spread over them again. */
static gr_value *by_groups(gr_graph *g, gr_node *n, gr_value *sum)
{
    const gr_batch_norm_attr *a = n->attr;
    const char *site = n->site;
    int64_t samples, channels;
    gr_shape split, flat;

    if (a->n_groups == 0 || !sum)
        return sum;
    flat = sum->shape;
    samples = flat.dim[0];
    channels = flat.dim[1];
    split = GR_SHAPE(samples, a->n_groups, channels / a->n_groups);
    if (a->has_weight)
        sum =
            gr_cast_at(site, g, gr_map2_at(site, g, "mul", sum, n->src[GR_BN_N_FIXED]), sum->dtype);
    sum = gr_reduce_at(site, g, "sum", gr_reshape_at(site, g, sum, split), GR_AXIS(2), true);
    sum = gr_reshape_at(site, g, gr_broadcast_at(site, g, sum, split), flat);
    return spread(g, site, sum, n->src[GR_BN_X]);
}

/* dx = dy scale + (x - mean) k1 + k2 */
static gr_value *add_dx(gr_graph *g, gr_node *n, const arriving *in, gr_value *k1, gr_value *k2)
{
    gr_value *x = n->src[GR_BN_X];
    gr_value *src[7] = { x,  in->dy, n->src[GR_BN_MEAN], n->src[GR_BN_SCALE],
                         k1, k2,     n->src[GR_BN_SHIFT] };
    gr_program p = { .shape = x->shape, .dtype = x->dtype, .n_src = in->gated ? 7 : 6 };
    int16_t dy = 1, r;

    if (in->gated) {
        dy = gr_program_push(&p, GR_FN_MUL, 0, 3, -1);
        dy = gr_program_push(&p, GR_FN_ADD, dy, 6, -1);
        dy = gr_program_push(&p, GR_FN_RELU_GRAD, 1, dy, -1);
    }
    dy = gr_program_push(&p, GR_FN_MUL, dy, 3, -1);
    r = gr_program_push(&p, GR_FN_SUB, 0, 2, -1);
    r = gr_program_push(&p, GR_FN_MUL, r, 4, -1);
    r = gr_program_push(&p, GR_FN_ADD, r, 5, -1);
    gr_program_push(&p, GR_FN_ADD, r, dy, -1);
    return gr_channel_map_add(g, n->site, src, &p);
}

static gr_value *vector_grad(gr_graph *g, gr_node *n, gr_value *sum, gr_dtype t)
{
    const gr_batch_norm_attr *a = n->attr;

    if (a->n_groups > 0)
        sum = gr_reduce_at(n->site, g, "sum", sum, GR_AXIS(0), false);
    return gr_cast_at(n->site, g, sum, t);
}

/* Weight and bias get this rank's sums, as their gradients are averaged over ranks anyway; x
 * gets those of all ranks, whose statistics it had a part in. */
static gr_status input_grad(gr_graph *g, gr_node *n, const arriving *in, gr_node *sums,
                            gr_value **dx)
{
    const gr_batch_norm_attr *a = n->attr;
    gr_value *k1, *k2;

    if (a->sync)
        sums = gr_sync_sums_add(g, n, sums, a->sync);
    if (!sums)
        return gr_graph_status(g);
    k1 = coefficient(g, n, by_groups(g, n, &sums->out[1]), true);
    k2 = coefficient(g, n, by_groups(g, n, &sums->out[0]), false);
    *dx = add_dx(g, n, in, k1, k2);
    return gr_graph_status(g);
}

static gr_status norm_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_batch_norm_attr *a = n->attr;
    arriving in = look_behind_relu(n, d_out[0]);
    gr_node *sums = add_sums(g, n, &in);
    int s = GR_BN_N_FIXED;

    if (!sums)
        return gr_graph_status(g);
    if (gr_graph_wants(g, n->src[GR_BN_X]))
        GR_TRY(input_grad(g, n, &in, sums, &d_src[GR_BN_X]));
    if (a->has_weight) {
        d_src[s] = vector_grad(g, n, &sums->out[1], n->src[s]->dtype);
        s++;
    }
    if (a->has_bias)
        d_src[s] = vector_grad(g, n, &sums->out[0], n->src[s]->dtype);
    return gr_graph_status(g);
}

static void norm_print(const gr_node *n, gr_text *out)
{
    const gr_batch_norm_attr *a = n->attr;

    if (a->n_groups > 0)
        gr_text_addf(out, " groups=%lld", (long long)a->n_groups);
}

const gr_op gr_op_batch_norm = {
    .name = "batch_norm",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_FIRST,
    .infer = norm_infer,
    .grad = norm_grad,
    .retype = norm_retype,
    .print = norm_print,
    .kernels = gr_map_cpu,
};

/* ---- lowering ---- */

static bool lowers(const gr_node *n)
{
    return n->op == &gr_op_batch_norm || n->op == &gr_op_channel_map;
}

bool gr_norm_can_lower(const gr_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (lowers(g->nodes[i]))
            return true;
    return false;
}

gr_status gr_norm_lower(gr_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        gr_node *n = g->nodes[i];
        gr_program *p;

        if (!lowers(n))
            continue;
        if (n->op == &gr_op_batch_norm) {
            p = gr_arena_new(g->arena, gr_program);
            if (!p)
                return GR_ERR_NOMEM;
            p->shape = n->out[0].shape;
            p->dtype = n->out[0].dtype;
            p->n_src = n->n_src = GR_BN_SHIFT + 1;
            gr_program_push(p, GR_FN_MUL, GR_BN_X, GR_BN_SCALE, -1);
            gr_program_push(p, GR_FN_ADD, p->n_src, GR_BN_SHIFT, -1);
            n->attr = p;
        }
        n->op = &gr_op_map;
    }
    return GR_OK;
}
