/* Weights in the order in which tiles read them. */
#include "op/conv/cuda/conv.cuh"

typedef struct arrange_args {
    gr_conv_plan p;
    int64_t n;
    gr_divider n_to, n_from, taps;
} arrange_args;

/* Element e of the arranged weight is this one of the weight, [o, i, (ky, kx)]. */
template <bool IS_DATA> GR_BOTH int64_t weight_at(const arrange_args *a, int64_t e)
{
    const gr_conv_plan *p = &a->p;
    int64_t row = gr_divide(&a->n_to, e), c_to = e - row * a->n_to.n;
    int64_t next = gr_divide(&a->n_from, row), c_from = row - next * a->n_from.n;
    int64_t group = gr_divide(&a->taps, next), tap = next - group * a->taps.n;
    int64_t o = IS_DATA ? group * p->n_from + c_from : group * p->n_to + c_to;
    int64_t i = IS_DATA ? c_to : c_from, n_in = IS_DATA ? p->n_to : p->n_from;

    return (o * n_in + i) * a->taps.n + tap;
}

template <class T, bool IS_DATA>
static __global__ void arrange(typename gr_conv_type<T>::item *out,
                               const __grid_constant__ arrange_args a)
{
    GR_CUDA_EACH(e, a.n)
    {
        int64_t at = weight_at<IS_DATA>(&a, e);

        if constexpr (gr_conv_type<T>::packs)
            out[e] = ((const T *)a.p.weight)[at];
        else
            out[e] = gr_load_f64(a.p.weight, at, a.p.weight_type);
    }
}

template <class T, bool IS_DATA> static gr_status launch(const gr_launch *l, const gr_conv_plan *p)
{
    arrange_args a;

    a.p = *p;
    a.n = p->groups * p->k[0] * p->k[1] * p->n_from * p->n_to;
    if (a.n == 0)
        return GR_OK;
    a.n_to = gr_divider_of(p->n_to);
    a.n_from = gr_divider_of(p->n_from);
    a.taps = gr_divider_of(p->k[0] * p->k[1]);
    return gr_cuda_launch("conv weight launch", gr_cuda_grid_for(a.n), gr_cuda_stream(l->stream),
                          arrange<T, IS_DATA>, (typename gr_conv_type<T>::item *)l->work, a);
}

gr_status gr_conv_arrange(const gr_launch *l, const gr_conv_plan *p, bool is_data){
    GR_CONV_TYPES(l->node, T, return is_data ? launch<T, true>(l, p) : launch<T, false>(l, p))
}

size_t gr_conv_arranged_bytes(const gr_node *n, const void *data)
{
    (void)data;
    return (size_t)gr_shape_count(&n->src[1]->shape) * gr_conv_item_bytes(n);
}
