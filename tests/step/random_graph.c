/*
 * The makers of random graphs.
 *
 * (1) What is drawn depends on the seed and on shapes that do not depend on the batch: the
 *     batch goes through a front of its own and is summed before the others see it.
 * (2) Numbers stay near 1: arguments are brought into range first, sums are scaled, so that
 *     f16 stays finite and two ways to round stay close.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "step/random_graph.h"

#define POOL       48
#define MOST_ELEM  2000
#define MOST_LARGE 40000

typedef struct maker {
    gr_graph *g;
    random_graph *how;
    uint64_t state;
    gr_value *pool[POOL];
    int n, n_params;
} maker;

int64_t random_graph_pick(uint64_t *state, int64_t lo, int64_t hi)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return lo + (int64_t)((*state >> 20) % (uint64_t)(hi - lo + 1));
}

static int64_t rnd(maker *m, int64_t lo, int64_t hi)
{
    return random_graph_pick(&m->state, lo, hi);
}

static bool coin(maker *m, int one_in)
{
    return rnd(m, 1, one_in) == 1;
}

/* Odd sizes on purpose: ones, primes, and one off the widths of vectors. */
static int64_t size(maker *m)
{
    static const int64_t sizes[] = { 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 19, 31, 33 };

    return sizes[rnd(m, 0, (int64_t)(sizeof(sizes) / sizeof(sizes[0])) - 1)];
}

static int64_t count_of(const gr_value *v)
{
    gr_shape s = gr_value_shape(v);

    return gr_shape_count(&s);
}

static void note(maker *m, const char *fmt, ...)
{
    va_list args;

    if (!m->how->log)
        return;
    va_start(args, fmt);
    vfprintf(m->how->log, fmt, args);
    va_end(args);
}

/* ---- sources ---- */

static gr_value *leaf(maker *m, gr_shape shape)
{
    char name[16];

    snprintf(name, sizeof(name), "p%d", m->n_params++);
    return gr_cast(m->g, gr_param(m->g, name, shape, gr_init_normal(0, 1)), m->how->type);
}

static gr_value *constant(maker *m, gr_shape shape)
{
    int64_t n = gr_shape_count(&shape);
    float *mem = malloc((size_t)(n + 1) * sizeof(*mem));
    gr_value *v = NULL;

    for (int64_t i = 0; mem && i < n; i++)
        mem[i] = (float)rnd(m, -1000, 1000) / 700.0f;
    if (mem)
        v = gr_constant(m->g, GR_F32, shape, mem);
    free(mem);
    return gr_cast(m->g, v, m->how->type);
}

static gr_value *indices(maker *m, gr_shape shape, int64_t below)
{
    int64_t n = gr_shape_count(&shape);
    int64_t *mem = malloc((size_t)(n + 1) * sizeof(*mem));
    gr_value *v = NULL;

    for (int64_t i = 0; mem && i < n; i++)
        mem[i] = rnd(m, 0, below - 1);
    if (mem)
        v = gr_constant(m->g, GR_I64, shape, mem);
    free(mem);
    return v;
}

static void push(maker *m, gr_value *v)
{
    int64_t most = m->how->large ? MOST_LARGE : MOST_ELEM;

    if (!v)
        return;
    if (gr_value_dtype(v) != m->how->type)
        v = gr_cast(m->g, v, m->how->type);
    if (count_of(v) > most) {
        v = gr_reshape(m->g, v, GR_SHAPE(-1));
        v = gr_slice_axis(m->g, v, 0, rnd(m, 0, 3), most / 2);
    }
    m->pool[m->n < POOL ? m->n++ : rnd(m, 0, POOL - 1)] = v;
}

static gr_value *any(maker *m)
{
    if (m->how->large && coin(m, 2)) /* the large one */
        return m->pool[m->n > 2 ? 2 : 0];
    return m->pool[coin(m, 2) ? m->n - 1 : rnd(m, 0, m->n - 1)];
}

static int64_t divisor(maker *m, int64_t of)
{
    int64_t d = rnd(m, 1, of < 40 ? of : 40);

    while (of % d)
        d--;
    return d;
}

