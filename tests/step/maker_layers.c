/* Operators that layers are made of: products, norms, windows over images, attention. */
#include "step/maker.h"

void maker_op_matmul(maker *m)
{
    gr_value *a = maker_with_dims(m, (int)maker_rnd(m, 2, 3)), *b;
    gr_shape s = gr_value_shape(a), t = { 0 };
    bool batched = s.n_dims == 3 && maker_coin(m, 2);
    bool ta = (batched || s.n_dims == 2) && maker_coin(m, 2), tb = maker_coin(m, 2);
    int64_t k = s.dim[s.n_dims - (ta ? 2 : 1)], n = maker_size(m);

    if (batched)
        t.dim[t.n_dims++] = s.dim[0];
    t.dim[t.n_dims++] = tb ? n : k;
    t.dim[t.n_dims++] = tb ? k : n;
    b = maker_leaf(m, t);
    maker_note(m, " k %d n %d ta %d tb %d", (int)k, (int)n, ta, tb);
    a = gr_matmul_t(m->g, a, b, ta, tb);
    if (maker_coin(m, 2))
        a = gr_mul_k(m->g, a, 1.0 / (double)(k + 1));
    maker_push(m, maker_finish(m, a, maker_coin(m, 2)));
}

static void add_running(maker *m, gr_batch_norm_args *a, int64_t c)
{
    char name[2][24];

    snprintf(name[0], sizeof(name[0]), "mean%d", m->n_params);
    snprintf(name[1], sizeof(name[1]), "var%d", m->n_params++);
    a->running_mean = gr_buffer(m->g, name[0], GR_F32, GR_SHAPE(c), gr_init_const(0));
    a->running_var = gr_buffer(m->g, name[1], GR_F32, GR_SHAPE(c), gr_init_const(1));
}

void maker_op_norm(maker *m)
{
    gr_value *v = maker_with_dims(m, (int)maker_rnd(m, 2, 4));
    gr_shape s = gr_value_shape(v);
    int64_t c = s.dim[s.n_dims - 1];
    gr_value *w = maker_coin(m, 3) ? NULL : maker_leaf(m, GR_SHAPE(c)),
             *b = maker_coin(m, 3) ? NULL : maker_leaf(m, GR_SHAPE(c));
    gr_batch_norm_args args = { .weight = w, .bias = b, .momentum = 0.1, .eps = 0.05 };

    switch (maker_rnd(m, 0, 4)) {
    case 0: v = gr_layer_norm(m->g, v, w, b, 0.05); break;
    case 1: v = gr_rms_norm(m->g, v, w, 0.05); break;
    case 2: v = gr_rms_norm_clamped(m->g, v, w, 0.01); break;
    case 3: v = gr_group_norm(m->g, v, c ? maker_divisor(m, c) : 1, w, b, 0.05); break;
    default:
        if (c == 0 || maker_count_of(v) / c < 2)
            return;
        if (maker_coin(m, 2))
            add_running(m, &args, c);
        v = gr_batch_norm(m->g, v, &args);
        break;
    }
    maker_push(m, v);
}

void maker_op_conv(maker *m)
{
    gr_value *v = maker_filled(m, 4);
    gr_shape s = gr_value_shape(v);
    gr_conv o = GR_CONV_INIT;
    bool transposed = maker_coin(m, 3);
    int64_t out, k[2];

    o.groups = maker_coin(m, 3) ? maker_divisor(m, s.dim[3]) : 1;
    out = o.groups * (maker_coin(m, 2) ? 1 : maker_rnd(m, 1, 9));
    for (int i = 0; i < 2; i++) {
        k[i] = maker_rnd(m, 1, 3);
        o.stride[i] = maker_rnd(m, 1, 3);
        o.dilation[i] = maker_rnd(m, 1, 2);
        o.pad[i] = maker_rnd(m, 0, 2);
        if (transposed) {
            o.out_pad[i] =
                maker_rnd(m, 0, (o.stride[i] > o.dilation[i] ? o.stride[i] : o.dilation[i]) - 1);
            if ((s.dim[1 + i] - 1) * o.stride[i] + o.dilation[i] * (k[i] - 1) + 1 <= 2 * o.pad[i])
                o.pad[i] = 0;
        } else if (s.dim[1 + i] + 2 * o.pad[i] < o.dilation[i] * (k[i] - 1) + 1) {
            k[i] = 1;
        }
    }
    maker_note(m, " %s k %d %d stride %d %d groups %d out %d", transposed ? "transposed" : "",
               (int)k[0], (int)k[1], (int)o.stride[0], (int)o.stride[1], (int)o.groups, (int)out);
    v = transposed
            ? gr_conv_transpose2d(m->g, v,
                                  maker_leaf(m, GR_SHAPE(s.dim[3], out / o.groups, k[0], k[1])), &o)
            : gr_conv2d(m->g, v, maker_leaf(m, GR_SHAPE(out, s.dim[3] / o.groups, k[0], k[1])), &o);
    v = gr_mul_k(m->g, v, 1.0 / (double)(1 + s.dim[3] / o.groups));
    maker_push(m, maker_finish(m, v, maker_coin(m, 2)));
}

