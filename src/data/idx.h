/* The idx format of MNIST: two zero bytes, a type, the number of dimensions, each as 32 bits
 * big-endian, then the elements. */
#ifndef GR_DATA_IDX_H
#define GR_DATA_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_idx {
    gr_dtype dtype; /* U8, or I32 big-endian */
    gr_shape shape;
    const uint8_t *data;
} gr_idx;

/* GR_ERR_FORMAT with both numbers when the file is shorter or longer than its head says. */
gr_status gr_idx_parse(gr_idx *out, const void *src, size_t n_bytes) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