/* A value of the pool in another shape, of n_dims dimensions. */
static gr_value *with_dims(maker *m, int n_dims)
{
    gr_value *v = any(m);
    gr_shape s = { .n_dims = n_dims };
    int64_t rest = count_of(v);

    for (int i = 0; i < n_dims - 1; i++) {
        s.dim[i] = rest ? divisor(m, rest) : size(m);
        rest /= s.dim[i];
    }
    s.dim[n_dims - 1] = rest;
    return gr_reshape(m->g, v, s);
}

static gr_value *filled(maker *m, int n_dims)
{
    gr_value *v = with_dims(m, n_dims);
    gr_shape s = gr_value_shape(v);

    if (count_of(v) > 0)
        return v;
    for (int i = 0; i < n_dims; i++)
        s.dim[i] = rnd(m, 1, 6);
    return leaf(m, s);
}

/* ---- operators ---- */

static void op_map1(maker *m)
{
    static const char *const free_names[] = { "neg",      "erf",       "square", "silu",
                                              "gelu",     "gelu_tanh", "tanh",   "sigmoid",
                                              "softplus", "sin",       "cos" };
    static const char *const kinked[] = { "relu", "abs" };
    gr_graph *g = m->g;
    gr_value *v = any(m);

    switch (rnd(m, 0, 9)) {
    case 0: v = gr_exp(g, gr_tanh(g, v)); break;
    case 1: v = gr_log_e(g, gr_add_k(g, gr_square(g, v), 0.5)); break;
    case 2: v = gr_sqrt(g, gr_add_k(g, gr_square(g, v), 0.5)); break;
    case 3: v = gr_rsqrt(g, gr_add_k(g, gr_square(g, v), 0.5)); break;
    case 4: v = gr_pow(g, gr_add_k(g, gr_square(g, gr_tanh(g, v)), 0.5), 1.5); break;
    case 5: v = gr_log1p(g, gr_sigmoid(g, v)); break;
    case 6:
        v = m->how->smooth ? gr_expm1(g, gr_tanh(g, v))
                           : gr_map1_at(GR_HERE, g, kinked[rnd(m, 0, 1)], v);
        break;
    case 7: v = m->how->smooth ? gr_elu(g, v, 1) : gr_leaky_relu(g, v, 0.1); break;
    default: v = gr_map1_at(GR_HERE, g, free_names[rnd(m, 0, 10)], v); break;
    }
    push(m, v);
}

/* A shape that stretches to s. */
static gr_shape narrower(maker *m, gr_shape s)
{
    gr_shape t = { 0 };
    int skip = (int)rnd(m, 0, s.n_dims);

    for (int i = coin(m, 2) ? skip : 0; i < s.n_dims; i++)
        t.dim[t.n_dims++] = coin(m, 2) ? 1 : s.dim[i];
    return t;
}

static gr_value *beside(maker *m, gr_value *v)
{
    gr_shape s = gr_value_shape(v);

    for (int i = m->n - 1; i >= 0; i--) {
        gr_shape t = gr_value_shape(m->pool[i]);

        if (gr_shape_equal(&s, &t) && coin(m, 2))
            return m->pool[i];
    }
    return leaf(m, coin(m, 2) ? s : narrower(m, s));
}

static void op_map2(maker *m)
{
    gr_graph *g = m->g;
    gr_value *a = coin(m, 2) ? any(m) : with_dims(m, (int)rnd(m, 1, 4));
    gr_value *b = coin(m, 6) ? a : beside(m, a);

    switch (rnd(m, 0, m->how->smooth ? 5 : 7)) {
    case 0: a = gr_add(g, a, b); break;
    case 1: a = gr_sub(g, b, a); break;
    case 2: a = gr_mul(g, a, gr_tanh(g, b)); break;
    case 3: a = gr_div(g, a, gr_add_k(g, gr_square(g, b), 0.5)); break;
    case 4: a = gr_atan2(g, a, gr_add_k(g, gr_square(g, b), 0.5)); break;
    case 5: a = gr_lerp(g, a, b, beside(m, a)); break;
    case 6: a = gr_maximum(g, a, b); break;
    default: a = gr_minimum(g, b, a); break;
    }
    push(m, a);
}

