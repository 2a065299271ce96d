/* Operators that move elements: joined, cut, turned, picked by index. */
#include "step/maker.h"

void maker_op_join(maker *m)
{
    gr_value *v = maker_with_dims(m, (int)maker_rnd(m, 1, 4)), *src[3], *out[3];
    gr_shape s = gr_value_shape(v);
    int axis = (int)maker_rnd(m, 0, s.n_dims - 1), n = (int)maker_rnd(m, 1, 3);
    int64_t sizes[3];

    if (maker_coin(m, 2)) {
        for (int i = 0; i < n; i++)
            src[i] = maker_coin(m, 3) ? v : maker_beside(m, v);
        for (int i = 0; i < n; i++)
            src[i] = gr_broadcast(m->g, src[i], s);
        maker_push(m,
                   maker_coin(m, 3) ? gr_stack(m->g, src, n, axis) : gr_concat(m->g, src, n, axis));
        return;
    }
    for (int i = 0; i < n; i++)
        sizes[i] = i == n - 1 ? s.dim[axis] : maker_rnd(m, 0, s.dim[axis]), s.dim[axis] -= sizes[i];
    gr_split(m->g, v, axis, n, sizes, out);
    for (int i = 0; i < n && gr_graph_status(m->g) == GR_OK; i++)
        if (maker_count_of(out[i]) > 0 || m->how->empty)
            maker_push(m, out[i]);
}

void maker_op_move(maker *m)
{
    gr_value *v = maker_with_dims(m, (int)maker_rnd(m, 1, 5));
    gr_shape s = gr_value_shape(v);
    gr_range r[GR_MAX_DIMS];
    int64_t lo[GR_MAX_DIMS], hi[GR_MAX_DIMS];
    int order[GR_MAX_DIMS];

    for (int i = 0; i < s.n_dims; i++) {
        int64_t start = s.dim[i] > 1 ? maker_rnd(m, 0, s.dim[i] / 2) : 0;

        r[i] = (gr_range){ start, s.dim[i] > 0 ? maker_rnd(m, start + 1, s.dim[i]) : 0,
                           maker_rnd(m, 1, 3) };
        lo[i] = maker_rnd(m, 0, 2);
        hi[i] = maker_rnd(m, 0, 2);
        order[i] = i;
    }
    for (int i = s.n_dims - 1; i > 0; i--) {
        int j = (int)maker_rnd(m, 0, i), t = order[i];

        order[i] = order[j];
        order[j] = t;
    }
    switch (maker_rnd(m, 0, 4)) {
    case 0: v = gr_slice(m->g, v, r); break;
    case 1: v = gr_pad(m->g, v, lo, hi, 0.5); break;
    case 2: v = gr_flip(m->g, v, (unsigned)maker_rnd(m, 0, 31) & ((1u << s.n_dims) - 1)); break;
    default: v = gr_transpose(m->g, v, order); break;
    }
    maker_push(m, v);
}

void maker_op_index(maker *m)
{
    gr_value *v = maker_filled(m, (int)maker_rnd(m, 1, 3)), *place;
    gr_shape s = gr_value_shape(v), t = s;
    int axis = (int)maker_rnd(m, 0, s.n_dims - 1);

    t.dim[axis] = maker_size(m);
    switch (maker_rnd(m, 0, m->how->smooth ? 4 : 6)) {
    case 0: v = gr_gather(m->g, v, maker_indices(m, GR_SHAPE(maker_size(m)), s.dim[0])); break;
    case 1:
        v = gr_scatter_add(m->g, v, maker_indices(m, GR_SHAPE(s.dim[0]), 4), maker_rnd(m, 4, 6));
        break;
    case 2:
        v = gr_index_select(m->g, v, axis, maker_indices(m, GR_SHAPE(maker_size(m)), s.dim[axis]));
        break;
    case 3: v = gr_take_along(m->g, v, axis, maker_indices(m, t, s.dim[axis])); break;
    case 4:
        v = gr_embedding(m->g, v, maker_indices(m, GR_SHAPE(maker_size(m), 2), s.dim[0]),
                         m->how->smooth ? -1 : maker_rnd(m, -1, 0));
        break;
    case 5:
        v = gr_top_k(m->g, v, maker_rnd(m, 1, s.dim[s.n_dims - 1]), maker_coin(m, 2), &place);
        break;
    default: v = gr_max_index(m->g, v, axis, maker_coin(m, 2), NULL); break;
    }
    maker_push(m, v);
}
