/* Operators that keep a value's shape, or take dimensions out of it. */
#include "step/maker.h"

void maker_op_map1(maker *m)
{
    static const char *const free_names[] = { "neg",      "erf",       "square", "silu",
                                              "gelu",     "gelu_tanh", "tanh",   "sigmoid",
                                              "softplus", "sin",       "cos" };
    static const char *const kinked[] = { "relu", "abs" };
    gr_graph *g = m->g;
    gr_value *v = maker_any(m);

    switch (maker_rnd(m, 0, 9)) {
    case 0: v = gr_exp(g, gr_tanh(g, v)); break;
    case 1: v = gr_log_e(g, gr_add_k(g, gr_square(g, v), 0.5)); break;
    case 2: v = gr_sqrt(g, gr_add_k(g, gr_square(g, v), 0.5)); break;
    case 3: v = gr_rsqrt(g, gr_add_k(g, gr_square(g, v), 0.5)); break;
    case 4: v = gr_pow(g, gr_add_k(g, gr_square(g, gr_tanh(g, v)), 0.5), 1.5); break;
    case 5: v = gr_log1p(g, gr_sigmoid(g, v)); break;
    case 6:
        v = m->how->smooth ? gr_expm1(g, gr_tanh(g, v))
                           : gr_map1_at(GR_HERE, g, kinked[maker_rnd(m, 0, 1)], v);
        break;
    case 7: v = m->how->smooth ? gr_elu(g, v, 1) : gr_leaky_relu(g, v, 0.1); break;
    default: v = gr_map1_at(GR_HERE, g, free_names[maker_rnd(m, 0, 10)], v); break;
    }
    maker_push(m, v);
}

void maker_op_map2(maker *m)
{
    gr_graph *g = m->g;
    gr_value *a = maker_coin(m, 2) ? maker_any(m) : maker_with_dims(m, (int)maker_rnd(m, 1, 4));
    gr_value *b = maker_coin(m, 6) ? a : maker_beside(m, a);

    switch (maker_rnd(m, 0, m->how->smooth ? 5 : 7)) {
    case 0: a = gr_add(g, a, b); break;
    case 1: a = gr_sub(g, b, a); break;
    case 2: a = gr_mul(g, a, gr_tanh(g, b)); break;
    case 3: a = gr_div(g, a, gr_add_k(g, gr_square(g, b), 0.5)); break;
    case 4: a = gr_atan2(g, a, gr_add_k(g, gr_square(g, b), 0.5)); break;
    case 5: a = gr_lerp(g, a, b, maker_beside(m, a)); break;
    case 6: a = gr_maximum(g, a, b); break;
    default: a = gr_minimum(g, b, a); break;
    }
    maker_push(m, a);
}

void maker_op_map3(maker *m)
{
    gr_graph *g = m->g;
    gr_value *a = maker_any(m), *b = maker_beside(m, a), *c = maker_beside(m, a);

    switch (maker_rnd(m, 0, m->how->smooth ? 1 : 3)) {
    case 0: a = gr_scale_shift(g, a, b, c); break;
    case 1: a = gr_where(g, gr_gt_k(g, maker_constant(m, gr_value_shape(a)), 0), a, b); break;
    case 2: a = gr_clamp(g, a, -0.7, 0.9); break;
    default:
        a = gr_masked_fill(g, a, gr_lt_k(g, maker_constant(m, gr_value_shape(a)), 0), 0.25);
        break;
    }
    maker_push(m, a);
}

void maker_op_reduce(maker *m)
{
    static const char *const names[] = { "sum", "mean", "max", "min" };
    gr_value *v = maker_filled(m, (int)maker_rnd(m, 1, 4));
    const char *name = names[maker_rnd(m, 0, m->how->smooth ? 1 : 3)];
    unsigned axes = maker_coin(m, 5) ? GR_AXES_ALL : (unsigned)maker_rnd(m, 1, 15);
    gr_shape s = gr_value_shape(v);

    if (axes != GR_AXES_ALL)
        axes &= (1u << s.n_dims) - 1;
    if (name[0] == 's')
        v = gr_mul_k(m->g, v, 0.125);
    v = gr_reduce_at(GR_HERE, m->g, name, v, axes ? axes : 1u, maker_coin(m, 2));
    maker_push(m, v);
}

void maker_op_softmax(maker *m)
{
    gr_value *v = maker_filled(m, (int)maker_rnd(m, 1, 4));
    int axis = (int)maker_rnd(m, 0, gr_value_shape(v).n_dims - 1);

    switch (maker_rnd(m, 0, 2)) {
    case 0: v = gr_softmax(m->g, v, axis); break;
    case 1: v = gr_log_softmax(m->g, v, axis); break;
    default: v = gr_logsumexp(m->g, v, axis, maker_coin(m, 2)); break;
    }
    maker_push(m, v);
}

void maker_op_random(maker *m)
{
    gr_value *v = maker_any(m);

    switch (maker_rnd(m, 0, 2)) {
    case 0: v = gr_dropout(m->g, v, 0.3); break;
    case 1:
        v = gr_add(m->g, v, gr_random_normal(m->g, m->how->type, gr_value_shape(v), 0, 0.1));
        break;
    default: v = gr_drop_path(m->g, maker_with_dims(m, 2), 0.3); break;
    }
    maker_push(m, v);
}

void maker_op_vector(maker *m)
{
    const gr_rbf_config bumps = { .n = 3, .from = -1, .to = 1, .width = 1, .factor = 1 };
    gr_value *v = maker_filled(m, 2), *w = maker_beside(m, v);
    gr_shape s = gr_value_shape(v);

    w = gr_broadcast(m->g, w, s);
    switch (maker_rnd(m, 0, 4)) {
    case 0: v = s.dim[1] % 2 ? v : gr_swiglu(m->g, v); break;
    case 1: v = gr_mul_k(m->g, gr_dot(m->g, v, w, maker_coin(m, 2)), 0.1); break;
    case 2: v = gr_norm(m->g, v, maker_coin(m, 2)); break;
    case 3: v = gr_rbf(m->g, v, bumps); break;
    default:
        v = s.dim[1] == 3 ? gr_cross(m->g, v, w) : gr_mse_each(m->g, gr_tanh(m->g, v), w);
        break;
    }
    maker_push(m, v);
}

void maker_op_cast(maker *m)
{
    static const gr_dtype types[] = { GR_F32, GR_BF16, GR_F16, GR_F64 };
    gr_value *v = maker_any(m);

    if (m->how->smooth)
        return;
    m->how->mixed = true;
    v = gr_cast(m->g, gr_tanh(m->g, v), types[maker_rnd(m, 0, 3)]);
    maker_push(m, gr_cast(m->g, gr_mul_k(m->g, v, 0.5), m->how->type));
}