static void op_map3(maker *m)
{
    gr_graph *g = m->g;
    gr_value *a = any(m), *b = beside(m, a), *c = beside(m, a);

    switch (rnd(m, 0, m->how->smooth ? 1 : 3)) {
    case 0: a = gr_scale_shift(g, a, b, c); break;
    case 1: a = gr_where(g, gr_gt_k(g, constant(m, gr_value_shape(a)), 0), a, b); break;
    case 2: a = gr_clamp(g, a, -0.7, 0.9); break;
    default: a = gr_masked_fill(g, a, gr_lt_k(g, constant(m, gr_value_shape(a)), 0), 0.25); break;
    }
    push(m, a);
}

static gr_value *finish(maker *m, gr_value *y, bool bias)
{
    gr_graph *g = m->g;
    gr_shape s = gr_value_shape(y);

    if (bias)
        y = gr_add(g, y, leaf(m, GR_SHAPE(s.dim[s.n_dims - 1])));
    if (coin(m, 3))
        y = m->how->smooth ? gr_silu(g, y) : gr_relu(g, y);
    else if (coin(m, 3))
        y = gr_gelu(g, y);
    if (m->n > 0 && coin(m, 3)) /* not in the front, where shapes are the batch's */
        y = coin(m, 2) ? gr_add(g, beside(m, y), y) : gr_mul(g, y, gr_sigmoid(g, beside(m, y)));
    return y;
}

static void op_matmul(maker *m)
{
    gr_value *a = with_dims(m, (int)rnd(m, 2, 3)), *b;
    gr_shape s = gr_value_shape(a), t = { 0 };
    bool batched = s.n_dims == 3 && coin(m, 2);
    bool ta = (batched || s.n_dims == 2) && coin(m, 2), tb = coin(m, 2);
    int64_t k = s.dim[s.n_dims - (ta ? 2 : 1)], n = size(m);

    if (batched)
        t.dim[t.n_dims++] = s.dim[0];
    t.dim[t.n_dims++] = tb ? n : k;
    t.dim[t.n_dims++] = tb ? k : n;
    b = leaf(m, t);
    note(m, " k %d n %d ta %d tb %d", (int)k, (int)n, ta, tb);
    a = gr_matmul_t(m->g, a, b, ta, tb);
    if (coin(m, 2))
        a = gr_mul_k(m->g, a, 1.0 / (double)(k + 1));
    push(m, finish(m, a, coin(m, 2)));
}

static void op_reduce(maker *m)
{
    static const char *const names[] = { "sum", "mean", "max", "min" };
    gr_value *v = filled(m, (int)rnd(m, 1, 4));
    const char *name = names[rnd(m, 0, m->how->smooth ? 1 : 3)];
    unsigned axes = coin(m, 5) ? GR_AXES_ALL : (unsigned)rnd(m, 1, 15);
    gr_shape s = gr_value_shape(v);

    if (axes != GR_AXES_ALL)
        axes &= (1u << s.n_dims) - 1;
    if (name[0] == 's')
        v = gr_mul_k(m->g, v, 0.125);
    v = gr_reduce_at(GR_HERE, m->g, name, v, axes ? axes : 1u, coin(m, 2));
    push(m, v);
}

static void op_softmax(maker *m)
{
    gr_value *v = filled(m, (int)rnd(m, 1, 4));
    int axis = (int)rnd(m, 0, gr_value_shape(v).n_dims - 1);

    switch (rnd(m, 0, 2)) {
    case 0: v = gr_softmax(m->g, v, axis); break;
    case 1: v = gr_log_softmax(m->g, v, axis); break;
    default: v = gr_logsumexp(m->g, v, axis, coin(m, 2)); break;
    }
    push(m, v);
}

static void add_running(maker *m, gr_batch_norm_args *a, int64_t c)
{
    char name[2][24];

    snprintf(name[0], sizeof(name[0]), "mean%d", m->n_params);
    snprintf(name[1], sizeof(name[1]), "var%d", m->n_params++);
    a->running_mean = gr_buffer(m->g, name[0], GR_F32, GR_SHAPE(c), gr_init_const(0));
    a->running_var = gr_buffer(m->g, name[1], GR_F32, GR_SHAPE(c), gr_init_const(1));
}