void maker_op_image(maker *m)
{
    gr_value *v = maker_filled(m, 4);
    gr_window w = GR_WINDOW_INIT;
    gr_shape s = gr_value_shape(v);
    bool greatest = maker_coin(m, 3) && !m->how->smooth;

    for (int i = 0; i < 2; i++) {
        w.kernel[i] = maker_rnd(m, 1, 3);
        w.stride[i] = maker_rnd(m, 0, 3);
        w.padding[i] = maker_rnd(m, 0, w.kernel[i] / 2);
        w.dilation[i] = greatest ? maker_rnd(m, 1, 2) : 1;
        if (s.dim[1 + i] + 2 * w.padding[i] < w.dilation[i] * (w.kernel[i] - 1) + 1)
            w.kernel[i] = 1, w.padding[i] = 0;
    }
    w.ceil_mode = maker_coin(m, 2);
    w.without_padding = maker_coin(m, 2);
    switch (maker_rnd(m, 0, 4)) {
    case 0: v = gr_adaptive_avg_pool2d(m->g, v, maker_rnd(m, 1, 4), maker_rnd(m, 1, 4)); break;
    case 1: v = gr_global_avg_pool2d(m->g, v); break;
    case 2:
    case 3: v = greatest ? gr_max_pool2d(m->g, v, &w) : gr_avg_pool2d(m->g, v, &w); break;
    default:
        v = gr_resize(m->g, v, maker_rnd(m, 1, 9), maker_rnd(m, 1, 9),
                      (gr_resize_mode)maker_rnd(m, 0, 5));
        break;
    }
    maker_push(m, v);
}

void maker_op_attention(maker *m)
{
    gr_value *q = maker_filled(m, 4), *k, *v;
    gr_shape s = gr_value_shape(q);
    int64_t kv = maker_divisor(m, s.dim[2]), nk = maker_size(m);
    gr_attention_opts o = { .causal = maker_coin(m, 3), .dropout = maker_coin(m, 4) ? 0.25 : 0 };

    if (s.dim[0] > 4 || s.dim[2] > 8 || s.dim[3] > 64)
        return;
    if (maker_coin(m, 4))
        o.bias = maker_leaf(m, maker_narrower(m, GR_SHAPE(s.dim[0], s.dim[2], s.dim[1], nk)));
    if (maker_coin(m, 4))
        o.key_mask = gr_lt_k(m->g, maker_constant(m, GR_SHAPE(s.dim[0], nk)), 0.5);
    if (maker_coin(m, 4) && s.dim[3] % 2 == 0)
        q = gr_rotary(m->g, q, NULL, &(gr_rotary_opts){ .interleaved = maker_coin(m, 2) });
    k = maker_leaf(m, GR_SHAPE(s.dim[0], nk, kv, s.dim[3]));
    v = maker_coin(m, 3) ? k : maker_leaf(m, GR_SHAPE(s.dim[0], nk, kv, s.dim[3]));
    if (maker_coin(m, 4) && !o.bias && !o.key_mask) {
        o.heads = s.dim[2];
        k = maker_leaf(m, GR_SHAPE(s.dim[0], s.dim[1], 2 * s.dim[2] * s.dim[3]));
        q = gr_reshape(m->g, q, GR_SHAPE(s.dim[0], s.dim[1], -1));
        maker_push(m,
                   gr_attention_packed(m->g, gr_concat(m->g, ((gr_value *[]){ q, k }), 2, 2), &o));
        return;
    }
    maker_note(m, " nk %d kv %d causal %d bias %d mask %d", (int)nk, (int)kv, o.causal, !!o.bias,
               !!o.key_mask);
    maker_push(m, gr_attention(m->g, q, k, v, &o));
}
