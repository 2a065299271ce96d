/* Gradients to 16 bits and back on the GPU: the bucket's stretch from its first gradient on,
 * padding between them included. */
#include "op/collective/wire.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/pack.cuh"
#include "op/module_cuda.h"

/* Packs of N elements; grid-stride. */
template <class O, class S, int N> static __global__ void convert(O *out, const S *in, int64_t n)
{
    gr_pack_each<N>(n, [&](auto lanes, int64_t i) {
        const int L = decltype(lanes)::n;

        gr_pack_store(out + i, gr_pack_load<float, L>(in + i));
    });
}

template <class O, class S> static gr_status launch(const gr_launch *l, void *out, const void *in)
{
    int64_t n = ((const gr_wire_attr *)l->node->attr)->n_elem;
    O *to = (O *)out;
    const S *from = (const S *)in;

    return gr_cuda_launch("wire launch", gr_cuda_grid_for(n, 8), gr_cuda_stream(l->stream),
                          gr_pack_is_aligned(to, from) ? convert<O, S, 8> : convert<O, S, 1>, to,
                          from, n);
}

static bool is_f16(const gr_launch *l)
{
    return ((const gr_wire_attr *)l->node->attr)->dtype == GR_F16;
}

static gr_status pack_run(const gr_launch *l)
{
    if (is_f16(l))
        return launch<__half, float>(l, l->out[0], l->src[0]);
    return launch<__nv_bfloat16, float>(l, l->out[0], l->src[0]);
}

static gr_status unpack_run(const gr_launch *l)
{
    if (is_f16(l))
        return launch<float, __half>(l, l->src[1], l->src[0]);
    return launch<float, __nv_bfloat16>(l, l->src[1], l->src[0]);
}

static const gr_value *root_of(const gr_value *v)
{
    while (v->alias)
        v = v->alias;
    return v;
}

static size_t bytes_of(const gr_value *v)
{
    return (size_t)gr_shape_count(&v->shape) * gr_dtype_bytes(v->dtype);
}

/* A gradient elsewhere would be left out. */
static const char *reject(const gr_node *n, int first)
{
    size_t n_bytes = (size_t)((const gr_wire_attr *)n->attr)->n_elem * sizeof(float);
    size_t base = root_of(n->src[first])->offset;

    for (int s = first; s < n->n_src; s++) {
        const gr_value *root = root_of(n->src[s]);

        if (root->space != GR_SPACE_EXCHANGE || root->offset < base ||
            root->offset + bytes_of(n->src[s]) > base + n_bytes)
            return "a gradient does not lie in the stretch that is exchanged";
    }
    return NULL;
}

static const char *pack_reject(const gr_node *n)
{
    return reject(n, 0);
}

static const char *unpack_reject(const gr_node *n)
{
    return reject(n, 1);
}

const gr_kernel gr_wire_pack_cuda[] = {
    {
        .name = "cuda",
        .reject = pack_reject,
        .prepare = NULL,
        .workspace = NULL,
        .run = pack_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_wire_unpack_cuda[] = {
    {
        .name = "cuda",
        .reject = unpack_reject,
        .prepare = NULL,
        .workspace = NULL,
        .run = unpack_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
