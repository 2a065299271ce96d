/*
 * Convolutions element by element: for groups of few channels, depthwise ones above all, where
 * tiles would be empty for the most part. Neighbouring threads have neighbouring channels.
 */
#include "op/conv/cuda/conv.cuh"

#include "backend/cuda/reduce.cuh"

#define COLUMNS 32 /* channels of y that a block sums a gradient of weights for */
#define LINES   8  /* among whom its pixels are shared out */

typedef struct each_args {
    gr_conv_plan p;
    gr_divider c_to, n_to; /* n_to: of a group */
} each_args;

/* ---- conv, conv_data ---- */

/* Row-major [o, i, tap]. */
template <bool IS_DATA>
GR_BOTH int64_t weight_at(const gr_conv_plan *p, int64_t group, int64_t c_from, int64_t c_to,
                          int64_t tap)
{
    int64_t taps = p->k[0] * p->k[1];

    return IS_DATA ? ((group * p->n_from + c_from) * p->n_to + c_to) * taps + tap
                   : ((group * p->n_to + c_to) * p->n_from + c_from) * taps + tap;
}

template <class T, bool IS_DATA>
static __global__ void conv_each(const __grid_constant__ each_args a)
{
    typedef typename gr_conv_type<T>::sum C;
    const gr_conv_plan &p = a.p;

    GR_CUDA_EACH(e, p.n_pixels * p.c_to)
    {
        int64_t pixel = gr_divide(&a.c_to, e), c = e - pixel * a.c_to.n;
        int64_t group = gr_divide(&a.n_to, c), c_to = c - group * a.n_to.n, tap = 0;
        gr_conv_pixel at = gr_conv_pixel_of<IS_DATA>(&p, pixel);
        C sum = C(0);

        for (int64_t ky = 0; ky < p.k[0]; ky++)
            for (int64_t kx = 0; kx < p.k[1]; kx++, tap++) {
                int64_t from = gr_conv_other<IS_DATA>(&p, &at, ky, kx);

                if (from < 0)
                    continue;
                from = from * p.c_from + group * p.n_from;
                for (int64_t i = 0; i < p.n_from; i++)
                    sum +=
                        gr_conv_type<T>::at(p.from, from + i, p.from_type) *
                        gr_conv_type<T>::at(p.weight, weight_at<IS_DATA>(&p, group, i, c_to, tap),
                                            p.weight_type);
            }
        gr_store_f64(p.out, e, p.out_type, (double)sum);
    }
}

template <class T, bool IS_DATA> static gr_status launch(const gr_launch *l)
{
    each_args a;

    a.p = gr_conv_plan_of(l, IS_DATA);
    if (a.p.n_pixels == 0 || a.p.c_to == 0)
        return GR_OK;
    a.c_to = gr_divider_of(a.p.c_to);
    a.n_to = gr_divider_of(a.p.n_to);
    return gr_cuda_launch("conv launch", gr_cuda_grid_for(a.p.n_pixels * a.p.c_to),
                          gr_cuda_stream(l->stream), conv_each<T, IS_DATA>, a);
}

gr_status gr_conv_each_run(const gr_launch *l){ GR_CONV_TYPES(l->node, T,
                                                              return launch<T, false>(l)) }

gr_status gr_conv_data_each_run(const gr_launch *l)
{
    GR_CONV_TYPES(l->node, T, return launch<T, true>(l))
}

/* ---- conv_weight ---- */

typedef struct weight_args {
    gr_conv_plan p;
    gr_conv_parts parts;
    const void *y;
    void *sums;
    int64_t n_cols; /* (ky, kx, i) */
    gr_divider strips, cols, n_to;
} weight_args;

/* Grid: strips of COLUMNS channels of y, columns (ky, kx, i), parts; the strips innermost. Block
 * (COLUMNS, LINES). */
template <class T> static __global__ void weight_each(const __grid_constant__ weight_args a)
{
    typedef typename gr_conv_type<T>::sum C;
    const gr_conv_plan &p = a.p;
    const int64_t rest = gr_divide(&a.strips, blockIdx.x), part = gr_divide(&a.cols, rest);
    const int64_t o = (blockIdx.x - rest * a.strips.n) * COLUMNS + threadIdx.x;
    const int64_t col = rest - part * a.cols.n, tap = col / p.n_from, i = col - tap * p.n_from;
    const int64_t ky = tap / p.k[1], kx = tap - ky * p.k[1];
    const int64_t channel = gr_divide(&a.n_to, o) * p.n_from + i, begin = part * a.parts.pixels;
    const int64_t end = begin + a.parts.pixels < p.n_pixels ? begin + a.parts.pixels : p.n_pixels;
    C sum = C(0);

    for (int64_t pixel = begin + threadIdx.y; o < p.c_to && pixel < end; pixel += LINES) {
        gr_conv_pixel at = gr_conv_pixel_of<false>(&p, pixel);
        int64_t from = gr_conv_other<false>(&p, &at, ky, kx);

        if (from >= 0)
            sum += gr_conv_type<T>::at(p.from, from * p.c_from + channel, p.from_type) *
                   gr_conv_type<T>::at(a.y, pixel * p.c_to + o, p.weight_type);
    }
    sum = gr_columns_join<COLUMNS, LINES>(sum, gr_plus());
    if (threadIdx.y == 0 && o < p.c_to)
        ((C *)a.sums)[part * a.parts.count + o * a.n_cols + col] = sum;
}

static gr_conv_parts parts_of(const gr_node *n)
{
    gr_conv_dims d;

    gr_conv_get_dims(n, &d);
    return gr_conv_parts_of(n, gr_ceil_div(d.co, COLUMNS) * (d.ci / d.groups) * d.k[0] * d.k[1],
                            32 * LINES);
}

template <class T> static gr_status launch_weight(const gr_launch *l, const gr_conv_parts &parts)
{
    const gr_conv_plan p = gr_conv_plan_of(l, false);
    weight_args a;

    a.p = p;
    a.parts = parts;
    a.y = p.weight;
    a.sums = l->work;
    a.n_cols = p.k[0] * p.k[1] * p.n_from;
    a.strips = gr_divider_of(gr_ceil_div(p.c_to, COLUMNS));
    a.cols = gr_divider_of(a.n_cols);
    a.n_to = gr_divider_of(p.n_to);
    return gr_cuda_launch("conv_weight launch",
                          gr_cuda_grid_of(a.strips.n * a.n_cols * parts.n, 1, dim3(COLUMNS, LINES)),
                          gr_cuda_stream(l->stream), weight_each<T>, a);
}

size_t gr_conv_weight_each_workspace(const gr_node *n, const void *data)
{
    gr_conv_parts s = parts_of(n);

    (void)data;
    return gr_conv_parts_bytes(n, &s);
}

gr_status gr_conv_weight_each_run(const gr_launch *l)
{
    gr_conv_parts s = parts_of(l->node);

    if (s.count == 0)
        return GR_OK;
    GR_CONV_TYPES(l->node, T, GR_TRY(launch_weight<T>(l, s)))
    return gr_conv_parts_join(l, &s);
}
