/*
 * Convolutions. See graph.h for failures, lifetimes and threads; builders are macros that
 * pass the caller's file and line.
 *
 * Activations are NHWC, [n, h, w, c] (channels last); weights have PyTorch's shapes, so that
 * checkpoints go both ways. There is no bias: add one along the last axis. f32, f64, bf16,
 * f16; sums in f32 or wider. Results do not depend on the number of threads. Whether a
 * weight that is infinite or NaN shows where it meets padding only is not specified.
 */
#ifndef GRADUS_CONV_H
#define GRADUS_CONV_H

#include "gradus/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pairs are rows first, then columns. Start from GR_CONV_INIT and change what differs:
 *     gr_conv opt = GR_CONV_INIT;
 *     opt.stride[0] = opt.stride[1] = 2;                                              */
typedef struct gr_conv {
    int64_t stride[2];   /* >= 1 */
    int64_t pad[2];      /* zeros on both sides, >= 0; for unequal sides pad the input */
    int64_t dilation[2]; /* >= 1: distance between taps */
    int64_t groups;      /* divides both channel counts */
    int64_t out_pad[2];  /* gr_conv_transpose2d only: rows and columns more, < stride or dilation */
} gr_conv;

#define GR_CONV_INIT                                                                         \
    {                                                                                        \
        .stride = { 1, 1 }, .pad = { 0, 0 }, .dilation = { 1, 1 }, .groups = 1, .out_pad = { \
            0,                                                                               \
            0                                                                                \
        }                                                                                    \
    }

/* x [n, h, w, c_in], weight [c_out, c_in / groups, kh, kw] -> [n, oh, ow, c_out] with
 * oh = (h + 2 pad - dilation (kh - 1) - 1) / stride + 1: torch.nn.functional.conv2d.
 * opt NULL: GR_CONV_INIT. Fails when channels and groups do not fit, or when the kernel is
 * larger than the padded input. */
#define gr_conv2d(g, x, weight, ...) gr_conv2d_at(GR_HERE, g, x, weight, __VA_ARGS__)
GR_API gr_value *gr_conv2d_at(const char *site, gr_graph *g, gr_value *x, gr_value *weight,
                              const gr_conv *opt);

/* x [n, h, w, c_in], weight [c_in, c_out / groups, kh, kw] -> [n, oh, ow, c_out] with
 * oh = (h - 1) stride - 2 pad + dilation (kh - 1) + out_pad + 1: conv_transpose2d. */
#define gr_conv_transpose2d(g, x, weight, ...) \
    gr_conv_transpose2d_at(GR_HERE, g, x, weight, __VA_ARGS__)
GR_API gr_value *gr_conv_transpose2d_at(const char *site, gr_graph *g, gr_value *x,
                                        gr_value *weight, const gr_conv *opt);

#ifdef __cplusplus
}
#endif

#endif
