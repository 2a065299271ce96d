/* The parser of idx files, and gzip around them, on arbitrary bytes. */
#include "src/base/alloc.h"
#include "src/base/status.h"
#include "src/data/idx.h"
#include "src/data/mapped.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void parse(const uint8_t *data, size_t n_bytes)
{
    gr_idx idx;
    gr_status st = gr_idx_parse(&idx, data, n_bytes);
    size_t n_data;

    GR_BUG_IF(st != GR_OK && gr_error_message()[0] == '\0');
    if (st != GR_OK)
        return;
    n_data = (size_t)gr_shape_count(&idx.shape) * gr_dtype_bytes(idx.dtype);
    GR_BUG_IF(idx.data < data || idx.data + n_data != data + n_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    uint8_t *unpacked = NULL;
    size_t n = 0;

    parse(data, n_bytes);
    if (gr_gunzip(data, n_bytes, 65536, &unpacked, &n) == GR_OK)
        parse(unpacked, n);
    gr_free(unpacked);
    return 0;
}
