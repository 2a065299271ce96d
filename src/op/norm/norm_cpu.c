/* The lists of kernels of normalisation. */
#include "op/norm/norm_kernels.h"

#define ONLY_REFERENCE(table, fn)           \
    const gr_kernel table[] = {             \
        { .name = "reference", .run = fn }, \
        { .name = NULL },                   \
    }

ONLY_REFERENCE(gr_layer_norm_cpu, gr_row_norm_ref_run);
ONLY_REFERENCE(gr_layer_norm_grad_cpu, gr_row_norm_grad_ref_run);
ONLY_REFERENCE(gr_rms_norm_cpu, gr_row_norm_ref_run);
ONLY_REFERENCE(gr_rms_norm_grad_cpu, gr_row_norm_grad_ref_run);
ONLY_REFERENCE(gr_batch_stats_cpu, gr_batch_stats_ref_run);
ONLY_REFERENCE(gr_batch_norm_sums_cpu, gr_batch_norm_sums_ref_run);