static void op_norm(maker *m)
{
    gr_value *v = with_dims(m, (int)rnd(m, 2, 4));
    gr_shape s = gr_value_shape(v);
    int64_t c = s.dim[s.n_dims - 1];
    gr_value *w = coin(m, 3) ? NULL : leaf(m, GR_SHAPE(c)),
             *b = coin(m, 3) ? NULL : leaf(m, GR_SHAPE(c));
    gr_batch_norm_args args = { .weight = w, .bias = b, .momentum = 0.1, .eps = 0.05 };

    switch (rnd(m, 0, 4)) {
    case 0: v = gr_layer_norm(m->g, v, w, b, 0.05); break;
    case 1: v = gr_rms_norm(m->g, v, w, 0.05); break;
    case 2: v = gr_rms_norm_clamped(m->g, v, w, 0.01); break;
    case 3: v = gr_group_norm(m->g, v, c ? divisor(m, c) : 1, w, b, 0.05); break;
    default:
        if (c == 0 || count_of(v) / c < 2)
            return;
        if (coin(m, 2))
            add_running(m, &args, c);
        v = gr_batch_norm(m->g, v, &args);
        break;
    }
    push(m, v);
}

static void op_conv(maker *m)
{
    gr_value *v = filled(m, 4);
    gr_shape s = gr_value_shape(v);
    gr_conv o = GR_CONV_INIT;
    bool transposed = coin(m, 3);
    int64_t out, k[2];

    o.groups = coin(m, 3) ? divisor(m, s.dim[3]) : 1;
    out = o.groups * (coin(m, 2) ? 1 : rnd(m, 1, 9));
    for (int i = 0; i < 2; i++) {
        k[i] = rnd(m, 1, 3);
        o.stride[i] = rnd(m, 1, 3);
        o.dilation[i] = rnd(m, 1, 2);
        o.pad[i] = rnd(m, 0, 2);
        if (transposed) {
            o.out_pad[i] = rnd(m, 0, o.stride[i] - 1);
            if ((s.dim[1 + i] - 1) * o.stride[i] + o.dilation[i] * (k[i] - 1) + 1 <= 2 * o.pad[i])
                o.pad[i] = 0;
        } else if (s.dim[1 + i] + 2 * o.pad[i] < o.dilation[i] * (k[i] - 1) + 1) {
            k[i] = 1;
        }
    }
    note(m, " %s k %d %d stride %d %d groups %d out %d", transposed ? "transposed" : "", (int)k[0],
         (int)k[1], (int)o.stride[0], (int)o.stride[1], (int)o.groups, (int)out);
    v = transposed
            ? gr_conv_transpose2d(m->g, v, leaf(m, GR_SHAPE(s.dim[3], out / o.groups, k[0], k[1])),
                                  &o)
            : gr_conv2d(m->g, v, leaf(m, GR_SHAPE(out, s.dim[3] / o.groups, k[0], k[1])), &o);
    v = gr_mul_k(m->g, v, 1.0 / (double)(1 + s.dim[3] / o.groups));
    push(m, finish(m, v, coin(m, 2)));
}

static void op_image(maker *m)
{
    gr_value *v = filled(m, 4);
    gr_window w = GR_WINDOW_INIT;
    gr_shape s = gr_value_shape(v);
    bool greatest = coin(m, 3) && !m->how->smooth;

    for (int i = 0; i < 2; i++) {
        w.kernel[i] = rnd(m, 1, 3);
        w.stride[i] = rnd(m, 0, 3);
        w.padding[i] = rnd(m, 0, w.kernel[i] / 2);
        w.dilation[i] = greatest ? rnd(m, 1, 2) : 1;
        if (s.dim[1 + i] + 2 * w.padding[i] < w.dilation[i] * (w.kernel[i] - 1) + 1)
            w.kernel[i] = 1, w.padding[i] = 0;
    }
    w.ceil_mode = coin(m, 2);
    w.without_padding = coin(m, 2);
    switch (rnd(m, 0, 4)) {
    case 0: v = gr_adaptive_avg_pool2d(m->g, v, rnd(m, 1, 4), rnd(m, 1, 4)); break;
    case 1: v = gr_global_avg_pool2d(m->g, v); break;
    case 2:
    case 3: v = greatest ? gr_max_pool2d(m->g, v, &w) : gr_avg_pool2d(m->g, v, &w); break;
    default:
        v = gr_resize(m->g, v, rnd(m, 1, 9), rnd(m, 1, 9), (gr_resize_mode)rnd(m, 0, 5));
        break;
    }
    push(m, v);
}

