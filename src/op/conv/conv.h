/* Convolution: conv, conv_data (gradient to the input) and conv_weight (to the weight). */
#ifndef GR_OP_CONV_CONV_H
#define GR_OP_CONV_CONV_H

#include "gradus/conv.h"
#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_conv_attr {
    gr_conv opt;
    int64_t size[2]; /* conv_data: h, w of the result; conv_weight: kh, kw; conv: unused */
    gr_dtype dtype;  /* of the result */
} gr_conv_attr;

/* One convolution as plain numbers, whichever of the three is computed:
 *     y[n, oh, ow, co] = conv(x[n, h, w, ci], weight[co, ci / groups, kh, kw])  */
typedef struct gr_conv_dims {
    int64_t n, in[2], out[2], k[2];
    int64_t ci, co, groups;
    int64_t stride[2], pad[2], dilation[2];
} gr_conv_dims;

GR_API void gr_conv_get_dims(const gr_node *n, gr_conv_dims *d);

extern const gr_op gr_op_conv, gr_op_conv_data, gr_op_conv_weight;
extern const gr_kernel gr_conv_cpu[], gr_conv_data_cpu[], gr_conv_weight_cpu[];

#ifdef __cplusplus
}
#endif

#endif
