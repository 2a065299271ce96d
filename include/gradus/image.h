/*
 * Operators on images: pooling and resizing. Images are NHWC, [n, h, w, c] (channels
 * last) everywhere, of a floating type; f16 and bf16 are computed in f32. See graph.h for
 * failures, lifetimes and threads.
 */
#ifndef GRADUS_IMAGE_H
#define GRADUS_IMAGE_H

#include "gradus/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Windows of height and width kernel[0], kernel[1], stride apart, over an image that is
 * padded on all sides (by at most half a window). The result has
 *     floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1
 * rows or columns; with ceil_mode the division is rounded up, and a last window that would
 * begin beyond the image and its leading padding is left out, as in PyTorch. Windows that
 * reach beyond the padding are cut, the first one, too, when it is alone.
 */
typedef struct gr_window {
    int64_t kernel[2];
    int64_t stride[2]; /* 0: the kernel */
    int64_t padding[2];
    int64_t dilation[2]; /* between elements of a window; 1 for averages */
    bool ceil_mode;
    bool without_padding; /* averages: padding does not count (count_include_pad=False) */
} gr_window;
#define GR_WINDOW_INIT                                       \
    {                                                        \
        { 2, 2 }, { 0, 0 }, { 0, 0 }, { 1, 1 }, false, false \
    }

/* The greatest element of each window; NaN is greatest. The gradient goes to the first of
 * equal elements (the last NaN), as in PyTorch. */
#define gr_max_pool2d(g, a, ...) gr_max_pool2d_at(GR_HERE, g, a, __VA_ARGS__)
GR_API gr_value *gr_max_pool2d_at(const char *site, gr_graph *g, gr_value *a,
                                  const gr_window *window);

/* The mean of each window; padding counts as zeros unless without_padding is set. */
#define gr_avg_pool2d(g, a, ...) gr_avg_pool2d_at(GR_HERE, g, a, __VA_ARGS__)
GR_API gr_value *gr_avg_pool2d_at(const char *site, gr_graph *g, gr_value *a,
                                  const gr_window *window);

/* Averages that give h x w whatever the size: row i is the mean of the rows from
 * floor(i H / h) to before ceil((i + 1) H / h). */
#define gr_adaptive_avg_pool2d(g, a, h, w) gr_adaptive_avg_pool2d_at(GR_HERE, g, a, h, w)
GR_API gr_value *gr_adaptive_avg_pool2d_at(const char *site, gr_graph *g, gr_value *a, int64_t h,
                                           int64_t w);

/* The mean over rows and columns: [n, c], of a's type. */
#define gr_global_avg_pool2d(g, a) gr_global_avg_pool2d_at(GR_HERE, g, a)
GR_API gr_value *gr_global_avg_pool2d_at(const char *site, gr_graph *g, gr_value *a);

/*
 * Resizing to h x w. With H rows before, row i of the result looks at
 *     nearest                floor(i H / h), computed in f32 as PyTorch does
 *     nearest exact          floor((i + 0.5) H / h), the same
 *     bilinear, bicubic      (i + 0.5) H / h - 0.5; bilinear: at least 0
 *     ... of corners         i (H - 1) / (h - 1), 0 if h is 1 (align_corners=True)
 * Bicubic weights are those of Keys with a = -0.75; the border is repeated. All have
 * gradients, the same weights scattered.
 */
typedef enum gr_resize_mode {
    GR_NEAREST,
    GR_NEAREST_EXACT,
    GR_BILINEAR,
    GR_BILINEAR_CORNERS,
    GR_BICUBIC,
    GR_BICUBIC_CORNERS
} gr_resize_mode;
#define gr_resize(g, a, h, w, mode) gr_resize_at(GR_HERE, g, a, h, w, mode)
GR_API gr_value *gr_resize_at(const char *site, gr_graph *g, gr_value *a, int64_t h, int64_t w,
                              gr_resize_mode mode);

#ifdef __cplusplus
}
#endif

#endif