static void op_join(maker *m)
{
    gr_value *v = with_dims(m, (int)rnd(m, 1, 4)), *src[3], *out[3];
    gr_shape s = gr_value_shape(v);
    int axis = (int)rnd(m, 0, s.n_dims - 1), n = (int)rnd(m, 1, 3);
    int64_t sizes[3];

    if (coin(m, 2)) {
        for (int i = 0; i < n; i++)
            src[i] = coin(m, 3) ? v : beside(m, v);
        for (int i = 0; i < n; i++)
            src[i] = gr_broadcast(m->g, src[i], s);
        push(m, coin(m, 3) ? gr_stack(m->g, src, n, axis) : gr_concat(m->g, src, n, axis));
        return;
    }
    for (int i = 0; i < n; i++)
        sizes[i] = i == n - 1 ? s.dim[axis] : rnd(m, 0, s.dim[axis]), s.dim[axis] -= sizes[i];
    gr_split(m->g, v, axis, n, sizes, out);
    for (int i = 0; i < n && gr_graph_status(m->g) == GR_OK; i++)
        if (count_of(out[i]) > 0 || m->how->empty)
            push(m, out[i]);
}

static void op_move(maker *m)
{
    gr_value *v = with_dims(m, (int)rnd(m, 1, 5));
    gr_shape s = gr_value_shape(v);
    gr_range r[GR_MAX_DIMS];
    int64_t lo[GR_MAX_DIMS], hi[GR_MAX_DIMS];
    int order[GR_MAX_DIMS];

    for (int i = 0; i < s.n_dims; i++) {
        int64_t start = s.dim[i] > 1 ? rnd(m, 0, s.dim[i] / 2) : 0;

        r[i] = (gr_range){ start, s.dim[i] > 0 ? rnd(m, start + 1, s.dim[i]) : 0, rnd(m, 1, 3) };
        lo[i] = rnd(m, 0, 2);
        hi[i] = rnd(m, 0, 2);
        order[i] = i;
    }
    for (int i = s.n_dims - 1; i > 0; i--) {
        int j = (int)rnd(m, 0, i), t = order[i];

        order[i] = order[j];
        order[j] = t;
    }
    switch (rnd(m, 0, 4)) {
    case 0: v = gr_slice(m->g, v, r); break;
    case 1: v = gr_pad(m->g, v, lo, hi, 0.5); break;
    case 2: v = gr_flip(m->g, v, (unsigned)rnd(m, 0, 31) & ((1u << s.n_dims) - 1)); break;
    default: v = gr_transpose(m->g, v, order); break;
    }
    push(m, v);
}

static void op_index(maker *m)
{
    gr_value *v = filled(m, (int)rnd(m, 1, 3)), *place;
    gr_shape s = gr_value_shape(v), t = s;
    int axis = (int)rnd(m, 0, s.n_dims - 1);

    t.dim[axis] = size(m);
    switch (rnd(m, 0, m->how->smooth ? 4 : 6)) {
    case 0: v = gr_gather(m->g, v, indices(m, GR_SHAPE(size(m)), s.dim[0])); break;
    case 1: v = gr_scatter_add(m->g, v, indices(m, GR_SHAPE(s.dim[0]), 4), rnd(m, 4, 6)); break;
    case 2: v = gr_index_select(m->g, v, axis, indices(m, GR_SHAPE(size(m)), s.dim[axis])); break;
    case 3: v = gr_take_along(m->g, v, axis, indices(m, t, s.dim[axis])); break;
    case 4:
        v = gr_embedding(m->g, v, indices(m, GR_SHAPE(size(m), 2), s.dim[0]),
                         m->how->smooth ? -1 : rnd(m, -1, 0));
        break;
    case 5: v = gr_top_k(m->g, v, rnd(m, 1, s.dim[s.n_dims - 1]), coin(m, 2), &place); break;
    default: v = gr_max_index(m->g, v, axis, coin(m, 2), NULL); break;
    }
    push(m, v);
}

