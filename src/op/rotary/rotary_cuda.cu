/*
 * Rotary positions on the GPU: a thread turns one pair of numbers in all heads of a token, so that
 * the angle, which costs the most, is computed once for them. What the angle is a multiple of
 * comes with the launch: the host computes it, as the CPU's kernels do.
 */
#include "op/rotary/rotary.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/fault.cuh"
#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "base/alloc.h"
#include "op/module_cuda.h"

#include <math.h>

#define MOST_SPEEDS 256 /* pairs of a part whose angles come with the launch */

/* By pair: how far one position turns it. */
typedef struct rotary_speeds {
    double of[MOST_SPEEDS];
} rotary_speeds;

typedef struct rotary_args {
    const void *x, *positions; /* positions NULL: a token's place in its sequence */
    void *y;
    int64_t n_tokens, heads, d;
    gr_divider pairs; /* of a head */
    gr_divider n;     /* tokens of a sequence */
    int64_t part;     /* numbers that one axis turns */
    bool by_sequence; /* each sequence has positions of its own */
    gr_dtype position_type;
    gr_rotary_attr attr;
    uint32_t node_id;
    gr_fault *fault;
    rotary_speeds speeds;
} rotary_args;

/* The position of a token on an axis; 0, and a fault, when it is out of range. */
static __device__ int64_t position_of(const rotary_args &p, int64_t token, int axis)
{
    int64_t in_sequence = token - gr_divide(&p.n, token) * p.n.n, i, pos;

    if (!p.positions)
        return in_sequence;
    i = (p.by_sequence ? token : in_sequence) * p.attr.axes + axis;
    pos = gr_load_index(p.positions, i, p.position_type);
    if (pos >= 0 && pos < p.attr.max_position)
        return pos;
    gr_cuda_fault(p.fault, p.node_id, pos, p.attr.max_position, i);
    return 0;
}

/* Of pair i of a part of s numbers. */
static __host__ __device__ double speed_of(double base, int64_t i, int64_t s)
{
    return pow(base, -2.0 * (double)i / (double)s);
}

template <class T> static __global__ void rotary(const __grid_constant__ rotary_args p)
{
    typedef typename gr_compute<T>::type C;
    const T *x = (const T *)p.x;
    T *y = (T *)p.y;

    GR_CUDA_EACH(k, p.n_tokens * p.pairs.n)
    {
        int64_t token = gr_divide(&p.pairs, k), pair = k - token * p.pairs.n;
        int axis = pair >= p.part / 2;
        int64_t i = pair - axis * (p.part / 2);
        int64_t pos = position_of(p, token, axis);
        double speed = i < MOST_SPEEDS ? p.speeds.of[i] : speed_of(p.attr.base, i, p.part);
        double angle = (double)pos * speed, sine, cosine;
        int64_t first = token * p.heads * p.d + axis * p.part + (p.attr.interleaved ? 2 * i : i);
        int64_t step = p.attr.interleaved ? 1 : p.part / 2;

        sincos(p.attr.inverse ? -angle : angle, &sine, &cosine);
        for (int64_t h = 0; h < p.heads; h++, first += p.d) {
            C a = gr_as<C>(x[first]), b = gr_as<C>(x[first + step]);
            bool turns = h < p.attr.heads;

            y[first] = turns ? gr_as<T>(a * (C)cosine - b * (C)sine) : x[first];
            y[first + step] = turns ? gr_as<T>(b * (C)cosine + a * (C)sine) : x[first + step];
        }
    }
}

static int64_t part_of(const gr_node *n)
{
    return n->src[0]->shape.dim[3] / ((const gr_rotary_attr *)n->attr)->axes;
}

static gr_status prepare(gr_prepare *pr)
{
    double base = ((const gr_rotary_attr *)pr->node->attr)->base;
    int64_t part = part_of(pr->node);
    rotary_speeds *s = (rotary_speeds *)gr_calloc(1, sizeof(*s));

    if (!s)
        return GR_ERR_NOMEM;
    for (int64_t i = 0; i < part / 2 && i < MOST_SPEEDS; i++)
        s->of[i] = speed_of(base, i, part);
    pr->data = s;
    return GR_OK;
}

static gr_status run(const gr_launch *l)
{
    const gr_node *n = l->node;
    const gr_shape *x = &n->src[0]->shape;
    rotary_args p;

    p.attr = *(const gr_rotary_attr *)n->attr;
    p.x = l->src[0];
    p.y = l->out[0];
    p.positions = p.attr.has_positions ? l->src[1] : NULL;
    p.position_type = p.attr.has_positions ? n->src[1]->dtype : GR_I32;
    p.by_sequence = p.attr.has_positions && n->src[1]->shape.n_dims == (p.attr.axes == 2 ? 3 : 2);
    p.n_tokens = x->dim[0] * x->dim[1];
    p.heads = x->dim[2];
    p.d = x->dim[3];
    p.part = part_of(n);
    p.speeds = *(const rotary_speeds *)l->data;
    if (p.n_tokens * p.heads * p.d == 0)
        return GR_OK;
    p.pairs = gr_divider_of(p.d / 2);
    p.n = gr_divider_of(x->dim[1]);
    p.node_id = n->id;
    p.fault = l->fault;
    GR_CUDA_FLOATS(n->src[0]->dtype, T,
                   return gr_cuda_launch("rotary launch", gr_cuda_grid_for(p.n_tokens * p.pairs.n),
                                         gr_cuda_stream(l->stream), rotary<T>, p))
}

const gr_kernel gr_rotary_cuda[] = {
    { .name = "pairs", .prepare = prepare, .run = run, .release = gr_free }, { .name = NULL }
};
