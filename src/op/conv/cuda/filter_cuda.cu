/* Weights with channels first, as models have them, and last, as tensor cores like them. */
#include "op/conv/cuda/conv_cudnn.h"

#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"

/* Each line [n_outer, n_inner] of o becomes [n_inner, n_outer]. */
static __global__ void turn(void *out, gr_dtype to, const void *in, gr_dtype from, int64_t n,
                            const __grid_constant__ gr_divider outer,
                            const __grid_constant__ gr_divider inner)
{
    GR_CUDA_EACH(e, n)
    {
        int64_t row = gr_divide(&outer, e), at = e - row * outer.n;
        int64_t o = gr_divide(&inner, row), i = row - o * inner.n;

        gr_store_f64(out, e, to, gr_load_f64(in, (o * outer.n + at) * inner.n + i, from));
    }
}

static gr_status launch(const gr_conv_filter *f, int64_t outer, int64_t inner, void *out,
                        const void *in, void *stream)
{
    int64_t n = f->o * outer * inner;

    if (n == 0)
        return GR_OK;
    return gr_cuda_launch("conv filter launch", gr_cuda_grid_for(n), gr_cuda_stream(stream), turn,
                          out, f->to, in, f->from, n, gr_divider_of(outer), gr_divider_of(inner));
}

gr_status gr_conv_filter_last(const gr_conv_filter *f, void *out, const void *in, void *stream)
{
    return launch(f, f->i, f->taps, out, in, stream);
}

gr_status gr_conv_filter_first(const gr_conv_filter *f, void *out, const void *in, void *stream)
{
    return launch(f, f->taps, f->i, out, in, stream);
}