static void op_attention(maker *m)
{
    gr_value *q = filled(m, 4), *k, *v;
    gr_shape s = gr_value_shape(q);
    int64_t kv = divisor(m, s.dim[2]), nk = size(m);
    gr_attention_opts o = { .causal = coin(m, 3), .dropout = coin(m, 4) ? 0.25 : 0 };

    if (s.dim[0] > 4 || s.dim[2] > 8 || s.dim[3] > 64)
        return;
    if (coin(m, 4))
        o.bias = leaf(m, narrower(m, GR_SHAPE(s.dim[0], s.dim[2], s.dim[1], nk)));
    if (coin(m, 4))
        o.key_mask = gr_lt_k(m->g, constant(m, GR_SHAPE(s.dim[0], nk)), 0.5);
    if (coin(m, 4) && s.dim[3] % 2 == 0)
        q = gr_rotary(m->g, q, NULL, &(gr_rotary_opts){ .interleaved = coin(m, 2) });
    k = leaf(m, GR_SHAPE(s.dim[0], nk, kv, s.dim[3]));
    v = coin(m, 3) ? k : leaf(m, GR_SHAPE(s.dim[0], nk, kv, s.dim[3]));
    if (coin(m, 4) && !o.bias && !o.key_mask) {
        o.heads = s.dim[2];
        k = leaf(m, GR_SHAPE(s.dim[0], s.dim[1], 2 * s.dim[2] * s.dim[3]));
        q = gr_reshape(m->g, q, GR_SHAPE(s.dim[0], s.dim[1], -1));
        push(m, gr_attention_packed(m->g, gr_concat(m->g, ((gr_value *[]){ q, k }), 2, 2), &o));
        return;
    }
    note(m, " nk %d kv %d causal %d bias %d mask %d", (int)nk, (int)kv, o.causal, !!o.bias,
         !!o.key_mask);
    push(m, gr_attention(m->g, q, k, v, &o));
}

static void op_random(maker *m)
{
    gr_value *v = any(m);

    switch (rnd(m, 0, 2)) {
    case 0: v = gr_dropout(m->g, v, 0.3); break;
    case 1:
        v = gr_add(m->g, v, gr_random_normal(m->g, m->how->type, gr_value_shape(v), 0, 0.1));
        break;
    default: v = gr_drop_path(m->g, with_dims(m, 2), 0.3); break;
    }
    push(m, v);
}

static void op_vector(maker *m)
{
    const gr_rbf_config bumps = { .n = 3, .from = -1, .to = 1, .width = 1, .factor = 1 };
    gr_value *v = filled(m, 2), *w = beside(m, v);
    gr_shape s = gr_value_shape(v);

    w = gr_broadcast(m->g, w, s);
    switch (rnd(m, 0, 4)) {
    case 0: v = s.dim[1] % 2 ? v : gr_swiglu(m->g, v); break;
    case 1: v = gr_mul_k(m->g, gr_dot(m->g, v, w, coin(m, 2)), 0.1); break;
    case 2: v = gr_norm(m->g, v, coin(m, 2)); break;
    case 3: v = gr_rbf(m->g, v, bumps); break;
    default:
        v = s.dim[1] == 3 ? gr_cross(m->g, v, w) : gr_mse_each(m->g, gr_tanh(m->g, v), w);
        break;
    }
    push(m, v);
}

static void op_cast(maker *m)
{
    static const gr_dtype types[] = { GR_F32, GR_BF16, GR_F16, GR_F64 };
    gr_value *v = any(m);

    if (m->how->smooth)
        return;
    m->how->mixed = true;
    v = gr_cast(m->g, gr_tanh(m->g, v), types[rnd(m, 0, 3)]);
    push(m, gr_cast(m->g, gr_mul_k(m->g, v, 0.5), m->how->type));
}

static const struct op {
    const char *name;
    void (*add)(maker *m);
    int weight;
} ops[] = {
    { "map1", op_map1, 3 },           { "map2", op_map2, 4 },     { "map3", op_map3, 2 },
    { "matmul", op_matmul, 4 },       { "reduce", op_reduce, 2 }, { "softmax", op_softmax, 2 },
    { "norm", op_norm, 3 },           { "conv", op_conv, 2 },     { "image", op_image, 2 },
    { "join", op_join, 2 },           { "move", op_move, 3 },     { "index", op_index, 2 },
    { "attention", op_attention, 2 }, { "random", op_random, 2 }, { "vector", op_vector, 2 },
    { "cast", op_cast, 1 },
};
#define N_OPS ((int)(sizeof(ops) / sizeof(ops[0])))

