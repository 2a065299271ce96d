/* The lists of CPU kernels for the three convolutions, best first. */
#include "op/conv/conv_kernels.h"

const gr_kernel gr_conv_cpu[] = {
    { .name = "reference", .run = gr_conv_ref_run },
    { .name = NULL },
};

const gr_kernel gr_conv_data_cpu[] = {
    { .name = "reference", .run = gr_conv_data_ref_run },
    { .name = NULL },
};

const gr_kernel gr_conv_weight_cpu[] = {
    { .name = "reference", .run = gr_conv_weight_ref_run },
    { .name = NULL },
};
