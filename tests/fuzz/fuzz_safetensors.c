/*
 * The reader of checkpoints on arbitrary bytes. It must not crash, and whatever it
 * accepts it must give back: written and read again, the snapshot is the same.
 */
#include "ckpt/sample.h"
#include "src/base/status.h"
#include "src/ckpt/safetensors.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    gr_text bytes = GR_TEXT_INIT;
    gr_snapshot *s = NULL, *again = NULL;
    gr_status st = gr_safetensors_parse((const char *)data, n_bytes, &s);

    if (st != GR_OK) {
        GR_BUG_IF(s != NULL || gr_error_message()[0] == '\0');
        return 0;
    }
    GR_BUG_IF(ckpt_sample_bytes(s, &bytes) != GR_OK);
    GR_BUG_IF(gr_safetensors_parse(bytes.str, bytes.len, &again) != GR_OK);
    GR_BUG_IF(!ckpt_sample_equal(s, again));
    gr_snapshot_destroy(again);
    gr_snapshot_destroy(s);
    gr_text_fini(&bytes);
    return 0;
}
