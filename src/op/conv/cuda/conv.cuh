/*
 * What the CUDA kernels of convolution share: where places of one image meet the other, how a
 * place in a sum is stepped through, and types.
 *
 * A convolution is a product of matrices whose left one is never stored. `to` is the image with
 * the rows of that product, `from` the image that is read for it:
 *
 *     conv          rows are y's pixels, sums go over (ky, kx, i) of x
 *     conv_data     rows are x's pixels, sums go over (ky, kx, o) of y
 *     conv_weight   rows are (ky, kx, i) of x, sums go over y's pixels: to is y, from is x
 */
#ifndef GR_OP_CONV_CUDA_CONV_CUH
#define GR_OP_CONV_CUDA_CONV_CUH

#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/pack.cuh"
#include "op/conv/conv.h"

typedef struct gr_conv_axis {
    int64_t n_from; /* places of the image that is read */
    int64_t stride, pad, dilation;
    gr_divider by_stride;
} gr_conv_axis;

typedef struct gr_conv_plan {
    gr_conv_axis axis[2];
    gr_divider to[2];     /* height and width of the rows' image; 1 for 0 */
    int64_t n_pixels;     /* of that image, over the whole batch */
    int64_t c_from, c_to; /* channels of the images */
    int64_t n_from, n_to; /* the same of a group */
    int64_t groups, k[2];
    const void *from, *weight;
    void *out;
    gr_dtype from_type, weight_type, out_type;
} gr_conv_plan;

static inline gr_conv_plan gr_conv_plan_of(const gr_launch *l, bool is_data)
{
    const gr_node *n = l->node;
    gr_conv_dims d;
    gr_conv_plan p;

    gr_conv_get_dims(n, &d);
    p.groups = d.groups;
    p.c_from = is_data ? d.co : d.ci;
    p.c_to = is_data ? d.ci : d.co;
    p.n_from = p.c_from / d.groups;
    p.n_to = p.c_to / d.groups;
    p.n_pixels = d.n;
    for (int i = 0; i < 2; i++) {
        int64_t to = is_data ? d.in[i] : d.out[i];

        p.axis[i].n_from = is_data ? d.out[i] : d.in[i];
        p.axis[i].stride = d.stride[i];
        p.axis[i].pad = d.pad[i];
        p.axis[i].dilation = d.dilation[i];
        p.axis[i].by_stride = gr_divider_of(d.stride[i]);
        p.to[i] = gr_divider_of(to > 0 ? to : 1);
        p.n_pixels *= to;
        p.k[i] = d.k[i];
    }
    p.from = l->src[0];
    p.weight = l->src[1];
    p.out = l->out[0];
    p.from_type = n->src[0]->dtype;
    p.weight_type = n->src[1]->dtype;
    p.out_type = n->out[0].dtype;
    return p;
}

/* ---- where the images meet ---- */

/* Of place `at` of the rows' image: the place that its tap 0 falls on, for gr_conv_meets(). */
template <bool IS_DATA> GR_BOTH int64_t gr_conv_start(const gr_conv_axis *a, int64_t at)
{
    return IS_DATA ? at + a->pad : at * a->stride - a->pad;
}

/* The place of the other image at tap k; -1: none. */
template <bool IS_DATA>
GR_BOTH int64_t gr_conv_meets(const gr_conv_axis *a, int64_t start, int64_t k)
{
    int64_t at = IS_DATA ? start - k * a->dilation : start + k * a->dilation;

    if (at < 0)
        return -1;
    if (IS_DATA && a->stride > 1) {
        int64_t q = gr_divide(&a->by_stride, at);

        if (q * a->stride != at)
            return -1;
        at = q;
    }
    return at < a->n_from ? at : -1;
}

/* A pixel of the rows' image: where its taps 0 fall, and the first row of its picture in the
 * other image. */
typedef struct gr_conv_pixel {
    int64_t y, x, row;
} gr_conv_pixel;

template <bool IS_DATA> GR_BOTH gr_conv_pixel gr_conv_pixel_of(const gr_conv_plan *p, int64_t i)
{
    int64_t line = gr_divide(&p->to[1], i), picture = gr_divide(&p->to[0], line);
    gr_conv_pixel at;

    at.y = gr_conv_start<IS_DATA>(&p->axis[0], line - picture * p->to[0].n);
    at.x = gr_conv_start<IS_DATA>(&p->axis[1], i - line * p->to[1].n);
    at.row = picture * p->axis[0].n_from;
    return at;
}

/* The pixel of the image that is read, counted over the batch; -1: none. */
template <bool IS_DATA>
GR_BOTH int64_t gr_conv_other(const gr_conv_plan *p, const gr_conv_pixel *at, int64_t ky,
                              int64_t kx)
{
    int64_t y = gr_conv_meets<IS_DATA>(&p->axis[0], at->y, ky);
    int64_t x = gr_conv_meets<IS_DATA>(&p->axis[1], at->x, kx);

    return y < 0 || x < 0 ? -1 : (at->row + y) * p->axis[1].n_from + x;
}

/* A place in (ky, kx, channel), the channel innermost. */
typedef struct gr_conv_place {
    int64_t ky, kx, c;
} gr_conv_place;

GR_BOTH void gr_conv_step(const gr_conv_plan *p, gr_conv_place *at, int64_t n)
{
    at->c += n;
    while (at->c >= p->n_from) {
        at->c -= p->n_from;
        if (++at->kx == p->k[1]) {
            at->kx = 0;
            at->ky++;
        }
    }
}

