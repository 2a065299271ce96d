/* The .npy format of numpy: a magic, a version, a head that is a Python dictionary, the data. */
#ifndef GR_DATA_NPY_H
#define GR_DATA_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_npy {
    gr_dtype dtype;
    gr_shape shape;
    const uint8_t *data;
    size_t n_bytes; /* of the data */
} gr_npy;

/* Versions 1 to 3. GR_ERR_FORMAT: damaged, of a type or order that is not read, or of another
 * length than its head says. */
gr_status gr_npy_parse(gr_npy *out, const void *src, size_t n_bytes) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
