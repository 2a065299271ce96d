/* The parser of .npy files on arbitrary bytes: what it accepts lies inside the file. */
#include "src/base/status.h"
#include "src/data/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    gr_npy npy;
    gr_status st = gr_npy_parse(&npy, data, n_bytes);

    GR_BUG_IF(st != GR_OK && gr_error_message()[0] == '\0');
    if (st != GR_OK)
        return 0;
    GR_BUG_IF(npy.data < data || npy.data + npy.n_bytes != data + n_bytes);
    GR_BUG_IF(npy.n_bytes != (size_t)gr_shape_count(&npy.shape) * gr_dtype_bytes(npy.dtype));
    return 0;
}