/* ---- types ---- */

/* Stands for sources of different types, or of a narrower type than a result in f64. */
struct gr_conv_mixed {
};

/* One element as what is summed. `item`: what arranged copies consist of; packs: several may be
 * read at once. */
template <class T> struct gr_conv_type {
    typedef T item;
    typedef typename gr_compute<T>::type sum;
    static constexpr bool packs = true;

    static __device__ __forceinline__ sum at(const void *mem, int64_t i, gr_dtype)
    {
        return gr_as<sum>(((const T *)mem)[i]);
    }
};

template <> struct gr_conv_type<gr_conv_mixed> {
    typedef double item;
    typedef double sum;
    static constexpr bool packs = false;

    static __device__ __forceinline__ double at(const void *mem, int64_t i, gr_dtype t)
    {
        return gr_load_f64(mem, i, t);
    }
};

static inline bool gr_conv_is_mixed(const gr_node *n)
{
    gr_dtype t = n->src[0]->dtype;

    return t != n->src[1]->dtype || (n->out[0].dtype == GR_F64 && t != GR_F64);
}

/* GR_CONV_TYPES(n, T, statement) */
#define GR_CONV_TYPES(n, T, ...)                           \
    if (gr_conv_is_mixed(n)) {                             \
        typedef gr_conv_mixed T;                           \
        __VA_ARGS__;                                       \
    } else {                                               \
        GR_CUDA_FLOATS((n)->src[0]->dtype, T, __VA_ARGS__) \
    }

/* Bytes of an arranged element, and of one that is summed. */
static inline size_t gr_conv_item_bytes(const gr_node *n)
{
    return gr_conv_is_mixed(n) ? sizeof(double) : gr_dtype_bytes(n->src[0]->dtype);
}

static inline size_t gr_conv_sum_bytes(const gr_node *n)
{
    return gr_conv_is_mixed(n) || n->src[0]->dtype == GR_F64 ? sizeof(double) : sizeof(float);
}

/* ---- the weight, arranged ---- */

/* As [group][(ky, kx, channel of `from`)][channel of `to`], into the workspace, of which it takes
 * the bytes that gr_conv_arranged_bytes() says. */
gr_status gr_conv_arrange(const gr_launch *l, const gr_conv_plan *p, bool is_data) GR_MUST_CHECK;
size_t gr_conv_arranged_bytes(const gr_node *n, const void *data);

/* ---- gradients of weights: partial sums ---- */

/*
 * Sums over all pixels are cut into `n` parts of `pixels` each, which are summed apart and then
 * joined in their order: part[s][o][(ky, kx, i)], in the workspace. As many parts as fill a large
 * GPU; how many is a matter of shapes alone, so bits do not depend on the GPU.
 */
typedef struct gr_conv_parts {
    int64_t n, pixels, count; /* count: elements of one */
} gr_conv_parts;

#define GR_CONV_BLOCKS 1056 /* that a sum is cut up for */

/* `blocks`: of one part. No part is smaller than `least` pixels. */
static inline gr_conv_parts gr_conv_parts_of(const gr_node *n, int64_t blocks, int64_t least)
{
    gr_conv_dims d;
    gr_conv_parts s;
    int64_t n_pixels, most;

    gr_conv_get_dims(n, &d);
    n_pixels = d.n * d.out[0] * d.out[1];
    s.count = gr_shape_count(&n->out[0].shape);
    s.n = gr_ceil_div(GR_CONV_BLOCKS, blocks > 0 ? blocks : 1);
    most = s.count > 0 ? (int64_t)(GR_WORK_LIMIT / gr_conv_sum_bytes(n)) / s.count : 1;
    s.n = s.n < most ? s.n : most;
    most = n_pixels / least;
    s.n = s.n < most ? s.n : most;
    s.n = s.n < 1 ? 1 : s.n;
    s.pixels = gr_ceil_div(n_pixels, s.n);
    s.n = s.pixels > 0 ? gr_ceil_div(n_pixels, s.pixels) : 1;
    return s;
}

static inline size_t gr_conv_parts_bytes(const gr_node *n, const gr_conv_parts *s)
{
    return (size_t)s->n * (size_t)s->count * gr_conv_sum_bytes(n);
}

/* Joins the parts that lie in the workspace into the result. */
gr_status gr_conv_parts_join(const gr_launch *l, const gr_conv_parts *s) GR_MUST_CHECK;

/* ---- the kernels ---- */

gr_status gr_conv_tiles_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_conv_data_tiles_run(const gr_launch *l) GR_MUST_CHECK;
size_t gr_conv_weight_tiles_workspace(const gr_node *n, const void *data);
gr_status gr_conv_weight_tiles_run(const gr_launch *l) GR_MUST_CHECK;

const char *gr_conv_mma_reject(const gr_node *n);
gr_status gr_conv_mma_prepare(gr_prepare *p) GR_MUST_CHECK;
gr_status gr_conv_mma_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_conv_data_mma_run(const gr_launch *l) GR_MUST_CHECK;
size_t gr_conv_weight_mma_workspace(const gr_node *n, const void *data);
gr_status gr_conv_weight_mma_run(const gr_launch *l) GR_MUST_CHECK;

gr_status gr_conv_each_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_conv_data_each_run(const gr_launch *l) GR_MUST_CHECK;
size_t gr_conv_weight_each_workspace(const gr_node *n, const void *data);
gr_status gr_conv_weight_each_run(const gr_launch *l) GR_MUST_CHECK;

#endif
