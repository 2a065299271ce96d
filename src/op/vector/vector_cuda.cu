/* cross and constant on the GPU. A constant's elements go to the device once, with the plan. */
#include "op/vector/vector.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

/* ---- cross ---- */

/* In double, product by product, as the reference; a thread per vector. */
template <class T> static __global__ void cross(T *out, const T *a, const T *b, int64_t n_vectors)
{
    GR_CUDA_EACH(v, n_vectors)
    {
        double x[3], y[3];

#pragma unroll
        for (int i = 0; i < 3; i++) {
            x[i] = (double)gr_plain(a[3 * v + i]);
            y[i] = (double)gr_plain(b[3 * v + i]);
        }
#pragma unroll
        for (int i = 0; i < 3; i++) {
            int p = (i + 1) % 3, q = (i + 2) % 3;

            out[3 * v + i] = gr_as<T>(__dadd_rn(__dmul_rn(x[p], y[q]), -__dmul_rn(x[q], y[p])));
        }
    }
}

static gr_status cross_run(const gr_launch *l)
{
    int64_t n = gr_shape_count(&l->node->out[0].shape) / 3;

    GR_CUDA_FLOATS(l->node->out[0].dtype, T,
                   return gr_cuda_launch("cross launch", gr_cuda_grid_for(n),
                                         gr_cuda_stream(l->stream), cross<T>, (T *)l->out[0],
                                         (const T *)l->src[0], (const T *)l->src[1], n))
}

/* ---- constant ---- */

static size_t constant_bytes(const gr_node *n)
{
    const gr_constant_attr *at = (const gr_constant_attr *)n->attr;

    return (size_t)gr_shape_count(&at->shape) * gr_dtype_bytes(at->dtype);
}

/* Ends what constant_prepare() made; NULL-safe. */
static void constant_release(void *data)
{
    cudaFree(data);
}

static gr_status constant_prepare(gr_prepare *p)
{
    const gr_constant_attr *at = (const gr_constant_attr *)p->node->attr;
    cudaStream_t s = gr_cuda_stream(p->stream);
    size_t n_bytes = constant_bytes(p->node);
    cudaError_t e;

    if (n_bytes == 0)
        return GR_OK;
    GR_TRY(gr_cuda_check(cudaMalloc(&p->data, n_bytes), "memory of a constant"));
    e = cudaMemcpyAsync(p->data, at + 1, n_bytes, cudaMemcpyHostToDevice, s);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(s);
    if (e != cudaSuccess) {
        constant_release(p->data);
        p->data = NULL;
    }
    return gr_cuda_check(e, "copy of a constant");
}

static gr_status constant_run(const gr_launch *l)
{
    size_t n_bytes = constant_bytes(l->node);

    if (n_bytes == 0)
        return GR_OK;
    return gr_cuda_check(cudaMemcpyAsync(l->out[0], l->data, n_bytes, cudaMemcpyDeviceToDevice,
                                         gr_cuda_stream(l->stream)),
                         "constant");
}

const gr_kernel gr_cross_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = cross_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_constant_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = constant_prepare,
        .workspace = NULL,
        .run = constant_run,
        .release = constant_release,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