int random_graph_n_ops(void)
{
    return N_OPS;
}

const char *random_graph_op_name(int i)
{
    return ops[i].name;
}

/* ---- the whole ---- */

static int draw_op(maker *m)
{
    for (;;) {
        int i = (int)rnd(m, 0, N_OPS - 1);

        if (m->how->only >= 0)
            return m->how->only;
        if (rnd(m, 1, 4) <= ops[i].weight)
            return i;
    }
}

/* What sees the batch: rows by themselves, then summed over the batch. */
static gr_value *front(maker *m, gr_value **loss)
{
    gr_graph *g = m->g;
    gr_value *x = gr_cast(g, gr_input(g, "x"), m->how->type);
    gr_value *h = gr_matmul(g, x, leaf(m, GR_SHAPE(5, 7)));
    gr_cross_entropy_options o = GR_CROSS_ENTROPY_INIT;

    h = finish(m, gr_mul_k(g, h, 0.3), true);
    if (coin(m, 2))
        h = gr_layer_norm(g, h, NULL, leaf(m, GR_SHAPE(7)), 0.05);
    if (coin(m, 2))
        h = gr_dropout(g, h, 0.25);
    o.ignore_index = coin(m, 2) ? 3 : -100;
    o.label_smoothing = coin(m, 2) ? 0.1 : 0;
    *loss = gr_cross_entropy_mean(g, h, gr_input(g, "y"), &o);
    return gr_mul_k(g, gr_matmul_t(g, h, x, true, false), 0.05);
}

static gr_value *add_loss(maker *m, gr_value *sum, gr_value *v)
{
    gr_graph *g = m->g;
    int64_t n = count_of(v);
    gr_value *each = gr_mul(g, v, constant(m, gr_value_shape(v)));

    each = gr_cast(g, each, m->how->type == GR_F64 ? GR_F64 : GR_F32);
    each = gr_mul_k(g, gr_sum(g, each, GR_AXES_ALL, false), 1.0 / (double)(n ? n : 1));
    return gr_add(g, sum, each);
}

gr_status random_graph_trace(gr_graph *g, void *user)
{
    random_graph *how = user;
    maker m = { .g = g, .how = how, .state = how->seed * 0x9e3779b97f4a7c15u + 88172645463325252u };
    gr_value *loss;

    rnd(&m, 0, 1);
    rnd(&m, 0, 1);
    push(&m, front(&m, &loss));
    push(&m, leaf(&m, GR_SHAPE(size(&m), size(&m))));
    if (how->large)
        push(&m, leaf(&m, GR_SHAPE(rnd(&m, 2, 4) * 32 + 1, rnd(&m, 100, 200))));
    push(&m, leaf(&m, how->empty ? GR_SHAPE(size(&m), 0) : GR_SHAPE(rnd(&m, 1, 3), size(&m), 4)));
    for (int i = 0; i < how->n_ops && gr_graph_status(g) == GR_OK; i++) {
        int op = draw_op(&m);
        char name[16], text[GR_SHAPE_TEXT];
        gr_shape s;

        snprintf(name, sizeof(name), "b%d", i / 2);
        if (i % 2 == 0)
            gr_block_begin(g, name);
        note(&m, "  %s", ops[op].name);
        ops[op].add(&m);
        s = gr_value_shape(m.pool[m.n - 1]);
        note(&m, " -> %s\n", gr_shape_text(&s, text, sizeof(text)));
        if (i % 2 == 1 || i == how->n_ops - 1)
            gr_block_end(g);
    }
    loss = gr_cast(g, loss, how->type == GR_F64 ? GR_F64 : GR_F32);
    for (int i = 0; i < m.n && gr_graph_status(g) == GR_OK; i++)
        loss = add_loss(&m, loss, m.pool[i]);
    gr_output(g, "last", m.pool[m.n - 1]);
    gr_loss(g, loss);
    return gr_graph_status(g);
}
