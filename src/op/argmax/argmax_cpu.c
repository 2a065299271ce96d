/* The lists of kernels of arg_reduce and arg_scatter. */
#include "op/argmax/argmax_kernels.h"

const gr_kernel gr_arg_reduce_cpu[] = {
    { .name = "reference", .run = gr_arg_reduce_ref_run },
    { .name = NULL },
};

const gr_kernel gr_arg_scatter_cpu[] = {
    { .name = "reference", .run = gr_arg_scatter_ref_run },
    { .name = NULL },
};
