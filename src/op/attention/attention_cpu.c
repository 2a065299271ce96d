/* The lists of CPU kernels for attention. */
#include "op/attention/attention_kernels.h"

const gr_kernel gr_attention_cpu[] = {
    {
        .name = "reference",
        .workspace = gr_attention_ref_workspace,
        .run = gr_attention_ref_run,
    },
    { .name = NULL },
};

const gr_kernel gr_attention_grad_cpu[] = {
    {
        .name = "reference",
        .workspace = gr_attention_grad_ref_workspace,
        .run = gr_attention_grad_ref_run,
    },
    { .name = NULL },
};
