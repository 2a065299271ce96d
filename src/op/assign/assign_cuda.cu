/* assign and hold on the GPU: whether to copy is known there only, so a kernel copies. */
#include "op/assign/assign.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"
#include "op/update/update.h"

/* Each thread reads an element before it writes it: `from` may be `to`. */
template <class T, class S>
static __global__ void assign_to(T *to, const S *value, const T *held, const float *control,
                                 int64_t n)
{
    bool skip = control && control[GR_CONTROL_SKIP] != 0;

    if (skip && !held)
        return;
    GR_CUDA_EACH(i, n)
    to[i] = skip ? held[i] : gr_as<T>(value[i]);
}

template <class T>
static __global__ void hold_first(T *to, const T *from, const gr_scalars *scalars, int64_t n)
{
    if (scalars->micro != 0)
        return;
    GR_CUDA_EACH(i, n)
    to[i] = from[i];
}

template <class T, class S> static gr_status launch_assign(const gr_launch *l)
{
    int64_t n = gr_shape_count(&l->node->out[0].shape);
    const float *control = l->node->n_src > 2 ? (const float *)l->src[2] : NULL;
    const T *held = l->node->n_src > 3 ? (const T *)l->src[3] : NULL;

    return gr_cuda_launch("assign launch", gr_cuda_grid_for(n), gr_cuda_stream(l->stream),
                          assign_to<T, S>, (T *)l->out[0], (const S *)l->src[1], held, control, n);
}

static gr_status assign_run(const gr_launch *l)
{
    gr_dtype to = l->node->out[0].dtype, from = l->node->src[1]->dtype;

    if (to != from && from == GR_BF16)
        return launch_assign<float, __nv_bfloat16>(l);
    if (to != from)
        return launch_assign<float, __half>(l);
    GR_CUDA_BYTES(gr_dtype_bytes(to), T, return launch_assign<T, T>(l))
}

template <class T> static gr_status launch_hold(const gr_launch *l)
{
    int64_t n = gr_shape_count(&l->node->out[0].shape);

    return gr_cuda_launch("hold launch", gr_cuda_grid_for(n), gr_cuda_stream(l->stream),
                          hold_first<T>, (T *)l->out[0], (const T *)l->src[1], l->scalars, n);
}

static gr_status hold_run(const gr_launch *l)
{
    GR_CUDA_BYTES(gr_dtype_bytes(l->node->out[0].dtype), T, return launch_hold<T>(l))
}

const gr_kernel gr_assign_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = assign_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_hold_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = hold_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
